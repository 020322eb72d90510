"""Why: every reason that a condition may give, one enum for each condition type.

A reason stands with the condition in which it is born. `Ready`, `Reconciling` and `Stalled` say
the reason of whatever explains them, and `ExecutorReady` hands on what the executor's own
conditions say; `SPEAKS` is the list of who may say what. A word that two conditions give birth
to (the agent's command is missing in a probe as well as in a start) stands in both.

`resume_word` turns a reason into the snake_case word that `status.resumeReason` and the pages
use. Nothing here decides which reason holds.
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from kandev_operator.api.words import Word


class ReadyReason(Word):
    """`Ready`: has the mode that was asked for been reached?"""

    AGENT_READY = "AgentReady", "The agent is idle and waits for a prompt."
    TURN_RUNNING = "TurnRunning", "The agent works on a prompt."
    WORKSPACE_SERVED = "WorkspaceServed", "Workspace-only: shell, files and git can be used."
    SUSPENDED = "Suspended", "The session rests, as it was asked to."
    FINISHED = "Finished", "The session has come to its end."
    IDLE = "Idle", "Nobody is bound to the executor, and nothing runs in it."
    AGENTCTL_READY = "AgentctlReady", "The executor's agentctl answers."
    SUMMARIZED = "Summarized", "The task's state says where its sessions stand."
    ACCEPTED = "Accepted", "The object can be used as it is written."
    PENDING = "Pending", "The operator has seen the object and not yet begun."
    EXECUTOR_NOT_READY = "ExecutorNotReady", "The executor cannot be used yet, or any more."
    DRAINING = "Draining", "The executor is being emptied."


class AgentReadyReason(Word):
    """`AgentReady`: has the agent finished its prompt, and is it idle?"""

    AGENT_READY = "AgentReady", "The agent is idle and waits for a prompt."
    TURN_RUNNING = "TurnRunning", "The agent works on a prompt."
    AWAITING_PERMISSION = "AwaitingPermission", "The turn waits for somebody's permission."
    WAITING_FOR_EXECUTOR = "WaitingForExecutor", "No agent can run before the executor is ready."
    STARTING = "Starting", "A new conversation is being started."
    RESUMING = "Resuming", "The earlier conversation is being taken up again."
    STOPPING = "Stopping", "The agent is being stopped gently."
    NOT_STARTED = "NotStarted", "No agent was started yet; `Ready` says what that waits for."
    AGENT_NOT_RUNNING = "AgentNotRunning", "The agent is gone and has not been asked back yet."
    AGENT_EXITED = "AgentExited", "The agent's process ended by itself, or was killed."
    INTERRUPTED = "Interrupted", "A turn was cut off when the agent died; it is not repeated."
    AUTHENTICATION_REQUIRED = (
        "AuthenticationRequired",
        "The agent wants a login or a key; give it one in the AgentProfile.",
    )
    COMMAND_NOT_FOUND = "CommandNotFound", "The profile's command does not exist where it runs."
    PROTOCOL_MISMATCH = (
        "ProtocolMismatch",
        "The agent speaks another protocol version, or writes what is no protocol at all.",
    )
    INITIALIZE_FAILED = "InitializeFailed", "The agent did not answer `initialize` as it should."
    START_FAILED = "StartFailed", "The agent refused to begin a conversation; its words are given."
    START_TIMED_OUT = "StartTimedOut", "Starting stood still for longer than it may."
    RESUME_FAILED = "ResumeFailed", "The agent failed to resume; this may pass, the token is kept."
    RESUME_TIMED_OUT = "ResumeTimedOut", "The agent did not answer a resume in time."
    HELD_ELSEWHERE = "HeldElsewhere", "The agent says that another process has the conversation."
    SUPERSEDED = "Superseded", "A later wish took the place of this one before it was done."
    NO_AGENT_WANTED = "NoAgentWanted", "The operating mode asks for no agent."
    AGENT_UNKNOWN = "AgentUnknown", "Nobody can be asked at present whether the agent lives."


class ResumableReason(Word):
    """`Resumable`: could the conversation be taken up in a new process?"""

    RESUMABLE = "Resumable", "Profile, agent and token permit it."
    NO_CONVERSATION = "NoConversation", "No conversation has been opened yet."
    CAPABILITY_UNKNOWN = "CapabilityUnknown", "The agent could not be asked yet what it can do."
    NOT_RESUMABLE = "NotResumable", "The agent cannot resume, or its profile forbids it."
    MISSING_RESUME_TOKEN = (
        "MissingResumeToken",
        "Turns were completed, but neither journal nor Secret has a token.",
    )
    RESUME_TOKEN_UNKNOWN = "ResumeTokenUnknown", "The token's Secret or journal cannot be read."
    INVALID_RESUME_TOKEN = "InvalidResumeToken", "The agent refuses the token as malformed."
    SESSION_NOT_FOUND = (
        "SessionNotFound",
        "The agent definitely has no conversation of this token any more.",
    )
    HISTORY_LOST = (
        "HistoryLost",
        "This conversation is a new one: the agent no longer had what was said before.",
    )
    FINISHED = "Finished", "The session has come to its end; its conversation is not resumed."


class ExecutorReadyReason(Word):
    """`ExecutorReady`: is the session's executor bound to it, and does its agentctl answer?"""

    EXECUTOR_READY = "ExecutorReady", "The executor is bound to this session and answers."
    NOT_BOUND = "NotBound", "Session and executor do not point at each other yet."
    EXECUTOR_BUSY = "ExecutorBusy", "Another session is in the executor; this one waits its turn."
    EXECUTOR_MISSING = "ExecutorMissing", "There is no Executor of the name in `executor.ref`."
    EXECUTOR_STARTING = "ExecutorStarting", "The executor is on its way."
    EXECUTOR_STOPPED = "ExecutorStopped", "Nothing runs there, and nobody asked for it to run."
    EXECUTOR_DRAINING = "ExecutorDraining", "The executor is being emptied and takes nobody in."
    NOT_NEEDED = "NotNeeded", "The session rests or has finished: it needs no executor."


