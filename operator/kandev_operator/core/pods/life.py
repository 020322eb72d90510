"""What is to be done about an executor's pod: the rules of runtime Pod, from unbound to lost.

A pod is there only while a session is in. Each has an instance id with a number that grows, and
its name is made of that: whoever repeats an interrupted pass meets the same pod. A pod that never
ran an agent is tried again freely, with back-off; one that did is replaced where the session's
policy, or a person, wants the conversation back, and where no second writer can come of it.
Nothing is asked of a pod that is over, being deleted, or not running.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api import conditions
from kandev_operator.api.conditions import FALSE, UNKNOWN
from kandev_operator.api.executor import ExecutorState, PodRef, WorktreeStatus
from kandev_operator.api.reasons import (
    AgentctlReadyReason,
    PodScheduledReason,
    WorkspaceReadyReason,
)
from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core import comeback, executorstatus, probes
from kandev_operator.core.actions import Action, CreatePod, DeletePod
from kandev_operator.core.executorstatus import Life
from kandev_operator.core.observed import ExecutorObserved, Found, Missing
from kandev_operator.core.occupancy import Occupancy
from kandev_operator.core.pods import death, diagnosis, layout
from kandev_operator.core.pods.claim import branch_of, claim_name
from kandev_operator.core.pods.desired import Conflict, Wanted, desired_pod, shape_of
from kandev_operator.core.pods.rest import (
    LOOK_AGAIN,
    NO_ADDRESS,
    NO_POD,
    OVERDUE,
    at_rest,
    next_instance,
    removal,
    tidy,
)
from kandev_operator.core.podseen import PodSeen
from kandev_operator.core.probes import Health

QUOTA_AGAIN: Final = timedelta(seconds=20)
_ENDS: Final = frozenset(
    {
        AgentctlReadyReason.POD_DELETED,
        AgentctlReadyReason.POD_EVICTED,
        AgentctlReadyReason.NODE_LOST,
        AgentctlReadyReason.OOM_KILLED,
        AgentctlReadyReason.INIT_FAILED,
        AgentctlReadyReason.CONTAINER_EXITED,
        AgentctlReadyReason.DEADLINE_EXCEEDED,
    }
)


def life(o: ExecutorObserved, held: Occupancy, now: datetime) -> Life:
    """How the executor is, and what to do about its pods."""
    told = _of_the_occupied(o, held, now) if held.session_ref else at_rest(o, now)
    tidied, due = tidy(o, told.fields.get("instance_id", o.executor.status.instance_id), now)
    soonest = min((each for each in (told.requeue, due) if each is not None), default=None)
    known = {each.uid for each in told.actions if isinstance(each, DeletePod)}
    more = (each for each in tidied if each.uid not in known)
    return replace(told, actions=(*told.actions, *more), requeue=soonest)


def _of_the_occupied(o: ExecutorObserved, held: Occupancy, now: datetime) -> Life:
    session = comeback.session_in(o)
    if not held.is_bound:
        said = "The session has let go, and the pod is being removed."
        gone = Health(FALSE, AgentctlReadyReason.STOPPED, said)
        return Life(ExecutorState.STOPPED, gone, fields=NO_ADDRESS, requeue=LOOK_AGAIN)
    if session is None:
        return executorstatus.as_it_was(o, {})
    status = o.executor.status
    instance = status.instance_id or next_instance(o)
    pod = o.pods.of(instance)
    existed = status.pod_ref is not None or status.boot_id is not None
    if pod is None:
        return _ended(o, session, None, now) if existed else _make(o, session, instance, now)
    if pod.is_live and not death.is_confirmed(session, pod.uid):
        return _alive(o, session, pod, now)
    return _ended(o, session, pod, now)


# ---- a pod that is there -----------------------------------------------------------------


def _alive(o: ExecutorObserved, session: TaskSession, pod: PodSeen, now: datetime) -> Life:
    fields = _of_the_pod(o, session, pod, now)
    if pod.session_uid != session.metadata.uid:
        said = "The pod is another session's; it is removed first."
        return Life(ExecutorState.STARTING, executorstatus.unknown(said), (removal(pod),), fields)
    if not pod.has_started and o.executor.status.boot_id is None:
        lost = _no_files(o, session)
        if lost is not None:  # it would wait for files that nobody brings
            remove = (removal(pod),)
            return Life(ExecutorState.ERROR, lost, remove, fields, requeue=LOOK_AGAIN)
        other = _of_another_shape(o, session, pod)
        if other is not None:
            return replace(other, fields={**fields, **other.fields})
    limits = executorstatus.limits_of(o)
    found = diagnosis.ailment(pod, o.pods.events, limits.start, now)
    if found is None:
        return _asked(o, pod, fields, now)
    health = Health(
        FALSE if found.is_error or found.down else UNKNOWN,
        found.reason,
        found.message,
        found.is_error,
    )
    if found.is_error:
        return Life(ExecutorState.ERROR, health, fields=fields, requeue=LOOK_AGAIN)
    return Life(ExecutorState.STARTING, health, fields=fields, requeue=LOOK_AGAIN)


def _of_the_pod(
    o: ExecutorObserved, session: TaskSession, pod: PodSeen, now: datetime
) -> dict[str, Any]:
    branch = branch_of(session)
    has_code = isinstance(o.pods.task, Found) and bool(o.pods.task.value.spec.repositories)
    return {
        "instance_id": pod.instance_id,
        "pod_ref": PodRef(name=pod.name, uid=pod.uid),
        "node_name": pod.node or None,
        "agentctl_url": layout.url(pod.address) if pod.can_be_asked else None,
        "started_at": o.executor.status.started_at or rfc3339(now),
        "worktree": WorktreeStatus(path=layout.WORKTREE, branch=branch if has_code else None),
    }


def _of_another_shape(o: ExecutorObserved, session: TaskSession, pod: PodSeen) -> Life | None:
    """A pod that has not run yet follows its template; one that runs is left alone."""
    wanted = _wanted(o, session)
    if wanted is None:
        return None
    made = desired_pod(wanted, pod.instance_id)
    if isinstance(made, Conflict):
        return _invalid(made.message)
    if shape_of(made) == pod.shape:
        return None
    said = "The pod has not started and its template has changed: it is made anew."
    return Life(ExecutorState.STARTING, executorstatus.unknown(said), (removal(pod),))


def _asked(o: ExecutorObserved, pod: PodSeen, fields: dict[str, Any], now: datetime) -> Life:
    """What the newest look at its agentctl means."""
    status = o.executor.status.replacing(**fields)
    if pod.latest_step is not None:
        status = status.replacing(started_at=rfc3339(pod.latest_step))
    executor = o.executor.replacing(status=status)
    health = probes.judge(executor, o.probe, executorstatus.limits_of(o), now)
    if health is None:
        return executorstatus.as_it_was(o, fields)
    if health.reason == AgentctlReadyReason.AGENTCTL_UNREACHABLE:
        health = _unreachable(o, pod, health)
    if health.is_error:
        return Life(ExecutorState.ERROR, health, (), fields, requeue=LOOK_AGAIN)
    if health.truth == UNKNOWN:
        again = min(health.look_again or LOOK_AGAIN, LOOK_AGAIN)
        return Life(ExecutorState.STARTING, health, (), fields, requeue=again)
    if health.truth == FALSE:
        return Life(ExecutorState.STARTING, health, (), fields, requeue=LOOK_AGAIN)
    report = o.probe.report
    assert report is not None, "a good answer has a report"
    fields = {
        **fields,
        "boot_id": report.boot_id,
        "workspace_path": report.workspace_path or None,
    }
    return Life(ExecutorState.READY, health, (), fields)


def _unreachable(o: ExecutorObserved, pod: PodSeen, health: Health) -> Health:
    """More is known of a silence where the kubelet or the node explains it."""
    restarted = diagnosis.restarted(pod, o.probe.last_seen)
    if restarted is not None and not health.is_error:
        return Health(FALSE, restarted.reason, restarted.message)
    if not diagnosis.is_silent(o.pods.node):
        return health
    said = f"Node {pod.node} does not say that it is well, and {health.message}"
    reason = AgentctlReadyReason.NODE_LOST if health.is_error else AgentctlReadyReason.NODE_UNKNOWN
    return replace(health, reason=reason, message=said)


# ---- a pod that has ended, or ends -------------------------------------------------------


def _ended(o: ExecutorObserved, session: TaskSession, pod: PodSeen | None, now: datetime) -> Life:
    status, node = o.executor.status, o.pods.node
    why = _why(o, pod)
    started = status.boot_id is not None or (pod is not None and pod.has_started)
    uid = pod.uid if pod is not None else (status.pod_ref.uid if status.pod_ref else None)
    proven = death.is_proven(pod, uid, node, session)
    fields: dict[str, Any] = dict(NO_ADDRESS)
    if pod is not None:
        fields["pod_ref"] = PodRef(name=pod.name, uid=pod.uid)
    actions: tuple[Action, ...] = ()
    if (
        pod is not None
        and death.is_confirmed(session, pod.uid)
        and not (pod.is_gone or pod.is_over)
    ):
        actions = (removal(pod, at_once=True),)
    elif (
        pod is not None
        and pod.lingers(now, OVERDUE)
        and not proven
        and (not started or comeback.is_wanted(session, o.pods.task, now))
    ):
        said = replace(why, message=f"{why.message} It is given time to end.")
        return Life(ExecutorState.STARTING, said, fields=fields, requeue=timedelta(seconds=5))
    if started and not comeback.is_wanted(session, o.pods.task, now):
        return Life(ExecutorState.STOPPED, why, actions, fields, requeue=LOOK_AGAIN)
    if started and not proven and death.must_wait(o.pods.claim, node):
        return Life(
            ExecutorState.ERROR, _must_wait(o, why, uid), actions, fields, requeue=LOOK_AGAIN
        )
    dead = status.boot_id if proven else None
    again = _again(o, session, why, dead, now)
    return replace(again, actions=(*actions, *again.actions), fields={**fields, **again.fields})


def _why(o: ExecutorObserved, pod: PodSeen | None) -> Health:
    """Why the pod is there no more. What was seen at its end stays true after it has gone."""
    known = conditions.get(o.executor.status.conditions, "AgentctlReady")
    if pod is None and known is not None and known.status == FALSE and known.reason in _ENDS:
        return Health(FALSE, known.reason, known.message)
    reason, message = diagnosis.end(pod, o.pods.node, o.pods.events)
    return Health(FALSE, reason, message)


def _must_wait(o: ExecutorObserved, why: Health, uid: str | None) -> Health:
    said = (
        f"{why.message} Its node {o.executor.status.node_name} is silent, and the workspace can be "
        "written from other machines: an agent may still live there. If it is dead for certain, "
        f"annotate the session: kandev.dev/confirmed-dead={uid}"
    )
    return Health(FALSE, AgentctlReadyReason.NODE_LOST, said, is_error=True)


def _again(
    o: ExecutorObserved, session: TaskSession, why: Health, dead: str | None, now: datetime
) -> Life:
    """The next pod: at once, or after a wait where the last ones ended soon."""
    attempt = comeback.attempt(o, why, now)
    if isinstance(attempt, Life):
        return attempt
    made = _make(o, session, next_instance(o), now, dead)
    if made.state is not ExecutorState.STARTING:
        return made
    said = replace(why, message=f"{why.message} A new pod is made on the same workspace.")
    return replace(made, agentctl=said, fields={**made.fields, "attempt": attempt})


# ---- making one --------------------------------------------------------------------------


def _make(
    o: ExecutorObserved, session: TaskSession, instance: str, now: datetime, dead: str | None = None
) -> Life:
    """A pod of this instance, or why there can be none now."""
    if o.failed is not None and o.failed.action == CreatePod.__name__:
        return _refused(o, now)
    if o.executor.status.pod_ref is None and o.executor.status.boot_id is None:
        waiting = comeback.still_waiting(o, None, now)
        if waiting is not None:
            return waiting
    lost = _no_files(o, session)
    if lost is not None:
        return Life(ExecutorState.ERROR, lost, fields=NO_ADDRESS, requeue=LOOK_AGAIN)
    wanted = _wanted(o, session)
    if wanted is None:
        said = "The pod is made when the session's Task and AgentProfile are there."
        return Life(ExecutorState.STARTING, executorstatus.unknown(said), requeue=LOOK_AGAIN)
    made = desired_pod(wanted, instance, dead)
    if isinstance(made, Conflict):
        return _invalid(made.message)
    known = o.pods.of(instance)
    is_there = known is not None and not known.is_gone
    fields = {**NO_POD, "instance_id": instance, "started_at": rfc3339(now), "attempt": 1}
    return Life(
        ExecutorState.STARTING,
        executorstatus.unknown("The pod is being made."),
        () if is_there else (CreatePod(made),),
        fields,
        requeue=LOOK_AGAIN,
    )


def _no_files(o: ExecutorObserved, session: TaskSession) -> Health | None:
    """The claim with the session's files is gone, or goes; None while that is not known."""
    claim = o.pods.claim
    if isinstance(claim, Found) and claim.value.is_deleting:
        how = "is being deleted"
    elif isinstance(claim, Missing):
        how = "does not exist"
    else:
        return None
    said = f"The claim {claim_name(session)} with the session's files {how}."
    return Health(FALSE, WorkspaceReadyReason.WORKSPACE_MISSING, said, is_error=True)


def _wanted(o: ExecutorObserved, session: TaskSession) -> Wanted | None:
    if not (isinstance(o.pods.task, Found) and isinstance(o.pods.profile, Found)):
        return None
    return Wanted(o.executor, session, o.pods.task.value, o.pods.profile.value, o.pods.platform)


def _refused(o: ExecutorObserved, now: datetime) -> Life:
    """The API server's own no: a quota may free itself, an invalid pod must be mended."""
    assert o.failed is not None, "something was refused"
    health = Health(FALSE, o.failed.reason, o.failed.message, is_error=True)
    if o.failed.reason == PodScheduledReason.QUOTA_EXCEEDED:
        retry = now + QUOTA_AGAIN
        return Life(
            ExecutorState.ERROR, health, fields=NO_ADDRESS, retry_at=retry, requeue=QUOTA_AGAIN
        )
    return _stalled(health)


def _invalid(message: str) -> Life:
    return _stalled(Health(FALSE, PodScheduledReason.INVALID_TEMPLATE, message, is_error=True))


def _stalled(health: Health) -> Life:
    return Life(ExecutorState.ERROR, health, fields=NO_ADDRESS, stalled=True)
