"""The turns and permissions of one process on the upstream, over its stream.

A prompt carries the number of its turn as their "prompt generation", and the end of a turn counts
only with the number of the live one. Their side works on one prompt after the other and says when
it begins with the next, so what belongs to a turn that was given up is told apart from what
belongs to the live one. A prompt whose handing over broke is never sent again: if nothing shows
that it arrived, whatever came of it is cancelled and its fate is unknown.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine import events as ev
from kandev_operator.agentctl.machine.updates import OF_THE_SESSION
from kandev_operator.agentctl.upstream import wire
from kandev_operator.agentctl.upstream.stream import Broken, Rejected, Stream
from kandev_operator.agentctl.verdicts import Fault
from kandev_operator.contract.status import Failure, FailureCode, PromptCapabilities

log = logging.getLogger("kandev.agentctl.upstream")
Json = dict[str, Any]

CALL_SECONDS: Final = 30.0
CANCEL_SECONDS: Final = 45.0
"""Their own limit for a cancel is 30 s."""
SIGN_SECONDS: Final = 10.0
"""A prompt that arrived is told of at once; so long is waited for that after a break."""
PAUSE: Final = 0.2
EXIT_LOOKS: Final = 10
"""A turn's error may be the first sign of a process that died: looked at so often, every 0.1 s."""


@dataclass(slots=True)
class Live:
    """The turn under way."""

    turn_id: str
    token: str = field(repr=False)
    arrived: bool = False
    """Something showed that they have its prompt."""

    @property
    def generation(self) -> int:
        return generation_of(self.turn_id)


def generation_of(turn_id: str) -> int:
    """The number of a turn, as the machine writes it: EXECUTION-tNUMBER."""
    return int(turn_id.rpartition("-t")[2])


