"""What a caller asks of agentctl: which agent to run, start, prompt, stop, permissions."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from kandev_operator.contract.wire import Wire

Name = Annotated[str, Field(min_length=1, max_length=253)]
Identifier = Annotated[str, Field(min_length=1, max_length=128)]
ResumeToken = Annotated[str, Field(min_length=1, max_length=64 * 1024)]
"""An agent's own session id, passed on byte for byte. A credential: never logged or shown."""


class PermissionPolicy(StrEnum):
    """Who answers when the agent asks for permission."""

    ASK = "Ask"
    ALLOW_ALL = "AllowAll"
    DENY_ALL = "DenyAll"


class AgentSpec(Wire):
    """PUT `/api/v1/agent`: the session served here, and what to run for it.

    The same `profile_hash` again has no effect. A new one never restarts a live agent: it counts
    from the next start on. Another `session_id` while an agent lives is a `session_conflict`;
    otherwise the other session gets a journal of its own. `adopt_from` names the UID that this
    session had before it was made again under the same name: its journal becomes this session's.
    """

    session_id: Identifier
    session_namespace: Name
    session_name: Name
    adopt_from: Identifier | None = None
    command: Annotated[str, Field(min_length=1, max_length=4096)]
    args: tuple[str, ...] = ()
    env: Annotated[dict[str, str], Field(repr=False)] = {}
    cwd: str | None = None
    """Absolute path; the workspace where absent. The same for the session's whole life."""
    permission_policy: PermissionPolicy = PermissionPolicy.ASK
    permission_timeout_seconds: Annotated[float | None, Field(gt=0, le=604_800)] = None
    """A request that nobody answered for so long is refused; absent: it stays open."""
    profile_uid: Identifier | None = None
    """Which profile this is, whatever its name and however it was changed. A token belongs to the
    profile and the agent that it was made with."""
    profile_hash: Identifier


class AgentAnswer(Wire):
    """Answer to PUT `/api/v1/agent`."""

    session_id: str
    journal_id: str
    profile_hash: str
    changed: bool
    """True when this call changed what the next start will run."""


class StartRequest(Wire):
    """POST `/api/v1/start`. The operation is stored before it is done; answer 202 `Operation`.

    The same `operation_id` with the same request answers the same operation; with another request
    (its patience apart) it is refused as `id_reused`.
    """

    session_id: Identifier
    operation_id: Identifier
    mode: Literal["new", "resume"]
    resume_token: Annotated[ResumeToken | None, Field(repr=False)] = None
    """Needed for mode `resume`."""
    mcp_servers: tuple[dict[str, Any], ...] = ()
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 120.0
    """How long the agent may take, from its launch to the open conversation."""


class StopRequest(Wire):
    """POST `/api/v1/stop`: end the agent gently (stdin closed, wait, TERM, KILL). Answer 202.

    Queued prompts go on waiting for the next start, unless `drop_queue` says that none will come:
    then their fate is `not_delivered`, which is stored with the operation.
    """

    session_id: Identifier
    operation_id: Identifier
    grace_seconds: Annotated[float, Field(ge=0, le=600)] = 10.0
    drop_queue: bool = False


class PromptRequest(Wire):
    """POST `/api/v1/prompt`: accepted (202 `PromptAnswer`) once it is stored durably.

    `prompt_id` is the idempotency key: the same id again answers with the recorded fate and sends
    nothing; with other content it is refused as `id_reused`. Content blocks are ACP's own.
    """

    session_id: Identifier
    prompt_id: Identifier
    content: Annotated[tuple[dict[str, Any], ...], Field(min_length=1, max_length=64, repr=False)]


class PromptFate(StrEnum):
    """What became of an accepted prompt."""

    QUEUED = "queued"
    """Stored; it goes to the agent in its turn, after a resume if need be."""
    SENDING = "sending"
    """Being handed to the agent; no sign of arrival yet."""
    DELIVERED = "delivered"
    """The agent showed that it has it: an update or an answer of its turn came."""
    NOT_DELIVERED = "not_delivered"
    """It certainly never reached the agent and will not be sent; the reason is recorded."""
    UNKNOWN = "unknown"
    """The agent (or agentctl) died while it was being handed over. Never re-sent silently."""


class PromptAnswer(Wire):
    """Answer to POST `/api/v1/prompt`."""

    prompt_id: str
    fate: PromptFate
    position: int = 0
    """Prompts before it in the queue."""


class CancelRequest(Wire):
    """POST `/api/v1/cancel`. Without a body: the turn under way, whichever it is.

    With a `prompt_id`: that prompt alone. One that still waits becomes `not_delivered`, the one
    being worked on has its turn cancelled, and one whose fate is decided stays as it is.
    """

    prompt_id: Identifier | None = None


class CancelAnswer(Wire):
    """Answer to POST `/api/v1/cancel`. The turn's end is still the agent's own answer."""

    turn_id: str | None = None
    """The turn that is being cancelled; absent if none was under way."""
    fate: PromptFate | None = None
    """Of the prompt that was named."""


class PermissionOption(Wire):
    """One possible answer to a permission request."""

    option_id: str
    name: str
    kind: str


class Permission(Wire):
    """An open permission request of the agent; it dies with the agent's process."""

    permission_id: str
    turn_id: str | None = None
    title: str
    tool_kind: str | None = None
    options: tuple[PermissionOption, ...]
    requested_at: str


class PermissionAnswer(Wire):
    """POST `/api/v1/permissions/{id}`: choose an option, or refuse by leaving it out."""

    option_id: str | None = None


class PermissionTaken(Wire):
    """Answer to POST `/api/v1/permissions/{id}`: the answer goes to the agent."""

    permission_id: str
