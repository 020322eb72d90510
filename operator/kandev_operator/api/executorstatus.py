"""The status of an Executor: who is in it, where its agentctl is, and how it is.

Written by the executor's own pass only, as a whole. What identifies the place and its agentctl is
pinned here, so that whatever answers later can be told from it. Absent is what is not known.
"""

from pydantic import Field

from kandev_operator.api.agent import ExecutorCapabilities
from kandev_operator.api.conditions import Conditions
from kandev_operator.api.markers import MOMENT, list_map
from kandev_operator.api.meta import Model
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.words import Word, listed


class ExecutorState(Word):
    """How an executor is, for people."""

    STARTING = "starting", "It is on its way, or an answer is awaited within the grace time."
    READY = "ready", "Its agentctl answers: shell, files and git can be used."
    ERROR = "error", "It failed for a named reason; it is looked at again by and by."
    STOPPED = "stopped", "Nothing runs: no session is bound, or the session is suspended."


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
