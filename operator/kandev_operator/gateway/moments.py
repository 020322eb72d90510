"""What happened between two views of a session, by the names that clients act on. Pure.

`agentctl_ready` is the moment at which shell, files and git can be used: the executor's, whatever
the agent does. It is told on subscribe, too, where the executor is ready already, so that a client
that acts on it needs no second way.
"""

from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.wire.notices import AgentctlMoment, Notice, StateChanged
from kandev_operator.gateway.wire.views import SessionView

_OF_EXECUTOR = {
    "starting": Notice.AGENTCTL_STARTING,
    "ready": Notice.AGENTCTL_READY,
    "error": Notice.AGENTCTL_ERROR,
}


def moments(before: SessionView | None, now: SessionView) -> tuple[tuple[Notice, Wire], ...]:
    """Every moment between the two, in order. `before` absent: the subscription begins."""
    told: list[tuple[Notice, Wire]] = []
    was = before.executor_status if before else None
    notice = _OF_EXECUTOR.get(now.executor_status or "")
    if notice is not None and was != now.executor_status:
        told.append((notice, _agentctl(now)))
    if before is not None and before.state != now.state:
        told.append((Notice.STATE_CHANGED, _state(before, now)))
    return tuple(told)


def _agentctl(view: SessionView) -> AgentctlMoment:
    return AgentctlMoment(
        session_id=view.session_id,
        task_id=view.task_id,
        version=view.version,
        agent_execution_id=view.agent_execution_id,
        error_message=view.error_message,
        worktree_path=view.worktree_path,
        worktree_branch=view.worktree_branch,
    )


def _state(before: SessionView, now: SessionView) -> StateChanged:
    return StateChanged(
        session_id=now.session_id,
        task_id=now.task_id,
        version=now.version,
        old_state=before.state,
        new_state=now.state,
        error_message=now.error_message,
    )
