"""Time arithmetic of a session: which mode holds now, and when the next limit is reached.

Pure: every function takes `now`. idleTimeout and maxDuration act in status alone (condition
Suspended), spec stays as people wrote it; a resume wish wakes the session again.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kandev_operator.api import conditions, group
from kandev_operator.api.reasons import SuspendedReason
from kandev_operator.api.session import OperatingMode, TaskSession
from kandev_operator.api.task import Task
from kandev_operator.api.timestamps import moment
from kandev_operator.core.observed import Found, Look

_LIMITS = (SuspendedReason.IDLE_TIMEOUT, SuspendedReason.EXPIRED)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The operating mode that holds, and why where a limit of time says so."""

    mode: OperatingMode
    suspended_reason: str = SuspendedReason.REQUESTED
    cancelled: bool = False
    """Finished because the task was closed as cancelled."""
    look_again: timedelta | None = None
    """When a limit of time will change the answer."""


def wish(session: TaskSession, annotation: str) -> str | None:
    """The value of an imperative annotation, if it has one."""
    return session.metadata.annotations.get(annotation)


def resume_wished(session: TaskSession) -> bool:
    """Somebody asks for a resume, and it was not handled yet.

    A wish first seen on an object without status is recorded and not done: it came with a backup
    or with Git, and its time is over.
    """
    value = wish(session, group.ANNOTATION_RESUME_REQUESTED)
    return (
        value is not None
        and bool(session.status.conditions)
        and value != session.status.last_handled_resume_request
    )


def fresh_start_wished(session: TaskSession) -> bool:
    """Somebody asks for a fresh start, and it was not handled yet."""
    value = wish(session, group.ANNOTATION_FRESH_START_REQUESTED)
    return (
        value is not None
        and bool(session.status.conditions)
        and value != session.status.last_handled_fresh_start_request
    )


def wanted(session: TaskSession, task: Look[Task], now: datetime) -> Wanted:
    """The mode that holds now: a closed task, then spec, then the limits of time."""
    if isinstance(task, Found) and task.value.spec.closed is not None:
        cancelled = task.value.spec.closed == "Cancelled"
        return Wanted(OperatingMode.FINISHED, cancelled=cancelled)
    if conditions.is_true(session.status.conditions, "Finished"):
        return Wanted(OperatingMode.FINISHED)
    if session.spec.operating_mode is not OperatingMode.RUNNING:
        return Wanted(session.spec.operating_mode)
    return _limited(session, now)


def _limited(session: TaskSession, now: datetime) -> Wanted:
    if resume_wished(session) or fresh_start_wished(session):
        # Until the wish is answered: a limit that is over must not send it back to sleep.
        return Wanted(OperatingMode.RUNNING)
    asleep = conditions.get(session.status.conditions, "Suspended")
    if asleep and asleep.reason in _LIMITS:  # False with this reason: on its way to sleep
        return Wanted(OperatingMode.SUSPENDED, suspended_reason=asleep.reason)
    dues: list[tuple[datetime, str]] = []
    limits = session.spec.lifecycle
    idle = conditions.get(session.status.conditions, "AgentReady")
    if limits.idle_timeout_seconds and idle and idle.is_true and idle.last_transition_time:
        since = moment(idle.last_transition_time)
        due = since + timedelta(seconds=limits.idle_timeout_seconds)
        dues.append((due, SuspendedReason.IDLE_TIMEOUT))
    if limits.max_duration_seconds and session.status.started_at:
        since = moment(session.status.started_at)
        due = since + timedelta(seconds=limits.max_duration_seconds)
        dues.append((due, SuspendedReason.EXPIRED))
    if not dues:
        return Wanted(OperatingMode.RUNNING)
    due, reason = min(dues)
    if due <= now:
        return Wanted(OperatingMode.SUSPENDED, suspended_reason=str(reason))
    return Wanted(OperatingMode.RUNNING, look_again=due - now)


def deletion_due(session: TaskSession) -> datetime | None:
    """When a finished session's time to live is over; None when it has none.

    Objects that Git owns have none: Git would make them again, and their prompt would be sent
    again.
    """
    ttl = session.spec.lifecycle.ttl_seconds_after_finished
    finished = conditions.get(session.status.conditions, "Finished")
    if ttl is None or finished is None or not finished.is_true or is_owned_by_git(session):
        return None
    if finished.last_transition_time is None:
        return None
    return moment(finished.last_transition_time) + timedelta(seconds=ttl)


def is_owned_by_git(session: TaskSession) -> bool:
    """A GitOps tool put its mark on the object."""
    marks = {**session.metadata.labels, **session.metadata.annotations}
    return any(mark in marks for mark in group.GIT_MARKS)
