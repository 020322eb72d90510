"""One frame of the socket at `/ws`, and the error of a refused request.

Every frame is a JSON object `{id, type, action, payload, timestamp}`. A request gets one response
or one error with its own id and action; notifications have an id of their own. The same error
body answers a refused call of the HTTP API. `message` is for people and may change; programs read
`code`.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from kandev_operator.contract.wire import Wire

MAX_FRAME_BYTES: Final = 1024 * 1024
"""Longest frame that a client may send; a longer one closes its socket with 1009."""


class FrameType(StrEnum):
    """What a frame is."""

    REQUEST = "request"
    RESPONSE = "response"
    NOTIFICATION = "notification"
    ERROR = "error"


FrameId = Annotated[str, Field(min_length=1, max_length=100)]


class Frame(Wire):
    """The envelope. `timestamp` is RFC 3339 in UTC; a client may leave it out."""

    id: FrameId
    type: FrameType
    action: Annotated[str, Field(min_length=1, max_length=100)]
    payload: dict[str, Any] = {}
    timestamp: str | None = None


class ErrorCode(StrEnum):
    """Why a request was refused. What agentctl refuses keeps agentctl's own code."""

    INVALID_FRAME = "invalid_frame"
    """No JSON, or no envelope; the socket stays open."""
    INVALID_REQUEST = "invalid_request"
    """The payload does not fit; details say where."""
    UNKNOWN_ACTION = "unknown_action"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    """The object may be read, this may not be done to it; details: `verb`, `resource`."""
    NOT_FOUND = "not_found"
    """It does not exist, or may not be read: the two are not told apart."""
    SESSION_NOT_IN_TASK = "session_not_in_task"
    AGENT_NOT_READY = "agent_not_ready"
    """The session is starting; the words were not sent, keep them and try again."""
    AGENT_NOT_RUNNING = "agent_not_running"
    """No agent runs; details: `resume_reason`, `is_resumable`, `needs_resume`."""
    AGENTCTL_NOT_READY = "agentctl_not_ready"
    """Shell, files and git wait for `session.agentctl_ready`; details: `executor_status`."""
    OWNED_BY_GIT = "owned_by_git"
    """That field belongs to another manager; details: `manager`, `field`."""
    CONFLICT = "conflict"
    REFUSED_BY_CLUSTER = "refused_by_cluster"
    """The API server's own words are the message: admission, quota, validation."""
    UNREACHABLE = "unreachable"
    """agentctl or the API server does not answer now; nothing is known of what was asked."""
    TOO_MANY = "too_many"
    """A documented number is reached; details: `limit`."""
    RATE_LIMITED = "rate_limited"
    """details: `retry_after_seconds`."""
    HISTORY_UNAVAILABLE = "history_unavailable"
    """The store of messages does not answer; what is live goes on."""
    INTERNAL = "internal"


class ErrorBody(Wire):
    """The payload of an error frame, and the body of a refused HTTP call."""

    code: str
    message: str
    details: dict[str, Any] = {}
