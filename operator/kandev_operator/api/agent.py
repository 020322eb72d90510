"""Parts that describe an agent: what it is run with, and what it was found to be able to do.

The environment, MCP servers and resources are written by people in an AgentProfile. The
capabilities are what a real `initialize` of the agent answered; a field is absent until then,
because "not known yet" must never be read as "no".
"""

from typing import Annotated

from pydantic import Field

from kandev_operator.api.markers import MOMENT, list_map, rule, rules
from kandev_operator.api.meta import Model
from kandev_operator.api.refs import KeyRef
from kandev_operator.api.words import Word, listed

Quantity = Annotated[str, Field(max_length=64)] | int
EnvName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^=\s]+$")]
Argument = Annotated[str, Field(max_length=8192)]


class SecretKeyRef(KeyRef):
    """One key of a Secret, which may be allowed to be missing."""

    optional: bool | None = Field(
        default=None,
        description="When true, a missing Secret or key leaves the variable unset instead of "
        "keeping the agent from starting.",
    )


class EnvVar(Model):
    """One environment variable, given in the open or taken from a Secret."""

    one_of = ("value", "secret_key_ref")

    name: EnvName = Field(description="Name of the variable.", examples=["ANTHROPIC_API_KEY"])
    value: str | None = Field(
        default=None,
        max_length=8192,
        description="The value itself. Everybody who may read the object can read it: keys and "
        "passwords belong in a Secret.",
    )
    secret_key_ref: SecretKeyRef | None = Field(
        default=None,
        description="Take the value from a Secret in the same namespace. The value reaches only "
        "the agent's process; the operator does not copy it into any other object.",
    )


class Resources(Model):
    """Compute resources, in the words of Kubernetes."""

    requests: dict[str, Quantity] = Field(
        default_factory=dict,
        max_length=16,
        description="What the scheduler sets aside for the agent's container, by resource name.",
        examples=[{"cpu": "500m", "memory": "1Gi"}],
    )
    limits: dict[str, Quantity] = Field(
        default_factory=dict,
        max_length=16,
        description="What the agent's container may use at most, by resource name. An agent that "
        "takes more memory is killed, and its session says OOMKilled.",
        examples=[{"memory": "4Gi"}],
    )


class McpTransport(Word):
    """How a remote MCP server is spoken to."""

    HTTP = "http", "Streamable HTTP, the current transport."
    SSE = "sse", "Server-sent events, the older transport."


class McpServer(Model):
    """A tool server that the agent is told about when its conversation begins or resumes."""

    model_config = {
        "json_schema_extra": rules(
            rule("!has(self.headers) || has(self.url)", "headers need a url"),
            rule(
                "!(has(self.args) || has(self.env)) || has(self.command)",
                "args and env need a command",
            ),
        )
    }
    one_of = ("command", "url")

    name: str = Field(
        min_length=1,
        max_length=63,
        description="How the agent and its users see the server.",
        examples=["github"],
    )
    command: str | None = Field(
        default=None,
        min_length=1,
        max_length=1024,
        description="Program to run beside the agent; the two talk over stdin and stdout. It "
        "must exist where the agent runs.",
        examples=["npx"],
    )
    args: tuple[Argument, ...] = Field(
        default=(), max_length=64, description="Arguments of `command`."
    )
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=64,
        description="Environment of `command`.",
        json_schema_extra=list_map(),
    )
    url: str | None = Field(
        default=None,
        min_length=1,
        max_length=2048,
        pattern=r"^https?://",
        description="Address of a server that runs elsewhere.",
        examples=["https://mcp.example.com/mcp"],
    )
    transport: McpTransport = Field(
        default=McpTransport.HTTP,
        description=f"How to speak to `url`. {listed(McpTransport)}",
    )
    headers: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=32,
        description="HTTP headers to send to `url`, each with a value or a Secret's key.",
        json_schema_extra=list_map(),
    )


class AgentIdentity(Model):
    """Who the agent says it is."""

    name: str | None = Field(
        default=None, description="The agent's own name, as its `initialize` answered."
    )
    version: str | None = Field(
        default=None, description="The agent's own version, as its `initialize` answered."
    )


class Capabilities(Model):
    """What the agent and its agentctl can do, as probed. An absent field is not known yet."""

    supports_session_resume: bool | None = Field(
        default=None,
        description="Whether this agent can take up an earlier conversation in a new process: it "
        "declares `session/resume` or `session/load`.",
    )
    supports_workspace_only: bool | None = Field(
        default=None,
        description="Whether the workspace (shell, files, git) can be served with no agent "
        "running.",
    )
    agent: AgentIdentity | None = Field(
        default=None, description="Name and version of the agent that answered the probe."
    )
    load_session: bool | None = Field(
        default=None,
        description="Whether the agent declares `session/load`, which replays the history.",
    )
    resume_session: bool | None = Field(
        default=None,
        description="Whether the agent declares `session/resume`, which does not replay. It is "
        "preferred where both are declared.",
    )
    list_sessions: bool | None = Field(
        default=None,
        description="Whether the agent declares `session/list`. Then a lost conversation can be "
        "told from a broken one before anything is tried.",
    )
    probed_at: str | None = Field(
        default=None,
        description="When the agent was asked.",
        json_schema_extra=MOMENT,
    )


class ExecutorCapabilities(Capabilities):
    """Capabilities, and for which command line they hold."""

    profile_hash: str | None = Field(
        default=None,
        description="Hash of the profile's command, arguments and environment that was probed. "
        "Another command line is probed anew.",
    )
