"""What the watch has seen: the newest body of every object, by UID and by name, and who listens.

Filled by `watch` alone. Bodies are parsed when they are first asked for. An object is gone when a
watch or a whole list says so; while the API server is away everything stays as it was last seen,
and `stale` says since when. Nothing is decided here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kandev_operator.api.errors import InvalidSpec
from kandev_operator.api.executor import Executor
from kandev_operator.api.meta import Resource
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task

Body = dict[str, Any]
Kind = TypeVar("Kind", bound=Resource)
KINDS: Final[tuple[type[Resource], ...]] = (AgentProfile, Task, Executor, TaskSession)
"""In the order in which they should be listed: a session's surroundings before the session."""


@dataclass(frozen=True, slots=True)
class Change:
    """One object of a kind changed, appeared or went."""

    kind: str
    uid: str
    before: Body | None
    after: Body | None


Listener = Callable[[Change], None]


def strip(body: Body) -> Body:
    """The body without what no view shows."""
    metadata = {k: v for k, v in (body.get("metadata") or {}).items() if k != "managedFields"}
    return {**body, "metadata": metadata}


class Cache:
    """Everything seen. Listeners are called on the loop and must not block."""

    def __init__(self) -> None:
        self._bodies: dict[str, dict[str, Body]] = {kind.kind: {} for kind in KINDS}
        self._names: dict[str, dict[tuple[str, str], str]] = {kind.kind: {} for kind in KINDS}
        self._parsed: dict[str, Resource] = {}
        self._listeners: list[Listener] = []
        self._stale: dict[tuple[str, str | None], bool] = {}

    def listen(self, listener: Listener) -> None:
        """Have every later change told."""
        self._listeners.append(listener)

    # ---- filled by the watch ---------------------------------------------------------------

    def expect(self, kind: str, namespace: str | None) -> None:
        """A watch that has not listed yet."""
        self._stale[kind, namespace] = True

    def mark(self, kind: str, namespace: str | None, *, stale: bool) -> bool:
        """Whether this watch sees the API server now; tells whether that is new."""
        was_stale = self.stale
        self._stale[kind, namespace] = stale
        return was_stale != self.stale

    def put(self, kind: str, body: Body) -> None:
        """An object as it is now; an older one than is known is left alone."""
        metadata = body.get("metadata") or {}
        uid = str(metadata.get("uid") or "")
        before = self._bodies[kind].get(uid)
        if before is not None and _version(before) >= _version(body):
            return
        self._replace(kind, uid, before, body)

    def remove(self, kind: str, body: Body) -> None:
        """An object that is gone."""
        uid = str((body.get("metadata") or {}).get("uid") or "")
        if (before := self._bodies[kind].pop(uid, None)) is None:
            return
        if self._names[kind].get(_place(before)) == uid:
            del self._names[kind][_place(before)]
        self._parsed.pop(uid, None)
        self._tell(Change(kind, uid, before, None))

    def relist(self, kind: str, namespace: str | None, bodies: tuple[Body, ...]) -> None:
        """All that is there. It holds even where versions went back: a restored API server."""
        there = {str(body["metadata"].get("uid") or ""): body for body in bodies}
        for uid, before in list(self._bodies[kind].items()):
            if uid not in there and namespace in (None, _place(before)[0]):
                self.remove(kind, before)
        for uid, body in there.items():
            known = self._bodies[kind].get(uid)
            if known is None or _version(known) != _version(body):
                self._replace(kind, uid, known, body)

    def _replace(self, kind: str, uid: str, before: Body | None, body: Body) -> None:
        self._bodies[kind][uid] = body
        self._names[kind][_place(body)] = uid
        self._parsed.pop(uid, None)
        self._tell(Change(kind, uid, before, body))

    def _tell(self, change: Change) -> None:
        for listener in self._listeners:
            listener(change)

    # ---- asked ------------------------------------------------------------------------------

    @property
    def stale(self) -> bool:
        """Whether something of what is shown may be older than the cluster."""
        return any(self._stale.values())

    def get(self, kind: type[Kind], uid: str) -> Kind | None:
        """An object by its UID; one that this version cannot read is none."""
        found = self._parsed.get(uid)
        if found is None:
            body = self._bodies[kind.kind].get(uid)
            if body is None:
                return None
            try:
                found = kind.from_body(body)
            except InvalidSpec:
                return None
            self._parsed[uid] = found
        return found if isinstance(found, kind) else None

    def named(self, kind: type[Kind], namespace: str, name: str) -> Kind | None:
        """An object by its name."""
        uid = self._names[kind.kind].get((namespace, name))
        return self.get(kind, uid) if uid is not None else None

    def all(self, kind: type[Kind], namespace: str | None = None) -> Iterator[Kind]:
        """Every object of a kind."""
        for uid, body in list(self._bodies[kind.kind].items()):
            if namespace in (None, _place(body)[0]) and (found := self.get(kind, uid)):
                yield found

    def namespaces(self, kind: type[Resource]) -> frozenset[str]:
        """Where there are objects of a kind."""
        return frozenset(_place(body)[0] for body in self._bodies[kind.kind].values())

    def count(self, kind: type[Resource]) -> int:
        """How many there are."""
        return len(self._bodies[kind.kind])

    # ---- who belongs to whom -----------------------------------------------------------------

    def executor_of(self, session: TaskSession) -> Executor | None:
        """The executor that a session chose, by its UID."""
        ref = session.status.executor_ref
        return self.get(Executor, ref.uid) if ref is not None and ref.uid else None

    def task_of(self, session: TaskSession) -> Task | None:
        """The task that a session belongs to."""
        return self.named(Task, session.metadata.namespace, session.spec.task_ref.name)

    def profile_of(self, session: TaskSession) -> AgentProfile | None:
        """The profile that a session runs with."""
        name = session.spec.agent_profile_ref.name
        return self.named(AgentProfile, session.metadata.namespace, name)


def _place(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = body.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _version(body: Mapping[str, Any]) -> int:
    """Resource versions of one API server can be compared as numbers."""
    text = str((body.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isdecimal() else 0
