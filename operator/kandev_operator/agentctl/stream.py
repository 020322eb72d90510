"""The event stream: replay from the journal, then live, for any number of readers.

A reader pulls from the journal by its own cursor and is only woken when there is more. So there is
no queue that could fill: a slow reader is simply further back, the agent never waits for it, and
what a reader holds is one batch. A cursor of another journal, or older than retention keeps, gets
a gap event first.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.engine import Engine
from kandev_operator.agentctl.journal import Journal, JournalUnreadable
from kandev_operator.contract.events import (
    KINDS_MESSAGES,
    KINDS_STATE,
    Event,
    EventKind,
    cursor,
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


def wanted(after: str | None, kinds: str | None) -> Wanted:
    """Read the query; raises ValueError with words for the caller."""
    journal_id, seq = (None, 0) if not after else parse_cursor(after)
    if not 0 <= seq <= MAX_SEQ:
        raise ValueError("a cursor is JOURNAL_ID:SEQ")
    named = {k.strip() for k in kinds.split(",")} if kinds else {KINDS_STATE, KINDS_MESSAGES}
    if not named or not named <= {KINDS_STATE, KINDS_MESSAGES}:
        raise ValueError(f"kinds are {KINDS_STATE} and {KINDS_MESSAGES}")
    return Wanted(journal_id, seq, KINDS_STATE in named, KINDS_MESSAGES in named)


def encode(event: Event) -> bytes:
    """One event as it goes over the wire."""
    lines = (
        f"id: {cursor(event.journal_id, event.seq)}",
        f"event: {event.kind.value}",
        f"data: {json.dumps(event.model_dump(mode='json'), separators=(',', ':'))}",
    )
    return ("\n".join(lines) + "\n\n").encode()


async def events(
    engine: Engine, journal: Journal, what: Wanted, heartbeat: float = HEARTBEAT_SECONDS
) -> AsyncIterator[bytes]:
    """The stream's body. It ends when another session is served here."""
    yield b": welcome\n\n"
    after = what.after
    ahead = after > journal.last_seq
    if (what.journal_id not in (None, journal.journal_id)) or ahead:
        yield encode(_gap(journal, 1, journal.first_seq - 1))
        after = journal.first_seq - 1
    while engine.journal is journal and not engine.closing.is_set():
        if after < journal.first_seq - 1:
            yield encode(_gap(journal, after + 1, journal.first_seq - 1))
            after = journal.first_seq - 1
        reached = journal.last_seq
        try:
            batch = journal.read(after, BATCH, messages=what.messages, states=what.states)
        except JournalUnreadable:
            return
        if batch.events:
            yield b"".join(encode(event) for event in batch.events)
        after = batch.events[-1].seq if batch.more else max(after, reached)
        if after >= journal.last_seq:
            before = journal.last_seq
            await engine.wait_news(journal, after, heartbeat)
            if journal.last_seq == before:
                yield b": alive\n\n"


def _gap(journal: Journal, start: int, end: int) -> Event:
    """Told to one reader, and so not in the journal; its id is where the reader goes on from."""
    return Event(
        journal_id=journal.journal_id or "",
        seq=max(end, 0),
        kind=EventKind.GAP,
        at=now(),
        session_id=journal.session_id,
        data={"from_seq": start, "to_seq": end},
    )
