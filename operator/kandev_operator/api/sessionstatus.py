"""The status of a TaskSession: what the operator found, and what it is about to do.

Written by the session's own pass only, as a whole. Everything a later pass, another leader or a
gateway must know stands here; what moves all the time does not. Booleans are absent while the
answer is not known.
"""

from pydantic import Field

from kandev_operator.api.agent import Capabilities
from kandev_operator.api.conditions import Conditions
from kandev_operator.api.executor import WorktreeStatus
from kandev_operator.api.markers import MOMENT, list_map
from kandev_operator.api.meta import Model
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.words import Word, listed


class SessionState(Word):
    """How a session is, for people."""

    CREATED = "CREATED", "Nothing has begun yet."
    STARTING = "STARTING", "An executor or an agent is on its way."
    RUNNING = "RUNNING", "A turn is under way."
    WAITING_FOR_INPUT = "WAITING_FOR_INPUT", "The agent waits, or could be resumed to do so."
    ERROR = "ERROR", "Something failed; see errorMessage and the conditions."
    COMPLETED = "COMPLETED", "Finished in order."
    CANCELLED = "CANCELLED", "Finished in the middle of a turn, or with a cancelled task."


class IntentKind(Word):
    """What must not be done twice."""

    START = "Start", "Begin a new conversation."
    RESUME = "Resume", "Take up the conversation that the token names."
    FRESH_START = "FreshStart", "Begin a new conversation and retire the token of the earlier one."


class WorkspaceRef(Model):
    """The object that holds the session's files."""

    kind: str | None = Field(
        default=None,
        description="PersistentVolumeClaim for pods; Executor where the files lie with the "
        "executor itself.",
    )
    name: str | None = Field(default=None, description="Name of the object.")
    uid: str | None = Field(default=None, description="UID of the object that was meant.")


class ResumeTokenRef(Model):
    """Where the resume token is kept, and what is known about it. Never the token itself."""

    secret_name: str | None = Field(
        default=None, description="The Secret that keeps the token; it belongs to the session."
    )
    established: bool | None = Field(
        default=None,
        description="Whether a turn was completed under this token. Before that the agent only "
        "promised it, and losing it loses nothing.",
    )
    sha256_prefix: str | None = Field(
        default=None, description="First digits of the token's SHA-256, to tell tokens apart."
    )


class Intent(Model):
    """What the operator is about to do, written down before it is done."""

    operation_id: str = Field(
        description="Identity of the operation. agentctl does an operation once, however often "
        "it is asked."
    )
    kind: str = Field(description=f"What is to be done. {listed(IntentKind)}")
    at: str = Field(description="When it was decided.", json_schema_extra=MOMENT)


class PinnedProfile(Model):
    """The AgentProfile as it was when the current execution began."""

    uid: str = Field(description="UID of the profile.")
    generation: int | None = Field(
        default=None, description="Its `metadata.generation` at that time."
    )
    hash: str | None = Field(
        default=None,
        description="Hash of all that the agent was started with. The versions of the Secrets "
        "that the profile names count in it, their contents do not.",
    )


class FirstPromptStatus(Model):
    """What became of the first prompt."""

    id: str = Field(description="The prompt's id.")
    fate: str | None = Field(
        default=None,
        description="What became of it: `accepted` (agentctl stored it, and the agent gets it in "
        "its turn), `delivered`, `not_delivered`, or `unknown` when the agent died while it was "
        "being handed over. An unknown prompt is never sent again silently.",
    )


class Turn(Model):
    """The turn that is under way."""

    prompt_id: str | None = Field(default=None, description="The prompt that began it.")
    started_at: str | None = Field(
        default=None, description="When it began.", json_schema_extra=MOMENT
    )
    awaiting_permission: bool | None = Field(
        default=None, description="Whether the agent waits for somebody's permission."
    )


class InterruptedTurn(Model):
    """A turn that was cut off when its agent died."""

    prompt_id: str | None = Field(default=None, description="The prompt that began it.")
    at: str | None = Field(
        default=None, description="When it was found cut off.", json_schema_extra=MOMENT
    )


