"""How an executor's occupancy and life become the whole of its status, and its Events.

Every field and condition is computed on every pass. What belongs to a session (capabilities, the
worktree) is kept only while that session is in. A change of what merely rides along (`RIDING`)
is no reason for a write.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api import conditions
from kandev_operator.api.agent import ExecutorCapabilities
from kandev_operator.api.conditions import FALSE, TRUE, UNKNOWN, Conditions
from kandev_operator.api.executor import ExecutorState, ExecutorStatus, Runtime, WorktreeStatus
from kandev_operator.api.reasons import (
    AgentctlReadyReason,
    AgentReadyReason,
    CapabilitiesKnownReason,
    PodScheduledReason,
    ReadyReason,
    ReconcilingReason,
    WorkspaceReadyReason,
    is_documented,
    resume_word,
)
from kandev_operator.api.timestamps import moment, rfc3339
from kandev_operator.core import failures, stored
from kandev_operator.core.actions import Action, CreatePod
from kandev_operator.core.observed import Answer, ExecutorObserved, Found, Probe
from kandev_operator.core.occupancy import Occupancy
from kandev_operator.core.probes import Health, Limits
from kandev_operator.core.verdict import Notice, Plan

RIDING: Final = frozenset({"last_seen_at"})
"""Fields whose change alone is no reason for a write."""

DEFAULT_LIMITS: Final = Limits(start=timedelta(seconds=600), grace=timedelta(seconds=60))

_QUOTA: Final = PodScheduledReason.QUOTA_EXCEEDED

STANDSTILL: Final = timedelta(seconds=10)
"""Healthy progress of a start rides on the next real news, unless it stands still for so long."""


_WORDED: Final = frozenset({"Ready", "AgentctlReady", "Reconciling", "Stalled"})
"""Conditions that hand on the words of a failed look."""


@dataclass(frozen=True, slots=True)
class Life:
    """How the executor is: its state, AgentctlReady, and what to do about it."""

    state: ExecutorState
    agentctl: Health
    actions: tuple[Action, ...] = ()
    fields: dict[str, Any] = field(default_factory=dict)
    retry_at: datetime | None = None
    stalled: bool = False
    requeue: timedelta | None = None


def next_instance_id(o: ExecutorObserved) -> str:
    """The instance id for the next process: the executor's UID and a number that grows."""
    uid, known = o.executor.metadata.uid, o.executor.status.instance_id or ""
    number = known.removeprefix(f"{uid}-")
    return f"{uid}-{int(number) + 1 if number.isdigit() else 1}"


def unknown(message: str) -> Health:
    """Nothing is known to be wrong, and it does not answer yet."""
    return Health(UNKNOWN, AgentctlReadyReason.STARTING, message)


def limits_of(o: ExecutorObserved) -> Limits:
    """The bound (or next) session's limits of time."""
    session = o.bound.value if isinstance(o.bound, Found) else o.claimant
    if session is None:
        return DEFAULT_LIMITS
    lifecycle = session.spec.lifecycle
    return Limits(
        start=timedelta(seconds=lifecycle.start_timeout_seconds),
        grace=timedelta(seconds=lifecycle.unreachable_grace_seconds),
    )


def as_it_was(o: ExecutorObserved, fields: dict[str, Any]) -> Life:
    """Nobody has looked yet: what was known stays written."""
    known = conditions.get(o.executor.status.conditions, "AgentctlReady")
    if known is None:
        return Life(ExecutorState.STARTING, unknown("agentctl has not answered yet."), (), fields)
    state = {str(word): word for word in ExecutorState}.get(o.executor.status.state or "")
    health = Health(known.status, known.reason, known.message, state is ExecutorState.ERROR)
    at = o.executor.status.next_attempt_at
    return Life(
        state or ExecutorState.STARTING,
        health,
        (),
        fields,
        retry_at=moment(at) if at else None,
        stalled=conditions.is_true(o.executor.status.conditions, "Stalled"),
    )


def plan(o: ExecutorObserved, held: Occupancy, life: Life, now: datetime) -> Plan[ExecutorStatus]:
    """Render what holds; write it only when it differs."""
    new = render(o, held, life, now)
    actions = (*held.actions, *life.actions)
    if not differs(o.executor.status, new):
        return Plan(actions=actions, requeue=life.requeue)
    if _only_words_differ(o, new):
        waits, wait = _until_steady(o.probe, now)
    else:
        wait = _may_wait(o.executor.status, new, now)
        waits = wait is not None
    if waits:
        return Plan(actions=actions, requeue=_sooner(wait, life.requeue))
    return Plan(actions=actions, status=new, requeue=life.requeue, notices=_notices(o, new, life))


def _sooner(one: timedelta | None, other: timedelta | None) -> timedelta | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _only_words_differ(o: ExecutorObserved, new: ExecutorStatus) -> bool:
    """The same failure, told otherwise: refused, then no answer in time, then a certificate."""
    if o.probe.answer in (Answer.NOT_TRIED, Answer.WELL):
        return False
    return _wordless(o.executor.status) == _wordless(new)


