"""Where a piece of work stands: a Task's summary of its sessions.

The state is the first that holds, recomputed from the sessions as they are now, so it is never
stuck on an old failure. It describes; closing a task acts on its sessions through their own pass.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from kandev_operator.api import conditions
from kandev_operator.api.conditions import TRUE, Condition
from kandev_operator.api.reasons import ReadyReason
from kandev_operator.api.session import SessionState, TaskSession
from kandev_operator.api.task import SessionCounts, Task, TaskClosed, TaskState, TaskStatus
from kandev_operator.core.verdict import Plan

DEBOUNCE = timedelta(seconds=1)
"""A task is looked at this long after one of its sessions changed: turns come in bursts."""


def state_of(task: Task, sessions: Sequence[TaskSession]) -> TaskState:
    """The first that holds: closed, in progress, review, blocked, to do; else review."""
    if task.spec.closed is not None:
        completed = task.spec.closed is TaskClosed.COMPLETED
        return TaskState.COMPLETED if completed else TaskState.CANCELLED
    seen = {session.status.state or SessionState.CREATED for session in sessions}
    if seen & {SessionState.STARTING, SessionState.RUNNING}:
        return TaskState.IN_PROGRESS
    if SessionState.WAITING_FOR_INPUT in seen:
        return TaskState.REVIEW
    if SessionState.ERROR in seen:
        return TaskState.BLOCKED
    if not seen or SessionState.CREATED in seen:
        return TaskState.TODO
    return TaskState.REVIEW


def decide_task(task: Task, sessions: Sequence[TaskSession], now: datetime) -> Plan[TaskStatus]:
    """The plan for a task: its summary, written only when it differs."""
    if task.metadata.is_deleting:
        return Plan()
    counts = Counter(session.status.state or str(SessionState.CREATED) for session in sessions)
    fields = {state.lower(): counts[state] or None for state in map(str, SessionState)}
    ready = Condition(
        type="Ready",
        status=TRUE,
        reason=str(ReadyReason.SUMMARIZED),
        message="The state says where the task's sessions stand.",
        observed_generation=task.metadata.generation,
    )
    new = TaskStatus(
        observed_generation=task.metadata.generation,
        state=str(state_of(task, sessions)),
        sessions=SessionCounts(total=len(sessions), **fields),
        conditions=conditions.set_condition(task.status.conditions, ready, now),
    )
    return Plan(status=new if new != task.status else None)
