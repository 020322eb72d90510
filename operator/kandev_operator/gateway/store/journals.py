"""The journals of a session, in the order in which they came, and places in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store.schema import EVENTS, JOURNALS, SESSIONS


@dataclass(frozen=True, slots=True)
class Journal:
    """One journal's name, and the keys of its row and its session's."""

    session: int
    key: int
    journal_id: str


async def journals_of(db: AsyncConnection, session_uid: str) -> list[Journal]:
    """A session's journals, oldest first."""
    rows = await db.execute(
        select(JOURNALS.c.session, JOURNALS.c.id, JOURNALS.c.journal_id)
        .join(SESSIONS, SESSIONS.c.id == JOURNALS.c.session)
        .where(SESSIONS.c.uid == session_uid)
        .order_by(JOURNALS.c.id)
    )
    return [Journal(row.session, row.id, row.journal_id) for row in rows]


def named(journals: Iterable[Journal], place: Place | None) -> Journal | None:
    """The journal that a place lies in."""
    for journal in journals:
        if place is not None and journal.journal_id == place.journal_id:
            return journal
    return None


async def newest_place(db: AsyncConnection, journals: Sequence[Journal]) -> Place | None:
    """Where the newest event lies that is kept."""
    for journal in reversed(journals):
        of_it = select(func.max(EVENTS.c.seq)).where(EVENTS.c.journal == journal.key)
        seq = await db.scalar(of_it)
        if seq is not None:
            return Place(journal.journal_id, seq)
    return None
