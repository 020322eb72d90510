"""Executor: a place where one session's agent can run.

A pod, a remote machine, a Docker container or a local process; in each of them an agentctl
answers. An executor holds at most one session. It is written by people or Git, or made by the
operator from a session's template: then its spec is that `ExecutorTemplateSpec` and it belongs
to the session.

The spec says what kind of place it is; the status says who is in it, where its agentctl is, and
whether the two are the ones that were pinned.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from kandev_operator.api import group
from kandev_operator.api.agent import ExecutorCapabilities
from kandev_operator.api.conditions import Conditions
from kandev_operator.api.markers import ABSOLUTE_PATH, MOMENT, immutable, list_map, rule, rules
from kandev_operator.api.meta import Model, Resource
from kandev_operator.api.podtemplate import PodOverlay, TemplateMetadata
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.words import Word, listed


class Runtime(Word):
    """What kind of place an executor is."""

    POD = "Pod", "A pod of this cluster, made when a session comes and removed when it rests."
    REMOTE = "Remote", "A machine elsewhere on which somebody runs agentctl."
    LOCAL_DOCKER = "LocalDocker", "A container of the Docker engine that the operator can reach."
    LOCAL_STANDALONE = (
        "LocalStandalone",
        "A process on the operator's own machine, for development; needs an operator option.",
    )


# The block of a spec that belongs to each runtime, as it is called in the cluster.
RUNTIME_BLOCKS: Final[Mapping[Runtime, str]] = MappingProxyType(
    {runtime: runtime[0].lower() + runtime[1:] for runtime in Runtime}
)


class ExecutorState(Word):
    """How an executor is, for people."""

    STARTING = "starting", "It is on its way, or an answer is awaited within the grace time."
    READY = "ready", "Its agentctl answers: shell, files and git can be used."
    ERROR = "error", "It failed for a named reason; it is looked at again by and by."
    STOPPED = "stopped", "Nothing runs: no session is bound, or the session is suspended."


class PodRuntime(Model):
    """An executor that is a pod."""

    template: PodOverlay | None = Field(
        default=None,
        description="Laid over the pod that the operator makes. A change takes effect at the next "
        "pod; a running one is left alone.",
    )


class RemoteRuntime(Model):
    """An executor on a machine that somebody else looks after."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "self.url.startsWith('https://') || self.url.matches("
                "'^http://(localhost|127[.][0-9]+[.][0-9]+[.][0-9]+|[[]::1[]])(:[0-9]+)?(/.*)?$')",
                "url must be https, unless its host is loopback: tokens would travel in the clear",
            )
        )
    }

    url: str = Field(
        min_length=1,
        max_length=2048,
        pattern=r"^https?://[^/\s]+",
        description="Address of its agentctl. https, unless the host is loopback; the host must "
        "be one that an operator option allows.",
        examples=["https://build-7.example.com:8443"],
    )
    audience: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Audience that this agentctl expects in its callers' tokens, as it was "
        "started with. When absent, the UID of this object.",
        examples=["build-7"],
    )
    ca_bundle: str | None = Field(
        default=None,
        min_length=1,
        max_length=65536,
        description="Certificates, in PEM, that the agentctl's own must be signed by. When "
        "absent, the authorities that the operator's system trusts.",
    )


