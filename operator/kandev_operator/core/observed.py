"""What was seen at one instant: the only input of a decision, besides the time.

An observation never acts and never raises for the expected: a missing object, an unreadable API
and a silent agentctl are values. `Unreadable` is not `Missing`: nothing is deleted, retired or
called dead because a look-up failed. Tokens are carried so that they can be handed on, and their
repr hides them.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Generic, Literal, TypeVar

from kandev_operator.api.executor import Executor
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import TaskSession
from kandev_operator.api.task import Task
from kandev_operator.core.containerseen import DockerContainer, ImageSeen, VolumeSeen
from kandev_operator.core.podseen import ClaimSeen, NodeSeen, PodSeen

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The look-up gave this."""

    value: T


@dataclass(frozen=True, slots=True)
class Missing:
    """The look-up succeeded, and there is no such thing."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The look-up itself failed: nothing is known."""

    why: str = ""
    lasting: bool = False
    """The object is there and cannot be read by this version: a person must mend it."""


Look = Found[T] | Missing | Unreadable


class AgentPhase(StrEnum):
    """The agent's process as agentctl reports it."""

    NONE = "none"
    INITIALIZING = "initializing"
    INITIALIZED = "initialized"
    OPENING = "opening"
    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"


LIVE_PHASES = frozenset({AgentPhase.IDLE, AgentPhase.RUNNING})
"""The conversation is open: the agent runs."""


@dataclass(frozen=True, slots=True)
class FailureSeen:
    """A failure in agentctl's words: `code` is stable, `message` quotes the agent."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class OperationSeen:
    """One start or stop, as agentctl recorded it."""

    operation_id: str
    kind: Literal["start", "stop"]
    mode: str | None
    state: Literal["running", "succeeded", "failed"]
    ended_at: datetime | None = None
    token_replaced: bool = False
    failure: FailureSeen | None = None


@dataclass(frozen=True, slots=True)
class TokenSeen:
    """A resume token, from agentctl's journal or from the session's Secret."""

    value: str = field(repr=False)
    sha256: str
    established: bool
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class CapabilitiesSeen:
    """What the agent said it can do. None: not known, which is not a no."""

    supports_session_resume: bool | None = None
    supports_workspace_only: bool | None = None
    agent_name: str | None = None
    agent_version: str | None = None
    load_session: bool | None = None
    resume_session: bool | None = None
    list_sessions: bool | None = None
    profile_hash: str | None = None
    probed_at: str | None = None
    failure: FailureSeen | None = None


@dataclass(frozen=True, slots=True)
class TurnSeen:
    """A turn, under way or ended."""

    prompt_id: str
    at: str
    """When it began, or ended."""
    outcome: str | None = None
    awaiting_permission: bool = False


@dataclass(frozen=True, slots=True)
class AgentctlReport:
    """One agentctl's whole status, translated from the wire."""

    instance_id: str
    boot_id: str
    phase: AgentPhase
    session_uid: str | None = None
    session_namespace: str | None = None
    session_name: str | None = None
    profile_hash: str | None = None
    workspace_path: str = ""
    pid: int | None = None
    term: int = 0
    epoch: int = 0
    execution_id: str | None = None
    exit_text: str = ""
    exited_at: datetime | None = None
    capabilities: CapabilitiesSeen = CapabilitiesSeen()
    token: TokenSeen | None = None
    journal_state: str = "ok"
    journal_message: str = ""
    operations: tuple[OperationSeen, ...] = ()
    turn: TurnSeen | None = None
    last_turn: TurnSeen | None = None
    turns_completed: int = 0
    prompts: tuple[tuple[str, str], ...] = ()
    """(prompt id, fate)."""

    def operation(self, operation_id: str) -> OperationSeen | None:
        """The operation of this id, if agentctl knows it."""
        return next((op for op in self.operations if op.operation_id == operation_id), None)

    def fate(self, prompt_id: str) -> str | None:
        """What became of a prompt; None when this journal never accepted it."""
        return dict(self.prompts).get(prompt_id)

    @property
    def is_live(self) -> bool:
        """The agent's conversation is open."""
        return self.phase in LIVE_PHASES

    @property
    def has_process(self) -> bool:
        """Any process of the agent may still exist."""
        return self.phase not in (AgentPhase.NONE, AgentPhase.EXITED)


