"""`kubectl kandev logs`: the conversation from the journal, once or for as long as one looks.

Without -f it ends at the journal's last event of that moment. With -f it goes on, over restarts
and new addresses of agentctl, until it is interrupted, the session is gone, or it has finished;
what is not part of the conversation (connection lost, back again) goes beside it.
"""

import json
import re
from contextlib import aclosing
from typing import Final, Protocol

from kandev_operator.api import conditions
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.cli import refusals
from kandev_operator.cli.clock import now
from kandev_operator.cli.commands import Logs
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode
from kandev_operator.cli.follow import Away, Connected, Follower, Item, Quiet
from kandev_operator.cli.plain import one_line, plain
from kandev_operator.cli.reach import NotServed
from kandev_operator.cli.screen import DIM, STRONG, WARNING, Screen
from kandev_operator.cli.seen import read_moment
from kandev_operator.cli.transcript import Piece, Transcript, Voice
from kandev_operator.contract.events import Event, EventKind

_STYLES: Final = {
    Voice.USER: STRONG,
    Voice.THOUGHT: DIM,
    Voice.TOOL: "cyan",
    Voice.PLAN: "cyan",
    Voice.NOTE: DIM,
    Voice.WARNING: WARNING,
}
_LINE: Final = re.compile(r"\n(?=[^\n])")
_INDENT: Final = "\n" + " " * len("2026-01-01T00:00:00Z warning ")
_CONVERSATION: Final = frozenset(
    {
        EventKind.MESSAGE,
        EventKind.TURN_STARTED,
        EventKind.TURN_ENDED,
        EventKind.PERMISSION_REQUESTED,
        EventKind.PERMISSION_RESOLVED,
        EventKind.GAP,
    }
)
"""The others are about the agent's process and what the operator does with it."""


class Showing(Protocol):
    """A way to show events."""

    def event(self, event: Event) -> None: ...


class Page:
    """Events as lines for people: when, who, what; long texts under one another."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._transcript = Transcript()
        self._owed = ""

    def event(self, event: Event) -> None:
        """Show what this event adds."""
        for piece in self._transcript.pieces(event):
            self._put(piece)
        if event.kind is EventKind.TURN_ENDED:
            self._screen.end_line()  # nobody goes on with this message

    def _put(self, piece: Piece) -> None:
        if piece.begins:
            self._screen.end_line()
            self._screen.stream(f"{_at(piece.at)} {piece.voice.value:<7} ", DIM)
            self._owed = ""
        # The line ends of a piece are written when it is known that more follows.
        text = self._owed + plain(piece.text)
        body = text.rstrip("\n")
        self._owed = text[len(body) :]
        self._screen.stream(_LINE.sub(_INDENT, body), _STYLES.get(piece.voice, ""))


class Lines:
    """Events as JSON, one a line, as the contract has them."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def event(self, event: Event) -> None:
        """Show the event, if it is one of the conversation."""
        if event.kind in _CONVERSATION:
            self._screen.say(json.dumps(event.model_dump(mode="json"), separators=(",", ":")))


async def logs(desk: Desk, asked: Logs) -> ExitCode:
    """Show the conversation."""
    showing: Showing = Lines(desk.screen) if asked.as_json else Page(desk.screen)
    follower = Follower(lambda: desk.reach.line(asked.session), asked.since_seq, desk.pace)
    reading = _Following(desk) if asked.follow else _Once(desk, follower)
    try:
        async with aclosing(follower.items()) as items:
            async for item in items:
                if isinstance(item, Event):
                    showing.event(item)
                if reading.is_over(item):
                    break
    finally:
        desk.screen.end_line()
    return ExitCode.OK


class _Once:
    """Until the event that was the last one when we came."""

    def __init__(self, desk: Desk, follower: Follower) -> None:
        self._desk = desk
        self._follower = follower
        self._end = 0

    def is_over(self, item: Item) -> bool:
        match item:
            case Connected(report=report):
                self._end = report.journal.last_seq
                if not self._end:
                    self._desk.screen.note("nothing has been said yet")
            case Away(fault=NotServed() as fault):
                raise refusals.not_served(fault, fault.session, now())
            case Away(fault=fault):
                raise fault
            case Quiet():
                # The last numbers may belong to events that found no room in the journal.
                return True
            case Event():
                pass
        place = self._follower.place
        return place is None or place[1] >= self._end


class _Following:
    """Until the session can say nothing more."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: str | None = None
        self._heard = False

    def is_over(self, item: Item) -> bool:
        match item:
            case Connected():
                self._heard = True
                if self._told is not None:
                    self._desk.screen.note("connected again")
                    self._told = None
            case Away(fault=NotServed() as fault) if _has_ended(fault):
                if not self._heard:
                    raise refusals.not_served(fault, fault.session, now())
                self._desk.screen.note("the session has finished; nothing more will come")
                return True
            case Away(fault=fault):
                if fault.message != self._told:
                    self._told = fault.message
                    self._desk.screen.note(f"{fault.message}; waiting for it to come back")
            case _:
                pass
        return False


def _has_ended(fault: NotServed) -> bool:
    return conditions.is_true(fault.session.status.conditions, "Finished")


def _at(text: str) -> str:
    moment = read_moment(text)
    return rfc3339(moment) if moment is not None else one_line(text, 20)