class LocalDockerRuntime(Model):
    """An executor that is a container of a Docker engine."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!(has(self.image) && has(self.containerId))",
                "only one of image and containerId may be set",
            ),
            rule(
                "!has(self.containerId) || !(has(self.network) || has(self.workspacePath))",
                "network and workspacePath are for containers that the operator makes: they "
                "cannot be given with containerId",
            ),
            rule(
                "has(self.containerId) || !has(self.audience)",
                "audience is for a container that is yours: it needs containerId",
            ),
        )
    }

    image: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="Image with the agent in it. The operator makes the container when a session "
        "comes, brings agentctl into it, and makes it anew on the same workspace when it is gone. "
        "When absent, and there is no containerId, the image of the session's AgentProfile.",
    )
    container_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$",
        description="Id or name of a container that exists already and runs agentctl. The "
        "operator starts it where it is stopped, and never makes or removes it; when it is gone "
        "the reason is ContainerMissing.",
    )
    audience: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Audience that the agentctl in this container expects in its callers' tokens, "
        "as it was started with. When absent, the UID of this object. Only with `containerId`.",
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of agentctl in the container, where it is not agentctl's usual one.",
    )
    network: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="Docker network to attach the container to; not the host's own, and not "
        "another container's. Only for containers that the operator makes.",
    )
    workspace_path: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        pattern=ABSOLUTE_PATH,
        description="Folder on the Docker host to use as the workspace, below the one that the "
        "operator option --allow-docker-executors gives for this namespace. When absent, a volume "
        "named after the session is made. Only for containers that the operator makes.",
    )


class LocalStandaloneRuntime(Model):
    """An executor that is a process beside the operator."""

    worktree_path: str = Field(
        min_length=1,
        max_length=1024,
        pattern=ABSOLUTE_PATH,
        description="Folder of the worktree, absolute, below the root that the operator option "
        "--allow-local-executors gives for this namespace. It must exist; when it is gone the "
        "reason is WorktreeMissing.",
        examples=["/var/lib/kandev/worktrees/demo"],
    )


class RuntimeSpec(Model):
    """What kind of place it is, and where or how to get it."""

    model_config = {
        "json_schema_extra": rules(
            *(
                rule(
                    f"self.runtime != '{runtime}' || has(self.{block})",
                    f"runtime {runtime} needs the block {block}",
                )
                for runtime, block in RUNTIME_BLOCKS.items()
            )
        )
    }
    one_of = ("pod", "remote", "local_docker", "local_standalone")

    runtime: Runtime = Field(
        description="What kind of place this is; the block of the same name must be given with "
        f"it. {listed(Runtime)}",
        json_schema_extra=immutable("runtime"),
    )
    pod: PodRuntime | None = Field(
        default=None, description="For runtime Pod. `pod: {}` is a pod without any overlay."
    )
    remote: RemoteRuntime | None = Field(default=None, description="For runtime Remote.")
    local_docker: LocalDockerRuntime | None = Field(
        default=None, description="For runtime LocalDocker."
    )
    local_standalone: LocalStandaloneRuntime | None = Field(
        default=None, description="For runtime LocalStandalone."
    )

    @property
    def is_made_at_bind(self) -> bool:
        """The place itself is made when a session comes, and removed when it rests."""
        return self.made is not None

    @property
    def made(self) -> PodRuntime | LocalDockerRuntime | None:
        """What such a place is made from."""
        docker = self.local_docker
        return self.pod or (docker if docker is not None and docker.container_id is None else None)

    @model_validator(mode="after")
    def _block_of_runtime(self) -> Self:
        given = {
            Runtime.POD: self.pod,
            Runtime.REMOTE: self.remote,
            Runtime.LOCAL_DOCKER: self.local_docker,
            Runtime.LOCAL_STANDALONE: self.local_standalone,
        }
        if given[self.runtime] is None:
            raise ValueError(
                f"runtime {self.runtime} needs the block {RUNTIME_BLOCKS[self.runtime]}"
            )
        return self


class ExecutorSpec(RuntimeSpec):
    """A place where one session's agent can run."""

    drain: bool = Field(
        default=False,
        description="Take no new session, and let the one here go: its turn may end, its agent "
        "is stopped gently, and the session shows Draining until then. Set it before "
        "maintenance; set it back to false to use the executor again.",
    )
    drain_deadline_seconds: int = Field(
        default=600,
        ge=0,
        le=604800,
        description="How long a turn may go on after `drain` was set. Then it is cut off, and "
        "the session says so.",
    )


class ExecutorTemplateSpec(RuntimeSpec):
    """The part of an executor's spec that a session's template may hold."""


class ExecutorTemplate(Model):
    """An executor to be made for one session, and to go with it."""

    metadata: TemplateMetadata | None = Field(
        default=None, description="Labels and annotations for the Executor."
    )
    spec: ExecutorTemplateSpec = Field(description="What kind of place to make.")


class PodRef(Model):
    """The pod of an executor."""

    name: str = Field(description="Name of the pod.")
    uid: str = Field(description="UID of the pod; this is what kandev.dev/confirmed-dead names.")


