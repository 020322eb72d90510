"""What the machine wants done: stores first, in one transaction, then acts, in order.

A `Store` is a row of the journal; `durable` ones must have reached the disk before anything acts
on them. An `Act` reaches for the agent's process or for a timer; its outcome comes back as an
event. A `Reply` answers the call that caused the step. None of them is carried out here.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from kandev_operator.agentctl.machine.events import Timer
from kandev_operator.agentctl.machine.state import Prompt, Token
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.errors import Code
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import Capabilities, EndedTurn, Operation, Turn

# ---- stores ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoreFence:
    """The highest term and epoch seen."""

    durable: ClassVar[bool] = True
    term: int
    epoch: int


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """An operation, new or with a new state."""

    durable: ClassVar[bool] = True
    operation: Operation


@dataclass(frozen=True, slots=True)
class StorePrompt:
    """A prompt, new or with a new fate."""

    durable: ClassVar[bool] = True
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class StoreToken:
    """The current token, or none, and those it replaced."""

    durable: ClassVar[bool] = True
    token: Token | None
    previous: tuple[str, ...] = field(repr=False)
    epoch: int
    at: str


@dataclass(frozen=True, slots=True)
class StoreExecution:
    """Which process serves the session; `ended` None while it lives, so a crash shows later."""

    durable: ClassVar[bool] = False
    execution_id: str
    ended: Literal["asked", "unasked"] | None


@dataclass(frozen=True, slots=True)
class StoreTurn:
    """The live turn begins (`ended` None), or is over."""

    durable: ClassVar[bool] = False
    turn: Turn | None
    ended: EndedTurn | None
    completed: int


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """What a probe answered."""

    durable: ClassVar[bool] = False
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class Append:
    """An event for the stream."""

    durable: ClassVar[bool] = False
    kind: EventKind
    at: str
    execution_id: str | None
    data: dict[str, Any] = field(repr=False)


Store = (
    StoreFence
    | StoreOperation
    | StorePrompt
    | StoreToken
    | StoreExecution
    | StoreTurn
    | StoreCapabilities
    | Append
)

# ---- acts ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    """Kill leftovers, start the process, initialize it."""

    execution_id: str


@dataclass(frozen=True, slots=True)
class Open:
    """Open the conversation: session/new, or session/resume, or session/load."""

    execution_id: str
    operation_id: str
    mode: Literal["new", "resume"]
    token: str | None = field(repr=False)
    mcp_servers: tuple[dict[str, Any], ...] = field(repr=False)
    timeout: float


@dataclass(frozen=True, slots=True)
class SendPrompt:
    """Hand a prompt over; exactly one at a time."""

    execution_id: str
    turn_id: str
    prompt_id: str
    token: str = field(repr=False)
    content: tuple[dict[str, Any], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """Ask the agent to stop its turn; its answer is still waited for."""

    execution_id: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Choose:
    """Ask the agent to make a choice among what it offers."""

    execution_id: str
    operation_id: str
    token: str = field(repr=False)
    method: str
    params: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerPermission:
    """Answer the agent's waiting request; no option means cancelled."""

    execution_id: str
    key: str
    option_id: str | None


@dataclass(frozen=True, slots=True)
class End:
    """End the process gently, and whatever escaped from it."""

    execution_id: str
    grace: float


@dataclass(frozen=True, slots=True)
class Arm:
    """Fire `timer` with `key` after so many seconds; 0 means the configured time."""

    timer: Timer
    key: str
    seconds: float = 0.0


Act = Launch | Open | SendPrompt | CancelTurn | Choose | AnswerPermission | End | Arm

# ---- replies ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """The call is refused."""

    code: Code
    message: str
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OperationReply:
    """The operation as it is now."""

    operation: Operation


@dataclass(frozen=True, slots=True)
class PromptReply:
    prompt: Prompt
    position: int


@dataclass(frozen=True, slots=True)
class ConfiguredReply:
    changed: bool


@dataclass(frozen=True, slots=True)
class CancelReply:
    """Which turn is being cancelled; none if none was under way. The fate of a prompt named."""

    turn_id: str | None
    fate: PromptFate | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing more to say."""


Reply = Refused | OperationReply | PromptReply | ConfiguredReply | CancelReply | Done
