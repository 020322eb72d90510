"""The spec of a TaskSession: what a user asks for.

References and the first prompt never change: they are what makes this session this session. The
operating mode, the resume policy and the limits may change at any time. The operator never
writes here.
"""

from pydantic import Field

from kandev_operator.api.agent import Quantity
from kandev_operator.api.executor import ExecutorTemplate
from kandev_operator.api.markers import immutable, rule, rules, stored_default
from kandev_operator.api.meta import Model
from kandev_operator.api.refs import KeyRef, NameRef
from kandev_operator.api.words import Word, listed


class OperatingMode(Word):
    """What a session is to do."""

    RUNNING = "Running", "The agent runs, or is resumed as `resume.policy` says."
    WORKSPACE_ONLY = "WorkspaceOnly", "Shell, files and git are served, and no agent runs."
    SUSPENDED = (
        "Suspended",
        "The agent is stopped gently, its pod goes, the workspace stays; it can run again.",
    )
    FINISHED = "Finished", "The end, for good: it cannot be left."


class WorkspacePolicy(Word):
    """What becomes of a workspace when its session is deleted."""

    DELETE = "Delete", "The claim goes with the session."
    RETAIN = "Retain", "The claim stays and can be adopted by another session with `claimName`."


class AccessMode(Word):
    """Who may mount a workspace's volume."""

    READ_WRITE_ONCE_POD = "ReadWriteOncePod", "One pod of the cluster."
    READ_WRITE_ONCE = "ReadWriteOnce", "The pods of one node."
    READ_WRITE_MANY = "ReadWriteMany", "Any pod; needs a network file system."


class ResumePolicy(Word):
    """When a conversation is resumed."""

    AUTO = "Auto", "As soon as its agent is found gone."
    ON_REQUEST = "OnRequest", "When somebody asks: annotation kandev.dev/resume-requested."
    NEVER = "Never", "Not at all; only a fresh start brings an agent back."


class ResumeFailure(Word):
    """What follows when a conversation certainly cannot be resumed."""

    ERROR = "Error", "The session says so and waits for a person."
    FRESH_CONVERSATION = (
        "FreshConversation",
        "A new conversation begins in the same workspace; the old token is kept as previous.",
    )


def _kept_as_made(block: str) -> dict[str, str]:
    """Only a pod follows its template: a change that would do nothing is refused."""
    old, new = f"oldSelf.template.spec.{block}", f"self.template.spec.{block}"
    return rule(
        f"!has(self.template) || !has(oldSelf.template) || !has({old}) || !has({new}) || "
        f"{old} == {new}",
        f"executor.template.spec.{block} is immutable: change the Executor that was made from it, "
        "or make a new session",
    )


class ExecutorChoice(Model):
    """Where the agent runs: an executor that exists, or one to be made."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "has(self.ref) == has(oldSelf.ref)",
                "executor cannot change between ref and template",
            ),
            rule(
                "!has(self.ref) || !has(oldSelf.ref) || self.ref.name == oldSelf.ref.name",
                "executor.ref is immutable",
            ),
            *(_kept_as_made(block) for block in ("localStandalone", "remote")),
        )
    }
    one_of = ("ref", "template")

    ref: NameRef | None = Field(
        default=None,
        description="An Executor that somebody else keeps, for instance in Git. It holds one "
        "session at a time: while another is in it, this one waits and says ExecutorBusy.",
    )
    template: ExecutorTemplate | None = Field(
        default=None,
        description="An Executor to make for this session alone; it is deleted with the session. "
        "Changes of a pod take effect at its next pod; where and what it is else is immutable.",
    )


class WorkspaceSpec(Model):
    """The volume that holds worktree, the agent's home and agentctl's journal."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "!has(self.claimName) || !has(self.policy) || self.policy == 'Retain'",
                "a claim named by claimName is always retained: policy must be Retain or absent",
            ),
            rule(
                "!has(self.claimName) || "
                "!(has(self.size) || has(self.storageClassName) || has(self.accessModes))",
                "claimName adopts a claim as it is: size, storageClassName and accessModes "
                "cannot be given with it",
            ),
        )
    }

    size: Quantity | None = Field(
        default=None,
        description="Size of the volume. When absent, the operator's setting. It can grow where "
        "the storage class allows it.",
        examples=["10Gi"],
    )
    storage_class_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="Storage class of the volume. When absent, the cluster's default.",
    )
    access_modes: tuple[AccessMode, ...] = Field(
        default=(),
        max_length=3,
        description="How the volume may be mounted. When absent: ReadWriteOncePod where the "
        "storage class is served by a CSI driver, else ReadWriteOnce. "
        f"{listed(AccessMode)}",
        json_schema_extra={"x-kubernetes-list-type": "set"},
    )
    claim_name: str | None = Field(
        default=None,
        min_length=1,
        max_length=253,
        description="An existing PersistentVolumeClaim to adopt, with whatever is on it. It is "
        "never deleted by the operator.",
    )
    policy: WorkspacePolicy | None = Field(
        default=None,
        description="What becomes of the workspace when the session is deleted. When absent, "
        f"Delete; with claimName always Retain. {listed(WorkspacePolicy)}",
    )

    @property
    def is_retained(self) -> bool:
        """Whether the workspace outlives its session."""
        return self.claim_name is not None or self.policy is WorkspacePolicy.RETAIN