class WorktreeStatus(Model):
    """The worktree that a session works in."""

    id: str | None = Field(
        default=None, description="Identity of the worktree, from its marker file."
    )
    path: str | None = Field(
        default=None, description="Its path where the agent runs. It never changes."
    )
    branch: str | None = Field(default=None, description="The branch that is checked out.")


class ExecutorStatus(Model):
    """Who is in this place, and how it is."""

    observed_generation: int | None = Field(
        default=None,
        description="The `metadata.generation` that this status was written for; -1 until the "
        "operator has seen the object.",
    )
    state: str | None = Field(
        default=None,
        description=f"How it is, for people; programs read the conditions. {listed(ExecutorState)}",
    )
    runtime: str | None = Field(
        default=None, description="The spec's runtime that this status is about."
    )
    task_id: str | None = Field(
        default=None, description="UID of the Task of the session that is bound."
    )
    session_ref: ObjectRef | None = Field(
        default=None,
        description="The session that is bound to this executor. It counts only while that "
        "session's `status.executorRef` points back.",
    )
    agentctl_url: str | None = Field(
        default=None,
        alias="agentctlURL",
        description="Address of the agentctl, with its port.",
        examples=["http://10.1.2.3:8700"],
    )
    instance_id: str | None = Field(
        default=None,
        description="Which agentctl is meant: one for each pod, container or process, kept "
        "through a restart in place. An agentctl that names another is foreign and is not used.",
    )
    boot_id: str | None = Field(
        default=None, description="Which start of that agentctl; a new one after each restart."
    )
    pod_ref: PodRef | None = Field(default=None, description="The pod, for runtime Pod.")
    container_id: str | None = Field(
        default=None, description="The container, for runtime LocalDocker."
    )
    pid: int | None = Field(
        default=None, description="The process of agentctl, for runtime LocalStandalone."
    )
    node_name: str | None = Field(
        default=None,
        description="The node that the pod runs on; for a container, the ID of the Docker engine "
        "that has it.",
    )
    workspace_path: str | None = Field(
        default=None, description="Root of the workspace where the agent runs."
    )
    worktree: WorktreeStatus | None = Field(
        default=None, description="The worktree of the session that is bound."
    )
    supports_session_resume: bool | None = Field(
        default=None,
        description="Whether the agent here can take up an earlier conversation. Absent: not "
        "known yet.",
    )
    supports_workspace_only: bool | None = Field(
        default=None,
        description="Whether the workspace can be served with no agent running. Absent: not "
        "known yet.",
    )
    capabilities: ExecutorCapabilities | None = Field(
        default=None, description="All that the last probe of the agent found."
    )
    last_seen_at: str | None = Field(
        default=None,
        description="When agentctl last answered, as known at the last write of this status. It "
        "is never written for its own sake; live values are metrics.",
        json_schema_extra=MOMENT,
    )
    error_message: str | None = Field(
        default=None,
        description="`word: one sentence` in state error, with the kubelet's, Docker's or "
        "agentctl's own words. Absent otherwise.",
    )
    started_at: str | None = Field(
        default=None,
        description="When the current attempt to start began.",
        json_schema_extra=MOMENT,
    )
    attempt: int | None = Field(
        default=None, description="How many times in a row starting has been tried."
    )
    next_attempt_at: str | None = Field(
        default=None,
        description="When it will be tried again, while it is in error.",
        json_schema_extra=MOMENT,
    )
    conditions: Conditions = Field(
        default=(),
        description="`Ready`, `PodScheduled`, `AgentctlReady`, `CapabilitiesKnown`, "
        "`WorkspaceReady`, `Bound`, `Draining`, and while they hold `Reconciling` and `Stalled`.",
        json_schema_extra=list_map("type"),
    )


class Executor(Resource):
    """A place where one session's agent can run: a pod, a machine, a container or a process."""

    kind: ClassVar[str] = group.EXECUTOR

    spec: ExecutorSpec
    status: ExecutorStatus = Field(default_factory=ExecutorStatus)

    @property
    def audience(self) -> str:
        """For whom tokens are made: this object's UID, or what somebody else started it with."""
        elsewhere = self.spec.remote or self.spec.local_docker
        return (elsewhere.audience if elsewhere else None) or self.metadata.uid
