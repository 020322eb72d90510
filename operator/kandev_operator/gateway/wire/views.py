"""Tasks, sessions and profiles as a page shows them: cut out of the objects, nothing computed.

`session_id`, `task_id` and `agent_profile_id` are the objects' UIDs. Booleans are absent while
nobody knows. `version` grows with each change of what a view shows; a view with a later version
replaces an earlier one, whichever came first. Text of agents stands here as it is: whoever shows it
escapes it.
"""

from kandev_operator.contract.wire import Wire


class SessionView(Wire):
    """Payload of `task.session.status` and of `session.state`: one session, about itself alone."""

    session_id: str
    task_id: str
    version: int
    namespace: str
    name: str
    task_name: str
    agent_profile_id: str | None = None
    agent_profile_name: str
    operating_mode: str
    state: str
    executor_status: str | None = None
    """`starting`, `ready`, `error` or `stopped`; absent where no executor was chosen yet."""
    runtime: str | None = None
    agent_execution_id: str | None = None
    is_agent_running: bool | None = None
    is_resumable: bool | None = None
    needs_resume: bool | None = None
    resume_reason: str | None = None
    resume_policy: str
    error_message: str | None = None
    worktree_path: str | None = None
    worktree_branch: str | None = None
    suspended: str | None = None
    """Why it is at rest: `Requested`, `IdleTimeout` or `Expired`; absent where it is not."""
    finished: bool = False
    attempt: int | None = None
    next_attempt_at: str | None = None
    turn_prompt_id: str | None = None
    awaiting_permission: bool | None = None
    interrupted_prompt_id: str | None = None
    created_at: str
    deleting: bool = False
    watch_stale: bool = False
    """The gateway has lost sight of the API server: this is the last that was known."""


class TaskView(Wire):
    """One task, with its sessions counted by state."""

    task_id: str
    version: int
    namespace: str
    name: str
    title: str
    description: str | None = None
    state: str
    sessions: dict[str, int] = {}
    closed: str | None = None
    created_at: str


class ProfileView(Wire):
    """One agent profile, for who makes a session. No command, no environment."""

    agent_profile_id: str
    namespace: str
    name: str
    display_name: str | None = None
    supports_session_resume: bool = True
    supports_workspace_only: bool = True
