"""Rules of a session on its way to a usable executor: references, choice, binding, readiness.

Binding is the protocol of volumes and claims. The session's pass writes status.executorRef, the
executor's pass answers with status.sessionRef, and nobody acts before both point at each other;
a guarded write on one side alone would let two executors take one session.
"""

from datetime import datetime, timedelta
from typing import Any

from kandev_operator.api import conditions, group
from kandev_operator.api.conditions import FALSE, UNKNOWN
from kandev_operator.api.executor import RUNTIME_BLOCKS, Executor, ExecutorState
from kandev_operator.api.meta import ObjectMeta, OwnerReference
from kandev_operator.api.reasons import (
    AgentctlReadyReason,
    AgentReadyReason,
    ExecutorReadyReason,
    ReadyReason,
    ReconcilingReason,
    StalledReason,
)
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.session import IntentKind, OperatingMode, SessionState, TaskSession
from kandev_operator.api.timestamps import moment
from kandev_operator.core.actions import Action, CreateExecutor, FollowTemplate
from kandev_operator.core.intents import must_stop, stopping
from kandev_operator.core.observed import Answer, Found, Missing, SessionObserved, Unreadable
from kandev_operator.core.verdict import NewIntent, Verdict, hold, underway
from kandev_operator.core.workspace import making_claim, not_made

PATIENCE = timedelta(seconds=60)
"""Git applies in any order: a missing reference is waited for this long before it stalls."""

UNWATCHED = timedelta(seconds=5)
"""Secrets are not watched, so nobody rings when one that was missing is made."""


def executor_of(o: SessionObserved) -> Executor | None:
    """The executor that status points at, if it is there and still the one that was meant."""
    ref = o.session.status.executor_ref
    if ref is None or not isinstance(o.executor, Found):
        return None
    return o.executor.value if o.executor.value.metadata.uid == ref.uid else None


def is_bound(o: SessionObserved) -> bool:
    """Both sides point at each other."""
    executor = executor_of(o)
    ref = executor.status.session_ref if executor else None
    return ref is not None and ref.uid == o.session.metadata.uid


def references(o: SessionObserved, now: datetime) -> Verdict | None:
    """Task and profile must be there before anything is begun."""
    if isinstance(o.task, Missing):
        name = o.session.spec.task_ref.name
        return _awaited(o, now, ReconcilingReason.TASK_MISSING, "Task", name)
    if isinstance(o.profile, Missing):
        name = o.session.spec.agent_profile_ref.name
        return _awaited(o, now, ReconcilingReason.PROFILE_MISSING, "AgentProfile", name)
    agentless = o.session.spec.operating_mode is OperatingMode.WORKSPACE_ONLY
    if isinstance(o.profile, Found) and o.profile.value.unresolved and not agentless:
        unresolved = o.profile.value.unresolved
        return _stuck(o, StalledReason.SECRET_MISSING, unresolved, requeue=UNWATCHED)
    for look, kind in ((o.task, "Task"), (o.profile, "AgentProfile")):
        if isinstance(look, Unreadable) and look.lasting:
            return _stuck(o, StalledReason.SPEC_INVALID, f"{kind}: {look.why}")
    if not (isinstance(o.task, Found) and isinstance(o.profile, Found)):
        return hold(timedelta(seconds=5))
    return None


def choose_executor(o: SessionObserved, now: datetime) -> Verdict | None:
    """Point at an executor: the one named, or one made for this session."""
    if o.session.status.executor_ref is not None and executor_of(o) is not None:
        return None
    if isinstance(o.executor, Found):
        return _point_at(o, o.executor.value)
    if isinstance(o.executor, Unreadable):
        if o.executor.lasting:
            return _stuck(o, StalledReason.SPEC_INVALID, f"Executor: {o.executor.why}")
        return hold(timedelta(seconds=5))
    if o.failed is not None and o.failed.action == CreateExecutor.__name__:
        return not_made(o, now)
    choice = o.session.spec.executor
    if choice.ref is not None:
        return _awaited(o, now, ReconcilingReason.EXECUTOR_MISSING, "Executor", choice.ref.name)
    manifest = desired_executor(o.session).manifest()
    actions: tuple[Action, ...] = (*making_claim(o), CreateExecutor(manifest))
    return Verdict(ready=UNKNOWN, reason="", message="", hold=True, actions=actions)


