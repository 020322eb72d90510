"""The error body of every refused call, its stable codes, and the HTTP status of each.

`message` is for people and may change; callers branch on `code` alone. No body ever quotes a
resume token, a credential or prompt text.
"""

from enum import StrEnum
from typing import Any, Final

from kandev_operator.contract.wire import Wire


class Code(StrEnum):
    """Why a call was refused."""

    INVALID_REQUEST = "invalid_request"
    """The body does not fit the contract; details say where."""
    TOO_LARGE = "too_large"
    UNAUTHORIZED = "unauthorized"
    """No token, a bad signature, an unknown key, or another audience."""
    CLOCK_SKEW = "clock_skew"
    """The token is genuine but its time is off by more than the leeway; details: `skew_seconds`."""
    FORBIDDEN_SCOPE = "forbidden_scope"
    """The token (or the key that signed it) does not have the scope; details: `needs`."""
    STALE_EPOCH = "stale_epoch"
    """Term or epoch is lower than one already seen; details: the highest `term` and `epoch`."""
    SESSION_CONFLICT = "session_conflict"
    """Another session's agent lives here; details: its `session_id`."""
    NO_AGENT = "no_agent"
    """Nothing was configured yet: PUT the agent first."""
    AGENT_NOT_RUNNING = "agent_not_running"
    """No conversation is open, so a prompt or cancel has nobody to go to."""
    OPERATION_CONFLICT = "operation_conflict"
    """Another start is under way; details: its `operation_id`."""
    NOT_OFFERED = "not_offered"
    """The agent offers no such mode, option or content; details: what it `offers`."""
    UNKNOWN_PROMPT = "unknown_prompt"
    """No prompt of this id was ever accepted."""
    ID_REUSED = "id_reused"
    """This operation or prompt id stands for another request already; nothing was done."""
    UNKNOWN_PERMISSION = "unknown_permission"
    """No such permission request is open (answered, cancelled, or its agent is gone)."""
    UNKNOWN_SHELL = "unknown_shell"
    """No such shell here: it was closed, or belonged to an earlier or another agentctl."""
    SHELL_FAILED = "shell_failed"
    """The command of a shell cannot be run, or its folder is missing."""
    TOO_MANY = "too_many"
    """A documented number is reached; details: the `limit`."""
    WORKSPACE_IN_USE = "workspace_in_use"
    """Another agentctl still owns this workspace."""
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    """The journal cannot be read or written; nothing that must be durable is accepted."""
    JOURNAL_FULL = "journal_full"
    OUTSIDE_WORKSPACE = "outside_workspace"
    """The path leads out of the workspace, or to what is agentctl's own."""
    FILE_NOT_FOUND = "file_not_found"
    FILE_EXISTS = "file_exists"
    NOT_A_FILE = "not_a_file"
    """A folder, or a FIFO, socket or device, which are never opened; details: `kind`."""
    NOT_A_FOLDER = "not_a_folder"
    FOLDER_NOT_EMPTY = "folder_not_empty"
    PRECONDITION_REQUIRED = "precondition_required"
    """A write says what it replaces: If-Match or If-None-Match."""
    PRECONDITION_FAILED = "precondition_failed"
    """The file is another one by now; details: its `etag`, None where there is none."""
    RANGE_NOT_SATISFIABLE = "range_not_satisfiable"
    FILE_DENIED = "file_denied"
    """The operating system does not let agentctl do that; details: `errno`, by name."""
    FILE_FAILED = "file_failed"
    """The file system failed; details: `errno`, by name."""
    DISK_FULL = "disk_full"
    BUSY = "busy"
    """More of these calls are under way than agentctl takes; try again."""
    GIT_MISSING = "git_missing"
    """There is no git executable here."""
    NOT_A_REPOSITORY = "not_a_repository"
    GIT_FAILED = "git_failed"
    """Git refused; `message` and details `stderr` are its own words, secrets hidden."""
    GIT_TIMEOUT = "git_timeout"
    GIT_LOCKED = "git_locked"
    """Another git process holds a lock in the repository."""
    GIT_REF_NOT_FOUND = "git_ref_not_found"
    GIT_REF_EXISTS = "git_ref_exists"
    GIT_NOTHING_TO_COMMIT = "git_nothing_to_commit"
    GIT_UNRESOLVED = "git_unresolved"
    """A merge has conflicts that are not resolved."""
    GIT_IDENTITY_MISSING = "git_identity_missing"
    """Git does not know who commits: give an author, or configure one."""
    GIT_WOULD_LOSE = "git_would_lose"
    """The call would overwrite changes that are not committed."""
    GIT_DIVERGED = "git_diverged"
    """Both sides have commits that the other lacks; nothing was changed."""
    GIT_HEAD_MOVED = "git_head_moved"
    """HEAD is not the commit that the caller expects; details: `head`."""
    GIT_NO_UPSTREAM = "git_no_upstream"
    GIT_AUTH_FAILED = "git_auth_failed"
    """The remote wants other credentials, or any."""
    GIT_UNREACHABLE = "git_unreachable"
    GIT_CONFIG_UNSAFE = "git_config_unsafe"
    """The repository's own configuration says where credentials would go; details: `keys`."""
    NOT_SERVED = "not_served"
    """This agentctl leaves that room out: one that stands in front of another has no workspace of
    its own, hence no shell, files and git. `rooms` in its capabilities says so, too; details: the
    `room`."""
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"
    """This agentctl stands in front of another one, which does not answer (or not to us): nothing
    is known of the agent now."""
    NOT_FOUND = "not_found"
    INTERNAL = "internal"


