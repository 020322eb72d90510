"""What every agentctl says, kept fresh: one follower for each executor that is looked at.

A follower reads `/status` first and then follows the stream of state changes; each event makes it
read `/status` again, so nothing depends on an event being understood. Without a session there is
no stream, and `/status` is read at the probe period. Only a change of what decisions read rings
the bell. Silence is reported as it is (since when, in which words); what it means is for `core`.
"""

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.errors import AgentctlError
from kandev_operator.contract.events import KINDS_STATE, Event, cursor
from kandev_operator.controller import translate
from kandev_operator.core.observed import Answer, Probe

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 1.0
_CALLS_AT_ONCE: Final = 64


@dataclass(frozen=True, slots=True)
class Target:
    """Where an executor's agentctl is, and who must answer there."""

    url: str
    instance_id: str | None
    audience: str
    session_uid: str | None
    ca_bundle: str | None = field(default=None, repr=False)
    pod: tuple[str, str] | None = None
    """Namespace and name, where it is one."""


MakeClient = Callable[[Target], AgentctlClient]
OnChange = Callable[[str], None]


class _Follower:
    """One executor's agentctl, as it was last seen."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.probe = Probe()
        self.poked = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.generation = 0


class Prober:
    """Owns the followers. `run` must be running for any of them to look."""

    def __init__(
        self,
        make_client: MakeClient,
        on_change: OnChange,
        clock: Callable[[], datetime],
        *,
        period: float = 10.0,
        count: Callable[[str], None] = lambda _outcome: None,
    ) -> None:
        self._make_client = make_client
        self._on_change = on_change
        self._clock = clock
        self._period = period
        self._count = count
        self._followers: dict[str, _Follower] = {}
        self._wanted: asyncio.Queue[None] = asyncio.Queue(maxsize=1)
        self._calls = asyncio.Semaphore(_CALLS_AT_ONCE)

    def probe(self, executor_uid: str) -> Probe:
        """The newest look; NOT_TRIED for an executor that nobody follows."""
        follower = self._followers.get(executor_uid)
        return follower.probe if follower else Probe()

    def __len__(self) -> int:
        return len(self._followers)

    def track(self, executor_uid: str, target: Target) -> None:
        """Look at this agentctl from now on. Another target begins anew, the same goes on."""
        known = self._followers.get(executor_uid)
        if known is not None and known.target == target:
            return
        if known is not None:
            self._end(known)
        follower = _Follower(target)
        if known is not None and _same_place(known.target, target):
            follower.probe = known.probe  # only the session or the pin is new: keep what was seen
        self._followers[executor_uid] = follower
        self._ring()

    def forget(self, executor_uid: str) -> None:
        """Look no more."""
        follower = self._followers.pop(executor_uid, None)
        if follower is not None:
            self._end(follower)

    def poke(self, executor_uid: str) -> None:
        """Look again at once: something was asked of this agentctl."""
        follower = self._followers.get(executor_uid)
        if follower is not None:
            follower.poked.set()

    async def run(self) -> None:
        """Give each follower its task, until cancelled. A follower's own fault ends only it."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                for uid, follower in list(self._followers.items()):
                    if follower.task is None:
                        name = f"follow-{uid[:8]}"
                        follower.task = tasks.create_task(self._guarded(uid, follower), name=name)
                await self._wanted.get()

    def _ring(self) -> None:
        if not self._wanted.full():
            self._wanted.put_nowait(None)

    def _end(self, follower: _Follower) -> None:
        if follower.task is not None:
            follower.task.cancel()

    async def _guarded(self, uid: str, follower: _Follower) -> None:
        while True:
            try:
                await self._follow(uid, follower)
            except Exception:
                log.exception("a follower failed; it begins again")
                await asyncio.sleep(self._period)

    async def _follow(self, uid: str, follower: _Follower) -> None:
        client = self._make_client(follower.target)
        while True:
            follower.poked.clear()
            after = await self._look(uid, follower, client)
            if after is not None and follower.target.session_uid is not None:
                await self._stream(uid, follower, client, after)
                await self._pause(follower, random.uniform(0.0, 0.2))
                continue
            failing = follower.probe.answer is not Answer.WELL
            period = min(_RETRY_SECONDS, self._period) if failing else self._period
            long_lost = failing and self._failing_seconds(follower) > self._period
            seconds = self._period if long_lost else period
            await self._pause(follower, seconds * random.uniform(0.8, 1.2))

    def _failing_seconds(self, follower: _Follower) -> float:
        since = follower.probe.failing_since
        return (self._clock() - since).total_seconds() if since else 0.0

    async def _pause(self, follower: _Follower, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await follower.poked.wait()
        except TimeoutError:
            return

    async def _look(self, uid: str, follower: _Follower, client: AgentctlClient) -> str | None:
        """Read `/status`; the cursor to follow from, or None when it did not answer well."""
        try:
            async with self._calls:
                told = await client.status()
        except AgentctlError as error:
            self._failed(uid, follower, error)
            return None
        self._count("well")
        now = self._clock()
        seen = Probe(
            answer=Answer.WELL, last_seen=now, report=translate.report(told), is_checked=True
        )
        self._publish(uid, follower, seen)
        journal = told.journal
        return cursor(journal.journal_id, journal.last_seq) if journal.journal_id else None

    def _failed(self, uid: str, follower: _Follower, error: AgentctlError) -> None:
        answer = translate.answer(error)
        self._count(answer.value)
        before = follower.probe
        first = before.failing_since if before.answer is not Answer.WELL else None
        message = translate.cut(error.message)
        again = (before.answer, before.message) == (answer, message)
        seen = replace(
            before,
            answer=answer,
            failing_since=first or self._clock(),
            message=message,
            steady_since=(before.steady_since or self._clock()) if again else None,
        )
        self._publish(uid, follower, seen)

    def _publish(self, uid: str, follower: _Follower, seen: Probe) -> None:
        before, follower.probe = follower.probe, seen
        if self._followers.get(uid) is not follower:
            return
        if replace(before, last_seen=None) != replace(seen, last_seen=None):
            self._on_change(uid)

    async def _stream(
        self, uid: str, follower: _Follower, client: AgentctlClient, after: str
    ) -> None:
        """Follow state changes until the stream ends, however it ends."""
        stream = client.events(after, (KINDS_STATE,))
        try:
            async with aclosing(stream) as events, asyncio.TaskGroup() as tasks:
                reader = tasks.create_task(self._read(events, follower))
                try:
                    await self._refresh(uid, follower, client, reader)
                finally:
                    reader.cancel()
        except* AgentctlError as group:
            log.debug("the stream of %s ended: %s", uid[:8], group.exceptions[0])

    async def _read(self, events: AsyncGenerator[Event], follower: _Follower) -> None:
        async for _ in events:
            follower.poked.set()

    async def _refresh(
        self,
        uid: str,
        follower: _Follower,
        client: AgentctlClient,
        reader: asyncio.Task[None],
    ) -> None:
        """Read `/status` after each event; several events that come at once make one reading."""
        while not reader.done():
            poked = asyncio.ensure_future(follower.poked.wait())
            try:
                await asyncio.wait((poked, reader), return_when=asyncio.FIRST_COMPLETED)
            finally:
                poked.cancel()
            if reader.done():
                return
            follower.poked.clear()
            if await self._look(uid, follower, client) is None:
                return


def _same_place(known: Target, other: Target) -> bool:
    """Whether what was seen of the one still holds for the other."""
    pin_kept = known.instance_id in (None, other.instance_id)
    return pin_kept and (known.url, known.audience) == (other.url, other.audience)
