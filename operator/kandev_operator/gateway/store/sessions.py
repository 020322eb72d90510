"""The sessions that were ever seen: so that the past can be found when the objects are gone.

Names are those of the object; a UID is never used twice. A session that was deleted stays until
retention takes it, and one that comes back under its UID (a restored cluster) is no longer deleted.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, select, update
from sqlalchemy.dialects import postgresql, sqlite

from kandev_operator.gateway.store.database import Database
from kandev_operator.gateway.store.schema import SESSIONS

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class SeenSession:
    """A session as the cluster last showed it. Times are RFC 3339 in UTC."""

    uid: str
    namespace: str
    name: str
    task_uid: str
    task_name: str
    finished_at: str | None = None
    deleted_at: str | None = None
    """The store's own; whoever tells of a session leaves it out."""


class Sessions:
    """Their table."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = sqlite.insert if database.is_sqlite else postgresql.insert

    async def see(self, sessions: Sequence[SeenSession], at: str) -> None:
        """Remember these sessions as they are now."""
        values = [
            {
                "uid": each.uid,
                "namespace": each.namespace,
                "name": each.name,
                "task_uid": each.task_uid,
                "task_name": each.task_name,
                "first_seen_at": at,
                "finished_at": each.finished_at,
                "deleted_at": None,
            }
            for each in sorted(sessions, key=lambda each: each.uid)
        ]
        insert: Any = self._insert(SESSIONS)
        changing = ("namespace", "name", "task_uid", "task_name", "finished_at", "deleted_at")
        told = insert.on_conflict_do_update(
            index_elements=[SESSIONS.c.uid],
            set_={name: insert.excluded[name] for name in changing},
        )
        if values:
            async with self._database.writing() as db:
                await db.execute(told, values)

    async def gone(self, uids: Collection[str], at: str) -> None:
        """These were deleted; the first word on it counts."""
        async with self._database.writing() as db:
            for some in _slices(sorted(uids)):
                left = SESSIONS.c.uid.in_(some) & SESSIONS.c.deleted_at.is_(None)
                await db.execute(update(SESSIONS).where(left).values(deleted_at=at))

    async def listed(
        self, uids: Collection[str], namespaces: Collection[str] | None, at: str
    ) -> None:
        """All that there are, in these namespaces or everywhere: the others were deleted."""
        asked = select(SESSIONS.c.uid).where(SESSIONS.c.deleted_at.is_(None))
        if namespaces is not None:
            asked = asked.where(SESSIONS.c.namespace.in_(sorted(namespaces)))
        async with self._database.reading() as db:
            known = {row.uid for row in await db.execute(asked)}
        if missing := known - set(uids):
            await self.gone(missing, at)

    async def one(self, uid: str) -> SeenSession | None:
        """One session, as it was last seen."""
        found = await self._read(select(SESSIONS).where(SESSIONS.c.uid == uid))
        return found[0] if found else None

    async def some(self, namespace: str | None, after: str | None, limit: int) -> list[SeenSession]:
        """Some of them, by UID."""
        asked = select(SESSIONS).order_by(SESSIONS.c.uid).limit(limit)
        if namespace is not None:
            asked = asked.where(SESSIONS.c.namespace == namespace)
        return await self._read(asked if after is None else asked.where(SESSIONS.c.uid > after))

    async def _read(self, asked: Select[Any]) -> list[SeenSession]:
        async with self._database.reading() as db:
            rows = [*await db.execute(asked)]
        return [
            SeenSession(
                uid=row.uid,
                namespace=row.namespace,
                name=row.name,
                task_uid=row.task_uid,
                task_name=row.task_name,
                finished_at=row.finished_at,
                deleted_at=row.deleted_at,
            )
            for row in rows
        ]


def _slices(items: Sequence[str]) -> list[Sequence[str]]:
    return [items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE)]
