"""Executor: a place where one session's agent can run.

A pod, a remote machine, a Docker container or a local process; in each of them an agentctl
answers. An executor holds at most one session. It is written by people or Git, or made by the
operator from a session's template: then its spec is that `ExecutorTemplateSpec` and it belongs
to the session.

This module says what kind of place it is and holds the whole object; `executorstatus` says who is
in it and how it is. The names of both are given on here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Self

from pydantic import Field, model_validator

from kandev_operator.api import group
from kandev_operator.api.executorstatus import (
    ExecutorState,
    ExecutorStatus,
    PodRef,
    WorktreeStatus,
)
from kandev_operator.api.markers import ABSOLUTE_PATH, immutable, rule, rules
from kandev_operator.api.meta import Model, Resource
from kandev_operator.api.podtemplate import PodOverlay, TemplateMetadata
from kandev_operator.api.words import Word, listed

__all__ = [
    "RUNTIME_BLOCKS",
    "Executor",
    "ExecutorSpec",
    "ExecutorState",
    "ExecutorStatus",
    "ExecutorTemplate",
    "ExecutorTemplateSpec",
    "LocalDockerRuntime",
    "LocalStandaloneRuntime",
    "PodRef",
    "PodRuntime",
    "RemoteRuntime",
    "Runtime",
    "RuntimeSpec",
    "WorktreeStatus",
]


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