class Conversation:
    """What is said over one stream. `look` tells whether the process lives, None if unknown."""

    def __init__(
        self,
        execution_id: str,
        stream: Stream,
        hide: Callable[[str], str],
        tell: Callable[[ev.Event], None],
        look: Callable[[], Awaitable[bool | None]],
        live: Live | None = None,
        offered: Callable[[Json], None] = lambda _: None,
    ) -> None:
        self._execution_id, self._stream, self._hide = execution_id, stream, hide
        self._tell, self._look = tell, look
        self._live = live
        self._offered = offered
        self.offers: Json = {}
        """What the agent offers in the open conversation, as far as it was told."""
        self.prompts: PromptCapabilities | None = None
        self.said_opened = asyncio.Event()
        """They told that a conversation is open, after whatever belongs to its opening."""
        self._outstanding = [live.generation] if live else []
        self._speaking: int | None = None
        self._open: dict[str, wire.Asked] = {}
        self._answered: set[str] = set()
        self._asked_count = 0
        self._turn_over = asyncio.Event()
        self._sign = asyncio.Event()
        self._ended_at = float("-inf")
        if live is None:
            self._turn_over.set()

    # ---- prompts -----------------------------------------------------------------------

    def begins(self, turn_id: str, token: str) -> None:
        """A turn begins, before anything of it is sent."""
        self._live = Live(turn_id, token)
        self._outstanding.append(self._live.generation)
        self._turn_over.clear()

    async def send(self, act: fx.SendPrompt) -> None:
        live = self._live
        if live is None or live.turn_id != act.turn_id:
            return
        try:
            told = wire.prompt(act.content)
        except Fault as fault:
            self._fail(live, fault.failure, answered=False)
            return
        await self._stream.connected()
        try:
            payload = told | {"prompt_generation": live.generation}
            await self._stream.call("agent.prompt", payload, CALL_SECONDS)
        except Rejected as no:
            if await self._lives():
                self._fail(live, wire.failure_of(no.message, self._hide), answered=False)
        except (Broken, TimeoutError):
            await self.doubt(live)

    async def doubt(self, live: Live) -> None:
        """It is not known whether the prompt arrived: wait for a sign, else end it unseen."""
        await self._stream.connected()
        if not live.arrived and self._live is live:
            await self._sign_within(SIGN_SECONDS)
        if live.arrived or self._live is not live or not await self._lives():
            return
        await self.cancel()
        message = "the connection to the upstream broke while the prompt was handed over"
        failure = Failure(code=FailureCode.UPSTREAM_UNAVAILABLE, message=message)
        self._fail(live, failure, answered=False)

    async def _sign_within(self, seconds: float) -> None:
        """Wait for anything that they say about a turn."""
        self._sign.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._sign.wait()

    async def cancel(self) -> None:
        """Ask for the end of the live turn, again and again while the connection breaks."""
        live = self._live
        while live is not None and self._live is live:
            await self._stream.connected()
            try:
                await self._stream.call("agent.cancel", {}, CANCEL_SECONDS)
                return
            except Rejected as no:
                log.info("the upstream refused a cancel: %s", no.code)
                return
            except (Broken, TimeoutError):
                await asyncio.sleep(PAUSE)

    async def settled(self, longest: float, after: float) -> None:
        """Wait for the end of the turn, and until its agent had time to store it."""
        try:
            async with asyncio.timeout(longest):
                await self._turn_over.wait()
        except TimeoutError:
            return
        left = self._ended_at + after - time.monotonic()
        if left > 0:
            await asyncio.sleep(min(left, after))

    async def _lives(self) -> bool:
        """Whether the process lives, as far as is known; what died of it is told elsewhere."""
        return await self._look() is not False

    def _arrived(self, live: Live) -> None:
        live.arrived = True
        self._sign.set()

    def _ends(self, live: Live) -> None:
        if self._live is live:
            self._live = None
        self._answered.clear()
        self._ended_at = time.monotonic()
        self._turn_over.set()
        self._sign.set()

    def _fail(self, live: Live, failure: Failure, *, answered: bool) -> None:
        if self._live is not live:
            return
        if not answered and not live.arrived:
            self._forget(live.generation)
        self._ends(live)
        self._tell(
            ev.TurnFailed(now(), self._execution_id, live.turn_id, failure, answered=answered)
        )

    def _forget(self, generation: int | None) -> None:
        if self._speaking == generation:
            self._speaking = None
        if generation in self._outstanding:
            self._outstanding.remove(generation)

    # ---- what they say -----------------------------------------------------------------

    async def event(self, event: Json) -> None:
        """Take one event of their stream."""
        match event.get("type"):
            case "turn_started":
                self._speaking = self._outstanding[0] if self._outstanding else None
                if self._live is not None and self._live.generation == self._speaking:
                    self._arrived(self._live)
            case "complete":
                self._complete(event)
            case "error":
                await self._error(event)
            case "permission_request":
                if found := wire.asked(event):
                    self._ask(found)
            case "permission_cancelled":
                self._withdrawn(str(event.get("pending_id", "")))
            case "agent_capabilities":
                self.prompts = wire.prompt_capabilities(event)
            case "session_status":
                self.said_opened.set()
            case "rate_limit":
                words = event.get("rate_limit_message")
                self._fault(words if isinstance(words, str) else "the provider limits the rate")
            case _:
                self._updates(event)

    def _complete(self, event: Mapping[str, Any]) -> None:
        generation, live = wire.generation(event), self._live
        self._forget(generation)
        if live is None or generation != live.generation:
            return
        self._ends(live)
        reason, usage = wire.stop_reason(event), wire.usage(event)
        self._tell(ev.TurnAnswered(now(), self._execution_id, live.turn_id, reason, usage))

    async def _error(self, event: Mapping[str, Any]) -> None:
        generation, live = wire.generation(event), self._live
        for _ in range(EXIT_LOOKS):
            if await self._look() is False:
                return
            await asyncio.sleep(PAUSE / 2)
        self._forget(generation)
        failure = wire.turn_failure(event, self._hide)
        if live is not None and generation == live.generation:
            self._arrived(live)
            self._fail(live, failure, answered=True)
        elif generation is None:
            self._fault(failure.message)

    def _fault(self, words: str) -> None:
        self._tell(ev.FaultSeen(now(), self._execution_id, self._hide(words)[:2000]))

    def _updates(self, event: Mapping[str, Any]) -> None:
        if told := wire.offers(event):
            self.offers = self.offers | told
            self._offered(self.offers)
        live = self._live
        if live is not None and self._speaking not in (None, live.generation):
            return  # the rest of a turn that was given up
        said_in = event.get("session_id")
        token = said_in if isinstance(said_in, str) and said_in else (live.token if live else "")
        for update in wire.updates(event):
            of_the_turn = update["sessionUpdate"] not in OF_THE_SESSION
            if live is not None and token == live.token and of_the_turn:
                self._arrived(live)
            self._tell(ev.UpdateCame(now(), self._execution_id, token, update))

    # ---- permissions -------------------------------------------------------------------

    async def connected(self) -> None:
        """After each connect: requests that wait there and were told to nobody who lives."""
        try:
            told = await self._stream.call("agent.permissions.list", {}, CALL_SECONDS)
        except (Broken, Rejected, TimeoutError):
            return
        listed = told.get("permissions")
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, dict) and (found := wire.asked(entry)):
                self._ask(found)

    def _ask(self, found: wire.Asked) -> None:
        known = {asked.pending_id for asked in self._open.values()} | self._answered
        if found.pending_id in known:
            return
        if self._live is not None:
            self._arrived(self._live)
        self._asked_count += 1
        key = str(self._asked_count)
        self._open[key] = found
        self._tell(
            ev.PermissionAsked(
                now(),
                self._execution_id,
                key,
                self._hide(found.title),
                found.tool_kind,
                found.options,
            )
        )

    def _withdrawn(self, pending_id: str) -> None:
        for key, asked in list(self._open.items()):
            if asked.pending_id == pending_id:
                del self._open[key]
                self._tell(ev.PermissionWithdrawn(now(), self._execution_id, key))

    async def answer(self, key: str, option_id: str | None) -> None:
        """Answer a request, again and again while the connection breaks."""
        asked = self._open.pop(key, None)
        if asked is None:
            return
        self._answered.add(asked.pending_id)
        payload = {"request_id": asked.request_id, "pending_id": asked.pending_id}
        action = "agent.permissions.cancel"
        if option_id is not None:
            action = "agent.permissions.resolve"
            payload["option_id"] = option_id
        while True:
            await self._stream.connected()
            try:
                await self._stream.call(action, payload, CALL_SECONDS)
                return
            except Rejected as no:
                log.info("the upstream knows the permission request no more: %s", no.code)
                return
            except (Broken, TimeoutError):
                await asyncio.sleep(PAUSE)
