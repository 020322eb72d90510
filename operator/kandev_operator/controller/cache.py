"""The newest known body of every object of ours, and who points at whom.

Filled by lists, watch events and the answers to our own writes; an older resourceVersion never
replaces a newer one, so a late watch event cannot undo what a write told us. The exception is an
API server that was restored from a backup: what a live read of it says holds, and is put `anyway`.
Bodies are stripped of what no decision reads and parsed only when asked for: idle objects cost a
dictionary each. Nothing here is trusted to say that an object is gone: see `observe`, which asks
the API server.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.api import group

Body = dict[str, Any]
Place = tuple[str, str, str]
"""Kind, namespace, name."""

KINDS: Final = (group.AGENT_PROFILE, group.TASK, group.TASK_SESSION, group.EXECUTOR, group.POD)
_OF_A_POD: Final = (
    "phase",
    "reason",
    "message",
    "podIP",
    "conditions",
    "initContainerStatuses",
    "containerStatuses",
)
_DEAD_WEIGHT: Final = ("managedFields", "selfLink")
_SAID_OFTEN: Final = frozenset({"type", "status", "reason", "message"})
_POOL_SIZE: Final = 2_000
_pool: dict[str, str] = {}
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class Change:
    """An object changed, appeared or went away."""

    place: Place
    before: Body | None
    after: Body | None


def strip(body: Body) -> Body:
    """The body without what no decision reads."""
    meta = {k: v for k, v in body.get("metadata", {}).items() if k not in _DEAD_WEIGHT}
    notes = meta.get("annotations")
    if notes and _LAST_APPLIED in notes:
        meta["annotations"] = {k: v for k, v in notes.items() if k != _LAST_APPLIED}
    if group.LABEL_EXECUTOR_UID in (meta.get("labels") or {}):
        return _bare_pod(body, meta)
    kept = {"metadata": meta}
    for part in ("spec", "status"):
        if part in body:
            kept[part] = body[part]
    for condition in (body.get("status") or {}).get("conditions") or ():
        for key, text in condition.items():
            if key in _SAID_OFTEN:
                condition[key] = _shared(text)
    return kept


def _bare_pod(body: Body, meta: Body) -> Body:
    """A pod is large, and its spec is ours: only what the cluster says of it is kept."""
    status = body.get("status") or {}
    node = (body.get("spec") or {}).get("nodeName")
    kept: Body = {"metadata": meta, "spec": {"nodeName": node} if node else {}}
    kept["status"] = {part: status[part] for part in _OF_A_POD if part in status}
    return kept


def _shared(text: str) -> str:
    """The same text, from a pool: thousands of objects say the same few sentences."""
    if len(_pool) >= _POOL_SIZE:
        return _pool.get(text, text)
    return _pool.setdefault(text, text)


def version_of(body: Body) -> int:
    """The resourceVersion as a number; etcd-backed servers order by it (KEP-5504)."""
    text = body.get("metadata", {}).get("resourceVersion", "")
    return int(text) if text.isdigit() else 0


class Cache:
    """All objects, by place; with indices over the references between them."""

    def __init__(self, on_change: Callable[[Change], None]) -> None:
        self._bodies: dict[Place, Body] = {}
        self._on_change = on_change
        self._sessions_of: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._placed_on: dict[str, set[Place]] = defaultdict(set)
        self._worktree_of: dict[Place, str] = {}
        self._places: dict[str, Place] = {}
        self._pods_of: dict[str, set[Place]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._bodies)

    def get(self, kind: str, namespace: str, name: str) -> Body | None:
        """The newest known body, or None."""
        return self._bodies.get((kind, namespace, name))

    def place_of(self, uid: str) -> Place | None:
        """Where the object with this UID is."""
        return self._places.get(uid)

    def places(self, kind: str) -> Iterator[Place]:
        """All places of a kind."""
        return (place for place in list(self._bodies) if place[0] == kind)

    def bodies(self, kind: str) -> Iterator[Body]:
        """All bodies of a kind."""
        return (self._bodies[place] for place in self.places(kind))

    def sessions_of(self, kind: str, namespace: str, name: str) -> tuple[str, ...]:
        """Names of the sessions that refer to this Task, AgentProfile or Executor."""
        return tuple(sorted(self._sessions_of.get((kind, namespace, name), ())))

    def sharing(self, worktree: str) -> tuple[Place, ...]:
        """Executors, of any namespace, whose real folder is this one, contains it or lies in it."""
        return self._overlapping(group.EXECUTOR, worktree)

    def keeping(self, worktree: str) -> tuple[Place, ...]:
        """Sessions, of any namespace, whose files are there by their status."""
        return self._overlapping(group.TASK_SESSION, worktree)

    def _overlapping(self, kind: str, worktree: str) -> tuple[Place, ...]:
        real = os.path.realpath(worktree)
        inside = real.rstrip("/") + "/"
        found = [
            place
            for other, places in self._placed_on.items()
            if other == real or other.startswith(inside) or real.startswith(other.rstrip("/") + "/")
            for place in places
            if place[0] == kind
        ]
        return tuple(sorted(found))

    def shares_address(self, uid: str, url: str | None) -> bool:
        """Whether an executor other than this one has its agentctl at the same address."""
        return url is not None and any(
            (body.get("status") or {}).get("agentctlURL") == url
            and body["metadata"].get("uid") != uid
            for body in self.bodies(group.EXECUTOR)
        )

    def pods_of(self, executor_uid: str) -> tuple[Body, ...]:
        """All pods that carry this executor's label."""
        return tuple(self._bodies[place] for place in sorted(self._pods_of.get(executor_uid, ())))

    def put(self, kind: str, body: Body, *, anyway: bool = False) -> bool:
        """Take a body as news, unless a newer one is known. Tells whether it was news.

        `anyway`: also in place of a newer one, which the API server does not have any more.
        """
        meta = body["metadata"]
        place = (kind, meta.get("namespace", ""), meta["name"])
        before = self._bodies.get(place)
        if before is not None:
            known, told = version_of(before), version_of(body)
            if told == known or (told < known and not anyway):
                return False
        after = strip(body)
        self._unindex(place, before)
        self._bodies[place] = after
        self._index(place, after)
        self._on_change(Change(place, before, after))
        return True

    def drop(self, kind: str, namespace: str, name: str, uid: str | None = None) -> bool:
        """Forget an object that is gone; one of the same name with another UID stays."""
        place = (kind, namespace, name)
        before = self._bodies.get(place)
        if before is None or (uid is not None and before["metadata"].get("uid") != uid):
            return False
        del self._bodies[place]
        self._unindex(place, before)
        self._on_change(Change(place, before, None))
        return True

    def _index(self, place: Place, body: Body) -> None:
        self._places[body["metadata"].get("uid", "")] = place
        if (executor := executor_of_pod(place[0], body)) is not None:
            self._pods_of[executor].add(place)
        for key in _references(place, body):
            self._sessions_of[key].add(place[2])
        if (worktree := _worktree(place, body)) is not None:
            self._worktree_of[place] = worktree
            self._placed_on[worktree].add(place)

    def _unindex(self, place: Place, body: Body | None) -> None:
        if body is None:
            return
        self._places.pop(body["metadata"].get("uid", ""), None)
        if (executor := executor_of_pod(place[0], body)) is not None:
            _discard(self._pods_of, executor, place)
        for key in _references(place, body):
            _discard(self._sessions_of, key, place[2])
        if (worktree := self._worktree_of.pop(place, None)) is not None:
            _discard(self._placed_on, worktree, place)