def _wordless(status: ExecutorStatus) -> ExecutorStatus:
    told = tuple(
        each.replacing(message="") if each.type in _WORDED else each for each in status.conditions
    )
    return _solid(status).replacing(conditions=told, error_message=None)


def _until_steady(probe: Probe, now: datetime) -> tuple[bool, timedelta | None]:
    """Whether the newest words of a failure have yet to last to be worth a write of their own,
    and for how long, where that is known."""
    if probe.steady_since is None:
        return True, None
    left = probe.steady_since + STANDSTILL - now
    return left > timedelta(0), left


def _may_wait(old: ExecutorStatus, new: ExecutorStatus, now: datetime) -> timedelta | None:
    """How long the address of a process that is on its way may wait for the news that it answers;
    None: this write must be done now. The process itself is found without it."""
    starting = str(ExecutorState.STARTING)
    healthy = old.state == new.state == starting and new.instance_id is not None
    same = (old.instance_id, old.session_ref) == (new.instance_id, new.session_ref)
    if not (healthy and same) or old.started_at is None or old.started_at != new.started_at:
        return None
    if old.boot_id is not None or new.error_message is not None:
        return None
    last = max(moment(old.started_at), *stored.transitions(old.conditions))
    left = min(last + STANDSTILL - now, STANDSTILL)
    return left if left > timedelta(0) else None


def differs(old: ExecutorStatus, new: ExecutorStatus) -> bool:
    """Whether the new status is worth a write."""
    return _solid(old) != _solid(new)


def _solid(status: ExecutorStatus) -> ExecutorStatus:
    bare: dict[str, Any] = dict.fromkeys(RIDING)
    if status.capabilities is not None:
        bare["capabilities"] = status.capabilities.replacing(probed_at=None)
    return status.replacing(**bare)


def render(o: ExecutorObserved, held: Occupancy, life: Life, now: datetime) -> ExecutorStatus:
    """The whole status."""
    old = o.executor.status
    same = held.session_ref is not None and held.session_ref == old.session_ref
    caps = _capabilities(o, held) or (old.capabilities if same else None)
    seen = o.probe.last_seen
    fields: dict[str, Any] = {
        "observed_generation": o.executor.metadata.generation,
        "state": str(life.state),
        "runtime": str(o.executor.spec.runtime.value),
        "task_id": (o.task_uid or old.task_id) if held.session_ref else None,
        "session_ref": held.session_ref,
        "capabilities": caps,
        "supports_session_resume": caps.supports_session_resume if caps else None,
        "supports_workspace_only": caps.supports_workspace_only if caps else None,
        "worktree": _worktree(o, life),
        "last_seen_at": rfc3339(seen) if seen else old.last_seen_at,
        "error_message": _error_message(life),
        "next_attempt_at": rfc3339(life.retry_at) if life.retry_at else None,
        **life.fields,
    }
    new = old.replacing(**fields)
    return new.replacing(conditions=_conditions(o, held, life, caps, now))


def _worktree(o: ExecutorObserved, life: Life) -> WorktreeStatus | None:
    """The files; those that are another session's are not ours to name."""
    local = o.executor.spec.local_standalone
    if local is None:
        return o.executor.status.worktree
    taken = life.agentctl.reason == WorkspaceReadyReason.WORKSPACE_IN_USE
    return None if taken else WorktreeStatus(path=local.worktree_path)


def _error_message(life: Life) -> str | None:
    if life.state is not ExecutorState.ERROR:
        return None
    return f"{resume_word(life.agentctl.reason)}: {life.agentctl.message}"


def _capabilities(o: ExecutorObserved, held: Occupancy) -> ExecutorCapabilities | None:
    """What the bound session's agent answered; None while it has not."""
    report = o.probe.report if o.probe.answer is Answer.WELL else None
    if report is None or held.session_ref is None or report.session_uid != held.session_ref.uid:
        return None
    caps = stored.capabilities(report.capabilities)
    told = report.capabilities.profile_hash
    return ExecutorCapabilities(**caps, profile_hash=told) if caps else None


def _conditions(
    o: ExecutorObserved,
    held: Occupancy,
    life: Life,
    caps: ExecutorCapabilities | None,
    now: datetime,
) -> Conditions:
    rows: list[stored.Row] = [
        ("Ready", *_ready(held, life)),
        ("AgentctlReady", *_agentctl_ready(life)),
        ("PodScheduled", *_pod_scheduled(o, life)),
        ("CapabilitiesKnown", *_capabilities_known(o, caps)),
        ("WorkspaceReady", *_workspace_ready(o, life)),
        ("Bound", TRUE if held.session_ref else FALSE, held.reason, held.message),
        ("Draining", *held.draining),
    ]
    generation = o.executor.metadata.generation
    result = o.executor.status.conditions
    for row in rows:
        result = stored.put(result, row, generation, now)
    error = life.state is ExecutorState.ERROR
    stopped = life.state is ExecutorState.STOPPED and held.session_ref is not None
    stuck = (error and life.stalled) or (stopped and held.is_bound)
    working = life.state is ExecutorState.STARTING or ((error or stopped) and not stuck)
    extra: list[tuple[str, bool, str]] = [
        ("Stalled", stuck, life.agentctl.reason),
        (
            "Reconciling",
            working,
            ReconcilingReason.RETRYING if error else ReconcilingReason.PROGRESSING,
        ),
    ]
    for type_, holds, reason in extra:
        if holds:
            row = (type_, TRUE, str(reason), life.agentctl.message)
            result = stored.put(result, row, generation, now)
        else:
            result = conditions.without(result, type_)
    return result


