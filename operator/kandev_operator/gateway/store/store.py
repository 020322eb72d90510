"""The store: one database, opened when it can be, and all that is asked of it.

Every method but `close` raises StoreUnavailable while the database does not answer, and also
before `open` has succeeded. Nothing here waits for a database that is down, and nothing is tried
twice: who comes again, and when, is the caller's business.
"""

from collections.abc import Collection, Sequence

from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store import pages, stretches
from kandev_operator.gateway.store.database import Database, StoreUnavailable
from kandev_operator.gateway.store.journals import journals_of, newest_place
from kandev_operator.gateway.store.retention import Retention
from kandev_operator.gateway.store.sessions import SeenSession, Sessions
from kandev_operator.gateway.store.writing import Writing


class Store:
    """Everything that is kept. `url` as `Database` takes it; raises StoreRefused for another."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.is_open = False
        self._writing = Writing(self.database)
        self._sessions = Sessions(self.database)
        self._retention = Retention(self.database)

    async def open(self) -> None:
        """Upgrade the schema if need be. Raises StoreUnavailable; StoreRefused for good."""
        await self.database.migrate()
        self.is_open = True

    async def close(self) -> None:
        """Let go of the database."""
        self.is_open = False
        await self.database.close()

    async def append(self, events: Sequence[Event]) -> None:
        """Keep all of these events, or none; what is kept already is left as it is."""
        self._check()
        await self._writing.append(events)

    async def newest_place(self, session_uid: str) -> Place | None:
        """Where the newest event lies that is kept of a session."""
        self._check()
        async with self.database.reading() as db:
            return await newest_place(db, await journals_of(db, session_uid))

    async def page(self, session_uid: str, before: Place | None, limit: int) -> pages.Page:
        """The newest messages, or the newest of those that begin before a place."""
        self._check()
        async with self.database.reading() as db:
            return await pages.page(db, session_uid, before, limit)

    async def after(
        self, session_uid: str, place: Place | None, limit: int, kinds: frozenset[EventKind]
    ) -> stretches.Found:
        """What follows a place, of these kinds; None: everything from the beginning."""
        self._check()
        async with self.database.reading() as db:
            return await stretches.after(db, session_uid, place, limit, kinds)

    async def raw(self, session_uid: str, place: Place, limit: int) -> list[Event]:
        """Events of one journal as they came, after a place of it."""
        self._check()
        async with self.database.reading() as db:
            return await stretches.raw(db, session_uid, place, limit)

    async def lengths(self, session_uid: str, place: Place) -> dict[str, int]:
        """How long the texts are, up to a place, of the messages that may go on after it."""
        self._check()
        async with self.database.reading() as db:
            return await stretches.lengths(db, session_uid, place)

    async def see(self, sessions: Sequence[SeenSession], at: str) -> None:
        """Remember these sessions as they are now."""
        self._check()
        await self._sessions.see(sessions, at)

    async def gone(self, uids: Collection[str], at: str) -> None:
        """These sessions were deleted."""
        self._check()
        await self._sessions.gone(uids, at)

    async def listed(
        self, uids: Collection[str], namespaces: Collection[str] | None, at: str
    ) -> None:
        """All sessions that there are (in these namespaces): the others were deleted."""
        self._check()
        await self._sessions.listed(uids, namespaces, at)

    async def session_seen(self, uid: str) -> SeenSession | None:
        """A session as it was last seen, also long after its end."""
        self._check()
        return await self._sessions.one(uid)

    async def sessions_seen(
        self, namespace: str | None, after: str | None = None, limit: int = 500
    ) -> list[SeenSession]:
        """Sessions by UID, of one namespace or all, deleted ones too; `after`: the last UID had."""
        self._check()
        return await self._sessions.some(namespace, after, limit)

    async def forget(self, before: str) -> int:
        """Remove sessions that ended before a time; gives how many events went."""
        self._check()
        return await self._retention.forget(before)

    async def shrink(self, session_uid: str, size: int) -> int:
        """Remove a session's oldest events until it has no more bytes; gives how many went."""
        self._check()
        return await self._retention.shrink(session_uid, size)

    def _check(self) -> None:
        if not self.is_open:
            raise StoreUnavailable("the database has not been reached yet")
