"""AgentProfile: how one kind of agent is run.

A profile is configuration. It does nothing by itself, owns nothing and has no finalizer; many
sessions may point at it. A session pins the profile's UID and generation for each execution, so
a changed profile takes effect at the session's next start and never under a live agent.
"""

from typing import ClassVar

from pydantic import Field

from kandev_operator.api import group
from kandev_operator.api.agent import Argument, EnvVar, McpServer, Resources
from kandev_operator.api.conditions import Conditions
from kandev_operator.api.markers import list_map
from kandev_operator.api.meta import Model, Resource
from kandev_operator.api.words import Word, listed


class Protocol(Word):
    """What the agent speaks."""

    ACP = "acp", "The Agent Client Protocol, over the agent's stdin and stdout."


class PermissionPolicy(Word):
    """What happens when the agent asks for permission."""

    ASK = "Ask", "The question is shown to people, and the turn waits for their answer."
    ALLOW_ALL = "AllowAll", "Every request is granted at once."
    DENY_ALL = "DenyAll", "Every request is refused at once."


class AgentProfileSpec(Model):
    """How to run one kind of agent."""

    display_name: str | None = Field(
        default=None,
        max_length=120,
        description="Name to show to people. When absent, the object's own name is shown.",
        examples=["Claude Code"],
    )
    protocol: Protocol = Field(
        default=Protocol.ACP,
        description=f"What the agent speaks. {listed(Protocol)}",
    )
    command: tuple[Argument, ...] = Field(
        min_length=1,
        max_length=32,
        description="Program to run, with its first arguments; there is no shell in between. It "
        "is searched in PATH where the agent runs, not where the operator runs. A program that "
        "cannot be found there shows as CommandNotFound.",
        examples=[["claude-agent-acp"]],
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    args: tuple[Argument, ...] = Field(
        default=(),
        max_length=64,
        description="Further arguments, put after `command`. Kept apart so that an overlay may "
        "change them alone.",
        examples=[["--acp"]],
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=128,
        description="Environment of the agent's process, added to that of its container. It also "
        "reaches whatever the agent runs.",
        json_schema_extra=list_map(),
    )
    image: str | None = Field(
        default=None,
        min_length=1,
        max_length=512,
        description="Container image that has the agent in it, for executors with runtime Pod or "
        "LocalDocker whose own template names no image. Ignored by Remote and LocalStandalone, "
        "where the agent must be installed already.",
        examples=["example.com/agents/claude:1.4"],
    )
    supports_session_resume: bool = Field(
        default=True,
        description="Set to false to never resume this agent's conversations, even if the agent "
        "says that it can. Sessions then report `isResumable: false` with `not_resumable`, and "
        "people are offered a new session. True only permits: the agent must be able to as well.",
    )
    supports_workspace_only: bool = Field(
        default=True,
        description="Set to false to refuse sessions with this profile in operating mode "
        "WorkspaceOnly.",
    )
    permission_policy: PermissionPolicy = Field(
        default=PermissionPolicy.ASK,
        description="What happens when the agent asks whether it may run a command or change a "
        f"file. {listed(PermissionPolicy)}",
    )
    permission_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=604_800,
        description="How long a permission request may wait for an answer. Nobody allowed it by "
        "then: it is refused, and the agent goes on as after any refusal. Absent: it waits until "
        "its turn is over. Matters with policy Ask only.",
    )
    mcp_servers: tuple[McpServer, ...] = Field(
        default=(),
        max_length=32,
        description="MCP servers to name to the agent each time its conversation starts or "
        "resumes.",
        json_schema_extra=list_map(),
    )
    resources: Resources | None = Field(
        default=None,
        description="Compute resources of the container that the agent runs in, for runtime Pod. "
        "An executor's own template wins, resource by resource.",
    )


class AgentProfileStatus(Model):
    """What is known about a profile. It is filled in only when there is something to say."""

    observed_generation: int | None = Field(
        default=None, description="The `metadata.generation` that this status was written for."
    )
    conditions: Conditions = Field(
        default=(),
        description="`Ready` says whether the profile can be used as it is written.",
        json_schema_extra=list_map("type"),
    )


class AgentProfile(Resource):
    """How to run one kind of agent: its command, environment, tools and limits."""

    kind: ClassVar[str] = group.AGENT_PROFILE

    spec: AgentProfileSpec
    status: AgentProfileStatus = Field(default_factory=AgentProfileStatus)
