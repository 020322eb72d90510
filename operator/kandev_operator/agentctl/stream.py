"""The event stream: replay from the journal, then live, for any number of readers.

A reader pulls from the journal by its own cursor and is only woken when there is more. So there is
no queue that could fill: a slow reader is simply further back, the agent never waits for it, and
what a reader holds is one batch. A cursor of another journal, or older than retention keeps, gets
a gap event first. A live reader that has caught up also gets the message being spoken, as far as
it has not heard it: that, too, is pulled, so nothing waits in memory for anybody.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.engine import Engine
from kandev_operator.agentctl.frames import encode
from kandev_operator.agentctl.journal import Journal, JournalUnreadable
from kandev_operator.agentctl.machine.state import Speech
from kandev_operator.contract.events import (
    KINDS_LIVE,
    KINDS_MESSAGES,
    KINDS_STATE,
    EventKind,
    parse_cursor,
)
from kandev_operator.contract.paths import HEARTBEAT_SECONDS

BATCH: Final = 200
MAX_SEQ: Final = 2**62


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader asked for."""

    journal_id: str | None
    after: int
    states: bool
    messages: bool
    live: bool = False


def wanted(after: str | None, kinds: str | None) -> Wanted:
    """Read the query; raises ValueError with words for the caller."""
    journal_id, seq = (None, 0) if not after else parse_cursor(after)
    if not 0 <= seq <= MAX_SEQ:
        raise ValueError("a cursor is JOURNAL_ID:SEQ")
    named = {k.strip() for k in kinds.split(",")} if kinds else {KINDS_STATE, KINDS_MESSAGES}
    live = KINDS_LIVE in named
    named -= {KINDS_LIVE}
    if not named <= {KINDS_STATE, KINDS_MESSAGES} or not (named or live):
        raise ValueError(f"kinds are {KINDS_STATE}, {KINDS_MESSAGES} and {KINDS_LIVE}")
    return Wanted(journal_id, seq, KINDS_STATE in named, live or KINDS_MESSAGES in named, live)


class Tail:
    """What one live reader has heard of the message being spoken."""

    def __init__(self) -> None:
        self.heard: Speech | None = None

    def more(self, speech: Speech | None) -> dict[str, Any] | None:
        """What it has not heard yet, as an event's data."""
        before, self.heard = self.heard, speech
        if speech is None:
            return None
        same = before is not None and before.message_id == speech.message_id
        heard = before.told + len(before.text) if same and before is not None else 0
        text = speech.text[max(0, heard - speech.told) :]
        if not text:
            return None
        author, kind, _ = speech.source
        return {
            "message_id": speech.message_id,
            "author": author,
            "kind": kind,
            "offset": speech.told + len(speech.text) - len(text),
            "text": text,
        }


async def events(
    engine: Engine, journal: Journal, what: Wanted, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """The stream's body. It ends when another session is served here, and once at the beginning
    of a time in which nothing is known of the agent: `/status` says so then."""
    engine.readers += 1
    engine.live_readers += what.live
    try:
        async for part in _events(engine, journal, what, heartbeat):
            yield part
    finally:
        engine.readers -= 1
        engine.live_readers -= what.live


async def _events(
    engine: Engine, journal: Journal, what: Wanted, heartbeat: float
) -> AsyncIterator[bytes]:
    yield b": welcome\n\n"
    tail = Tail() if what.live else None
    after = what.after
    ahead = after > journal.last_seq
    if (what.journal_id not in (None, journal.journal_id)) or ahead:
        yield _gap(journal, 1, journal.first_seq - 1)
        after = journal.first_seq - 1
    outages = engine.outages
    while engine.journal is journal and not engine.closing.is_set() and engine.outages == outages:
        if after < journal.first_seq - 1:
            yield _gap(journal, after + 1, journal.first_seq - 1)
            after = journal.first_seq - 1
        try:
            batch = journal.read(after, BATCH, messages=what.messages, states=what.states)
        except JournalUnreadable:
            return
        if batch.frames:
            yield b"".join(frame.data for frame in batch.frames)
        after = batch.reached
        if after < journal.last_seq:
            continue
        if tail is not None and (said := tail.more(engine.state.speech)):
            yield _live(engine, journal, said)
            continue
        before = journal.last_seq, engine.state.speech
        await engine.wait_news(journal, after, heartbeat, tail.heard if tail else False)
        if (journal.last_seq, engine.state.speech if tail else before[1]) == before:
            yield b": alive\n\n"


def _live(engine: Engine, journal: Journal, said: dict[str, Any]) -> bytes:
    """Words that are not kept yet: without an id, so that no cursor moves by them."""
    turn = engine.state.turn
    data = json.dumps({**said, "turn_id": turn.turn_id if turn else None})
    row = (EventKind.LIVE.value, now(), engine.state.execution_id, data)
    frame = encode(journal.journal_id or "", journal.session_id, journal.last_seq, row)
    return frame.partition(b"\n")[2]


def _gap(journal: Journal, start: int, end: int) -> bytes:
    """Told to one reader, and so not in the journal; its id is where the reader goes on from."""
    data = json.dumps({"from_seq": start, "to_seq": end})
    row = (EventKind.GAP.value, now(), None, data)
    return encode(journal.journal_id or "", journal.session_id, max(end, 0), row)
