"""A simulated API server and the machine that local executors run on.

The server stores objects with resourceVersion and guards writes by it, collects what belongs to
owners that are gone, and can be set back to a snapshot. Tokens are kept as the operator's Secrets
are: guarded by epoch, with the older ones as previous.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kandev_operator.api import group
from kandev_operator.api.meta import Model, Resource
from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.intents import token_secret_name
from kandev_operator.core.observed import TokenSeen
from unit.core.sim.agentctl import Agentctl
from unit.core.sim.disk import Disk, Wish

Key = tuple[str, str]
"""(kind, name); everything lives in one namespace."""


class Conflict(Exception):
    """Somebody wrote in between."""


class NotFound(Exception):
    """There is no such object, or another one of its name."""


class Unavailable(Exception):
    """The server does not answer."""


@dataclass
class Kept:
    """One session's token Secret."""

    token: TokenSeen | None
    epoch: int
    previous: list[str] = field(default_factory=list)

    def copy(self) -> "Kept":
        return Kept(self.token, self.epoch, list(self.previous))


class ApiServer:
    """What is stored. Versions never come again, not even after a restore."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.clock = clock
        self.objects: dict[Key, Resource] = {}
        self.secrets: dict[str, Kept] = {}
        self.version = 0
        self.answers = True
        self.secrets_answer = True

    def stored(self, kind: str, name: str) -> Resource | None:
        return self.objects.get((kind, name))

    def read(self, kind: str, name: str) -> Resource:
        if not self.answers:
            raise Unavailable
        if (kind, name) not in self.objects:
            raise NotFound
        return self.objects[kind, name]

    def put(self, kind: str, new: Any) -> None:
        """Store an object as it is, under a new version."""
        self.version += 1
        meta = new.metadata.replacing(resource_version=str(self.version))
        self.objects[kind, meta.name] = new.replacing(metadata=meta)

    def change(self, kind: str, name: str, **spec: Any) -> None:
        """A person or Git edits a spec: the generation grows."""
        old: Any = self.objects[kind, name]
        meta = old.metadata.replacing(generation=(old.metadata.generation or 0) + 1)
        self.put(kind, old.replacing(spec=old.spec.replacing(**spec), metadata=meta))

    def annotate(self, name: str, annotation: str, value: str) -> None:
        old: Any = self.objects[group.TASK_SESSION, name]
        notes = {**old.metadata.annotations, annotation: value}
        meta = old.metadata.replacing(annotations=notes)
        self.put(group.TASK_SESSION, old.replacing(metadata=meta))

    def write_status(self, kind: str, seen: Resource, status: Model) -> Resource:
        """The guarded write of a pass."""
        current: Any = self.objects.get((kind, seen.metadata.name))
        if current is None or current.metadata.uid != seen.metadata.uid:
            raise NotFound
        if current.metadata.resource_version != seen.metadata.resource_version:
            raise Conflict
        self.put(kind, current.replacing(status=status))
        return self.objects[kind, seen.metadata.name]

    def delete(self, kind: str, name: str, uid: str | None = None) -> None:
        """Gone at once, or marked while finalizers hold it."""
        current: Any = self.objects.get((kind, name))
        if current is None or uid not in (None, current.metadata.uid):
            return
        if not current.metadata.finalizers:
            del self.objects[kind, name]
            if kind == group.TASK_SESSION:
                self._forget_secret(current)
        elif not current.metadata.is_deleting:
            meta = current.metadata.replacing(deletion_timestamp=rfc3339(self.clock()))
            self.put(kind, current.replacing(metadata=meta))

    def _forget_secret(self, session: TaskSession) -> None:
        name = token_secret_name(session.metadata.name, session.metadata.uid)
        self.secrets.pop(name, None)

    def collect_garbage(self) -> None:
        """Delete what belongs to owners that are gone."""
        uids = {each.metadata.uid for each in self.objects.values()}
        for (kind, name), each in list(self.objects.items()):
            owner = each.metadata.controller
            if owner is not None and owner.uid not in uids:
                self.delete(kind, name)

    def snapshot(self) -> Any:
        return dict(self.objects), {name: kept.copy() for name, kept in self.secrets.items()}

    def restore(self, snapshot: Any) -> None:
        """Everything as it was; versions go on from elsewhere, as after etcd's restore."""
        objects, secrets = snapshot
        self.objects = dict(objects)
        self.secrets = {name: kept.copy() for name, kept in secrets.items()}
        for (kind, _), each in list(self.objects.items()):
            self.put(kind, each)

    def store_token(self, name: str, token: TokenSeen | None, epoch: int) -> None:
        if not self.secrets_answer:
            raise Unavailable
        known = self.secrets.get(name)
        if known is None:
            self.secrets[name] = Kept(token, epoch)
            return
        if known.epoch > epoch:
            return
        same = known.token is not None and token is not None and known.token.value == token.value
        if known.token is not None and not same:
            known.previous.insert(0, known.token.value)
        known.token, known.epoch = token, epoch

    def of_kind(self, kind: str) -> list[Any]:
        return [each for (k, _), each in sorted(self.objects.items()) if k == kind]


class Host:
    """The operator's machine: agentctl processes by worktree, and the disks below them."""

    def __init__(self, opened: Callable[[str, int, Wish], None]) -> None:
        self._opened = opened
        self.disks: dict[str, Disk] = {}
        self.processes: list[Agentctl] = []
        self.boots = 0
        self.starts = True

    def disk(self, path: str) -> Disk:
        return self.disks.setdefault(path, Disk(path))

    def find(self, path: str) -> Agentctl | None:
        """The process that serves a worktree: the one that was started last."""
        found = [one for one in self.processes if one.alive and one.disk.path == path]
        return found[-1] if found else None

    def start(self, path: str, instance_id: str) -> Agentctl:
        running = self.find(path)
        if running is not None and running.instance_id == instance_id:
            return running
        self.boots += 1
        made = Agentctl(self.disk(path), instance_id, f"boot-{self.boots}", self._opened)
        self.processes.append(made)
        return made

    def kill(self, path: str) -> None:
        """The process and its agent are gone at once."""
        for one in self.processes:
            if one.disk.path == path:
                one.alive = False

    def by_url(self, url: str) -> Agentctl | None:
        return next((one for one in self.processes if one.alive and one.url == url), None)
