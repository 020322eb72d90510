"""The events of a session, one after another, over every loss of the connection.

A cursor names the last event that was handed on. When a stream breaks, the line is made anew (the
address may be another one by then), and the stream goes on after the cursor: nothing is lost and
nothing doubled. What is not kept any more comes as a gap event, from agentctl or not at all.

It yields events, and between them what a reader may want to act on: that a connection stands
(with the whole status, for whoever must know what became of something), that it is lost, and that
nothing has happened for a while. It never ends by itself; whoever reads decides when it is enough.
Only what goes wrong at the very first connection, or can never be right, is raised.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from kandev_operator.cli.faults import Fault, Passing
from kandev_operator.cli.reach import Line, NotServed
from kandev_operator.clients import errors
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import Event, EventKind, cursor
from kandev_operator.contract.status import StatusReport

_PASSING: Final = frozenset(
    {Code.NO_AGENT, Code.SESSION_CONFLICT, Code.JOURNAL_UNAVAILABLE, Code.INTERNAL, ""}
)
"""Refusals that say nothing about the caller, and may be over at the next try."""


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection stands; `report` is what agentctl says, before any event of the stream."""

    line: Line
    report: StatusReport


@dataclass(frozen=True, slots=True)
class Away:
    """There is no connection, and why; it is being tried again."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Quiet:
    """Nothing has come for a while."""


Item = Event | Connected | Away | Quiet


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait, in seconds: between tries (doubling), and until it counts as quiet."""

    first: float = 0.2
    longest: float = 5.0
    quiet: float = 5.0


_USUAL: Final = Pace()


class Follower:
    """Follows one session. `after` is a sequence number of the journal that is found first."""

    def __init__(
        self, dial: Callable[[], Awaitable[Line]], after: int | None = 0, pace: Pace = _USUAL
    ) -> None:
        self._dial = dial
        self._after = after
        self._pace = pace
        self._place: tuple[str, int] | None = None
        self._pause = pace.first
        self._was_connected = False

    @property
    def place(self) -> tuple[str, int] | None:
        """Journal and sequence number of the last event that was handed on."""
        return self._place

    async def items(self) -> AsyncGenerator[Item, None]:
        """Everything, for ever. Wrap it in `aclosing`. Raises Fault, see the module."""
        while True:
            try:
                line = await self._dial()
            except (NotServed, Passing) as fault:
                if isinstance(fault, Passing) and not self._was_connected:
                    raise
                yield Away(fault)
            else:
                async with aclosing(self._connected(line)) as items:
                    async for item in items:
                        yield item
            await asyncio.sleep(self._pause)
            self._pause = min(self._pause * 2, self._pace.longest)

    async def _connected(self, line: Line) -> AsyncGenerator[Item, None]:
        """One connection, from the first question to its loss."""
        try:
            report = await line.client.status(with_token=False)
            self._begin(report)
            self._was_connected = True
            yield Connected(line, report)
            async with aclosing(self._stream(line)) as items:
                async for item in items:
                    yield item
        except errors.AgentctlError as error:
            if not (self._was_connected and _may_pass(error)):
                raise line.fault(error) from error
            yield Away(line.fault(error))

    def _begin(self, report: StatusReport) -> None:
        """Turn the number that the reader began with into a place of this journal."""
        journal = report.journal
        if self._place is not None or journal.journal_id is None:
            return
        # A number beyond the end would be answered with everything from the beginning.
        after = journal.last_seq if self._after is None else min(self._after, journal.last_seq)
        self._place = (journal.journal_id, after)

    async def _stream(self, line: Line) -> AsyncGenerator[Item, None]:
        """What comes after the present place, until the peer ends it."""
        after = cursor(*self._place) if self._place else None
        async with aclosing(line.client.events(after)) as events:
            while True:
                coming = asyncio.create_task(_next(events))
                try:
                    while not (await asyncio.wait({coming}, timeout=self._pace.quiet))[0]:
                        self._pause = self._pace.first
                        yield Quiet()
                    event = coming.result()
                finally:
                    if not coming.done():
                        coming.cancel()
                        with suppress(asyncio.CancelledError):
                            await coming
                if event is None:
                    return
                if self._is_new(event):
                    self._place = (event.journal_id, event.seq)
                    self._pause = self._pace.first
                    yield event

    def _is_new(self, event: Event) -> bool:
        """A gap says itself where one goes on; anything else must lie after the place."""
        if self._place is None or event.kind is EventKind.GAP:
            return True
        journal_id, seq = self._place
        return event.journal_id != journal_id or event.seq > seq


async def _next(events: AsyncGenerator[Event, None]) -> Event | None:
    return await anext(events, None)


def _may_pass(error: errors.AgentctlError) -> bool:
    """Whether another try may end otherwise: agentctl comes back, its keys are read again."""
    if isinstance(error, errors.Refused):
        return error.code in _PASSING
    return not isinstance(error, errors.ContractMismatch)