STATUS_OF: Final[dict[Code, int]] = {
    Code.INVALID_REQUEST: 400,
    Code.TOO_LARGE: 413,
    Code.UNAUTHORIZED: 401,
    Code.CLOCK_SKEW: 401,
    Code.FORBIDDEN_SCOPE: 403,
    Code.STALE_EPOCH: 409,
    Code.SESSION_CONFLICT: 409,
    Code.NO_AGENT: 409,
    Code.AGENT_NOT_RUNNING: 409,
    Code.OPERATION_CONFLICT: 409,
    Code.NOT_OFFERED: 409,
    Code.UNKNOWN_PROMPT: 404,
    Code.ID_REUSED: 409,
    Code.UNKNOWN_PERMISSION: 404,
    Code.UNKNOWN_SHELL: 404,
    Code.SHELL_FAILED: 422,
    Code.TOO_MANY: 429,
    Code.WORKSPACE_IN_USE: 409,
    Code.JOURNAL_UNAVAILABLE: 503,
    Code.JOURNAL_FULL: 507,
    Code.OUTSIDE_WORKSPACE: 403,
    Code.FILE_NOT_FOUND: 404,
    Code.FILE_EXISTS: 409,
    Code.NOT_A_FILE: 409,
    Code.NOT_A_FOLDER: 409,
    Code.FOLDER_NOT_EMPTY: 409,
    Code.PRECONDITION_REQUIRED: 428,
    Code.PRECONDITION_FAILED: 412,
    Code.RANGE_NOT_SATISFIABLE: 416,
    Code.FILE_DENIED: 403,
    Code.FILE_FAILED: 503,
    Code.DISK_FULL: 507,
    Code.BUSY: 503,
    Code.GIT_MISSING: 503,
    Code.NOT_A_REPOSITORY: 409,
    Code.GIT_FAILED: 409,
    Code.GIT_TIMEOUT: 504,
    Code.GIT_LOCKED: 409,
    Code.GIT_REF_NOT_FOUND: 404,
    Code.GIT_REF_EXISTS: 409,
    Code.GIT_NOTHING_TO_COMMIT: 409,
    Code.GIT_UNRESOLVED: 409,
    Code.GIT_IDENTITY_MISSING: 409,
    Code.GIT_WOULD_LOSE: 409,
    Code.GIT_DIVERGED: 409,
    Code.GIT_HEAD_MOVED: 412,
    Code.GIT_NO_UPSTREAM: 409,
    Code.GIT_AUTH_FAILED: 409,
    Code.GIT_UNREACHABLE: 502,
    Code.GIT_CONFIG_UNSAFE: 409,
    Code.NOT_SERVED: 501,
    Code.UPSTREAM_UNAVAILABLE: 503,
    Code.NOT_FOUND: 404,
    Code.INTERNAL: 500,
}


class ErrorBody(Wire):
    """The body of every answer with a status of 400 or more."""

    code: str
    message: str
    details: dict[str, Any] = {}
