"""What can happen to agentctl, one frozen class each; together the union `Event`.

Every event carries its time (RFC 3339), and each one that comes from an agent's process carries
the execution it belongs to, so that a late one of an older process is known as such and dropped.
Fresh ids (of an execution) arrive here too: nothing in this room rolls dice.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from kandev_operator.contract.agent import PermissionPolicy
from kandev_operator.contract.status import Capabilities, Exit, Failure


class Timer(StrEnum):
    """What was waited for; each is armed with a key, and a stale key is ignored."""

    PROBE_IDLE = "probe_idle"
    CANCEL_GRACE = "cancel_grace"
    FLUSH = "flush"
    START = "start"
    PERMISSION = "permission"
    """An open request was not answered; armed for each of them."""


@dataclass(frozen=True, slots=True)
class FenceSeen:
    """A genuine caller carries this term and epoch."""

    at: str
    term: int | None
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Configured:
    """PUT agent for the session served here. `execution_id` is used if a probe is launched."""

    at: str
    profile_hash: str
    policy: PermissionPolicy
    execution_id: str
    permission_timeout: float | None = None
    profile_uid: str | None = None


@dataclass(frozen=True, slots=True)
class StartAsked:
    """POST start. `execution_id` is used if a process must be launched for it."""

    at: str
    operation_id: str
    mode: Literal["new", "resume"]
    epoch: int
    timeout: float
    execution_id: str
    token: str | None = field(default=None, repr=False)
    mcp_servers: tuple[dict[str, Any], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class StopAsked:
    """POST stop."""

    at: str
    operation_id: str
    epoch: int
    grace: float
    drop_queue: bool = False


@dataclass(frozen=True, slots=True)
class PromptAsked:
    """POST prompt."""

    at: str
    prompt_id: str
    content: tuple[dict[str, Any], ...] = field(repr=False)
    size: int = 0
    """About how many bytes the content is."""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """POST cancel: the turn under way, or what became of one prompt."""

    at: str
    prompt_id: str | None = None


@dataclass(frozen=True, slots=True)
class SettingAsked:
    """POST mode or config. `name` is the option's id, empty for the mode."""

    at: str
    operation_id: str
    epoch: int
    kind: Literal["mode", "config"]
    name: str
    value: str | bool


@dataclass(frozen=True, slots=True)
class PermissionChosen:
    """POST permissions/{id}; no option means refused."""

    at: str
    permission_id: str
    option_id: str | None


@dataclass(frozen=True, slots=True)
class Initialized:
    """The agent answered `initialize`."""

    at: str
    execution_id: str
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class InitializeFailed:
    """It did not, or could not even be launched (`launched` False: no process exists)."""

    at: str
    execution_id: str
    failure: Failure
    launched: bool = True


@dataclass(frozen=True, slots=True)
class Opened:
    """The conversation is open and its replay has settled. `token` is the agent's word."""

    at: str
    execution_id: str
    operation_id: str
    method: str
    token: str = field(repr=False)
    answer: dict[str, Any] = field(default_factory=dict, repr=False)
    """The agent's whole answer: what it offers in this conversation. Not trusted."""


@dataclass(frozen=True, slots=True)
class OpenFailed:
    """The conversation could not be opened."""

    at: str
    execution_id: str
    operation_id: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class UpdateCame:
    """A `session/update` of the agent, as it came: what it holds is not trusted."""

    at: str
    execution_id: str
    session_id: str = field(repr=False)
    update: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class FaultSeen:
    """The agent wrote something that was dropped; told to whoever reads the conversation."""

    at: str
    execution_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TerminalEnded:
    """A command that the agent had its client run is over; the end of what it wrote."""

    at: str
    execution_id: str
    terminal_id: str
    output: str = field(repr=False)
    code: int | None
    signal: str | None


@dataclass(frozen=True, slots=True)
class StreamBroken:
    """The connection to a living process is of no use any more; the process must go."""

    at: str
    execution_id: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class TurnAnswered:
    """The agent answered the prompt of this turn."""

    at: str
    execution_id: str
    turn_id: str
    stop_reason: str
    usage: dict[str, Any] | None = None
    """As it came; not trusted."""


@dataclass(frozen=True, slots=True)
class SettingAnswered:
    """The agent made the choice of this operation."""

    at: str
    execution_id: str
    operation_id: str
    answer: dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SettingFailed:
    """The agent did not make the choice of this operation."""

    at: str
    execution_id: str
    operation_id: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The agent answered the prompt of this turn with an error. `answered`: it really spoke."""

    at: str
    execution_id: str
    turn_id: str
    failure: Failure
    answered: bool = True


@dataclass(frozen=True, slots=True)
class PermissionAsked:
    """The agent asks; `key` is how its waiting request is found again."""

    at: str
    execution_id: str
    key: str
    title: str
    tool_kind: str | None
    options: tuple[tuple[str, str, str], ...]
    """(option_id, name, kind)."""


@dataclass(frozen=True, slots=True)
class PermissionWithdrawn:
    """The request of this key waits for no answer any more; nobody here answered it."""

    at: str
    execution_id: str
    key: str


@dataclass(frozen=True, slots=True)
class Silenced:
    """A process that may well live cannot be reached: nothing is handed to it meanwhile."""

    at: str
    execution_id: str


@dataclass(frozen=True, slots=True)
class Rejoined:
    """A process that was silent, or that outlived agentctl, can be talked to again."""

    at: str
    execution_id: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The process is gone, and with it whatever escaped from it."""

    at: str
    execution_id: str
    exit: Exit


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A timer armed earlier is over."""

    at: str
    timer: Timer
    key: str


@dataclass(frozen=True, slots=True)
class ShutDown:
    """agentctl itself is asked to end."""

    at: str
    grace: float


Event = (
    FenceSeen
    | Configured
    | StartAsked
    | StopAsked
    | PromptAsked
    | CancelAsked
    | SettingAsked
    | PermissionChosen
    | Initialized
    | InitializeFailed
    | Opened
    | OpenFailed
    | UpdateCame
    | FaultSeen
    | TerminalEnded
    | StreamBroken
    | TurnAnswered
    | TurnFailed
    | SettingAnswered
    | SettingFailed
    | PermissionAsked
    | PermissionWithdrawn
    | Silenced
    | Rejoined
    | Exited
    | TimerFired
    | ShutDown
)
