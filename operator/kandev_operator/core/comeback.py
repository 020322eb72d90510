"""When a place that was lost is made again: the rules that pods and containers share.

One that ran an agent is made again where the session's mode, its policy or a wish wants the
conversation back; one that never did is tried again freely. The first attempts follow at once,
later ones wait longer each time; one that lived for a while counts anew. What a place is, how it
ended and what it is made from is not known here.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from kandev_operator.api import conditions
from kandev_operator.api.conditions import FALSE
from kandev_operator.api.executor import ExecutorState
from kandev_operator.api.session import OperatingMode, ResumePolicy, TaskSession
from kandev_operator.api.task import Task
from kandev_operator.api.timestamps import moment
from kandev_operator.core import backoff, lifecycle
from kandev_operator.core.executorstatus import Life
from kandev_operator.core.observed import ExecutorObserved, Found, Look
from kandev_operator.core.probes import Health

SETTLED: Final = timedelta(seconds=60)
AT_ONCE_ATTEMPTS: Final = 2
"""What ended is started again at once; what ends again and again has to wait."""


def session_in(o: ExecutorObserved) -> TaskSession | None:
    """Who is in, or comes in with this pass."""
    if o.executor.status.session_ref is None:
        return o.claimant
    return o.bound.value if isinstance(o.bound, Found) else None


def is_wanted(session: TaskSession, task: Look[Task], now: datetime) -> bool:
    """Whether the session is to have a place again: by its mode, its policy, or a wish."""
    mode = lifecycle.wanted(session, task, now).mode
    if mode is OperatingMode.WORKSPACE_ONLY:
        return True
    if mode is not OperatingMode.RUNNING:
        return False
    if session.spec.resume.policy is ResumePolicy.AUTO or session.status.resume_token_ref is None:
        return True
    return lifecycle.resume_wished(session) or lifecycle.fresh_start_wished(session)


def attempt(o: ExecutorObserved, why: Health, now: datetime) -> int | Life:
    """The number of the next attempt, which may begin now; or the wait before it."""
    status = o.executor.status
    if (waiting := still_waiting(o, why, now)) is not None:
        return waiting
    number = status.attempt or 1
    if status.next_attempt_at is not None:
        return number
    lived = status.started_at is not None and now - moment(status.started_at) >= SETTLED
    number = 1 if lived and status.boot_id is not None else number + 1
    return number if number <= AT_ONCE_ATTEMPTS else wait(o, why, number, now)


def wait(o: ExecutorObserved, why: Health, number: int, now: datetime) -> Life:
    """In error, until attempt `number` is due."""
    retry = backoff.next_attempt_at(now, number - 1, o.executor.metadata.uid)
    error, fields = replace(why, is_error=True), {"attempt": number}
    return Life(ExecutorState.ERROR, error, (), fields, retry, requeue=retry - now)


def still_waiting(o: ExecutorObserved, why: Health | None, now: datetime) -> Life | None:
    """An earlier failure has its time to wait."""
    due = o.executor.status.next_attempt_at
    if due is None or now >= moment(due):
        return None
    known = conditions.get(o.executor.status.conditions, "Ready")
    health = why
    if health is None and known is not None:
        health = Health(FALSE, known.reason, known.message)
    assert health is not None, "what waits has said why"
    error = replace(health, is_error=True)
    left = moment(due) - now
    return Life(ExecutorState.ERROR, error, retry_at=moment(due), requeue=left)
