"""One database: SQLite in a file, or PostgreSQL. How it is opened, upgraded, and fails.

Writing transactions of SQLite take the file's lock at their beginning, so that two of them wait
for each other and never refuse each other; reading ones see one moment, on both databases. After a
connection that failed, the next ones are refused at once for a little while: a database that is
down is not asked by every reader. All failures are `StoreUnavailable`; its words hold neither
statements nor what they carry.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NoReturn

import asyncpg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

CONNECT_SECONDS: Final = 5.0
STATEMENT_SECONDS: Final = 20.0
LOCK_SECONDS: Final = 10.0
"""How long a statement of SQLite waits for another one's transaction."""
MIGRATION_SECONDS: Final = 600.0
REST_SECONDS: Final = 1.0
"""How long nobody asks a database that could not be reached."""
_POOL: Final = 8
_MIGRATION_LOCK: Final = 0x6B616E646576
_WRITES: Final = "kandev_writes"


class StoreUnavailable(Exception):
    """The database does not answer, or has no room. It may be over at the next try."""


class KeysGone(StoreUnavailable):
    """A row that was referred to is not there any more; its key must be asked for again."""


class StoreRefused(Exception):
    """The database answers, and cannot be used: another try would end the same."""


class Database:
    """Connections to one database. `url` as in `sqlite:////var/lib/x.db` or `postgresql://…`."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = url
        self._clock = clock
        self._rests_until = 0.0
        self.is_sqlite = _is_sqlite(url)
        self.engine = self._engine(STATEMENT_SECONDS, LOCK_SECONDS)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees one moment of the database."""
        async with self._begun({} if self.is_sqlite else {"isolation_level": _SNAPSHOT}) as db:
            yield db

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed at its end, or leaves nothing."""
        async with self._begun({_WRITES: True}) as db:
            yield db

    @asynccontextmanager
    async def _begun(self, options: dict[str, Any]) -> AsyncIterator[AsyncConnection]:
        if self._clock() < self._rests_until:
            raise StoreUnavailable("the database could not be reached a moment ago")
        try:
            async with self.engine.connect() as db:
                await db.execution_options(**options)
                async with db.begin():
                    yield db
        except (SQLAlchemyError, OSError, TimeoutError, asyncpg.PostgresError) as error:
            self._failed(error)

    def _failed(self, error: Exception) -> NoReturn:
        if isinstance(error, IntegrityError):
            raise KeysGone(words_of(error)) from None
        if not isinstance(error, DBAPIError) or error.connection_invalidated:
            self._rests_until = self._clock() + REST_SECONDS
        raise StoreUnavailable(words_of(error)) from None

    async def close(self) -> None:
        """Let go of every connection."""
        await self.engine.dispose()

    async def migrate(self) -> None:
        """Bring the schema up to what this code knows; many may do so at once, one does it.

        Raises StoreRefused for a schema of the future, StoreUnavailable.
        """
        try:
            async with self.reading() as db:
                if await db.run_sync(_is_current):
                    return
        except StoreUnavailable:
            self._rests_until = 0.0
            raise
        engine = self._engine(MIGRATION_SECONDS, MIGRATION_SECONDS)
        try:
            async with engine.connect() as db:
                await db.execution_options(**{_WRITES: True})
                async with db.begin():
                    if not self.is_sqlite:
                        lock = text("SELECT pg_advisory_xact_lock(:key)")
                        await db.execute(lock, {"key": _MIGRATION_LOCK})
                    if not await db.run_sync(_is_current):
                        await db.run_sync(_upgrade)
        except (SQLAlchemyError, OSError, TimeoutError, asyncpg.PostgresError) as error:
            self._failed(error)
        finally:
            await engine.dispose()

    def _engine(self, statement_seconds: float, lock_seconds: float) -> AsyncEngine:
        options = {
            "hide_parameters": True,
            "pool_size": _POOL,
            "max_overflow": 0,
            "pool_timeout": CONNECT_SECONDS,
        }
        if self.is_sqlite:
            return _sqlite(self._url, lock_seconds, options)

        async def connect() -> Any:
            return await asyncpg.connect(
                self._url, timeout=CONNECT_SECONDS, command_timeout=statement_seconds
            )

        return create_async_engine(
            "postgresql+asyncpg://", async_creator=connect, pool_pre_ping=True, **options
        )


_SNAPSHOT: Final = "REPEATABLE READ"


def _is_sqlite(url: str) -> bool:
    try:
        backend = make_url(url).get_backend_name()
    except ArgumentError:
        raise StoreRefused("the database's URL cannot be read") from None
    if backend in ("postgresql", "postgres"):
        return False
    if backend == "sqlite":
        return True
    raise StoreRefused("the database's URL begins with sqlite:/// or postgresql://")


def _sqlite(url: str, lock_seconds: float, options: dict[str, Any]) -> AsyncEngine:
    place = make_url(url).set(drivername="sqlite+aiosqlite")
    if not place.database or place.database == ":memory:":
        raise StoreRefused("SQLite needs a file: sqlite:////folder/file.db")
    engine = create_async_engine(place, connect_args={"timeout": lock_seconds}, **options)

    @event.listens_for(engine.sync_engine, "connect")
    def connected(raw: Any, _record: Any) -> None:
        raw.isolation_level = None  # transactions begin where we say so
        cursor = raw.cursor()
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def begun(db: Connection) -> None:
        writes = db.get_execution_options().get(_WRITES)
        db.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "kandev_operator.gateway.store:migrations")
    return config


def _is_current(db: Connection) -> bool:
    """Whether the schema is this code's own; raises StoreRefused for one that it does not know."""
    script = ScriptDirectory.from_config(_config())
    found = MigrationContext.configure(db).get_current_heads()
    known = {step.revision for step in script.walk_revisions()}
    newer = sorted(set(found) - known)
    if newer:
        raise StoreRefused(
            f"the database has schema {', '.join(newer)[:80]}, and this gateway knows up to "
            f"{script.get_current_head()}: a newer gateway has upgraded it, and only such a one "
            "can use it"
        )
    return found == (script.get_current_head(),)


def _upgrade(db: Connection) -> None:
    config = _config()
    config.attributes["connection"] = db
    command.upgrade(config, "head")


def words_of(error: BaseException) -> str:
    """What is wrong with a database, without anything that it was given to keep."""
    cause: Any = getattr(error, "orig", None) or error
    state = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    with suppress(AttributeError):
        state = state or cause.__cause__.sqlite_errorname
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    if isinstance(cause, TimeoutError | asyncio.TimeoutError):
        return "no answer in time"
    return f"{type(cause).__name__}{f' {state}' if state else ''}"
