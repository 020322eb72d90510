"""What a plan may ask to be done. Each action is idempotent or fenced; `controller.act` does it.

A closed union: `match` over it ends in `assert_never`, so a new action fails the type check until
somebody carries it out. Actions are done in order, before the status of the same plan is written;
what must not happen twice stands in status as an intent before its action appears in a plan.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from kandev_operator.core.observed import TokenSeen


@dataclass(frozen=True, slots=True)
class ContainerWanted:
    """A container as it is to be made. `config` is the engine's own form of it."""

    name: str
    instance_id: str
    config: dict[str, Any]
    volumes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """(name, labels) of those that must be there first."""
    folders: tuple[str, ...] = ()
    """Folders in it that must be there, and be `user`'s own."""
    user: int | None = None
    keys_at: str = ""
    """Where it finds the public keys of its callers."""
    credentials: tuple[tuple[str, str], ...] = ()
    """(folder in it, Secret whose values lie there as files)."""


@dataclass(frozen=True, slots=True)
class CreateExecutor:
    """Make the executor of a session's template. Its name is a function of the session's UID."""

    manifest: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ConfigureAgent:
    """PUT the agent: which session is served and what to run for it. No effect when unchanged."""

    epoch: int
    adopt_from: str | None = None
    """The UID this session had before it was made again under the same name."""


@dataclass(frozen=True, slots=True)
class StartAgent:
    """Open the conversation anew or resume it. The same operation id is never done twice."""

    operation_id: str
    epoch: int
    mode: Literal["new", "resume"]
    timeout_seconds: int
    token: TokenSeen | None = None


@dataclass(frozen=True, slots=True)
class StopAgent:
    """End the agent gently; the workspace stays served."""

    operation_id: str
    epoch: int
    session_uid: str
    for_good: bool = False
    """No agent will come again: prompts that wait are told as not delivered."""


@dataclass(frozen=True, slots=True)
class SendFirstPrompt:
    """Hand over the first prompt. Its id makes a repetition harmless."""

    prompt_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoreToken:
    """Keep the token in the session's Secret, unless that holds a higher epoch."""

    secret_name: str
    token: TokenSeen
    epoch: int


@dataclass(frozen=True, slots=True)
class RetireToken:
    """A fresh start: the Secret gets the new epoch and no token; the old one becomes previous."""

    secret_name: str
    epoch: int


@dataclass(frozen=True, slots=True)
class AdoptTerm:
    """agentctl has seen a higher term: raise the Lease past it, if we truly lead."""

    term: int


@dataclass(frozen=True, slots=True)
class DeleteSession:
    """The time to live of a finished session is over."""


@dataclass(frozen=True, slots=True)
class DeleteExecutor:
    """An executor whose session is positively gone."""


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Add or remove `kandev.dev/cleanup` on an executor."""

    present: bool


@dataclass(frozen=True, slots=True)
class StartProcess:
    """Start agentctl on this machine, under the instance id that status pins."""

    instance_id: str


@dataclass(frozen=True, slots=True)
class StopProcess:
    """End the agentctl processes of a local executor, and what they left running."""

    strangers: bool = False
    """Also one that an executor which is gone left in the folder."""


@dataclass(frozen=True, slots=True)
class FollowTemplate:
    """Bring an executor that was made from a template up to what the template says now."""

    block: str
    """The runtime's block of the spec, as it is called in the cluster."""
    content: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Make the session's claim. Its name is a function of the session's UID."""

    manifest: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make a pod, and see that the keys it mounts are there. Its name names the instance, so the
    same pod is never made twice."""

    manifest: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Ask for the end of this very pod; the kubelet ends it gently, within its grace period."""

    name: str
    uid: str
    at_once: bool = False
    """Only the object: whatever it stood for is surely dead."""


@dataclass(frozen=True, slots=True)
class PullImage:
    """Begin to fetch an image, unless that is under way; how it ends is seen later."""

    name: str


@dataclass(frozen=True, slots=True)
class RunContainer:
    """Make a container and what it mounts, put into it what it must find there, and start it. Its
    name names the instance, so the same container is never made twice."""

    container: ContainerWanted = field(hash=False)


@dataclass(frozen=True, slots=True)
class StartContainer:
    """Start this very container, where it does not run."""

    container_id: str


@dataclass(frozen=True, slots=True)
class RemoveContainer:
    """End this very container gently, and remove it; volumes stay."""

    container_id: str


@dataclass(frozen=True, slots=True)
class RemoveVolume:
    """Remove a volume that nobody needs any more."""

    name: str


SessionAction = (
    CreateExecutor
    | FollowTemplate
    | CreateClaim
    | ConfigureAgent
    | StartAgent
    | StopAgent
    | SendFirstPrompt
    | StoreToken
    | RetireToken
    | AdoptTerm
    | DeleteSession
)
ExecutorAction = (
    DeleteExecutor
    | SetFinalizer
    | StartProcess
    | StopProcess
    | CreatePod
    | DeletePod
    | PullImage
    | RunContainer
    | StartContainer
    | RemoveContainer
    | RemoveVolume
    | StopAgent
    | AdoptTerm
)
Action = SessionAction | ExecutorAction