class AgentctlReadyReason(Word):
    """`AgentctlReady`: does the agentctl that was pinned answer, and is it well?"""

    AGENTCTL_READY = "AgentctlReady", "It answers; shell, files and git can be used."
    IDLE = "Idle", "Nobody is bound, so no agentctl runs."
    STARTING = "Starting", "It has not answered yet, and still has time."
    STOPPED = "Stopped", "It was stopped on purpose."
    NOT_USED = "NotUsed", "Nothing is asked of it while the executor cannot be used; see `Ready`."
    AGENTCTL_UNREACHABLE = "AgentctlUnreachable", "It answered before and no longer does."
    AGENTCTL_UNHEALTHY = "AgentctlUnhealthy", "It answers that it is not well."
    AUTHENTICATION_FAILED = "AuthenticationFailed", "It refuses the operator's token."
    FOREIGN_AGENTCTL = "ForeignAgentctl", "Another agentctl answers at this address."
    CONTRACT_MISMATCH = "ContractMismatch", "It speaks a version of the contract we do not."
    CLOCK_SKEW = "ClockSkew", "Its clock and the operator's differ by more than tokens allow."
    START_TIMED_OUT = "StartTimedOut", "It did not answer within the start time."
    IMAGE_PULL_FAILED = "ImagePullFailed", "The image cannot be pulled; the kubelet's words follow."
    INIT_FAILED = "InitFailed", "A container that must finish first has failed."
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff", "The container fails again and again."
    OOM_KILLED = "OOMKilled", "The container took more memory than its limit and was killed."
    CONTAINER_EXITED = "ContainerExited", "The container ended; its exit code is given."
    POD_EVICTED = "PodEvicted", "The node put the pod out; its words follow."
    POD_DELETED = "PodDeleted", "Somebody deleted the pod."
    DEADLINE_EXCEEDED = "DeadlineExceeded", "The pod ran for longer than its deadline allows."
    NODE_LOST = (
        "NodeLost",
        "The pod's node is gone and its agent may live on; see kandev.dev/confirmed-dead.",
    )
    NODE_UNKNOWN = "NodeUnknown", "Nothing is heard of the pod's node; nothing is concluded."
    DOCKER_UNAVAILABLE = "DockerUnavailable", "The Docker engine cannot be reached."
    CONTAINER_MISSING = "ContainerMissing", "The Docker engine says there is no such container."
    PROCESS_EXITED = "ProcessExited", "The local agentctl process ended."
    NOT_ALLOWED = "NotAllowed", "The operator's options do not allow this executor here."


class PodScheduledReason(Word):
    """`PodScheduled`: does the executor's pod exist and have a node?"""

    SCHEDULED = "Scheduled", "The pod has a node."
    NO_POD = "NoPod", "No pod is wanted: nobody is bound."
    NOT_APPLICABLE = "NotApplicable", "This runtime has no pod."
    POD_PENDING = "PodPending", "The pod is made and waits for the scheduler."
    POD_TERMINATING = "PodTerminating", "The earlier pod has not gone yet."
    UNSCHEDULABLE = "Unschedulable", "No node takes the pod; the scheduler's words follow."
    INVALID_TEMPLATE = (
        "InvalidTemplate",
        "API server or Docker engine refuse it; their words follow.",
    )
    QUOTA_EXCEEDED = "QuotaExceeded", "The namespace's quota has no room for the pod."


