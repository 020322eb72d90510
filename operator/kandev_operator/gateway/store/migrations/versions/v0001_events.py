"""Sessions, their journals, events, and where each message lies."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", _KEY, primary_key=True, autoincrement=True),
        sa.Column("uid", sa.String(64), nullable=False, unique=True),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("task_uid", sa.String(64), nullable=False),
        sa.Column("task_name", sa.String(253), nullable=False),
        sa.Column("first_seen_at", sa.String(32), nullable=False),
        sa.Column("finished_at", sa.String(32)),
        sa.Column("deleted_at", sa.String(32)),
        sa.Index("sessions_by_name", "namespace", "name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "journals",
        sa.Column("id", _KEY, primary_key=True, autoincrement=True),
        sa.Column("session", _KEY, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("journal_id", sa.String(255), nullable=False),
        sa.UniqueConstraint("session", "journal_id", name="journals_once"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("journal", _KEY, sa.ForeignKey("journals.id"), autoincrement=False),
        sa.Column("seq", sa.BigInteger, autoincrement=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("execution_id", sa.String(255)),
        sa.Column("message_id", sa.String(255)),
        sa.Column("chars", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("journal", "seq"),
    )
    op.create_index(
        "events_by_message",
        "events",
        ["journal", "message_id", "seq", "chars"],
        sqlite_where=sa.text("message_id IS NOT NULL"),
        postgresql_where=sa.text("message_id IS NOT NULL"),
    )
    op.create_table(
        "messages",
        sa.Column("journal", _KEY, sa.ForeignKey("journals.id"), autoincrement=False),
        sa.Column("message_id", sa.String(255)),
        sa.Column("session", _KEY, sa.ForeignKey("sessions.id"), nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("content_seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("journal", "message_id"),
        sa.Index("messages_in_order", "session", "journal", "first_seq"),
    )
