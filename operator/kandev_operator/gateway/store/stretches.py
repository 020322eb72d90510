"""What follows a place, event by event, over the ends of journals, with the holes told.

An answer is bounded in bytes as well as in number: sizes are asked for first, so a row that does
not fit any more is not read. `after` counts events that were wanted; the place goes on over the
others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store.assembly import at_offset, key_of, missing_before, text_of
from kandev_operator.gateway.store.branches import begins_after
from kandev_operator.gateway.store.journals import Journal, journals_of, named
from kandev_operator.gateway.store.rows import event_of
from kandev_operator.gateway.store.schema import EVENTS

STRETCH_BYTES: Final = 1024 * 1024
_RECENT: Final = 500
"""A message that goes on was spoken of within so many events."""
_KNOWN: Final = frozenset(kind.value for kind in EventKind)


@dataclass(frozen=True, slots=True)
class Found:
    """Events after a place, oldest first; `place` is after the last one that was looked at.

    `unknown`: nothing is kept of the journal that was asked for, and nothing is answered.
    """

    events: tuple[Event, ...] = ()
    place: Place | None = None
    more: bool = False
    unknown: bool = False


async def after(
    db: AsyncConnection,
    session_uid: str,
    place: Place | None,
    limit: int,
    kinds: frozenset[EventKind],
) -> Found:
    """What follows a place; None: everything from the beginning."""
    journals = await journals_of(db, session_uid)
    start = named(journals, place)
    if place is not None and start is None:
        return Found(place=place, unknown=True)
    events: list[Event] = []
    for journal in journals[journals.index(start) if start else 0 :]:
        since = begins_after(journal.journal_id)
        if place is not None and journal is start:
            since = place.seq
        while len(events) < limit:
            rows = await _rows(db, journal.key, since, limit - len(events))
            if not rows:
                break
            told, since = _told(session_uid, journal, rows, since, limit - len(events))
            place = Place(journal.journal_id, since)
            events += await _with_offsets(db, journal, [e for e in told if e.kind in kinds])
        else:
            return Found(tuple(events), place, more=True)
    return Found(tuple(events), place)


async def raw(db: AsyncConnection, session_uid: str, place: Place, limit: int) -> list[Event]:
    """Events of one journal as they came, without holes and offsets."""
    journal = named(await journals_of(db, session_uid), place)
    if journal is None:
        return []
    rows = await _rows(db, journal.key, place.seq, limit)
    return [event_of(session_uid, journal.journal_id, row) for row in rows if _is_known(row)]


async def lengths(db: AsyncConnection, session_uid: str, place: Place) -> dict[str, int]:
    """How long the texts are, up to a place, of the messages that may go on after it."""
    journal = named(await journals_of(db, session_uid), place)
    if journal is None:
        return {}
    e = EVENTS.c
    recent = (
        select(e.message_id)
        .distinct()
        .where(e.journal == journal.key, e.seq > place.seq - _RECENT, e.seq <= place.seq)
        .where(e.message_id.is_not(None))
    )
    spoken = [row.message_id for row in await db.execute(recent)]
    return await _chars(db, journal.key, spoken, place.seq)


async def _rows(db: AsyncConnection, journal: int, since: int, limit: int) -> list[Any]:
    """The next rows of a journal, as many as fit, and one at the least."""
    e = EVENTS.c
    sizes = await db.execute(
        select(e.seq, e.size)
        .where(e.journal == journal, e.seq > since)
        .order_by(e.seq)
        .limit(limit)
    )
    last, total = None, 0
    for row in sizes:
        total += row.size
        if last is not None and total > STRETCH_BYTES:
            break
        last = row.seq
    if last is None:
        return []
    rows = await db.execute(
        select(e.seq, e.kind, e.at, e.execution_id, e.data)
        .where(e.journal == journal, e.seq > since, e.seq <= last)
        .order_by(e.seq)
    )
    return [*rows.mappings()]


def _is_known(row: Any) -> bool:
    """A later gateway may have kept kinds that this one has never heard of."""
    return row["kind"] in _KNOWN


def _told(
    session_uid: str, journal: Journal, rows: Sequence[Any], since: int, limit: int
) -> tuple[list[Event], int]:
    """Events with the holes between them, at most so many, and the number of the last one."""
    told: list[Event] = []
    for row in rows:
        if len(told) >= limit:
            break
        if not _is_known(row):
            since = row["seq"]
            continue
        event = event_of(session_uid, journal.journal_id, row)
        missing = missing_before(event, since)
        if missing is not None:
            told.append(missing)
            since = missing.seq
            if len(told) >= limit:
                break
        told.append(event)
        since = event.seq
    return told, since


async def _with_offsets(
    db: AsyncConnection, journal: Journal, events: Sequence[Event]
) -> list[Event]:
    """Each text says how many characters of its message come before it."""
    keys = {key[1] for event in events if (key := key_of(event)) is not None}
    if not keys:
        return [*events]
    told = await _chars(db, journal.key, sorted(keys), events[0].seq - 1)
    placed = []
    for event in events:
        key = key_of(event)
        if key is not None:
            offset = told.get(key[1], 0)
            told[key[1]] = offset + len(text_of(event))
            event = at_offset(event, offset)
        placed.append(event)
    return placed


async def _chars(
    db: AsyncConnection, journal: int, message_ids: Sequence[str], until: int
) -> dict[str, int]:
    e = EVENTS.c
    sums = await db.execute(
        select(e.message_id, func.sum(e.chars).label("chars"))
        .where(e.journal == journal, e.message_id.in_(message_ids), e.seq <= until)
        .group_by(e.message_id)
    )
    return {row.message_id: int(row.chars) for row in sums}
