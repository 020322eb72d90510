"""The tables as the code sees them; how they come to be is `migrations`' business.

Events are facts and never change. All else is derived from them by minimum and maximum alone, so
that it does not matter in which order, how often and by how many gateways they are written.
Texts that come from an agent lie in `data`, as JSON in ASCII: it holds what no database's text
can, NUL and half characters.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

_Key = BigInteger().with_variant(Integer, "sqlite")

METADATA: Final = MetaData()

SESSIONS: Final = Table(
    "sessions",
    METADATA,
    Column("id", _Key, primary_key=True, autoincrement=True),
    Column("uid", String(64), nullable=False, unique=True),
    Column("namespace", String(63), nullable=False),
    Column("name", String(253), nullable=False),
    Column("task_uid", String(64), nullable=False),
    Column("task_name", String(253), nullable=False),
    Column("first_seen_at", String(32), nullable=False),
    Column("finished_at", String(32)),
    Column("deleted_at", String(32)),
    Index("sessions_by_name", "namespace", "name"),
    sqlite_autoincrement=True,
)
"""Keys are remembered by writers, so none is ever given twice; the same below."""

JOURNALS: Final = Table(
    "journals",
    METADATA,
    Column("id", _Key, primary_key=True, autoincrement=True),
    Column("session", _Key, ForeignKey("sessions.id"), nullable=False),
    Column("journal_id", String(255), nullable=False),
    UniqueConstraint("session", "journal_id", name="journals_once"),
    sqlite_autoincrement=True,
)
"""`id` grows: it is the order in which a session's journals came."""

EVENTS: Final = Table(
    "events",
    METADATA,
    Column("journal", _Key, ForeignKey("journals.id"), primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(40), nullable=False),
    Column("at", String(40), nullable=False),
    Column("execution_id", String(255)),
    Column("message_id", String(255)),
    Column("chars", Integer, nullable=False),
    Column("size", Integer, nullable=False),
    Column("data", Text, nullable=False),
)
"""`chars`: of the text that it appends to its message, as code points. `size`: of `data`."""

Index(
    "events_by_message",
    EVENTS.c.journal,
    EVENTS.c.message_id,
    EVENTS.c.seq,
    EVENTS.c.chars,
    sqlite_where=EVENTS.c.message_id.is_not(None),
    postgresql_where=EVENTS.c.message_id.is_not(None),
)

MESSAGES: Final = Table(
    "messages",
    METADATA,
    Column("journal", _Key, ForeignKey("journals.id"), primary_key=True, autoincrement=False),
    Column("message_id", String(255), primary_key=True),
    Column("session", _Key, ForeignKey("sessions.id"), nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("content_seq", BigInteger, nullable=False),
    Index("messages_in_order", "session", "journal", "first_seq"),
)
"""Where a message lies. `content_seq`: its newest structured content, 0 where it has none."""