class CapabilitiesKnownReason(Word):
    """`CapabilitiesKnown`: has the agent been asked what it can do?"""

    PROBED = "Probed", "The agent answered; see `status.capabilities`."
    NOT_ASKED = "NotAsked", "There is nobody to ask: no session, or no agentctl yet."
    CAPABILITY_UNKNOWN = "CapabilityUnknown", "No answer yet; this is not a no."
    COMMAND_NOT_FOUND = "CommandNotFound", "The profile's command does not exist where it runs."
    INITIALIZE_FAILED = "InitializeFailed", "The agent did not answer `initialize` as it should."
    PROTOCOL_MISMATCH = "ProtocolMismatch", "The agent speaks another protocol version."
    AUTHENTICATION_REQUIRED = "AuthenticationRequired", "The agent wants a login or a key first."
    AGENT_EXITED = "AgentExited", "The agent ended instead of answering."


class WorkspaceReadyReason(Word):
    """`WorkspaceReady`: are the session's files there, and are they its own?"""

    WORKSPACE_READY = "WorkspaceReady", "The files are there and belong to this session."
    PREPARING = "Preparing", "Volume or worktree are being made."
    CHECKING = "Checking", "The volume exists; nobody has looked at its marker yet."
    WORKSPACE_UNKNOWN = "WorkspaceUnknown", "Nobody can be asked about the files at present."
    WORKSPACE_MISSING = "WorkspaceMissing", "The claim or the files on it are gone."
    WORKSPACE_IN_USE = "WorkspaceInUse", "The files are another session's, or another agentctl's."
    FOREIGN_WORKSPACE = "ForeignWorkspace", "The files carry the marker of another session."
    WORKTREE_MISSING = "WorktreeMissing", "The folder in `worktreePath` does not exist."
    CLONE_FAILED = "CloneFailed", "A repository cannot be cloned; git's words follow."
    JOURNAL_UNREADABLE = "JournalUnreadable", "agentctl's journal is damaged; no agent starts."
    JOURNAL_FULL = "JournalFull", "There is no room left to write down what happens."
    RELEASED = "Released", "The executor holds no session and therefore no files."


class SuspendedReason(Word):
    """`Suspended`: does the session rest?"""

    REQUESTED = "Requested", "`operatingMode` asks for it."
    IDLE_TIMEOUT = "IdleTimeout", "No turn for longer than `idleTimeoutSeconds`."
    EXPIRED = "Expired", "It ran for longer than `maxDurationSeconds`."
    STOPPING = "Stopping", "The agent is being stopped gently."
    NOT_SUSPENDED = "NotSuspended", "Nobody asked for it."


class FinishedReason(Word):
    """`Finished`: has the session come to its end for good?"""

    COMPLETED = "Completed", "It was finished, or its task was closed, between two turns."
    CANCELLED = "Cancelled", "A turn was cut off by it, or the task was closed as cancelled."
    STOPPING = "Stopping", "The agent is being stopped gently."
    NOT_FINISHED = "NotFinished", "Nobody asked for it."


class BoundReason(Word):
    """`Bound`: do this executor and a session point at each other?"""

    BOUND = "Bound", "See `status.sessionRef`."
    NOT_BOUND = "NotBound", "No session points at this executor."
    SESSION_GONE = (
        "SessionGone",
        "The session was deleted; its agent is stopped and the place freed.",
    )
    RELEASING = "Releasing", "The session has let go; what is left of it is cleared away."


class DrainingReason(Word):
    """`Draining`: is the executor being emptied?"""

    NOT_DRAINING = "NotDraining", "Nobody asked for it."
    WAITING_FOR_TURN = "WaitingForTurn", "The turn that is under way may end first."
    STOPPING = "Stopping", "The agent is being stopped gently."
    DEADLINE_REACHED = "DeadlineReached", "The turn took too long and was cut off."
    DRAINED = "Drained", "The executor is empty and takes nobody in."


class ReconcilingReason(Word):
    """`Reconciling`: is the operator at work on the object? There only while true."""

    PROGRESSING = "Progressing", "The next step is under way."
    WAITING_FOR_EXECUTOR = "WaitingForExecutor", "The executor is not ready yet."
    RETRYING = "Retrying", "A failure is looked at again, at `nextAttemptAt` where that is set."
    TASK_MISSING = "TaskMissing", "The Task is not there yet; it may be applied any moment."
    PROFILE_MISSING = "ProfileMissing", "The AgentProfile is not there yet."
    EXECUTOR_MISSING = "ExecutorMissing", "The Executor is not there yet."
    DELETING = "Deleting", "The object is being deleted, and what it left is cleared away."