class Answer(StrEnum):
    """How the newest look at an agentctl ended."""

    NOT_TRIED = "not_tried"
    """This operator has not looked yet, or could not even try. Never counts as a failure."""
    WELL = "well"
    UNREACHABLE = "unreachable"
    UNHEALTHY = "unhealthy"
    """It answers, but with errors."""
    FOREIGN = "foreign"
    """Another instance answers at the remembered address."""
    UNAUTHENTICATED = "unauthenticated"
    CLOCK_SKEW = "clock_skew"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Probe:
    """What is known of one agentctl by asking it."""

    answer: Answer = Answer.NOT_TRIED
    failing_since: datetime | None = None
    """First failure since the last good answer, as far as this operator has seen."""
    last_seen: datetime | None = None
    message: str = ""
    steady_since: datetime | None = None
    """Since when it is known to fail in these very words; None after one look that did."""
    report: AgentctlReport | None = None
    """The newest good report; older than the newest look when that failed."""
    is_checked: bool = False
    """True when the report's identity was compared with what the executor's status pins."""


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """The agentctl process of a LocalStandalone executor, looked up on this machine."""

    url: str
    pid: int
    instance_id: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class RuntimeProblem:
    """Why an executor's runtime cannot be had as specified. `reason` is a condition reason."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Rival:
    """Another local executor, not being deleted, whose folder is, contains or lies in ours; or a
    session that has its files there, and at present no executor."""

    name: str
    namespace: str
    uid: str
    created: str
    holds: bool
    """Its own agentctl lives on its folder."""
    keeps: bool = False
    """The files there are those of a session that goes on, whatever runs at present."""
    is_session: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The action that failed in the pass just before; the same pass decides once more with it."""

    action: str
    reason: str
    message: str
    fatal: bool
    """Trying again unchanged cannot help: a person (or a change of the spec) must."""


@dataclass(frozen=True, slots=True)
class ProfileSeen:
    """A profile with its references resolved as far as a decision needs them."""

    profile: AgentProfile
    hash: str
    """Changes when anything that the agent is started with changes, Secrets included."""
    unresolved: str = ""
    """Which Secret or key is missing, in words; empty when all were found."""


@dataclass(frozen=True, slots=True)
class Platform:
    """What the operator's options say about pods and containers, and their workspaces."""

    agentctl_image: str = "kandev-agentctl"
    image_pull_policy: str | None = None
    """For the agentctl image; None: the cluster's own rule."""
    user: int | None = 1000
    """The uid of pods; None where the platform gives each namespace its own."""
    workspace_size: str = "10Gi"
    docker_by_address: bool = False
    """Containers are reached at their own addresses, not at ports of the loopback."""


@dataclass(frozen=True, slots=True)
class PodsSeen:
    """Everything about an executor's pods; only for runtime Pod."""

    pods: tuple[PodSeen, ...] = ()
    """All that carry this executor's UID, and those that went away while somebody looked."""
    node: Look[NodeSeen] = Unreadable("nobody asked")
    """Of the newest pod; looked at only when something is wrong."""
    claim: Look[ClaimSeen] | None = None
    """The session's claim; None: not looked at, because its pod is there."""
    events: str = ""
    """The newest warning about the newest pod, while that does not serve."""
    task: Look[Task] = Missing()
    profile: Look[AgentProfile] = Missing()
    """Of the session that is in, or comes in next."""
    platform: Platform = Platform()

    def of(self, instance_id: str | None) -> PodSeen | None:
        """The pod of this instance, if it was ever seen."""
        found = [pod for pod in self.pods if pod.instance_id == instance_id]
        # One that was deleted and made again has the same name: the object that is there counts.
        return min(found, key=lambda pod: (pod.is_gone, pod.uid), default=None)


