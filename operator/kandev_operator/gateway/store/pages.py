"""Pages of messages. Each costs the same few statements, however long the conversation is.

The messages of a page are found by an index, and of their events only those are read that still
add something: the first, every text, the newest content. A page is bounded in bytes as well as in
number; one message alone may be longer than that, and then its end is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, and_, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store.assembly import Assembler
from kandev_operator.gateway.store.journals import Journal, journals_of, named, newest_place
from kandev_operator.gateway.store.rows import event_of
from kandev_operator.gateway.store.schema import EVENTS, MESSAGES
from kandev_operator.gateway.wire.messages import Message

PAGE_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Page:
    """Messages, oldest first; `older` says that there are more before them.

    `place` is that of the newest event that is kept of the session.
    """

    messages: tuple[Message, ...] = ()
    older: bool = False
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class _Span:
    journal: int
    message_id: str
    first_seq: int
    last_seq: int


async def page(db: AsyncConnection, session_uid: str, before: Place | None, limit: int) -> Page:
    """The newest messages, or the newest of those that begin before a place."""
    journals = await journals_of(db, session_uid)
    bound = named(journals, before)
    if not journals or (before is not None and bound is None):
        return Page()
    session = journals[0].session
    edge = (bound.key, before.seq) if bound is not None and before is not None else None
    spans = await _spans(db, session, edge, limit + 1)
    asked = spans[:limit]
    kept = await _that_fit(db, session, asked)
    messages = await _assemble(db, session_uid, journals, kept)
    place = await newest_place(db, journals)
    return Page(tuple(messages), len(spans) > len(kept), place)


async def _spans(
    db: AsyncConnection, session: int, before: tuple[int, int] | None, limit: int
) -> list[_Span]:
    """Where the newest messages lie that begin before an edge, newest first."""
    m = MESSAGES.c
    asked = (
        select(m.journal, m.message_id, m.first_seq, m.last_seq)
        .where(m.session == session)
        .order_by(m.journal.desc(), m.first_seq.desc())
        .limit(limit)
    )
    if before is not None:
        asked = asked.where(tuple_(m.journal, m.first_seq) < before)
    return [_Span(*row) for row in await db.execute(asked)]


def _adding(session: int, spans: Sequence[_Span]) -> ColumnElement[bool]:
    """The events that still add something to these messages, which follow each other."""
    m, e = MESSAGES.c, EVENTS.c
    newest, oldest = spans[0], spans[-1]
    return and_(
        m.session == session,
        tuple_(m.journal, m.first_seq) >= (oldest.journal, oldest.first_seq),
        tuple_(m.journal, m.first_seq) <= (newest.journal, newest.first_seq),
        m.journal == e.journal,
        m.message_id == e.message_id,
        or_(e.chars > 0, e.seq == m.first_seq, e.seq == m.content_seq),
    )


async def _that_fit(db: AsyncConnection, session: int, spans: list[_Span]) -> list[_Span]:
    """As many of the newest as one answer may hold, and one at the least."""
    if not spans:
        return []
    e = EVENTS.c
    sizes = await db.execute(
        select(e.journal, e.message_id, func.sum(e.size).label("size"))
        .where(_adding(session, spans))
        .group_by(e.journal, e.message_id)
    )
    size_of = {(row.journal, row.message_id): int(row.size) for row in sizes}
    total = 0
    for count, span in enumerate(spans):
        total += size_of.get((span.journal, span.message_id), 0)
        if count and total > PAGE_BYTES:
            return spans[:count]
    return spans


async def _assemble(
    db: AsyncConnection, session_uid: str, journals: Sequence[Journal], spans: Sequence[_Span]
) -> list[Message]:
    """The messages themselves, oldest first."""
    if not spans:
        return []
    e = EVENTS.c
    asked = (
        select(e.journal, e.seq, e.kind, e.at, e.execution_id, e.data, e.size)
        .where(_adding(journals[0].session, spans))
        .order_by(e.journal, e.seq)
    )
    names = {journal.key: journal.journal_id for journal in journals}
    found = Assembler()
    room = PAGE_BYTES
    async with db.stream(asked) as rows:
        async for row in rows.mappings():
            if room < 0 and len(spans) == 1:
                break
            room -= row["size"]
            found.add(event_of(session_uid, names[row["journal"]], row))
    for span in spans:
        found.reaches((names[span.journal], span.message_id), span.last_seq)
    return found.messages()
