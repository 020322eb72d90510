"""What the gateway tells the subscribers of a session without being asked.

On subscribe the whole view comes first, as `session.state`; each later change of it comes as the
whole view again, and beside it by the name of what happened, for clients that act on moments.
`session.agentctl_ready` means that shell, files and git can be used; it says nothing of the agent.
"""

from enum import StrEnum

from kandev_operator.contract.wire import Wire


class Notice(StrEnum):
    """Every action of a notification."""

    SESSION_STATE = "session.state"
    """SessionView."""
    STATE_CHANGED = "session.state_changed"
    AGENTCTL_STARTING = "session.agentctl_starting"
    AGENTCTL_READY = "session.agentctl_ready"
    AGENTCTL_ERROR = "session.agentctl_error"
    SESSION_DELETED = "session.deleted"
    """SessionGone: deleted, or not to be read any more; the subscription is over."""
    MESSAGE_ADDED = "session.message.added"
    """MessageChange, here and below."""
    MESSAGE_UPDATED = "session.message.updated"
    MESSAGE_LIVE = "session.message.live"
    """LiveWords."""
    MESSAGE_GAP = "session.message.gap"
    """Missing."""
    HISTORY = "session.history"
    """HistoryState."""
    PERMISSION_REQUESTED = "permission.requested"
    """PermissionNotice."""
    PERMISSION_RESOLVED = "permission.resolved"
    """PermissionNotice."""
    TURN = "session.turn"
    """TurnNotice."""
    SHELL_OUTPUT = "shell.output"
    SHELL_EXIT = "shell.exit"
    TASK_CHANGED = "task.changed"
    """TaskView, to whoever listed tasks on this socket."""
    GOING_AWAY = "gateway.going_away"
    """This gateway ends; connect again, with your cursors."""


class AgentctlMoment(Wire):
    """`session.agentctl_starting`, `_ready`, `_error`."""

    session_id: str
    task_id: str
    version: int
    agent_execution_id: str | None = None
    error_message: str | None = None
    worktree_path: str | None = None
    worktree_branch: str | None = None


class StateChanged(Wire):
    """`session.state_changed`."""

    session_id: str
    task_id: str
    version: int
    old_state: str
    new_state: str
    error_message: str | None = None


class SessionGone(Wire):
    """`session.deleted`."""

    session_id: str
    task_id: str


class HistoryState(Wire):
    """Whether the store keeps up, and whether agentctl is being heard at this moment."""

    session_id: str
    task_id: str
    late: bool
    following: bool


class PermissionOption(Wire):
    """One answer that the agent offers."""

    option_id: str
    name: str
    kind: str


class PermissionNotice(Wire):
    """A question of the agent, open or closed. `by` and `option_id` say how it was closed."""

    session_id: str
    task_id: str
    cursor: str | None = None
    """Its place in the conversation; absent in the answer to `permission.list`."""
    permission_id: str
    turn_id: str | None = None
    title: str = ""
    tool_kind: str | None = None
    options: tuple[PermissionOption, ...] = ()
    requested_at: str | None = None
    option_id: str | None = None
    by: str | None = None


class TurnNotice(Wire):
    """A turn began or ended, or a prompt's fate changed."""

    session_id: str
    task_id: str
    cursor: str
    what: str
    """`started`, `ended` or `prompt`."""
    turn_id: str | None = None
    prompt_id: str | None = None
    outcome: str | None = None
    stop_reason: str | None = None
    fate: str | None = None
    reason: str | None = None


class ShellOutput(Wire):
    """`shell.output`: bytes as base64; the first is number `cursor`. A gap jumps over lost ones."""

    session_id: str
    task_id: str
    shell_id: str
    instance_id: str
    cursor: int
    data: str


class ShellExit(Wire):
    """`shell.exit`: every byte was sent, and the shell is over."""

    session_id: str
    task_id: str
    shell_id: str
    reason: str
    code: int | None = None
    signal: str | None = None