def desired_executor(session: TaskSession) -> Executor:
    """The executor that a session's template asks for. A function of the session alone."""
    template = session.spec.executor.template
    assert template is not None, "only sessions with a template have a desired executor"
    labels = {group.LABEL_SESSION_UID: session.metadata.uid}
    extra = template.metadata
    body = {
        "metadata": ObjectMeta(
            name=executor_name(session),
            namespace=session.metadata.namespace,
            labels={**(extra.labels if extra else {}), **labels},
            annotations=dict(extra.annotations) if extra else {},
            owner_references=(session.owner_reference(),),
            finalizers=(group.FINALIZER,) if template.spec.pod is None else (),
        ).dump(),
        "spec": template.spec.dump(),
    }
    return Executor.from_body(body)


def following(o: SessionObserved) -> tuple[FollowTemplate, ...]:
    """The executor of a template follows it: what is changed there takes effect at the next pod."""
    template, executor = o.session.spec.executor.template, executor_of(o)
    if template is None or executor is None or executor.metadata.is_deleting:
        return ()
    wanted, has = template.spec.made, executor.spec.made
    if wanted is None or has is None or type(wanted) is not type(has):
        return ()
    if wanted.dump() == has.dump():
        return ()
    block = RUNTIME_BLOCKS[executor.spec.runtime]
    return (FollowTemplate(block, wanted.dump()),)


def executor_name(session: TaskSession) -> str:
    """The name of the executor that belongs to this session: a reference, or made from its UID."""
    choice = session.spec.executor
    if choice.ref is not None:
        return choice.ref.name
    return group.made_name(session.metadata.name, session.metadata.uid)


def owner_of(executor: Executor) -> OwnerReference | None:
    """The session that this executor was made for."""
    owner = executor.metadata.controller
    return owner if owner is not None and owner.kind == group.TASK_SESSION else None


def _point_at(o: SessionObserved, executor: Executor) -> Verdict:
    """Write executorRef; with it the intent, where the first step is clear already."""
    ref = ObjectRef(name=executor.metadata.name, uid=executor.metadata.uid)
    if executor.metadata.is_deleting:
        return _ending(o, executor)
    making = making_claim(o)
    if making:  # the workspace is there before anybody is bound, and status names it
        return Verdict(ready=UNKNOWN, reason="", message="", hold=True, actions=making)
    held = executor.status.session_ref
    if held is not None and held.uid != o.session.metadata.uid:
        return _busy(o, executor, changes={"executor_ref": ref})
    fresh = o.session.status.intent is None and o.session.status.resume_token_ref is None
    return underway(
        AgentReadyReason.WAITING_FOR_EXECUTOR,
        f"Waiting for executor {ref.name} to become ready.",
        SessionState.STARTING,
        progressing=ReconcilingReason.WAITING_FOR_EXECUTOR,
        agent_running=last_known(o),
        changes={"executor_ref": ref},
        intent=NewIntent(IntentKind.START, 1) if fresh else None,
    )


def waiting_for_binding(o: SessionObserved, _now: datetime) -> Verdict | None:
    """The executor has not answered yet, or holds another session."""
    executor = executor_of(o)
    if executor is None or is_bound(o):
        return None
    held = executor.status.session_ref
    if must_stop(o) and (held is not None or executor.spec.drain):
        return stopping(o)  # a restored API server gave its place away under its live agent
    if held is not None:
        return _busy(o, executor)
    if executor.spec.drain:
        return _drained(o, executor)
    if executor.status.state == ExecutorState.ERROR:
        return _executor_failed(executor)  # one that may not run here answers nobody
    return underway(
        AgentReadyReason.WAITING_FOR_EXECUTOR,
        f"Waiting for executor {executor.metadata.name} to become ready.",
        _starting(o),
        progressing=ReconcilingReason.WAITING_FOR_EXECUTOR,
        agent_running=last_known(o),
    )


