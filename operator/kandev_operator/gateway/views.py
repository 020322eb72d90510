"""Views cut out of objects: nothing is computed that the operator has not written.

Pure. The version of a session's view is the sum of its own and its executor's resourceVersion:
both only grow, so whichever of the two changes, the sum does. Where a session has lost its
executor, the sum would go back; `hub` counts such a session on from what it has told.
"""

from kandev_operator.api.conditions import get, is_true
from kandev_operator.api.executor import Executor
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.gateway.wire.views import ProfileView, SessionView, TaskView

_CALM = "CREATED"


def session_view(
    session: TaskSession,
    executor: Executor | None,
    task: Task | None,
    profile: AgentProfile | None,
    *,
    stale: bool = False,
) -> SessionView:
    """One session, about itself alone."""
    spec, status, meta = session.spec, session.status, session.metadata
    worktree = status.worktree
    suspended = get(status.conditions, "Suspended")
    return SessionView(
        session_id=meta.uid,
        task_id=task.metadata.uid if task else "",
        version=_number(meta.resource_version)
        + (_number(executor.metadata.resource_version) if executor else 0),
        namespace=meta.namespace,
        name=meta.name,
        task_name=spec.task_ref.name,
        agent_profile_id=profile.metadata.uid if profile else None,
        agent_profile_name=spec.agent_profile_ref.name,
        operating_mode=str(spec.operating_mode),
        state=status.state or _CALM,
        executor_status=status.executor_status,
        runtime=executor.status.runtime or str(executor.spec.runtime) if executor else None,
        agent_execution_id=status.agent_execution_id,
        is_agent_running=status.is_agent_running,
        is_resumable=status.is_resumable,
        needs_resume=status.needs_resume,
        resume_reason=status.resume_reason,
        resume_policy=str(spec.resume.policy),
        error_message=status.error_message,
        worktree_path=worktree.path if worktree else None,
        worktree_branch=worktree.branch if worktree else None,
        suspended=suspended.reason if suspended and suspended.is_true else None,
        finished=is_true(status.conditions, "Finished"),
        attempt=status.attempt,
        next_attempt_at=status.next_attempt_at,
        turn_prompt_id=status.turn.prompt_id if status.turn else None,
        awaiting_permission=status.turn.awaiting_permission if status.turn else None,
        interrupted_prompt_id=status.interrupted_turn.prompt_id
        if status.interrupted_turn
        else None,
        created_at=meta.creation_timestamp or "",
        deleting=meta.is_deleting,
        watch_stale=stale,
    )


def task_view(task: Task) -> TaskView:
    """One task."""
    counts = task.status.sessions
    return TaskView(
        task_id=task.metadata.uid,
        version=_number(task.metadata.resource_version),
        namespace=task.metadata.namespace,
        name=task.metadata.name,
        title=task.spec.title,
        description=task.spec.description,
        state=task.status.state or "TODO",
        sessions={k: v for k, v in counts.model_dump().items() if v} if counts else {},
        closed=str(task.spec.closed) if task.spec.closed else None,
        created_at=task.metadata.creation_timestamp or "",
    )


def profile_view(profile: AgentProfile) -> ProfileView:
    """One profile, without what it runs."""
    return ProfileView(
        agent_profile_id=profile.metadata.uid,
        namespace=profile.metadata.namespace,
        name=profile.metadata.name,
        display_name=profile.spec.display_name,
        supports_session_resume=profile.spec.supports_session_resume,
        supports_workspace_only=profile.spec.supports_workspace_only,
    )


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
