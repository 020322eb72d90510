"""Letting go: of sessions that ended long ago, and of the oldest events of those that grew too big.

In small transactions, so that nobody waits long for one, and each may be the last: what is left is
taken at the next look, by whichever gateway. Messages go before their events, so a page never shows
half of what is being removed. What was removed from the beginning of a journal is told to readers
like any other hole.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from sqlalchemy import and_, delete, func, or_, select, update

from kandev_operator.gateway.store.database import Database
from kandev_operator.gateway.store.schema import EVENTS, JOURNALS, MESSAGES, SESSIONS

AT_ONCE: Final = 1_000
_SESSIONS_AT_ONCE: Final = 100
_KEPT_SHARE: Final = 0.9
"""So much of the bound is left, that the next event does not begin it all over."""


class Retention:
    """Removes; `at_once` rows in one transaction."""

    def __init__(self, database: Database, at_once: int = AT_ONCE) -> None:
        self._database = database
        self._at_once = at_once

    async def forget(self, before: str) -> int:
        """Remove sessions that were finished or deleted before a time; gives their events' number.

        Raises StoreUnavailable.
        """
        s = SESSIONS.c
        over = or_(s.finished_at < before, s.deleted_at < before)
        removed = 0
        while True:
            async with self._database.reading() as db:
                asked = select(s.id).where(over).order_by(s.id).limit(_SESSIONS_AT_ONCE)
                found = [row.id for row in await db.execute(asked)]
            for session in found:
                removed += await self._forget(session)
            if len(found) < _SESSIONS_AT_ONCE:
                return removed

    async def _forget(self, session: int) -> int:
        removed = 0
        for journal in await self._journals(session):
            removed += await self._cut(journal, None)
        async with self._database.writing() as db:
            await db.execute(delete(JOURNALS).where(JOURNALS.c.session == session))
            await db.execute(delete(SESSIONS).where(SESSIONS.c.id == session))
        return removed

    async def shrink(self, session_uid: str, size: int) -> int:
        """Remove a session's oldest events until the rest fits; gives their number.

        `size` is bytes of what the events hold. Raises StoreUnavailable.
        """
        async with self._database.reading() as db:
            asked = select(SESSIONS.c.id).where(SESSIONS.c.uid == session_uid)
            session = await db.scalar(asked)
        if session is None:
            return 0
        journals = await self._journals(session)
        edge = await self._edge(journals, size)
        if edge is None:
            return 0
        removed = 0
        for journal in journals:
            if journal <= edge[0]:
                removed += await self._cut(journal, edge[1] if journal == edge[0] else None)
        return removed

    async def _journals(self, session: int) -> list[int]:
        asked = select(JOURNALS.c.id).where(JOURNALS.c.session == session).order_by(JOURNALS.c.id)
        async with self._database.reading() as db:
            return [row.id for row in await db.execute(asked)]

    async def _edge(self, journals: list[int], size: int) -> tuple[int, int] | None:
        """The newest event (journal, number) that has to go; None while everything fits."""
        e = EVENTS.c
        async with self._database.reading() as db:
            mine = e.journal.in_(journals)
            total = await db.scalar(select(func.sum(e.size)).where(mine))
            if total is None or int(total) <= size:
                return None
            newest_first = (e.journal.desc(), e.seq.desc())
            until = func.sum(e.size).over(order_by=newest_first, rows=(None, 0)).label("until")
            running = select(e.journal, e.seq, until).where(mine).subquery()
            over = (
                select(running.c.journal, running.c.seq)
                .where(running.c.until > int(size * _KEPT_SHARE))
                .order_by(running.c.journal.desc(), running.c.seq.desc())
                .limit(1)
            )
            row = (await db.execute(over)).first()
            return None if row is None else (row.journal, row.seq)

    async def _cut(self, journal: int, until: int | None) -> int:
        """Remove a journal's events up to a number, or all of them; first their messages."""
        m, e = MESSAGES.c, EVENTS.c
        ended = m.journal == journal
        events = e.journal == journal
        if until is not None:
            ended = and_(ended, m.last_seq <= until)
            events = and_(events, e.seq <= until)

        async def some_messages(db: Any) -> int:
            some = select(m.message_id).where(ended).limit(self._at_once)
            gone = delete(MESSAGES).where(m.journal == journal, m.message_id.in_(some))
            return int((await db.execute(gone)).rowcount)

        async def some_events(db: Any) -> int:
            some = select(e.seq).where(events).order_by(e.seq).limit(self._at_once)
            last = await db.scalar(select(func.max(some.subquery().c.seq)))
            if last is None:
                return 0
            gone = delete(EVENTS).where(e.journal == journal, e.seq <= last)
            return int((await db.execute(gone)).rowcount)

        await self._repeat(some_messages)
        if until is not None:
            await self._begin_later(journal, until)
        return await self._repeat(some_events)

    async def _begin_later(self, journal: int, until: int) -> None:
        """Messages that go on beyond the cut begin with what is left of them."""
        m, e = MESSAGES.c, EVENTS.c
        left = (
            select(func.min(e.seq))
            .where(e.journal == journal, e.message_id == m.message_id, e.seq > until)
            .scalar_subquery()
        )
        async with self._database.writing() as db:
            await db.execute(
                update(MESSAGES)
                .where(m.journal == journal, m.first_seq <= until, m.last_seq > until)
                .values(first_seq=func.coalesce(left, m.first_seq))
            )

    async def _repeat(self, step: Callable[[Any], Awaitable[int]]) -> int:
        removed = 0
        while True:
            async with self._database.writing() as db:
                count = await step(db)
            removed += count
            if count < self._at_once:
                return removed
