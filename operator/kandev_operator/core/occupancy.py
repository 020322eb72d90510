"""Who is in an executor: the executor's half of the binding protocol.

The first session (by creation) that points at this executor is answered with status.sessionRef;
one made from a template is bound by its ownerReference, before its session has even pointed. A
session that is positively gone, has finished or points elsewhere is let go: its agent is stopped
first, and an agentctl that cannot be asked is not assumed to be empty.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kandev_operator.api import conditions
from kandev_operator.api.conditions import FALSE, TRUE
from kandev_operator.api.executor import Executor, Runtime
from kandev_operator.api.reasons import BoundReason, DrainingReason
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import moment
from kandev_operator.core.actions import DeletePod, RemoveContainer, StopAgent
from kandev_operator.core.intents import stop_id
from kandev_operator.core.observed import (
    AgentctlReport,
    AgentPhase,
    Answer,
    ExecutorObserved,
    Found,
    Missing,
    Unreadable,
)


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Who is in, as it should now be written; and what must be done for it first."""

    session_ref: ObjectRef | None
    reason: str
    message: str
    actions: tuple[StopAgent | DeletePod | RemoveContainer, ...] = ()
    draining: tuple[str, str, str] = (FALSE, DrainingReason.NOT_DRAINING, "")

    @property
    def is_bound(self) -> bool:
        """A session is in, and not on its way out."""
        return self.session_ref is not None and self.reason == BoundReason.BOUND


def occupancy(o: ExecutorObserved, now: datetime) -> Occupancy:
    """Answer who is in the executor."""
    held = o.executor.status.session_ref
    if held is None:
        return _take_in(o)
    if isinstance(o.bound, Missing):
        gone = f"Session {held.name} does not exist any more."
        return _let_go(o, held, BoundReason.SESSION_GONE, gone, now)
    if isinstance(o.bound, Found) and _points_elsewhere(o, o.bound.value):
        return _let_go(o, held, BoundReason.RELEASING, f"Session {held.name} has let go.", now)
    if o.executor.spec.drain:
        return _drain(o, held, now)
    return Occupancy(held, BoundReason.BOUND, f"Session {held.name} is in.")


def is_made(executor: Executor) -> bool:
    """Made for one session, from its template."""
    owner = executor.metadata.controller
    return owner is not None and owner.kind == TaskSession.kind


def _take_in(o: ExecutorObserved) -> Occupancy:
    if o.executor.spec.drain:
        drained = (TRUE, DrainingReason.DRAINED, "The executor is empty and takes nobody in.")
        return Occupancy(None, BoundReason.NOT_BOUND, "Draining.", draining=drained)
    next_in = o.claimant
    if next_in is None:
        return Occupancy(None, BoundReason.NOT_BOUND, "No session points at this executor.")
    ref = ObjectRef(name=next_in.metadata.name, uid=next_in.metadata.uid)
    return Occupancy(ref, BoundReason.BOUND, f"Session {ref.name} is in.")


def _points_elsewhere(o: ExecutorObserved, session: TaskSession) -> bool:
    ref = session.status.executor_ref
    if ref is not None:
        return ref.uid != o.executor.metadata.uid
    if is_made(o.executor):
        rests = ("Finished", "Suspended")
        return any(conditions.is_true(session.status.conditions, each) for each in rests)
    return bool(session.status.conditions)


PATIENCE = timedelta(seconds=60)
"""A pod that is to be gone and is not, so long after its grace, holds its executor up no longer."""


def _lingers(o: ExecutorObserved, now: datetime) -> bool:
    """What the session ran in is still there; a Docker engine that is silent does not say no."""
    if o.executor.spec.pod is not None:
        return any(pod.lingers(now, PATIENCE) for pod in o.pods.pods)
    return isinstance(o.docker.containers, Unreadable) or bool(o.docker.present)


def _removals(o: ExecutorObserved) -> tuple[DeletePod | RemoveContainer, ...]:
    """A pod or container ends its agent gently by itself, whether or not it can be asked."""
    if o.executor.spec.pod is not None:
        return tuple(DeletePod(pod.name, pod.uid) for pod in o.pods.pods if pod.is_live)
    return tuple(RemoveContainer(each.id) for each in o.docker.present)