def leaving(o: SessionObserved, _now: datetime) -> Verdict | None:
    """Nothing is begun in an executor that is being emptied or deleted: its own pass has stopped
    the agent, and would have to stop it again."""
    executor = executor_of(o)
    if executor is None:
        return None
    if executor.metadata.is_deleting:
        return _ending(o, executor)
    return _drained(o, executor) if executor.spec.drain else None


def _ending(o: SessionObserved, executor: Executor) -> Verdict:
    return underway(
        ExecutorReadyReason.EXECUTOR_STARTING,
        f"Executor {executor.metadata.name} is being deleted; a new one follows.",
        None,
        progressing=ReconcilingReason.WAITING_FOR_EXECUTOR,
        agent_running=last_known(o),
    )


def _replaced(o: SessionObserved, executor: Executor) -> Verdict:
    """Its own executor is emptied, will be deleted, and another one made on the same files."""
    return underway(
        ExecutorReadyReason.EXECUTOR_DRAINING,
        f"Executor {executor.metadata.name} is drained; a new one follows, on the same workspace.",
        None,
        progressing=ReconcilingReason.WAITING_FOR_EXECUTOR,
        agent_running=last_known(o),
    )


def _drained(o: SessionObserved, executor: Executor) -> Verdict:
    if executor.spec.is_made_at_bind and owner_of(executor) is not None:
        return _replaced(o, executor)
    return _stuck(
        o,
        ExecutorReadyReason.EXECUTOR_DRAINING,
        f"Executor {executor.metadata.name} is drained and takes nobody in.",
    )


def executor_not_ready(o: SessionObserved, now: datetime) -> Verdict | None:
    """What the executor's own conditions say, handed on; nothing is concluded from silence."""
    executor = executor_of(o)
    if executor is None or not is_bound(o):
        return None
    if o.probe.answer is Answer.NOT_TRIED and executor.status.state == ExecutorState.READY:
        return hold()
    agentctl = conditions.get(executor.status.conditions, "AgentctlReady")
    if executor.status.state == ExecutorState.ERROR:
        return _executor_failed(executor)
    if agentctl is not None and agentctl.is_true:
        if o.report is not None:
            return None
        return hold()
    if executor.spec.is_made_at_bind:
        lost = _place_lost(o, executor, agentctl)
        if lost is not None:
            return lost
    known_before = o.session.status.state not in (None, SessionState.CREATED, SessionState.ERROR)
    told = what_it_says(executor)
    reason = told.reason if told else ExecutorReadyReason.EXECUTOR_STARTING
    message = (told.message if told else "") or "The executor is on its way."
    return Verdict(
        ready=UNKNOWN if agentctl is not None and known_before else "False",
        reason=str(reason),
        message=message,
        state=None if known_before else SessionState.STARTING,
        agent=(UNKNOWN, AgentReadyReason.AGENT_UNKNOWN, message),
        progressing=ReconcilingReason.WAITING_FOR_EXECUTOR,
        agent_running=None,
        quiet=reason in (ExecutorReadyReason.EXECUTOR_STARTING, "Starting"),
    )


def what_it_says(executor: Executor) -> conditions.Condition | None:
    """Whether its agentctl can be used, with the reason; None: it has not said anything yet.

    Where nothing is asked of agentctl because of something else, `Ready` says of what."""
    agentctl = conditions.get(executor.status.conditions, "AgentctlReady")
    if agentctl is None or agentctl.reason != AgentctlReadyReason.NOT_USED:
        return agentctl
    return conditions.get(executor.status.conditions, "Ready") or agentctl


def _place_lost(
    o: SessionObserved, executor: Executor, agentctl: conditions.Condition | None
) -> Verdict | None:
    """The pod or container is positively gone, or nothing has run in the new one yet: there is no
    agent. It comes back by itself, or when somebody asks for it."""
    why = conditions.get(executor.status.conditions, "Ready") or agentctl
    if why is None:
        return None
    if executor.status.state == ExecutorState.STOPPED:
        cut_off = o.session.status.state == SessionState.RUNNING
        return Verdict(
            ready="False",
            reason=AgentReadyReason.AGENT_EXITED if cut_off else AgentReadyReason.AGENT_NOT_RUNNING,
            message=f"{why.message} The agent comes back when a resume is asked for.",
            state=SessionState.ERROR if cut_off else _calm(o),
            stalled=True,
            agent_running=False,
        )
    gone = agentctl is not None and agentctl.status == "False"
    if not gone and executor.status.boot_id is not None:
        return None
    return underway(
        why.reason if gone else ExecutorReadyReason.EXECUTOR_STARTING,
        why.message or "The executor is on its way.",
        SessionState.STARTING,
        progressing=ReconcilingReason.WAITING_FOR_EXECUTOR,
        agent=(FALSE, AgentReadyReason.WAITING_FOR_EXECUTOR, why.message),
        quiet=not gone,
    )