class WorktreeSpec(Model):
    """The branch that a session works on. No two sessions share a worktree."""

    branch: str | None = Field(
        default=None,
        min_length=1,
        max_length=244,
        description="Branch to make and check out. When absent, `kandev/` and the session's name.",
        examples=["kandev/faster-checkout"],
    )
    base_ref: str | None = Field(
        default=None,
        min_length=1,
        max_length=244,
        description="Branch, tag or commit to begin the branch from. When absent, the `ref` of "
        "the task's repository.",
        examples=["main"],
    )


class PromptSource(Model):
    """Where a prompt's text is kept, when it is not in the session itself."""

    one_of = ("config_map_key_ref", "secret_key_ref")

    config_map_key_ref: KeyRef | None = Field(
        default=None, description="A key of a ConfigMap in the same namespace."
    )
    secret_key_ref: KeyRef | None = Field(
        default=None, description="A key of a Secret in the same namespace."
    )


class PromptSpec(Model):
    """The first words of the conversation."""

    one_of = ("text", "from_")

    text: str | None = Field(
        default=None, min_length=1, max_length=65536, description="The prompt itself."
    )
    from_: PromptSource | None = Field(
        default=None,
        alias="from",
        description="Take the prompt from a ConfigMap or Secret. It is read once, when it is sent.",
    )
    id: str = Field(
        default="first",
        min_length=1,
        max_length=128,
        description="Identity of the prompt in this conversation. agentctl accepts each id once: "
        "that is what keeps a prompt from being sent again by a session that was restored.",
    )


class ResumeOptions(Model):
    """How a lost conversation is taken up again."""

    policy: ResumePolicy = Field(
        default=ResumePolicy.AUTO,
        description=f"When to resume. {listed(ResumePolicy)}",
    )
    timeout_seconds: int = Field(
        default=120,
        ge=1,
        le=86400,
        description="How long the agent may take to open its conversation: a resume has failed "
        "with ResumeTimedOut then. A new one has lifecycle.startTimeoutSeconds at most, where that "
        "is less, and fails with StartTimedOut.",
    )
    max_attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="How many times in a row policy Auto tries before it waits for a person, "
        "with MaxAttempts. The agent's own 'no' is never tried again by itself.",
    )
    on_failure: ResumeFailure = Field(
        default=ResumeFailure.ERROR,
        description="What follows when the agent definitely no longer has the conversation, or "
        f"cannot resume any. Other failures never lead to a new one. {listed(ResumeFailure)}",
    )


class LifecycleOptions(Model):
    """How long things may take, and how long they may last."""

    start_timeout_seconds: int = Field(
        default=600,
        ge=1,
        le=86400,
        description="How long starting may stand still. Each step reached for the first time in "
        "an attempt starts the time once more; waiting for a busy executor does not count.",
    )
    unreachable_grace_seconds: int = Field(
        default=60,
        ge=0,
        le=86400,
        description="How long an agentctl that answered before may be silent before the "
        "executor is in error. Until then nothing changes.",
    )
    idle_timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=31536000,
        description="Suspend the session after so long without a turn (status only; the spec is "
        "not touched). A resume wish wakes it. When absent, never.",
        examples=[3600],
    )
    max_duration_seconds: int | None = Field(
        default=None,
        ge=1,
        le=31536000,
        description="Suspend the session when it has run for so long since its last start or "
        "wake. A resume wish wakes it. When absent, never.",
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=31536000,
        description="Delete the session so long after it has finished. When absent, never. "
        "Ignored, and said so in the status, for sessions that Git owns: Git would make them "
        "again, and the agent would be prompted again.",
    )


class TaskSessionSpec(Model):
    """One conversation with one agent."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "has(self.prompt) == has(oldSelf.prompt) && "
                "(!has(self.prompt) || !has(oldSelf.prompt) || self.prompt == oldSelf.prompt)",
                "prompt is immutable: it can be neither changed, added nor removed",
            )
        )
    }

    task_ref: NameRef = Field(
        description="The Task that this session works on. Immutable. It may be applied later "
        "than the session: until then the session waits.",
        json_schema_extra=immutable("taskRef"),
    )
    agent_profile_ref: NameRef = Field(
        description="The AgentProfile that says which agent, and how to run it. Immutable; what "
        "the profile says may change and takes effect at the next start.",
        json_schema_extra=immutable("agentProfileRef"),
    )
    executor: ExecutorChoice = Field(
        description="Where the agent runs. Which one is immutable; the content of a template may "
        "change."
    )
    workspace: WorkspaceSpec = Field(
        default_factory=WorkspaceSpec,
        description="The volume with the session's files, for executors with runtime Pod. It "
        "belongs to the session, not to the executor: a new pod finds it as it was.",
    )
    worktree: WorktreeSpec = Field(
        default_factory=WorktreeSpec,
        description="The branch of the task's repositories that the session works on.",
    )
    operating_mode: OperatingMode = Field(
        default=OperatingMode.RUNNING,
        description=f"What the session is to do. {listed(OperatingMode)}",
        json_schema_extra={
            **stored_default(),
            **rules(
                rule(
                    "oldSelf != 'Finished' || self == 'Finished'",
                    "operatingMode Finished cannot be left: create a new session",
                )
            ),
        },
    )
    prompt: PromptSpec | None = Field(
        default=None,
        description="The first prompt: sent exactly once, as soon as the agent is ready. "
        "Immutable. When absent, the agent waits for its first prompt.",
    )
    resume: ResumeOptions = Field(
        default_factory=ResumeOptions,
        description="How the conversation is taken up again after its agent is gone.",
    )
    lifecycle: LifecycleOptions = Field(
        default_factory=LifecycleOptions, description="Time limits."
    )