class StalledReason(Word):
    """`Stalled`: can the object get no further without a person? There only while true."""

    SPEC_INVALID = "SpecInvalid", "The object does not fit this version of the operator."
    NOT_ALLOWED = "NotAllowed", "The operator's options do not allow this."
    TASK_MISSING = "TaskMissing", "There is no Task of the name in `taskRef`."
    PROFILE_MISSING = "ProfileMissing", "There is no AgentProfile of the name in `agentProfileRef`."
    EXECUTOR_MISSING = "ExecutorMissing", "There is no Executor of the name in `executor.ref`."
    PROMPT_MISSING = "PromptMissing", "The first prompt's ConfigMap or Secret lacks it."
    SECRET_MISSING = (
        "SecretMissing",
        "A Secret or key that the profile's environment names is gone.",
    )
    MAX_ATTEMPTS = "MaxAttempts", "It was tried as often as `maxAttempts` allows."
    MODE_NOT_SUPPORTED = "ModeNotSupported", "The agent or profile does not support WorkspaceOnly."


AGENT_PROFILE_CONDITIONS: Final = ("Ready",)
TASK_CONDITIONS: Final = ("Ready", "Reconciling", "Stalled")
SESSION_CONDITIONS: Final = (
    "Ready",
    "ExecutorReady",
    "WorkspaceReady",
    "AgentReady",
    "Resumable",
    "Suspended",
    "Finished",
    "Reconciling",
    "Stalled",
)
EXECUTOR_CONDITIONS: Final = (
    "Ready",
    "PodScheduled",
    "AgentctlReady",
    "CapabilitiesKnown",
    "WorkspaceReady",
    "Bound",
    "Draining",
    "Reconciling",
    "Stalled",
)

# The reasons that are born in each condition type.
BY_CONDITION: Final[Mapping[str, type[Word]]] = MappingProxyType(
    {
        "Ready": ReadyReason,
        "AgentReady": AgentReadyReason,
        "Resumable": ResumableReason,
        "ExecutorReady": ExecutorReadyReason,
        "WorkspaceReady": WorkspaceReadyReason,
        "Suspended": SuspendedReason,
        "Finished": FinishedReason,
        "AgentctlReady": AgentctlReadyReason,
        "PodScheduled": PodScheduledReason,
        "CapabilitiesKnown": CapabilitiesKnownReason,
        "Bound": BoundReason,
        "Draining": DrainingReason,
        "Reconciling": ReconcilingReason,
        "Stalled": StalledReason,
    }
)

# Whose reasons a condition type hands on, beside its own.
_EXECUTORS_OWN: Final = ("AgentctlReady", "PodScheduled", "WorkspaceReady", "Bound", "Draining")
_EVERYTHING: Final = tuple(BY_CONDITION)
SPEAKS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {kind: (kind,) for kind in BY_CONDITION}
    | {
        "ExecutorReady": ("ExecutorReady", *_EXECUTORS_OWN),
        "CapabilitiesKnown": ("CapabilitiesKnown", "AgentReady", "AgentctlReady"),
        "Ready": _EVERYTHING,
        "Reconciling": _EVERYTHING,
        "Stalled": _EVERYTHING,
    }
)


def resume_word(reason: str) -> str:
    """The word of `status.resumeReason` for a reason: `OOMKilled` becomes `oom_killed`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", reason)
    return parted.lower()


RESUME_REASON: Final[Mapping[str, str]] = MappingProxyType(
    {str(word): resume_word(word) for words in BY_CONDITION.values() for word in words}
)


_DOCS: Final[Mapping[str, Mapping[str, str]]] = {
    kind: {str(word): word.doc for word in words} for kind, words in BY_CONDITION.items()
}


def is_documented(condition_type: str, reason: str) -> bool:
    """Whether a condition of this type may give this reason."""
    return any(reason in set(BY_CONDITION[each]) for each in SPEAKS.get(condition_type, ()))


def meaning(type_: str, reason: str, spoken: Iterable[tuple[str, str]] = ()) -> str:
    """The sentence that documents a reason; empty for one that is not documented.

    Some words are at home in two conditions and mean slightly different things there. `Ready` and
    the like only hand a reason on, so a condition of the same object that gives it decides:
    `spoken` are the object's conditions, as type and reason.
    """
    homes = [other for other, given in spoken if given == reason and other != type_]
    speaks = SPEAKS.get(type_, ())
    # Not among everything, for those that may say everything.
    first = speaks if len(speaks) < len(BY_CONDITION) else (type_,)
    for home in (*first, *homes, *BY_CONDITION):
        if said := _DOCS.get(home, {}).get(reason):
            return said
    return ""
