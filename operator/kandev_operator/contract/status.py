"""What agentctl reports: health, capabilities, operations and the whole status.

`Health` comes from memory and needs no token. `StatusReport` is the truth a caller works from: a
caller that missed every event loses nothing by reading it once. Times are RFC 3339 in UTC.
"""

from enum import StrEnum
from typing import Any, Literal, assert_never

from pydantic import Field

from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.conversation import ConversationReport, TurnUsage
from kandev_operator.contract.wire import Wire


class AgentStatus(StrEnum):
    """The agent's process, as agentctl knows it at this moment."""

    NONE = "none"
    """No process: nothing configured, never started, or ended on purpose."""
    INITIALIZING = "initializing"
    """Launched; `initialize` is not answered yet."""
    INITIALIZED = "initialized"
    """Alive and probed, no conversation open."""
    OPENING = "opening"
    """A start operation opens or resumes the conversation."""
    IDLE = "idle"
    """The conversation is open and waits for a prompt: agent ready."""
    RUNNING = "running"
    """A turn is under way."""
    STOPPING = "stopping"
    EXITED = "exited"
    """The process ended and nobody asked it to; `exit` says how."""


class JournalState(StrEnum):
    """Whether what must be durable can be stored."""

    OK = "ok"
    ABSENT = "absent"
    """No session was ever served here."""
    UNREADABLE = "unreadable"
    FULL = "full"


class Health(Wire):
    """GET `/health`."""

    status: Literal["ok", "degraded"]
    instance_id: str
    boot_id: str
    """New at every start of the agentctl process; `instance_id` survives a restart in place."""
    contract_version: str
    session_id: str | None = None
    agent_status: AgentStatus


class AgentInfo(Wire):
    """The agent's name and version, from its answer to `initialize`."""

    name: str
    version: str


class Failure(Wire):
    """Why an operation or a probe failed. `code` is stable, `message` quotes the agent, bounded."""

    code: str
    message: str
    agent_code: int | None = None
    """The agent's JSON-RPC error code, where it gave one."""


class FailureCode(StrEnum):
    """Stable codes of `Failure.code`."""

    SESSION_NOT_FOUND = "session_not_found"
    """Definite: the agent's own list lacks the token, or it answered -32002 and cannot list; the
    workspace's marker names this session, so the answer was not about somebody else's files."""
    RESUME_UNSUPPORTED = "resume_unsupported"
    """The agent declares neither `session/resume` nor `session/load`."""
    REJECTED = "rejected"
    """The agent's own "no" that asking again will not change (invalid params)."""
    AGENT_ERROR = "agent_error"
    """An error that proves nothing about the conversation; worth another try."""
    HELD_ELSEWHERE = "held_elsewhere"
    """The agent says that another live process holds this conversation."""
    AUTHENTICATION_REQUIRED = "authentication_required"
    TIMED_OUT = "timed_out"
    AGENT_EXITED = "agent_exited"
    COMMAND_NOT_FOUND = "command_not_found"
    CWD_MISSING = "cwd_missing"
    INITIALIZE_FAILED = "initialize_failed"
    PROTOCOL_MISMATCH = "protocol_mismatch"
    GARBAGE = "garbage"
    """The agent wrote something that is not JSON-RPC, or a line over the limit."""
    INVALID_TOKEN = "invalid_token"
    WORKSPACE_IN_USE = "workspace_in_use"
    """Another agentctl works on these files, or processes of an earlier execution that do not end:
    the message names them by pid, program and uid, and says what helps."""
    JOURNAL_UNAVAILABLE = "journal_unavailable"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"
    """The agentctl behind this one did not answer, or refused; worth another try."""
    INTERRUPTED = "interrupted"
    """agentctl itself restarted in the middle; the outcome is not known, nothing runs any more."""
    SUPERSEDED = "superseded"
    """A stop, or a start of a higher epoch, came in between."""


class AuthMethod(Wire):
    """A way to log in that the agent names; the login itself happens outside."""

    id: str
    name: str = ""
    description: str = ""


