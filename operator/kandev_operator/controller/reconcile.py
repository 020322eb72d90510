"""One pass over one object: observe, decide, act, write status once, look again.

The pass is the same for a new object, a change, a restart and a sweep. Actions come before the
write, in order, and a failure ends the pass without a write, unless the failure itself is news
that a decision should see: then the same pass decides once more, with it, and acts no more. The
write is guarded by resourceVersion; after a conflict the object is read through.
"""

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Final

from kandev_operator.api import conditions, group
from kandev_operator.api.conditions import TRUE, Condition
from kandev_operator.api.errors import InvalidSpec
from kandev_operator.api.executor import Executor
from kandev_operator.api.executorstatus import ExecutorStatus
from kandev_operator.api.meta import Model
from kandev_operator.api.meta import Resource as Object
from kandev_operator.api.reasons import StalledReason
from kandev_operator.api.session import (
    IntentKind,
    SessionState,
    TaskSession,
    TaskSessionStatus,
)
from kandev_operator.api.task import Task
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.clients.errors import ClientError, Conflict, Invalid, NotFound
from kandev_operator.clients.resources import EXECUTORS, TASK_SESSIONS, TASKS, Resource
from kandev_operator.controller import lifesteps
from kandev_operator.controller.act import Actor, LeaseLost, Trouble
from kandev_operator.controller.cache import Body
from kandev_operator.controller.logs import EdgeLog
from kandev_operator.controller.observe import Observer
from kandev_operator.controller.queue import Key
from kandev_operator.controller.wiring import Wiring
from kandev_operator.core.actions import CreateClaim, RunContainer, StartContainer, StartProcess
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import Answer, ExecutorObserved, Found, SessionObserved
from kandev_operator.core.session import decide_session
from kandev_operator.core.task import decide_task
from kandev_operator.core.verdict import Plan

log = logging.getLogger(__name__)

RESOURCES: Final[dict[str, Resource]] = {
    group.TASK_SESSION: TASK_SESSIONS,
    group.EXECUTOR: EXECUTORS,
    group.TASK: TASKS,
}
_STARTS: Final = StartProcess | RunContainer | StartContainer
LOOK_AGAIN_SECONDS: Final = 600.0
"""Every object is looked at again at least this often, whatever its rules say."""


@dataclass(slots=True)
class Budget:
    """How often one object's status may be written: a burst of five, then one a second."""

    tokens: float = 5.0
    at: float = field(default_factory=time.monotonic)

    def take(self) -> float:
        """Use one; the seconds to wait where there is none."""
        now = time.monotonic()
        self.tokens = min(5.0, self.tokens + now - self.at)
        self.at = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return 1.0 - self.tokens