def _ready(held: Occupancy, life: Life) -> tuple[str, str, str]:
    if life.state is ExecutorState.STOPPED and held.session_ref is None:
        return TRUE, ReadyReason.IDLE, "Nobody is bound, and nothing runs."
    if life.agentctl.truth == TRUE:
        return TRUE, ReadyReason.AGENTCTL_READY, "agentctl answers."
    return life.agentctl.truth, life.agentctl.reason, life.agentctl.message


def _agentctl_ready(life: Life) -> tuple[str, str, str]:
    """Its own reason, or a general one where the fault is the workspace's."""
    seen = life.agentctl
    own = is_documented("AgentctlReady", seen.reason)
    return seen.truth, seen.reason if own else str(AgentctlReadyReason.NOT_USED), seen.message


def _pod_scheduled(o: ExecutorObserved, life: Life) -> tuple[str, str, str]:
    if o.executor.spec.runtime is not Runtime.POD:
        return UNKNOWN, PodScheduledReason.NOT_APPLICABLE, "This runtime has no pod."
    if life.agentctl.reason in (PodScheduledReason.INVALID_TEMPLATE, _QUOTA):
        return FALSE, life.agentctl.reason, life.agentctl.message
    pod = o.pods.of(life.fields.get("instance_id", o.executor.status.instance_id))
    if any(isinstance(each, CreatePod) for each in life.actions):
        return UNKNOWN, PodScheduledReason.POD_PENDING, "The pod is being made."
    if pod is None or pod.is_gone or pod.is_over:
        return FALSE, PodScheduledReason.NO_POD, "There is no pod."
    if pod.is_deleting:
        return FALSE, PodScheduledReason.POD_TERMINATING, f"Pod {pod.name} is being ended."
    if pod.scheduled is False:
        return FALSE, PodScheduledReason.UNSCHEDULABLE, pod.schedule_words
    if not pod.node:
        return UNKNOWN, PodScheduledReason.POD_PENDING, f"Pod {pod.name} waits for a node."
    return TRUE, PodScheduledReason.SCHEDULED, f"Pod {pod.name} is on node {pod.node}."


def _capabilities_known(
    o: ExecutorObserved, caps: ExecutorCapabilities | None
) -> tuple[str, str, str]:
    report = o.probe.report if o.probe.answer is Answer.WELL else None
    failure = report.capabilities.failure if report else None
    if failure is not None:
        reason, _ = failures.judge(failure, resuming=False)
        known = {str(word) for word in AgentReadyReason} | {
            str(word) for word in CapabilitiesKnownReason
        }
        named = reason if reason in known else CapabilitiesKnownReason.INITIALIZE_FAILED
        return FALSE, named, failure.message
    if caps is not None:
        return TRUE, CapabilitiesKnownReason.PROBED, "The agent answered."
    return UNKNOWN, CapabilitiesKnownReason.NOT_ASKED, "The agent was not asked yet."


def _workspace_ready(o: ExecutorObserved, life: Life) -> tuple[str, str, str]:
    known = {str(word) for word in WorkspaceReadyReason}
    if life.agentctl.truth != TRUE:
        if life.agentctl.reason in known:
            return FALSE, life.agentctl.reason, life.agentctl.message
        return UNKNOWN, WorkspaceReadyReason.WORKSPACE_UNKNOWN, "Nobody can be asked at present."
    report = o.probe.report
    if report is not None and report.journal_state == "unreadable":
        return FALSE, WorkspaceReadyReason.JOURNAL_UNREADABLE, report.journal_message
    if report is not None and report.journal_state == "full":
        return FALSE, WorkspaceReadyReason.JOURNAL_FULL, report.journal_message
    return TRUE, WorkspaceReadyReason.WORKSPACE_READY, "The files are there."


def _notices(o: ExecutorObserved, new: ExecutorStatus, life: Life) -> tuple[Notice, ...]:
    """One Event when the executor falls into an error; healthy edges are none."""
    before = conditions.get(o.executor.status.conditions, "Ready")
    edge = before is None or before.reason != life.agentctl.reason
    if life.state is not ExecutorState.ERROR or not edge:
        return ()
    return (Notice(life.agentctl.reason, new.error_message or "", warning=True),)
