"""Writes what the tails hold into the store: gathered for a moment, many sessions together.

One writer for a process. When a batch of several sessions fails, each is tried alone, so that a
session whose events the database will not have keeps no other from being written. When none can be
written the store is *down*: it is tried again with back-off, readers are served from memory, and
when it is back those whose memory overflowed are read again from their agentctls.
"""

import asyncio
import random
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from kandev_operator.contract.events import Event
from kandev_operator.gateway.recorder.conversation import Conversation
from kandev_operator.gateway.recorder.metrics import RecorderMetrics
from kandev_operator.gateway.recorder.settings import RecorderSettings
from kandev_operator.gateway.store.database import StoreUnavailable
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store
from kandev_operator.gateway.store.writing import UnknownSession

_TRIED_ALONE: Final = 3
"""So many failures one after another, and no success, mean that the store is down."""
_FIRST_SICK: Final = 1.0
_LONGEST_SICK: Final = 30.0

Batch = dict[Conversation, list[Event]]


class Writer:
    """`now` gives the time of day as it is written down.

    `finished` is told of a conversation that nobody follows or reads, once all of it is written.
    """

    def __init__(
        self,
        store: Store,
        settings: RecorderSettings,
        metrics: RecorderMetrics,
        now: Callable[[], str],
        conversations: Callable[[], Iterable[Conversation]],
        finished: Callable[[Conversation], None],
    ) -> None:
        self._finished = finished
        self._conversations = conversations
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self._now = now
        self._news = asyncio.Event()
        self._dirty: dict[Conversation, None] = {}
        self._seen: dict[str, SeenSession] = {}
        self._to_see: dict[str, SeenSession] = {}
        self._gone: set[str] = set()
        self._listed: tuple[frozenset[str], frozenset[str] | None] | None = None
        self._waiting_since: float | None = None
        self.written: set[str] = set()
        """Sessions that grew; whoever looks after their size takes them out."""
        self.is_down = True
        """Nothing can be written; so it is until the store was opened."""

    # ---- what there is to write ------------------------------------------------------------

    def arrived(self, conversation: Conversation) -> None:
        """It has something that is not kept yet."""
        self._dirty[conversation] = None
        if self._waiting_since is None:
            self._waiting_since = asyncio.get_running_loop().time()
        self._news.set()

    def see(self, session: SeenSession) -> None:
        """Remember it as it is now."""
        if self._seen.get(session.uid) != session:
            self._seen[session.uid] = self._to_see[session.uid] = session
            self._gone.discard(session.uid)
            self._news.set()

    def gone(self, session_uid: str) -> None:
        """It was deleted."""
        self._seen.pop(session_uid, None)
        self._gone.add(session_uid)
        self._news.set()

    def listed(self, uids: frozenset[str], namespaces: frozenset[str] | None) -> None:
        """All sessions that there are, in these namespaces or everywhere."""
        for uid, session in list(self._seen.items()):
            if uid not in uids and (namespaces is None or session.namespace in namespaces):
                self.gone(uid)
        self._listed = uids, namespaces
        self._news.set()

    @property
    def oldest_seconds(self) -> float:
        """For how long something has been waiting."""
        since = self._waiting_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    # ---- the loop --------------------------------------------------------------------------

    async def run(self) -> None:
        """For ever; ended by cancelling it. Raises StoreRefused."""
        pause = self._settings.first_pause
        while True:
            try:
                if not self._store.is_open:
                    await self._store.open()
                if self.is_down:
                    await self._came_back()
                await self._news.wait()
                self._news.clear()
                await asyncio.sleep(self._settings.gather)
                await self._write_all()
                pause = self._settings.first_pause
            except StoreUnavailable:
                self._fell()
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, self._settings.longest_pause)

    async def flush(self) -> None:
        """Write what there is; at the end of the process. Raises StoreUnavailable."""
        await self._write_all()

    async def _write_all(self) -> None:
        await self._write_sessions()
        while batch := self._batch():
            await self._write(batch)
        if not self._dirty:
            self._waiting_since = None

    async def _write_sessions(self) -> None:
        while self._to_see:
            some = [*self._to_see.items()][:500]
            await self._store.see([session for _, session in some], self._now())
            for uid, session in some:
                if self._to_see.get(uid) is session:
                    del self._to_see[uid]
        if self._listed is not None:
            listed = self._listed
            await self._store.listed(listed[0] | self._seen.keys(), listed[1], self._now())
            if self._listed is listed:
                self._listed = None
        if self._gone:
            gone = frozenset(self._gone)
            await self._store.gone(gone, self._now())
            self._gone -= gone

    # ---- batches ---------------------------------------------------------------------------

    def _batch(self) -> Batch:
        """What to write next, those first that have waited longest."""
        now = asyncio.get_running_loop().time()
        batch: Batch = {}
        events, size = self._settings.batch_events, self._settings.batch_bytes
        share = max(1, events // max(1, len(self._dirty)))
        for conversation in list(self._dirty):
            tail = conversation.tail
            if conversation.sick and (batch or now < conversation.not_before):
                continue
            if tail is None or tail.torn or not tail.unkept:
                del self._dirty[conversation]
                if tail is not None and tail.torn and not self.is_down:
                    conversation.rewind()
                continue
            before = tail.unkept_bytes
            taken = tail.take(min(events, max(share, 50)), size)
            batch[conversation] = taken
            events -= len(taken)
            size -= min(size, before)
            del self._dirty[conversation]
            self._dirty[conversation] = None  # to the end of the line
            if events <= 0 or size <= 0 or conversation.sick:
                break
        return batch

    async def _write(self, batch: Batch) -> None:
        with suppress(StoreUnavailable):
            await self._put(batch)
            return
        if len(batch) == 1:
            self._settle(batch, kept=False)
            # Either the database takes nothing, and then this raises; or it has no objection but
            # to these events.
            await self._probe()
            for conversation in batch:
                self._is_sick(conversation)
            return
        failures, successes = 0, 0
        for conversation, events in batch.items():
            if failures >= _TRIED_ALONE and not successes:
                break
            try:
                await self._put({conversation: events})
            except StoreUnavailable:
                failures += 1
                self._settle({conversation: events}, kept=False)
                self._is_sick(conversation)
            else:
                successes += 1
        if not successes:
            self._settle(batch, kept=False)
            for conversation in batch:
                conversation.sick = 0.0
            raise StoreUnavailable("no session's events can be written")

    async def _put(self, batch: Batch) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        events = [event for some in batch.values() for event in some]
        try:
            if events:
                await self._store.append(events)
        except UnknownSession:
            # Retention took it away, or the store is another one than before.
            known = [each.seen for each in batch]
            await self._store.see(known, self._now())
            self._gone.update({each.uid for each in known} - self._seen.keys())
            await self._store.append(events)
        except StoreUnavailable:
            self._metrics.failed()
            raise
        self._metrics.wrote(len(events), loop.time() - began)
        self.written.update(each.session_uid for each in batch)
        self._settle(batch, kept=True)

    def _settle(self, batch: Batch, *, kept: bool) -> None:
        for conversation in batch:
            if conversation.tail is not None:
                conversation.tail.settle(kept=kept, readers=bool(conversation.listeners))
            if kept:
                conversation.sick = 0.0
                conversation.room.set()
                if conversation.lacking:
                    conversation.lacking = False
                    conversation.wake()
                if conversation.is_idle:
                    self._finished(conversation)

    def _is_sick(self, conversation: Conversation) -> None:
        loop = asyncio.get_running_loop()
        conversation.sick = min(max(2 * conversation.sick, _FIRST_SICK), _LONGEST_SICK)
        conversation.not_before = loop.time() + conversation.sick
        loop.call_later(conversation.sick, self._news.set)
        conversation.room.set()
        conversation.wake()

    # ---- down and back ---------------------------------------------------------------------

    def _fell(self) -> None:
        if not self.is_down:
            self.is_down = True
            self._metrics.failed()
            for conversation in self._conversations():
                conversation.room.set()
                conversation.wake()
        self._news.set()

    async def _came_back(self) -> None:
        """Whether it takes anything again; those are read again that memory could not hold."""
        await self._probe()
        await self._write_all()
        self.is_down = False
        for conversation in self._conversations():
            if conversation.tail is not None and conversation.tail.torn:
                conversation.rewind()
            conversation.lacking = False
            conversation.wake()

    async def _probe(self) -> None:
        if self._seen:
            session = next(iter(self._seen.values()))
            await self._store.see([session], self._now())