def executor_of_pod(kind: str, body: Body) -> str | None:
    """UID of the executor that a pod belongs to; None for any other object."""
    if kind != group.POD:
        return None
    uid: str | None = (body["metadata"].get("labels") or {}).get(group.LABEL_EXECUTOR_UID)
    return uid


def _discard(index: dict[Any, set[Any]], key: Any, name: Any) -> None:
    names = index.get(key)
    if names is not None:
        names.discard(name)
        if not names:
            del index[key]


def _references(place: Place, body: Body) -> Iterator[tuple[str, str, str]]:
    kind, namespace, _ = place
    if kind != group.TASK_SESSION:
        return
    spec, status = body.get("spec") or {}, body.get("status") or {}
    for field, target in (("taskRef", group.TASK), ("agentProfileRef", group.AGENT_PROFILE)):
        if name := (spec.get(field) or {}).get("name"):
            yield target, namespace, name
    chosen = ((spec.get("executor") or {}).get("ref") or {}).get("name")
    pointed = (status.get("executorRef") or {}).get("name")
    for name in {chosen, pointed}:
        if name is not None:
            yield group.EXECUTOR, namespace, name


def _worktree(place: Place, body: Body) -> str | None:
    """The real folder of a local executor, or of a session that has its files in one: however it
    is spelled, it is the same files."""
    if place[0] == group.EXECUTOR:
        local = (body.get("spec") or {}).get("localStandalone") or {}
        path = local.get("worktreePath")
    else:
        status = body.get("status") or {}
        here = (status.get("workspaceRef") or {}).get("kind") == group.EXECUTOR
        path = (status.get("worktree") or {}).get("path") if here else None
    return os.path.realpath(path) if path else None