class Reconciler:
    """Runs passes. One key never runs twice at once: the queue sees to that."""

    def __init__(self, wiring: Wiring, edges: EdgeLog) -> None:
        self._w = wiring
        self._edges = edges
        self._observer = Observer(wiring)
        self._actor = Actor(wiring, self._observer.profiles)
        self._budgets: dict[Key, Budget] = {}
        self.verified: dict[Key, float] = {}
        """When (monotonic) an object was last looked at with its agentctl, if any, asked."""

    async def run(self, key: Key) -> None:
        """One pass. What it raises is a bug of ours: the caller logs and retries it."""
        body = self._w.cache.get(key.kind, key.namespace, key.name)
        if body is None:
            self._forget(key)
            return
        began = time.perf_counter()
        outcome = "error"
        try:
            outcome = await self._pass(key, body)
        except LeaseLost:
            outcome = "not_leading"
            self._w.queue.add_after(key, 1.0)
        finally:
            self._w.metrics.reconciled(key.kind, outcome, time.perf_counter() - began)

    async def look(self, key: Key) -> bool:
        """Only look: whoever does not lead yet follows the agentctls, and will know what to do.

        Tells whether there is anything that a pass could be about.
        """
        body = self._w.cache.get(key.kind, key.namespace, key.name)
        if body is None:
            self._forget(key)
            return False
        try:
            match key.kind:
                case group.TASK_SESSION:
                    known = was_asked(
                        await self._observer.session(TaskSession.from_body(body), None)
                    )
                case group.EXECUTOR:
                    executor = Executor.from_body(body)
                    self._actor.hand_out_keys(executor)  # one key for all operators
                    known = was_asked(await self._observer.executor(executor, None))
                case _:
                    return True
        except InvalidSpec:
            return True  # its pass will say so
        if known:
            self.verified[key] = time.monotonic()
        return True

    async def _pass(self, key: Key, body: Body) -> str:
        match key.kind:
            case group.TASK_SESSION:
                return await self._session(key, body)
            case group.EXECUTOR:
                return await self._executor(key, body)
            case group.TASK:
                return await self._task(key, body)
            case _:
                self._w.queue.forget(key)
                return "nothing"

    async def _session(self, key: Key, body: Body) -> str:
        try:
            session = TaskSession.from_body(body)
        except InvalidSpec as error:
            return await self._invalid(key, body, error)
        observed = await self._observer.session(session, None)
        plan = decide_session(observed, self._w.clock())
        trouble = await self._actor.session(observed, plan.actions)
        if trouble is not None and trouble.failed is not None:
            again = await self._observer.session(session, trouble.failed)
            plan = decide_session(again, self._w.clock())
        elif trouble is not None:
            return self._later(key, trouble)
        elif any(isinstance(each, CreateClaim) for each in plan.actions):
            self._w.queue.add(key)  # the next look finds it
        return await self._conclude(key, session, plan, asked=was_asked(observed))

    async def _executor(self, key: Key, body: Body) -> str:
        try:
            executor = Executor.from_body(body)
        except InvalidSpec as error:
            return await self._invalid(key, body, error)
        self._actor.hand_out_keys(executor)
        await self._actor.hand_out_made_keys(executor)
        observed = await self._observer.executor(executor, None)
        plan = decide_executor(observed, self._w.clock())
        trouble = await self._actor.executor(observed, plan.actions)
        if trouble is not None and trouble.failed is not None:
            again = await self._observer.executor(executor, trouble.failed)
            plan = decide_executor(again, self._w.clock())
        elif trouble is not None:
            return self._later(key, trouble)
        elif any(isinstance(each, _STARTS) for each in plan.actions):
            self._w.queue.add(key)  # what was started is seen by the next look
        return await self._conclude(key, executor, plan, asked=was_asked(observed))

    async def _task(self, key: Key, body: Body) -> str:
        try:
            task = Task.from_body(body)
        except InvalidSpec as error:
            return await self._invalid(key, body, error)
        sessions: list[TaskSession] = []
        for name in self._w.cache.sessions_of(group.TASK, key.namespace, key.name):
            found = self._w.cache.get(group.TASK_SESSION, key.namespace, name)
            if found is None:
                continue
            try:
                sessions.append(TaskSession.from_body(found))
            except InvalidSpec:
                continue  # its own pass says so
        return await self._conclude(key, task, decide_task(task, sessions, self._w.clock()))

    async def _conclude(
        self, key: Key, about: Object, plan: Plan[Any], *, asked: bool = True
    ) -> str:
        """Write status where it differs, post Events, and say when to look again."""
        outcome = "unchanged"
        if plan.status is not None:
            wait = self._budget(key, about, plan.status)
            if wait > 0:
                self._w.queue.add_after(key, wait)
                return "held_back"
            if not await self._write(key, about, plan.status):
                return "conflict"
            outcome = "written"
            self._w.events.post(about, plan.notices)
            self._tell(key, about, plan.status)
            self._trace(about, plan.status)
            if isinstance(about, TaskSession):
                self._count_resume(about.status, plan.status)
        if asked:
            self.verified[key] = time.monotonic()
        self._w.queue.forget(key)
        seconds = LOOK_AGAIN_SECONDS if plan.requeue is None else plan.requeue.total_seconds()
        self._w.queue.add_after(key, min(seconds, LOOK_AGAIN_SECONDS))
        return outcome

    def _budget(self, key: Key, about: Object, status: Model) -> float:
        """Intents and binding are exempt: holding them back would hold back the work itself."""
        before = getattr(about, "status", None)
        for exempt in ("intent", "executor_ref", "session_ref", "instance_id"):
            if getattr(before, exempt, None) != getattr(status, exempt, None):
                return 0.0
        return self._budgets.setdefault(key, Budget()).take()

    async def _write(self, key: Key, about: Object, status: Model) -> bool:
        if not self._w.lease.valid():
            raise LeaseLost
        meta = about.metadata
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": status.dump(),
        }
        resource = RESOURCES[key.kind]
        try:
            stored = await self._w.kube.replace_status(resource, key.namespace, key.name, body)
        except Conflict:
            await self._read_through(key)
            return False
        except NotFound:
            self._w.cache.drop(key.kind, key.namespace, key.name, meta.uid)
            return False
        except Invalid as error:
            self._edges.log(str(key), "schema", logging.ERROR, f"status was refused: {error}")
            self._w.queue.add_after(key, 60.0)
            return False
        except (ClientError, TimeoutError) as error:
            self._later(key, Trouble(f"the status write failed: {type(error).__name__}"))
            return False
        self._w.cache.put(key.kind, stored)
        return True

    async def _read_through(self, key: Key) -> None:
        """Somebody wrote in between: read the object itself, and run once more.

        A live read is never older than what was known before it, unless the API server was
        restored: then what it says holds, or the pass would meet the same conflict for ever.
        """
        resource = RESOURCES[key.kind]
        known = self._w.cache.get(key.kind, key.namespace, key.name)
        try:
            body = await self._w.kube.get(resource, key.namespace, key.name)
            still = self._w.cache.get(key.kind, key.namespace, key.name) is known
            self._w.cache.put(key.kind, body, anyway=still)
        except NotFound:
            self._w.cache.drop(key.kind, key.namespace, key.name)
        except (ClientError, TimeoutError):
            self._w.queue.retry(key)
            return
        self._w.queue.add(key)

    def _later(self, key: Key, trouble: Trouble) -> str:
        """Try again with back-off; look at the agentctl again, something there may have changed."""
        self._edges.log(str(key), "act", logging.WARNING, trouble.words)
        body = self._w.cache.get(key.kind, key.namespace, key.name) or {}
        ref = (body.get("status") or {}).get("executorRef") or {}
        uid = ref.get("uid") or (body.get("metadata") or {}).get("uid") or ""
        self._w.prober.poke(uid)
        self._w.queue.retry(key)
        return "retry"

    async def _invalid(self, key: Key, body: Body, error: InvalidSpec) -> str:
        """An object that does not fit the models: say so in its status, touch nothing else."""
        meta, status = body["metadata"], dict(body.get("status") or {})
        reason = str(StalledReason.SPEC_INVALID)
        kept = [
            each
            for each in status.get("conditions") or []
            if each.get("type") not in ("Ready", "Stalled", "Reconciling")
        ]
        known = {each.get("type"): each for each in status.get("conditions") or []}
        for type_, truth in (("Ready", "False"), ("Stalled", TRUE)):
            old = known.get(type_) or {}
            since = old.get("lastTransitionTime") if old.get("status") == truth else None
            kept.append(
                Condition(
                    type=type_,
                    status=truth,
                    reason=reason,
                    message=error.message[:1000],
                    observed_generation=meta.get("generation"),
                    last_transition_time=since or rfc3339(self._w.clock()),
                ).dump()
            )
        new = {
            **status,
            "observedGeneration": meta.get("generation"),
            "conditions": sorted(kept, key=lambda each: str(each["type"])),
        }
        if new == status:
            return "unchanged"
        try:
            stored = await self._w.kube.replace_status(
                RESOURCES[key.kind], key.namespace, key.name, {**body, "status": new}
            )
        except (ClientError, TimeoutError) as failure:
            return self._later(key, Trouble(f"{type(failure).__name__}: {failure}"))
        self._w.cache.put(key.kind, stored)
        return "written"

    def _tell(self, key: Key, about: Object, status: Model) -> None:
        """One log line per edge of what a person would ask about."""
        state = getattr(status, "state", None)
        message = getattr(status, "error_message", None)
        ready = next((c for c in getattr(status, "conditions", ()) if c.type == "Ready"), None)
        reason = ready.reason if ready else ""
        level = logging.WARNING if message else logging.INFO
        words = f"{state} ({reason})" + (f": {message}" if message else "")
        self._edges.log(str(key), "state", level, words)

    def _trace(self, about: Object, after: Model) -> None:
        """Tell the steps of a session's life that this write showed, in its attempt's trace."""
        match about, after:
            case TaskSession(), TaskSessionStatus():
                uid, epoch = about.metadata.uid, about.status.epoch or after.epoch
                steps = lifesteps.of_session(about.status, after)
                name = about.metadata.name
            case Executor(), ExecutorStatus() if after.session_ref is not None:
                uid, name = after.session_ref.uid, after.session_ref.name
                body = self._w.cache.get(group.TASK_SESSION, about.metadata.namespace, name) or {}
                epoch = (body.get("status") or {}).get("epoch")
                steps = lifesteps.of_executor(about.status, after)
            case _:
                return
        told = {"kandev.session": name, "kandev.namespace": about.metadata.namespace}
        self._w.tracing.tell(uid, epoch or 0, steps, self._w.clock(), told)

    def _count_resume(self, before: TaskSessionStatus, after: TaskSessionStatus) -> None:
        """A resume came to its end when a session that was resuming lives, or failed."""
        resuming = before.intent is not None and before.intent.kind == IntentKind.RESUME
        if not resuming or before.state not in (SessionState.STARTING, SessionState.ERROR):
            return
        ready = conditions.get(after.conditions, "Ready")
        if after.is_agent_running:
            self._w.metrics.resumed("succeeded", "")
        elif after.state == SessionState.ERROR and before.state == SessionState.STARTING:
            self._w.metrics.resumed("failed", ready.reason if ready else "")

    def _forget(self, key: Key) -> None:
        self._w.queue.forget(key)
        self._budgets.pop(key, None)
        self.verified.pop(key, None)
        self._edges.forget(str(key))


def was_asked(o: SessionObserved | ExecutorObserved) -> bool:
    """False where a bound agentctl is there to be asked and this process has not done it yet."""
    executor = o.executor
    if not isinstance(executor, Executor):
        if not isinstance(executor, Found):
            return True
        executor = executor.value
    bound = executor.status.session_ref is not None
    reachable = bound and executor.status.agentctl_url is not None
    return not reachable or o.probe.answer is not Answer.NOT_TRIED
