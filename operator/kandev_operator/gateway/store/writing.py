"""Events go in: each once, whoever brings it, however often.

Uniqueness is the database's: an event's place is its key, and who comes second writes nothing. A
message's span is joined by minimum and maximum, so it is the same after any order of the same
events. Rows are written in one order everywhere (by journal and number, then messages by journal
and id): two gateways that write the same at the same time wait for each other and never in a
circle.

Callers write what follows, in order: an event is given in only when all that the caller got before
it was committed, by whomever. So a hole in the numbers is a loss, and never a delay.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import case, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from kandev_operator.contract.events import Event
from kandev_operator.gateway.store.database import Database, KeysGone
from kandev_operator.gateway.store.rows import Row, row_of, spans
from kandev_operator.gateway.store.schema import EVENTS, JOURNALS, MESSAGES, SESSIONS

_KEYS_KEPT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Keys:
    """The rows that an event hangs on."""

    session: int
    journal: int


Journal = tuple[str, str]
"""A session's UID and the journal's id."""


class Writing:
    """The way in. One for a process, so that keys are asked for once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = sqlite.insert if database.is_sqlite else postgresql.insert
        self._keys: dict[Journal, Keys] = {}

    async def append(self, events: Sequence[Event]) -> None:
        """Keep all of them, or none. Sessions must be known. Raises StoreUnavailable."""
        rows: dict[Journal, list[Row]] = {}
        for event in events:
            rows.setdefault((event.session_id, event.journal_id), []).append(row_of(event))
        known = dict(self._keys)
        try:
            await self._append(rows, known)
        except KeysGone:
            # Retention has taken a session away whose keys were remembered.
            known.clear()
            await self._append(rows, known)
        self._keys = known if len(known) <= _KEYS_KEPT else {}

    async def _append(self, rows: dict[Journal, list[Row]], known: dict[Journal, Keys]) -> None:
        async with self._database.writing() as db:
            for journal in sorted(rows.keys() - known.keys()):
                known[journal] = await self._find(db, *journal)
            ordered = sorted(rows.items(), key=lambda item: known[item[0]].journal)
            await self._events(db, [(known[journal], part) for journal, part in ordered])
            await self._spans(db, [(known[journal], part) for journal, part in ordered])

    async def _find(self, db: AsyncConnection, session_uid: str, journal_id: str) -> Keys:
        """The keys of a journal; it is made when it is new."""
        session = await db.scalar(select(SESSIONS.c.id).where(SESSIONS.c.uid == session_uid))
        if session is None:
            raise UnknownSession(session_uid)
        mine = (JOURNALS.c.session == session) & (JOURNALS.c.journal_id == journal_id)
        journal = await db.scalar(select(JOURNALS.c.id).where(mine))
        if journal is None:
            made = self._insert(JOURNALS).values(session=session, journal_id=journal_id)
            await db.execute(made.on_conflict_do_nothing())
            journal = await db.scalar(select(JOURNALS.c.id).where(mine))
        assert journal is not None, "it was there, or has just been made"
        return Keys(session, journal)

    async def _events(self, db: AsyncConnection, parts: Iterable[tuple[Keys, list[Row]]]) -> None:
        values = [
            {
                "journal": keys.journal,
                "seq": row.seq,
                "kind": row.kind,
                "at": row.at,
                "execution_id": row.execution_id,
                "message_id": row.message_id,
                "chars": row.chars,
                "size": row.size,
                "data": row.data,
            }
            for keys, rows in parts
            for row in sorted(rows, key=lambda row: row.seq)
        ]
        await db.execute(self._insert(EVENTS).on_conflict_do_nothing(), values)

    async def _spans(self, db: AsyncConnection, parts: Iterable[tuple[Keys, list[Row]]]) -> None:
        values = [
            {
                "journal": keys.journal,
                "session": keys.session,
                "message_id": span.message_id,
                "first_seq": span.first_seq,
                "last_seq": span.last_seq,
                "content_seq": span.content_seq,
            }
            for keys, rows in parts
            for span in spans(rows)
        ]
        if values:
            await db.execute(_joined(self._insert(MESSAGES)), values)


class UnknownSession(Exception):
    """Events of a session that the store was not told of."""


def _joined(insert: Any) -> Any:
    """A span that is there already becomes the join of both; the same again changes nothing."""
    new, old = insert.excluded, MESSAGES.c
    return insert.on_conflict_do_update(
        index_elements=[MESSAGES.c.journal, MESSAGES.c.message_id],
        set_={
            "first_seq": case((new.first_seq < old.first_seq, new.first_seq), else_=old.first_seq),
            "last_seq": case((new.last_seq > old.last_seq, new.last_seq), else_=old.last_seq),
            "content_seq": case(
                (new.content_seq > old.content_seq, new.content_seq), else_=old.content_seq
            ),
        },
        where=or_(
            new.first_seq < old.first_seq,
            new.last_seq > old.last_seq,
            new.content_seq > old.content_seq,
        ),
    )
