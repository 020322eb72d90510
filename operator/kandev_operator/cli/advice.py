"""What a person can do about each reason: one table, from reason to steps.

A step is a sentence and, where one helps, the exact command. Every reason that a session's status
may give stands here, and a test compares the table with `api.reasons`. Which reason explains a
session is `explain`'s business; here only what follows from a reason is known.

In commands `{session}`, `{executor}`, `{profile}`, `{task}`, `{pod}`, `{pod_uid}` and `{node}` are
names, `{ns}` is the option that names the namespace, and `{operator_ns}` where the operator lives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Step:
    """Something that a person can do. No command: it happens elsewhere, or not at all."""

    text: str
    command: str | None = None


Steps = tuple[Step, ...]

# What can be done with the session.
PROMPT = Step("Give it a prompt:", 'kubectl kandev prompt {session} "…"{ns}')
FOLLOW = Step("Watch the conversation:", "kubectl kandev logs -f {session}{ns}")
READ = Step("Read what was said:", "kubectl kandev logs {session}{ns}")
CANCEL = Step("Cut the turn off:", "kubectl kandev cancel {session}{ns}")
ANSWER = Step("See what it asks, and answer:", "kubectl kandev permissions {session}{ns}")
RESUME = Step("Ask for a resume:", "kubectl kandev resume {session}{ns}")
AGAIN = Step("When that is put right, have it tried again:", "kubectl kandev resume {session}{ns}")
FRESH = Step(
    "Begin a new conversation in the same workspace; the agent forgets this one (without --yes "
    "you are asked first):",
    "kubectl kandev fresh-start {session}{ns} --yes",
)
MODE_RUNNING = Step(
    "Have the agent run again:",
    "kubectl patch tasksession {session}{ns} --type merge "
    """-p '{{"spec":{{"operatingMode":"Running"}}}}'""",
)
THEN_RESUME = Step(
    "Then ask for a resume, as resume.policy does not do so by itself:",
    "kubectl kandev resume {session}{ns}",
)
NEW_SESSION = Step("Create a new TaskSession to go on; this one keeps what it has.")
WAIT = Step("Nothing: the operator is at it.")
NOTHING = Step("Nothing: this is as it should be.")

# What can be looked at or put right.
SESSION_YAML = Step("Look at the object:", "kubectl get tasksession {session}{ns} -o yaml")
EXECUTOR = Step("Look at the executor:", "kubectl describe executor {executor}{ns}")
EDIT_EXECUTOR = Step("Correct the executor:", "kubectl edit executor {executor}{ns}")
EDIT_SESSION = Step("Correct the session:", "kubectl edit tasksession {session}{ns}")
EDIT_PROFILE = Step("Correct the AgentProfile:", "kubectl edit agentprofile {profile}{ns}")
LOGIN = Step(
    "Give the agent a key or a login, by a Secret that the AgentProfile's env names:",
    "kubectl edit agentprofile {profile}{ns}",
)
POD = Step("Look at the pod and its events:", "kubectl describe pod {pod}{ns}")
POD_LOGS = Step("Read its last words:", "kubectl logs {pod}{ns} --previous")
MEMORY = Step(
    "Give it more memory, in the AgentProfile's resources or the executor's template:",
    "kubectl edit agentprofile {profile}{ns}",
)
NODE = Step("Look at the node:", "kubectl describe node {node}")
QUOTA = Step("Look at the namespace's quota:", "kubectl describe resourcequota{ns}")
CLAIM = Step("Look at the workspaces:", "kubectl get persistentvolumeclaims{ns}")
CONFIRM_DEAD = Step(
    "If you are sure that the pod runs no more, say so; if it does, two agents will write into "
    "one conversation:",
    "kubectl annotate tasksession {session}{ns} --overwrite kandev.dev/confirmed-dead={pod_uid}",
)
UNDRAIN = Step(
    "Use the executor again:",
    """kubectl patch executor {executor}{ns} --type merge -p '{{"spec":{{"drain":false}}}}'""",
)
WHO_IS_IN = Step(
    "See who is in the executor; finish or delete that session to make room (suspending it does "
    "so only where the executor is a pod):",
    "kubectl get executor {executor}{ns}",
)
TASK = Step("See which Tasks there are, and apply the one that is named:", "kubectl get tasks{ns}")
PROFILES = Step(
    "See which AgentProfiles there are, and apply the one that is named:",
    "kubectl get agentprofiles{ns}",
)
EXECUTORS = Step(
    "See which Executors there are, and apply the one that is named:", "kubectl get executors{ns}"
)
KEYS = Step("Compare its JWKS file with the operator's keys:", "kubectl kandev jwks")
AGENTCTL = Step(
    "See that agentctl runs there and that its address can be reached from the operator:",
    "kubectl describe executor {executor}{ns}",
)
CLOCKS = Step("Set the clocks right (NTP), on the executor's machine and on the operator's.")
VERSIONS = Step("Run an agentctl of the operator's own version there.")
OPTIONS = Step(
    "Use another executor; where the message names an option, have the operator started with it "
    "(kandev-operator run --help lists them)."
)
OPERATOR = Step(
    "See that an operator runs and leads:", "kubectl get lease kandev-operator -n {operator_ns}"
)
START_OPERATOR = (
    Step(
        "Start the operator again; it then looks at every session by itself. In a cluster, see "
        "why it does not run:",
        "kubectl get pods -n {operator_ns}",
    ),
    Step("Elsewhere, on the machine that it ran on:", "kandev-operator run --help"),
)
SECRETS = Step("See which Secrets there are:", "kubectl get secrets{ns}")
REPOSITORY = Step(
    "Correct the repository's url, ref or credentials in the Task:", "kubectl edit task {task}{ns}"
)
ROOM = Step("Make room on the volume, or let it grow where its storage class allows that.")

ADVICE: Final[Mapping[str, Steps]] = MappingProxyType(
    {
        # The agent.
        "AgentReady": (PROMPT, READ),
        "TurnRunning": (FOLLOW, CANCEL),
        "AwaitingPermission": (ANSWER, CANCEL),
        "WaitingForExecutor": (WAIT, EXECUTOR),
        "Starting": (WAIT,),
        "Resuming": (WAIT,),
        "Stopping": (WAIT,),
        "NotStarted": (WAIT, EXECUTOR),
        "AgentNotRunning": (RESUME, FRESH),
        "AgentExited": (READ, RESUME, FRESH),
        "Interrupted": (READ, RESUME),
        "AuthenticationRequired": (LOGIN, AGAIN),
        "CommandNotFound": (EDIT_PROFILE, AGAIN),
        "ProtocolMismatch": (EDIT_PROFILE, AGAIN),
        "InitializeFailed": (EDIT_PROFILE, AGAIN),
        "StartFailed": (EDIT_PROFILE, AGAIN),
        "StartTimedOut": (EXECUTOR, AGAIN),
        "ResumeFailed": (RESUME, FRESH),
        "ResumeTimedOut": (RESUME, FRESH),
        "HeldElsewhere": (
            Step("Find the other process that has this conversation open, and end it."),
            AGAIN,
        ),
        "Superseded": (WAIT, AGAIN),
        "NoAgentWanted": (MODE_RUNNING,),
        "AgentUnknown": (EXECUTOR,),
        # The conversation.
        "Resumable": (RESUME,),
        "NoConversation": (RESUME,),
        "CapabilityUnknown": (EXECUTOR, AGAIN),
        "NotResumable": (NEW_SESSION, FRESH),
        "MissingResumeToken": (NEW_SESSION, FRESH),
        "ResumeTokenUnknown": (SECRETS, AGENTCTL),
        "InvalidResumeToken": (FRESH, NEW_SESSION),
        "SessionNotFound": (FRESH, NEW_SESSION),
        "HistoryLost": (
            Step("Tell the agent what it should know: its earlier history is gone."),
            PROMPT,
            READ,
        ),
        # The executor.
        "ExecutorReady": (NOTHING,),
        "NotBound": (WAIT, EXECUTOR),
        "ExecutorBusy": (WHO_IS_IN,),
        "ExecutorMissing": (EXECUTORS,),
        "ExecutorStarting": (WAIT, EXECUTOR),
        "ExecutorStopped": (RESUME,),
        "ExecutorDraining": (UNDRAIN,),
        "ExecutorNotReady": (EXECUTOR,),
        "NotNeeded": (NOTHING,),
        "AgentctlReady": (NOTHING,),
        "Idle": (NOTHING,),
        "Stopped": (RESUME,),
        "AgentctlUnreachable": (AGENTCTL,),
        "AgentctlUnhealthy": (EXECUTOR,),
        "AuthenticationFailed": (KEYS,),
        "ForeignAgentctl": (AGENTCTL, EDIT_EXECUTOR),
        "ContractMismatch": (VERSIONS,),
        "ClockSkew": (CLOCKS,),
        "ImagePullFailed": (POD, EDIT_PROFILE),
        "InitFailed": (POD, EDIT_SESSION),
        "CrashLoopBackOff": (POD_LOGS, POD),
        "OOMKilled": (MEMORY, AGAIN),
        "ContainerExited": (POD_LOGS, AGAIN),
        "PodEvicted": (POD, AGAIN),
        "PodDeleted": (AGAIN,),
        "DeadlineExceeded": (POD, AGAIN),
        "NodeLost": (NODE, CONFIRM_DEAD),
        "NodeUnknown": (NODE,),
        "DockerUnavailable": (Step("Start the Docker engine that the operator uses."), EXECUTOR),
        "ContainerMissing": (EDIT_EXECUTOR,),
        "ProcessExited": (EXECUTOR, AGAIN),
        "NotAllowed": (OPTIONS,),
        "NotUsed": (EXECUTOR,),
        "Scheduled": (WAIT,),
        "NoPod": (NOTHING,),
        "NotApplicable": (NOTHING,),
        "PodPending": (WAIT, POD),
        "PodTerminating": (WAIT, POD),
        "Unschedulable": (POD, Step("Make room on the nodes, or ask for less.")),
        "InvalidTemplate": (EDIT_SESSION,),
        "QuotaExceeded": (QUOTA,),
        "Bound": (NOTHING,),
        "SessionGone": (WAIT,),
        "Releasing": (WAIT,),
        "Draining": (UNDRAIN,),
        "NotDraining": (NOTHING,),
        "WaitingForTurn": (CANCEL, UNDRAIN),
        "DeadlineReached": (READ, UNDRAIN),
        "Drained": (UNDRAIN,),
        "Probed": (NOTHING,),
        "NotAsked": (WAIT,),
        # The workspace.
        "WorkspaceReady": (NOTHING,),
        "WorkspaceServed": (MODE_RUNNING,),
        "Preparing": (WAIT,),
        "Checking": (WAIT,),
        "WorkspaceUnknown": (EXECUTOR,),
        "WorkspaceMissing": (CLAIM, NEW_SESSION),
        "WorkspaceInUse": (
            Step("End the other session, agentctl or named process that works on these files."),
            EXECUTOR,
        ),
        "ForeignWorkspace": (EDIT_EXECUTOR, NEW_SESSION),
        "WorktreeMissing": (
            Step("Put the folder back on the operator's machine; it is looked at again."),
            EXECUTOR,
        ),
        "CloneFailed": (REPOSITORY, AGAIN),
        "JournalUnreadable": (
            Step("Put the workspace back from a backup, or move the damaged journal away."),
            NEW_SESSION,
        ),
        "JournalFull": (ROOM,),
        "Released": (NOTHING,),
        # Rest and end.
        "Suspended": (MODE_RUNNING,),
        "Requested": (MODE_RUNNING,),
        "IdleTimeout": (RESUME,),
        "Expired": (RESUME,),
        "NotSuspended": (NOTHING,),
        "Finished": (NEW_SESSION,),
        "Completed": (NEW_SESSION,),
        "Cancelled": (NEW_SESSION,),
        "NotFinished": (NOTHING,),
        # The operator's work.
        "Summarized": (NOTHING,),
        "Accepted": (NOTHING,),
        "Pending": (OPERATOR,),
        "Progressing": (WAIT,),
        "Retrying": (WAIT, RESUME),
        "Deleting": (WAIT,),
        # Things that are named and not there.
        "TaskMissing": (TASK,),
        "ProfileMissing": (PROFILES,),
        "PromptMissing": (
            Step("Apply the ConfigMap or Secret that spec.prompt.from names, with its key."),
            SESSION_YAML,
        ),
        "SecretMissing": (SECRETS, EDIT_PROFILE),
        "SpecInvalid": (EDIT_SESSION,),
        "MaxAttempts": (READ, AGAIN, FRESH),
        "ModeNotSupported": (MODE_RUNNING, EDIT_PROFILE),
    }
)

UNKNOWN_REASON: Final[Steps] = (SESSION_YAML, OPERATOR)
"""For a reason of a later operator, which this plugin cannot know."""