def _calm(o: SessionObserved) -> SessionState | None:
    """The state of a session that waits: nothing is being started any more."""
    starting = o.session.status.state == SessionState.STARTING
    return SessionState.WAITING_FOR_INPUT if starting else None


def _executor_failed(executor: Executor) -> Verdict:
    ready = conditions.get(executor.status.conditions, "Ready")
    stalled = conditions.get(executor.status.conditions, "Stalled")
    reason = ready.reason if ready else ReadyReason.EXECUTOR_NOT_READY
    message = executor.status.error_message or (ready.message if ready else "")
    at = executor.status.next_attempt_at
    return Verdict(
        ready="False",
        reason=str(reason),
        message=message.partition(": ")[2] or message,
        state=SessionState.ERROR,
        stalled=stalled is not None,
        progressing=None if stalled else ReconcilingReason.RETRYING,
        retry_at=moment(at) if at else None,
        agent=(UNKNOWN, AgentReadyReason.AGENT_UNKNOWN, "The executor cannot be asked."),
        agent_running=None,
    )


def _busy(o: SessionObserved, executor: Executor, **more: object) -> Verdict:
    held = executor.status.session_ref
    return underway(
        ExecutorReadyReason.EXECUTOR_BUSY,
        f"Executor {executor.metadata.name} holds session {held.name if held else '?'}; "
        "this one waits its turn.",
        SessionState.CREATED if o.session.status.state in (None, SessionState.CREATED) else None,
        progressing=ReconcilingReason.WAITING_FOR_EXECUTOR,
        agent_running=last_known(o),
        **more,
    )


def _starting(o: SessionObserved) -> SessionState | None:
    return SessionState.STARTING if o.session.status.state in (None, "CREATED", "ERROR") else None


def _awaited(o: SessionObserved, now: datetime, reason: str, kind: str, name: str) -> Verdict:
    """A missing reference: Reconciling for a while, then Stalled; recovers when it appears."""
    message = f"{kind} {name} does not exist in namespace {o.session.metadata.namespace}."
    if conditions.is_true(o.session.status.conditions, "Stalled"):
        return _stuck(o, reason, message)
    due = _patience_until(o, now, reason)
    if due <= now:
        return _stuck(o, reason, message)
    return underway(
        str(reason),
        message,
        _waiting_state(o),
        retry_at=due,
        requeue=due - now,
        agent_running=last_known(o),
    )


def _patience_until(o: SessionObserved, now: datetime, reason: str) -> datetime:
    """When this wait is over. It stands in nextAttemptAt: condition Reconciling may have been
    true long before, for another reason."""
    waiting = conditions.get(o.session.status.conditions, "Reconciling")
    due = o.session.status.next_attempt_at
    if waiting is None or waiting.reason != reason or due is None:
        return now + PATIENCE
    return moment(due)


def _stuck(o: SessionObserved, reason: str, message: str, **more: Any) -> Verdict:
    return Verdict(
        ready="False",
        reason=str(reason),
        message=message,
        state=SessionState.ERROR,
        stalled=True,
        agent_running=last_known(o),
        **more,
    )


def _waiting_state(o: SessionObserved) -> SessionState | None:
    return SessionState.CREATED if o.session.status.state in (None, "CREATED", "ERROR") else None


def last_known(o: SessionObserved) -> bool | None:
    """Before an executor was chosen there is surely no agent; later only its agentctl can tell,
    and an agent that was known to be gone does not come back without us."""
    if o.session.status.executor_ref is None:
        return False
    if o.report is not None:
        return o.own_report is not None and o.own_report.is_live
    return False if o.session.status.is_agent_running is False else None
