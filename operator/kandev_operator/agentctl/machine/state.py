"""The machine's memory, as one frozen value, and the draft in which a step changes it.

Whatever must survive a restart has a `Store` of its own in `effects`; the rest (open permission
requests, a half spoken message, the wish to start) dies with the processes it is about. Lists are
bounded here, so that neither a caller nor an agent can make it grow for ever.
"""

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kandev_operator.contract.agent import PermissionPolicy, PromptFate
from kandev_operator.contract.conversation import ConversationReport
from kandev_operator.contract.status import (
    AgentStatus,
    Capabilities,
    EndedTurn,
    Exit,
    Operation,
    Turn,
)

KEPT_OPERATIONS: Final = 50
KEPT_PROMPTS: Final = 200
"""Those whose fate is decided; queued ones are all kept."""
MAX_QUEUE: Final = 1000
MAX_QUEUE_BYTES: Final = 32 * 1024 * 1024
MAX_PERMISSIONS: Final = 32
KEPT_TOKENS: Final = 5


UNPROBED: Final = Capabilities(supports_workspace_only=True)
"""What is known before any agent was asked: the workspace alone is agentctl's own business."""

NOTHING_OFFERED: Final = ConversationReport()


@dataclass(frozen=True, slots=True)
class Token:
    """The resume token: the agent's own session id."""

    value: str = field(repr=False)
    established: bool
    epoch: int
    agent: str | None = None
    """Who made it or took it last, by the name that it gave; None: not known."""
    profile: str | None = None
    """The UID of the profile that agent was run for; None: not known."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """An accepted prompt. Its content is dropped once it can never be sent any more."""

    prompt_id: str
    fate: PromptFate
    at: str
    content: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    reason: str = ""
    size: int = field(default=0, compare=False)
    digest: str = field(default="", repr=False)
    """Of the content, which outlives it; empty for prompts of older journals."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A start operation under way: what to open once the process is there."""

    operation_id: str
    mode: Literal["new", "resume"]
    epoch: int
    timeout: float
    execution_id: str
    """The process to launch, should none be there that fits."""
    token: str | None = field(repr=False)
    mcp_servers: tuple[dict[str, Any], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpenPermission:
    """A permission request that waits for an answer."""

    permission_id: str
    key: str
    turn_id: str | None
    title: str
    tool_kind: str | None
    options: tuple[tuple[str, str, str], ...]
    at: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A choice of a mode or config option that the agent was asked to make."""

    operation_id: str
    kind: Literal["mode", "config"]
    name: str
    value: str | bool


@dataclass(frozen=True, slots=True)
class Speech:
    """A message being spoken: what came since the last event of it, and who speaks."""

    message_id: str
    source: tuple[str, str, str]
    """(author, kind, the agent's own message id): a change of any of them is a new message."""
    text: str = field(repr=False)
    told: int = 0
    """Characters of it that events have told already."""


@dataclass(frozen=True, slots=True)
class State:
    """Everything that is known. The default is an agentctl that never served a session."""

    session_id: str | None = None
    term: int = 0
    epoch: int = 0
    status: AgentStatus = AgentStatus.NONE

    profile_uid: str | None = None
    running_profile_uid: str | None = None
    profile_hash: str | None = None
    """What the next launch runs; None: not told since agentctl started."""
    policy: PermissionPolicy = PermissionPolicy.ASK
    permission_timeout: float | None = None
    """Seconds that a request stays open; None: until it is answered or its turn is over."""
    running_hash: str | None = None
    running_policy: PermissionPolicy = PermissionPolicy.ASK
    running_permission_timeout: float | None = None

    execution_id: str | None = None
    silent: bool = False
    """Its process cannot be reached now: prompts wait in the queue."""
    exit: Exit | None = None
    capabilities: Capabilities = UNPROBED
    unprobed: Capabilities = UNPROBED
    """What is known where no agent was asked."""
    wish: Wish | None = None
    probe: str | None = None
    """A probe of a new configuration waits for the old process to go; its execution id."""
    operations: tuple[Operation, ...] = ()
    opened_token: str | None = field(default=None, repr=False)
    """The conversation that is open in this process."""

    token: Token | None = None
    previous_tokens: tuple[str, ...] = field(default=(), repr=False)

    prompts: tuple[Prompt, ...] = ()
    """Oldest first. At most one is `sending` or belongs to the live turn."""
    turn: Turn | None = None
    turn_arrived: bool = False
    turn_cancelled: bool = False
    last_turn: EndedTurn | None = None
    turns_completed: int = 0
    turns_begun: int = 0
    """Turns of this execution, for their ids."""

    conversation: ConversationReport = NOTHING_OFFERED
    """What the agent offers in the conversation that is open."""
    setting: Setting | None = None

    permissions: tuple[OpenPermission, ...] = ()
    permissions_asked: int = 0
    speech: Speech | None = None
    messages_begun: int = 0
    calls: tuple[tuple[str, dict[str, Any]], ...] = field(default=(), repr=False)
    """The tool calls of the live turn, merged, newest last."""

    replayed: int = 0
    stray: int = 0
    """Updates that belong to no turn and were dropped."""
    shutting_down: bool = False
    turn_cut: bool = False
    """agentctl's own end, and nobody's wish, had the live turn stop."""

    @property
    def queue(self) -> tuple[Prompt, ...]:
        """Those that wait for their turn, in order."""
        return tuple(p for p in self.prompts if p.fate is PromptFate.QUEUED)
