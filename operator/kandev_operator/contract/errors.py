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
    UNKNOWN_PERMISSION = "unknown_permission"
    """No such permission request is open (answered, cancelled, or its agent is gone)."""
    WORKSPACE_IN_USE = "workspace_in_use"
    """Another agentctl still owns this workspace."""
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    """The journal cannot be read or written; nothing that must be durable is accepted."""
    JOURNAL_FULL = "journal_full"
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
    Code.UNKNOWN_PERMISSION: 404,
    Code.WORKSPACE_IN_USE: 409,
    Code.JOURNAL_UNAVAILABLE: 503,
    Code.JOURNAL_FULL: 507,
    Code.NOT_FOUND: 404,
    Code.INTERNAL: 500,
}


class ErrorBody(Wire):
    """The body of every answer with a status of 400 or more."""

    code: str
    message: str
    details: dict[str, Any] = {}