class PromptCapabilities(Wire):
    """What a prompt may hold beside text and links, which every agent takes."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(Wire):
    """Which MCP servers the agent connects to beside those started as a command."""

    http: bool = False
    sse: bool = False


class Room(StrEnum):
    """A part of the contract that an agentctl may leave out."""

    FILES = "files"
    GIT = "git"
    SHELL = "shell"


class Rooms(Wire):
    """Which rooms are served. agentctl's own word, known at once, whatever the agent does.

    True: the room keeps its MUSTs. False: every path below `/api/v1/ROOM` is refused with 501
    `not_served`, and nothing is done. Absent: not told, as by an agentctl of an earlier version.
    """

    files: bool | None = None
    git: bool | None = None
    shell: bool | None = None
    reason: str = ""
    """Why one is not served, for people."""

    def serves(self, room: Room) -> bool | None:
        """What is said of one room."""
        match room:
            case Room.FILES:
                return self.files
            case Room.GIT:
                return self.git
            case Room.SHELL:
                return self.shell
            case _:
                assert_never(room)


class Capabilities(Wire):
    """GET `/api/v1/capabilities`. Absent means not known, which is not a no.

    After a probe that did not fail, an absent `agent`, `protocol_version` or `load_session` stays
    absent, and `unknown` says why. Nothing that was not seen is ever made up.
    """

    rooms: Rooms | None = None
    supports_session_resume: bool | None = None
    """The agent declares `session/resume` or `session/load`."""
    supports_workspace_only: bool | None = None
    agent: AgentInfo | None = None
    protocol_version: int | None = None
    """The one agreed on with the agent in `initialize`."""
    load_session: bool | None = None
    resume_session: bool | None = None
    list_sessions: bool | None = None
    auth_methods: tuple[str, ...] = ()
    """Their ids; `logins` says more of each."""
    logins: tuple[AuthMethod, ...] = ()
    prompt: PromptCapabilities | None = None
    mcp: McpCapabilities | None = None
    unknown: dict[str, str] = {}
    """Fields of this body that this agentctl cannot know of this agent, each with the reason."""
    profile_hash: str | None = None
    """Which configuration the answers are about."""
    probed_at: str | None = None
    failure: Failure | None = None
    """The probe's failure. It never touches agentctl's own readiness."""


class OperationState(StrEnum):
    """How far an operation is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class Operation(Wire):
    """One start, stop, or change of a mode or config option, known by its caller's id."""

    operation_id: str
    kind: Literal["start", "stop", "mode", "config"]
    mode: Literal["new", "resume"] | None = None
    epoch: int | None = None
    state: OperationState
    started_at: str
    ended_at: str | None = None
    execution_id: str | None = None
    method: str | None = None
    """The ACP method that opened the conversation: session/new, session/resume, session/load."""
    token_replaced: bool = False
    """The resume succeeded, but the agent answered with another id: the old history is lost."""
    failure: Failure | None = None
    request_sha256: str | None = None
    """Of what was asked under this id; a call with the same id and another request is refused as
    `id_reused`. How long it may take is no part of it. Absent for operations of older journals."""


class Exit(Wire):
    """How the agent's process ended."""

    code: int | None = None
    signal: str | None = None
    at: str
    stderr_tail: str = ""


class AgentReport(Wire):
    """The agent's process."""

    status: AgentStatus
    execution_id: str | None = None
    pid: int | None = None
    exit: Exit | None = None


class Turn(Wire):
    """A turn under way."""

    turn_id: str
    prompt_id: str
    execution_id: str
    started_at: str
    awaiting_permission: bool = False


class EndedTurn(Wire):
    """The newest turn that ended."""

    turn_id: str
    prompt_id: str
    execution_id: str
    ended_at: str
    outcome: Literal["completed", "cancelled", "interrupted", "failed"]
    stop_reason: str | None = None
    failure: Failure | None = None
    usage: TurnUsage | None = None


class TokenReport(Wire):
    """The resume token. `value` is shown to scope `control` only."""

    value: str | None = Field(default=None, repr=False)
    sha256: str
    established: bool
    """False while no turn was ever completed with it (promised only)."""
    epoch: int = 0
    previous: tuple[str, ...] = Field(default=(), repr=False)
    """Tokens it replaced, newest first; scope `control` only."""
    agent: str | None = None
    """The name of the agent that made it, as it told itself. Absent: not known."""


class SessionReport(Wire):
    """The session served here, as the workspace's marker names it."""

    session_id: str
    namespace: str
    name: str
    marker_verified: bool


class JournalReport(Wire):
    """Where the journal stands: cursors are `JOURNAL_ID:SEQ`."""

    journal_id: str | None = None
    last_seq: int = 0
    state: JournalState
    message: str = ""


class PromptRecord(Wire):
    """An accepted prompt and what became of it."""

    prompt_id: str
    fate: PromptFate
    reason: str = ""


class StatusReport(Wire):
    """GET `/api/v1/status`."""

    instance_id: str
    boot_id: str
    contract_version: str
    session: SessionReport | None = None
    profile_hash: str | None = None
    workspace_path: str
    pid: int | None = None
    term: int = 0
    epoch: int = 0
    agent: AgentReport
    capabilities: Capabilities
    token: TokenReport | None = None
    journal: JournalReport
    operations: tuple[Operation, ...] = ()
    """The newest ones, newest last."""
    turn: Turn | None = None
    last_turn: EndedTurn | None = None
    turns_completed: int = 0
    prompts: tuple[PromptRecord, ...] = ()
    """The newest ones, oldest first; those queued are always among them."""
    permissions: int = 0
    """How many permission requests are open."""
    conversation: ConversationReport | None = None
    """What the agent offers; only while a conversation is open."""
    details: dict[str, Any] = {}