def _let_go(
    o: ExecutorObserved, held: ObjectRef, reason: str, message: str, now: datetime
) -> Occupancy:
    report = o.probe.report if o.probe.answer is Answer.WELL else None
    if report is not None and _holds_agent(report, held.uid):
        return Occupancy(held, reason, message, actions=(_stop(report, held.uid),))
    if o.executor.spec.is_made_at_bind:
        if not _lingers(o, now):
            return _take_in(o)
        return Occupancy(held, reason, message, actions=_removals(o))
    if report is not None:
        return _take_in(o)
    return _take_in(o) if _nothing_runs(o) else Occupancy(held, reason, message)


def _nothing_runs(o: ExecutorObserved) -> bool:
    """Surely: a process or a container of somebody else's that was looked for."""
    match o.executor.spec.runtime:
        case Runtime.LOCAL_STANDALONE:
            return isinstance(o.process, Missing)
        case Runtime.LOCAL_DOCKER:
            known = not isinstance(o.docker.containers, Unreadable)
            return known and not any(each.is_up for each in o.docker.present)
        case _:
            return False


def _drain(o: ExecutorObserved, held: ObjectRef, now: datetime) -> Occupancy:
    """Let a turn end, then stop the agent; a turn that takes too long is cut off."""
    report = o.probe.report if o.probe.answer is Answer.WELL else None
    bound = f"Session {held.name} is in."
    made = o.executor.spec.is_made_at_bind
    if report is not None and not _holds_agent(report, held.uid):
        return _emptied(o, held, now) if made else _take_in(o)
    if made and not _lingers(o, now):
        return _take_in(o)
    began = conditions.get(o.executor.status.conditions, "Draining")
    since = now
    if began is not None and began.is_true and began.last_transition_time:
        since = moment(began.last_transition_time)
    over = now >= since + timedelta(seconds=o.executor.spec.drain_deadline_seconds)
    if report is None and made and over:
        return _emptied(o, held, now)
    if report is None or (report.phase is AgentPhase.RUNNING and not over):
        said = "The turn that is under way may end first."
        draining = (TRUE, DrainingReason.WAITING_FOR_TURN, said)
        return Occupancy(held, BoundReason.BOUND, bound, draining=draining)
    cut = report.phase is AgentPhase.RUNNING
    why = DrainingReason.DEADLINE_REACHED if cut else DrainingReason.STOPPING
    return Occupancy(
        held,
        BoundReason.BOUND,
        bound,
        actions=(_stop(report, held.uid),),
        draining=(TRUE, str(why), "The agent is being stopped gently."),
    )


def _emptied(o: ExecutorObserved, held: ObjectRef, now: datetime) -> Occupancy:
    """The agent is at its end; now its pod or container goes, then the session."""
    if not _lingers(o, now):
        return _take_in(o)
    said = "The place is being removed."
    draining = (TRUE, DrainingReason.STOPPING, said)
    name = f"Session {held.name} is on its way out."
    return Occupancy(held, BoundReason.RELEASING, name, _removals(o), draining)


def stowaway(o: ExecutorObserved, held: ObjectRef | None) -> tuple[StopAgent, ...]:
    """End the agent of a session that has no business here any more, and that nobody else would
    end: who is in was forgotten (an executor made again, a restored API server)."""
    report = o.probe.report if o.probe.answer is Answer.WELL else None
    if report is None or report.session_uid is None or not report.has_process:
        return ()
    if held is not None and report.session_uid == held.uid:
        return ()
    gone = isinstance(o.served, Missing) or (
        isinstance(o.served, Found) and _is_done_with(o, o.served.value)
    )
    return (_stop(report, report.session_uid),) if gone else ()


def _is_done_with(o: ExecutorObserved, session: TaskSession) -> bool:
    """It has come to its end, rests, or runs in another executor."""
    ref = session.status.executor_ref
    if ref is not None and ref.uid != o.executor.metadata.uid:
        return True
    return any(conditions.is_true(session.status.conditions, t) for t in ("Finished", "Suspended"))


def _holds_agent(report: AgentctlReport, session_uid: str) -> bool:
    """This session's agent has, or may soon have, its conversation open here."""
    return report.session_uid == session_uid and report.has_process


def _stop(report: AgentctlReport, session_uid: str) -> StopAgent:
    operation = stop_id(session_uid, report.epoch, "release", report)
    return StopAgent(operation, report.epoch, session_uid)