@dataclass(frozen=True, slots=True)
class DockerSeen:
    """Everything about an executor's containers; only for runtime LocalDocker."""

    containers: Look[tuple[DockerContainer, ...]] = Unreadable("nobody asked")
    """All that carry this executor's UID, or the one that its spec names. Unreadable: the engine
    does not answer."""
    engine_id: str = ""
    volumes: tuple[VolumeSeen, ...] = ()
    """Those that were made for this executor or its session."""
    images: tuple[tuple[str, ImageSeen], ...] = ()
    """(name, image), as far as they were looked at."""
    task: Look[Task] = Missing()
    profile: Look[AgentProfile] = Missing()
    """Of the session that is in, or comes in next."""
    platform: Platform = Platform()

    @property
    def present(self) -> tuple[DockerContainer, ...]:
        """The containers, as far as anybody knows."""
        return self.containers.value if isinstance(self.containers, Found) else ()

    def of(self, instance_id: str | None, step: str) -> DockerContainer | None:
        """This instance's container for this step."""
        found = (each for each in self.present if each.instance_id == instance_id)
        return next((each for each in found if each.step == step), None)

    def image(self, name: str) -> ImageSeen:
        """How it is with an image."""
        return dict(self.images).get(name, ImageSeen())

    def having(self, images: tuple[tuple[str, ImageSeen], ...]) -> "DockerSeen":
        """The same, with a look at these images."""
        return replace(self, images=images)


@dataclass(frozen=True, slots=True)
class SessionObserved:
    """Everything a session's decision may know."""

    session: TaskSession
    task: Look[Task]
    profile: Look[ProfileSeen]
    executor: Look[Executor]
    """The executor named by status.executorRef, else the one that spec asks for."""
    probe: Probe
    """Of the bound executor's agentctl."""
    secret: Look[TokenSeen] | None
    """The token Secret; None: not looked at, because the journal can answer or nobody asks."""
    first_prompt: Look[str]
    """The first prompt's text; Missing also when spec has none."""
    term: int
    failed: Failed | None = None
    claim: Look[ClaimSeen] | None = None
    """The session's claim, for pods; None: not looked at, because nothing depends on it now."""
    one_pod_claims: bool = False
    """The storage class's driver can give a volume to one pod alone."""
    platform: Platform = Platform()

    @property
    def report(self) -> AgentctlReport | None:
        """The newest report, when the newest look was good."""
        return self.probe.report if self.probe.answer is Answer.WELL else None

    @property
    def own_report(self) -> AgentctlReport | None:
        """The newest report, when it is about this very session."""
        report = self.report
        ours = report is not None and report.session_uid == self.session.metadata.uid
        return report if ours else None


@dataclass(frozen=True, slots=True)
class ExecutorObserved:
    """Everything an executor's decision may know."""

    executor: Executor
    probe: Probe
    process: Look[ProcessSeen]
    """LocalStandalone only; Missing elsewhere."""
    problem: RuntimeProblem | None
    claimant: TaskSession | None
    """The oldest session that points at this executor and is not deleted."""
    owner: Look[TaskSession]
    """The session that this executor was made for; Missing when it is positively gone."""
    bound: Look[TaskSession]
    """The session that status.sessionRef names, by UID; Missing when it is positively gone."""
    term: int
    rivals: tuple[Rival, ...] = ()
    keeps: bool = False
    """The files in this executor's folder are those of its own session, which goes on."""
    task_uid: str | None = None
    """UID of the task of the claimant or of the bound session."""
    failed: Failed | None = None
    pods: PodsSeen = PodsSeen()
    docker: DockerSeen = DockerSeen()
    served: Look[TaskSession] = Unreadable("nobody else is served")
    """The session that agentctl serves, by UID, where that is not the one in status.sessionRef;
    Missing when it is positively gone."""