class TaskSessionStatus(Model):
    """How the session is, and why."""

    observed_generation: int | None = Field(
        default=None,
        description="The `metadata.generation` that this status was written for; -1 until the "
        "operator has seen the object.",
    )
    state: str | None = Field(
        default=None,
        description="How the session is, for people; programs read the conditions. A suspended "
        f"or workspace-only session keeps its last calm state. {listed(SessionState)}",
    )
    executor_ref: ObjectRef | None = Field(
        default=None,
        description="The executor that this session has chosen. It counts only once that "
        "executor's `status.sessionRef` points back.",
    )
    executor_status: str | None = Field(
        default=None,
        description="State of that executor: `starting`, `ready`, `error` or `stopped`.",
    )
    node_name: str | None = Field(
        default=None, description="The node that the executor's pod runs on."
    )
    workspace_ref: WorkspaceRef | None = Field(
        default=None, description="The object that holds the session's files."
    )
    worktree: WorktreeStatus | None = Field(
        default=None, description="The worktree that the session works in."
    )
    agent_execution_id: str | None = Field(
        default=None,
        description="Identity of the agent's current (or last) run; a new one with each start "
        "and resume.",
    )
    profile: PinnedProfile | None = Field(
        default=None, description="The profile that this execution runs with."
    )
    capabilities: Capabilities | None = Field(
        default=None, description="What the agent was last found able to do."
    )
    is_agent_running: bool | None = Field(
        default=None, description="Whether the agent lives. Absent: not known."
    )
    is_resumable: bool | None = Field(
        default=None,
        description="Whether the conversation could be resumed: the profile permits it, the "
        "agent can, and there is a token. Absent: not known.",
    )
    needs_resume: bool | None = Field(
        default=None,
        description="Whether the session should run but its agent is gone. False while that is "
        "unknown, and for suspended, finished and workspace-only sessions.",
    )
    resume_reason: str | None = Field(
        default=None,
        description="Why the agent does not run or cannot be resumed, as one snake_case word.",
        examples=["agent_not_running"],
    )
    error_message: str | None = Field(
        default=None,
        description="`word: one sentence`, with the agent's, agentctl's or kubelet's own words. "
        "Absent when nothing is wrong.",
    )
    resume_token_ref: ResumeTokenRef | None = Field(
        default=None, description="Where the agent's own id of the conversation is kept."
    )
    epoch: int | None = Field(
        default=None,
        description="Grows with each new intent. agentctl refuses a call with a lower one, so a "
        "late command of the past cannot harm.",
    )
    intent: Intent | None = Field(
        default=None,
        description="What the operator is about to do. Absent when nothing is under way.",
    )
    started_at: str | None = Field(
        default=None,
        description="When the current attempt began.",
        json_schema_extra=MOMENT,
    )
    attempt: int | None = Field(
        default=None, description="How many times in a row starting or resuming was tried."
    )
    next_attempt_at: str | None = Field(
        default=None,
        description="When it will be tried again by itself. Absent: not by itself.",
        json_schema_extra=MOMENT,
    )
    first_prompt: FirstPromptStatus | None = Field(
        default=None, description="What became of the first prompt."
    )
    turn: Turn | None = Field(default=None, description="The turn that is under way. Absent: none.")
    interrupted_turn: InterruptedTurn | None = Field(
        default=None,
        description="The last turn, where it was cut off. Nothing of it is sent again by itself; "
        "absent again when a later turn is completed.",
    )
    last_handled_resume_request: str | None = Field(
        default=None,
        description="The last value of annotation kandev.dev/resume-requested that was dealt "
        "with. Another value there is a new wish.",
    )
    last_handled_fresh_start_request: str | None = Field(
        default=None,
        description="The last value of annotation kandev.dev/fresh-start-requested that was "
        "dealt with. Another value there is a new wish.",
    )
    last_handled_confirmed_dead: str | None = Field(
        default=None,
        description="The last pod UID that a person confirmed dead with annotation "
        "kandev.dev/confirmed-dead and that was dealt with.",
    )
    last_seen_at: str | None = Field(
        default=None,
        description="When agentctl last answered, as known at the last write of this status. It "
        "is never written for its own sake; live values are metrics.",
        json_schema_extra=MOMENT,
    )
    conditions: Conditions = Field(
        default=(),
        description="`Ready`, `ExecutorReady`, `WorkspaceReady`, `AgentReady`, `Resumable`, "
        "`Suspended`, `Finished`, and while they hold `Reconciling` and `Stalled`.",
        json_schema_extra=list_map("type"),
    )
