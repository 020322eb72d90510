"""Eyes for executors that are processes of this machine: their folders, and who else has those.

What is found is decided about in `core.executor`; processes are started and ended in `act`.
"""

from kandev_operator.api import group
from kandev_operator.api.executor import Executor
from kandev_operator.api.reasons import AgentctlReadyReason, WorkspaceReadyReason
from kandev_operator.api.session import TaskSession
from kandev_operator.clients.local import WorktreeFault
from kandev_operator.controller.models import stored
from kandev_operator.controller.wiring import Wiring
from kandev_operator.core.binding import executor_name, owner_of
from kandev_operator.core.observed import (
    Found,
    Look,
    Missing,
    ProcessSeen,
    Rival,
    RuntimeProblem,
)


class LocalEyes:
    """Looks at an executor's folder, and at its process."""

    def __init__(self, wiring: Wiring) -> None:
        self._w = wiring

    def problem(self, executor: Executor) -> RuntimeProblem | None:
        """Why its folder cannot be used."""
        local = executor.spec.local_standalone
        if local is None:
            return None
        path = local.worktree_path
        namespace = executor.metadata.namespace
        fault = self._w.local.check_worktree(namespace, path)
        if fault is not None:
            gone = (WorktreeFault.MISSING, WorktreeFault.NOT_A_DIRECTORY)
            reason = (
                str(WorkspaceReadyReason.WORKTREE_MISSING)
                if fault.fault in gone
                else str(AgentctlReadyReason.NOT_ALLOWED)
            )
            return RuntimeProblem(reason, f"Worktree {path}: {fault.message}.")
        return None

    def rivals(self, executor: Executor) -> tuple[Rival, ...]:
        """Whoever else was given the same files, works on them, or has them."""
        local, meta = executor.spec.local_standalone, executor.metadata
        if local is None:
            return ()
        keepers = self._keepers(local.worktree_path)
        found: list[Rival] = []
        for kind, namespace, name in self._w.cache.sharing(local.worktree_path):
            seen: Look[Executor] = stored(self._w.cache, Executor, kind, namespace, name)
            other = seen.value if isinstance(seen, Found) else None
            if other is None or other.metadata.is_deleting:
                continue
            kept = [each for each in keepers if _is_in(each, other)]
            keepers = [each for each in keepers if each not in kept]
            uid = other.metadata.uid
            path = other.spec.local_standalone.worktree_path if other.spec.local_standalone else ""
            holds = self._w.local.lives(namespace, path, uid)
            if uid == meta.uid or (self._is_done(other) and not holds):
                continue
            found.append(
                Rival(
                    name=name,
                    namespace=namespace,
                    uid=uid,
                    created=other.metadata.creation_timestamp or "",
                    holds=holds,
                    keeps=bool(kept),
                )
            )
        found += [_homeless(session) for session in keepers]
        return tuple(sorted(found, key=lambda rival: (rival.created, rival.uid)))

    def _is_done(self, executor: Executor) -> bool:
        """It was made for a session that has come to its end: nothing will run in it again."""
        owner = owner_of(executor)
        if owner is None:
            return False
        seen: Look[TaskSession] = stored(
            self._w.cache, TaskSession, group.TASK_SESSION, executor.metadata.namespace, owner.name
        )
        if not isinstance(seen, Found) or seen.value.metadata.uid != owner.uid:
            return False
        return not _goes_on(seen.value)

    def _keepers(self, worktree: str) -> list[TaskSession]:
        """Sessions that go on, and whose files are there."""
        found: list[TaskSession] = []
        for kind, namespace, name in self._w.cache.keeping(worktree):
            seen: Look[TaskSession] = stored(self._w.cache, TaskSession, kind, namespace, name)
            if isinstance(seen, Found) and _goes_on(seen.value):
                found.append(seen.value)
        return found

    def keeps(self, executor: Executor) -> bool:
        """Whether the files are those of this executor's own session."""
        local = executor.spec.local_standalone
        if local is None:
            return False
        return any(_is_in(each, executor) for each in self._keepers(local.worktree_path))

    def process(self, executor: Executor, problem: RuntimeProblem | None) -> Look[ProcessSeen]:
        """This machine's agentctl for an executor; it may outlive the folder that it works in."""
        local = executor.spec.local_standalone
        elsewhere = problem is not None and problem.reason != WorkspaceReadyReason.WORKTREE_MISSING
        if local is None or elsewhere:
            return Missing()
        state = self._w.local.state_folder(executor.metadata.namespace, local.worktree_path)
        seen = self._w.local.find(state)
        if seen is None:
            return Missing()
        return Found(ProcessSeen(seen.url, seen.pid, seen.instance_id, seen.boot_id))


def _goes_on(session: TaskSession) -> bool:
    """It has not come to its end: a session that rests keeps its files too."""
    over = session.status.state in ("COMPLETED", "CANCELLED")
    return not over and not session.metadata.is_deleting


def _is_in(session: TaskSession, executor: Executor) -> bool:
    """This executor is the session's: the one that it names or that was made for it, or points
    at. Those that take turns in one executor are no rivals of it."""
    meta, ref = executor.metadata, session.status.executor_ref
    if session.metadata.namespace != meta.namespace:
        return False
    return executor_name(session) == meta.name or (ref is not None and ref.uid == meta.uid)


def _homeless(session: TaskSession) -> Rival:
    """A session whose executor is gone, or on its way."""
    meta = session.metadata
    return Rival(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        created=meta.creation_timestamp or "",
        holds=False,
        keeps=True,
        is_session=True,
    )
