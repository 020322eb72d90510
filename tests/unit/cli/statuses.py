"""A table of statuses: what a session says, and what a person must be told about it."""

from dataclasses import dataclass, field
from datetime import timedelta

from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.cli.explain import Explanation, explain
from unit.cli.bodies import NOON, Json, an_executor, condition, session_body


def at(**ago: float) -> str:
    return rfc3339(NOON - timedelta(**ago))


def text(told: Explanation) -> str:
    """Everything, as it would be read."""
    lines = [told.headline, told.caution, *(f"{fact.label}: {fact.words}" for fact in told.facts)]
    for cause in told.causes:
        lines.append(f"{cause.condition}: {cause.reason} ({cause.since})")
        lines += [cause.meaning, cause.message]
    lines += [*told.outlook]
    for step in told.steps:
        lines += [step.text, step.command or ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class Case:
    """One status, and what a person must be told about it."""

    name: str
    conditions: list[Json]
    says: list[str]
    status: Json = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    executor: Json | None = field(default_factory=dict)
    silent: tuple[str, ...] = ()

    def told(self) -> str:
        session = TaskSession.from_body(session_body(self.conditions, self.spec, **self.status))
        executor = None if self.executor is None else an_executor(**self.executor)
        return text(explain(session, executor, None, None, NOON))


def not_running(reason: str, message: str = "", *more: Json) -> list[Json]:
    return [condition("Ready", "False", reason, message, at(minutes=2)), *more]


def reconciling(reason: str) -> Json:
    return condition("Reconciling", "True", reason, "", at(seconds=20))


GONE: Json = {"isAgentRunning": False, "needsResume": True, "resumeReason": "agent_not_running"}

CASES = [
    Case(
        "idle, with limits of time",
        [
            condition("Ready", "True", "AgentReady", since=at(minutes=3)),
            condition("AgentReady", "True", "AgentReady", since=at(minutes=3)),
            condition("Resumable", "True", "Resumable"),
        ],
        [
            "demo is WAITING_FOR_INPUT. The agent is idle and waits for a prompt.",
            "agent: it runs (Claude 2.1)",
            "for 3 minutes",
            "suspends the session in 57 minutes (2026-11-30T12:57:00Z) unless a turn begins",
            "suspends the session in 2 hours",
            'kubectl kandev prompt demo "…" -n team-a',
        ],
        status={
            "capabilities": {"agent": {"name": "Claude", "version": "2.1"}},
            "startedAt": at(hours=1),
        },
        spec={"lifecycle": {"idleTimeoutSeconds": 3600, "maxDurationSeconds": 10800}},
        silent=("kandev resume",),
    ),
    Case(
        "in a turn",
        [
            condition("Ready", "True", "TurnRunning"),
            condition("AgentReady", "False", "TurnRunning"),
        ],
        ["The agent works on a prompt.", "in a turn, for 5 minutes", "kandev cancel demo"],
        status={"state": "RUNNING", "turn": {"promptId": "p", "startedAt": at(minutes=5)}},
    ),
    Case(
        "a turn that waits for a permission",
        [
            condition("Ready", "True", "TurnRunning"),
            condition("AgentReady", "False", "AwaitingPermission", "", at(hours=2)),
        ],
        [
            "The turn waits for somebody's permission.",
            "for 2 hours",
            "it waits for a permission",
            "however long that takes",
            "kubectl kandev permissions demo -n team-a",
        ],
        status={
            "state": "RUNNING",
            "turn": {"promptId": "p", "startedAt": at(hours=3), "awaitingPermission": True},
        },
    ),
    Case(
        "agent gone, to be asked back",
        not_running("AgentNotRunning", "The agent is not running; resume the session to go on."),
        [
            "although it should: a resume is needed (agent_not_running)",
            "resume.policy is OnRequest",
            "kubectl kandev resume demo -n team-a",
            "kubectl kandev fresh-start demo -n team-a",
        ],
        status=GONE,
        spec={"resume": {"policy": "OnRequest"}},
    ),
    Case(
        "agent died in a turn, to be asked back",
        not_running("AgentExited", "signal SIGKILL", condition("Stalled", "True", "AgentExited")),
        ["signal SIGKILL", "resume.policy is OnRequest", "kubectl kandev resume demo"],
        status=GONE | {"state": "ERROR"},
        spec={"resume": {"policy": "OnRequest"}},
    ),
    Case(
        "agent gone, policy Auto",
        not_running("AgentNotRunning"),
        ["It resumes the conversation by itself"],
        status=GONE,
    ),
    Case(
        "agent gone, policy Never",
        not_running("AgentNotRunning"),
        ["only a fresh start brings an agent back", "kandev fresh-start demo"],
        status=GONE,
        spec={"resume": {"policy": "Never"}},
        silent=("kandev resume",),
    ),
    Case(
        "a failure that is tried again",
        not_running("ResumeFailed", "out of credit", reconciling("Retrying")),
        [
            "resume_failed: out of credit",
            "The agent failed to resume; this may pass, the token is kept.",
            "tries again in 40 seconds (2026-11-30T12:00:40Z); 2 of at most 3 attempts were made",
            "kandev resume demo",
        ],
        status=GONE
        | {
            "state": "ERROR",
            "attempt": 2,
            "nextAttemptAt": at(seconds=-40),
            "errorMessage": "resume_failed: out of credit",
        },
    ),
    Case(
        "a try that is overdue",
        not_running("ResumeFailed", "", reconciling("Retrying")),
        ["tries again due since 5 minutes"],
        status=GONE | {"state": "ERROR", "nextAttemptAt": at(minutes=5)},
    ),
    Case(
        "given up",
        not_running("MaxAttempts", "Gave up", condition("Stalled", "True", "MaxAttempts")),
        ["it waits for a person", "kandev logs demo", "kandev resume demo"],
        status=GONE | {"state": "ERROR"},
    ),
    Case(
        "an agent that cannot resume",
        not_running(
            "NotResumable",
            "",
            condition("Stalled", "True", "NotResumable"),
            condition("Resumable", "False", "NotResumable"),
        ),
        ["it could not be resumed: The agent cannot resume", "Create a new TaskSession"],
        status=GONE | {"state": "ERROR", "isResumable": False},
        silent=("kandev resume",),
    ),
    Case(
        "an agent that exited and could not be resumed",
        not_running("AgentExited", "code 3", condition("Resumable", "False", "NotResumable")),
        ["code 3", "kandev fresh-start demo", "Create a new TaskSession"],
        status=GONE | {"state": "ERROR", "isResumable": False},
        silent=("kandev resume",),
    ),
    Case(
        "history lost",
        [
            condition("Ready", "True", "AgentReady"),
            condition("Resumable", "True", "HistoryLost", "the old token is kept"),
        ],
        ["This conversation is a new one", "the old token is kept"],
    ),
    Case(
        "starting",
        not_running("WaitingForExecutor", "", reconciling("WaitingForExecutor")),
        ["never answers has 600 seconds; they are over in 9 minutes", "the operator is at it."],
        status={"state": "STARTING", "isAgentRunning": False},
        executor={
            "startedAt": at(minutes=1),
            "state": "starting",
            "conditions": [condition("AgentctlReady", "Unknown", "Starting")],
        },
    ),
    Case(
        "being resumed",
        not_running("Resuming", "", reconciling("Resuming")),
        ["waits for the agent's answer, 120 seconds at most; its time is over in 1 minute 50"],
        status=GONE | {"intent": {"operationId": "o", "kind": "Resume", "at": at(seconds=10)}},
    ),
    Case(
        "a busy executor",
        not_running("ExecutorBusy", "", reconciling("WaitingForExecutor")),
        ["It holds session other.", "no limit of time", "kubectl get executor place -n team-a"],
        status={"state": "CREATED", "isAgentRunning": False, "executorRef": None},
        executor={"sessionRef": {"name": "other", "uid": "another"}},
    ),
    Case(
        "agentctl silent, within its grace",
        [
            condition("Ready", "Unknown", "AgentctlUnreachable", "", at(seconds=20)),
            condition("ExecutorReady", "Unknown", "AgentctlUnreachable", "", at(seconds=20)),
            reconciling("WaitingForExecutor"),
        ],
        ["not known at present whether it runs", "unreachableGraceSeconds is over, in 40 seconds"],
        status={"isAgentRunning": None},
        executor={
            "conditions": [
                condition("AgentctlReady", "Unknown", "AgentctlUnreachable", "", at(seconds=20))
            ]
        },
    ),
    Case(
        "an executor in error that is tried again",
        not_running("ImagePullFailed", "manifest unknown", reconciling("Retrying")),
        ["It tries the executor again in 1 minute", "manifest unknown", "kubectl describe pod p-1"],
        status={"state": "ERROR", "isAgentRunning": None},
        executor={
            "state": "error",
            "nextAttemptAt": at(minutes=-1),
            "podRef": {"name": "p-1", "uid": "pod-uid"},
        },
    ),
    Case(
        "a node that is lost",
        not_running("NodeLost", "", condition("Stalled", "True", "NodeLost")),
        [
            "kandev.dev/confirmed-dead=pod-uid",
            "kubectl describe node node-3",
            "two agents will write into one conversation",
        ],
        status={"state": "ERROR", "isAgentRunning": None, "nodeName": "node-3"},
        executor={"state": "error", "podRef": {"name": "p-1", "uid": "pod-uid"}},
    ),
    Case(
        "a reason of the executor's that the session does not hand on",
        not_running("WaitingForExecutor", "", reconciling("WaitingForExecutor")),
        ["executor PodScheduled False: Unschedulable", "0/3 nodes"],
        status={"state": "STARTING", "isAgentRunning": False},
        executor={
            "state": "starting",
            "conditions": [condition("PodScheduled", "False", "Unschedulable", "0/3 nodes")],
        },
    ),
    Case(
        "a drained executor",
        [
            condition("Ready", "True", "TurnRunning"),
            condition("AgentReady", "False", "TurnRunning"),
        ],
        ["cuts the turn off in 8 minutes", "executor Draining True: WaitingForTurn"],
        status={"turn": {"promptId": "p", "startedAt": at(minutes=9)}},
        executor={
            "spec": {
                "runtime": "LocalStandalone",
                "localStandalone": {"worktreePath": "/srv/demo"},
                "drain": True,
            },
            "conditions": [condition("Draining", "True", "WaitingForTurn", "", at(minutes=2))],
        },
    ),
    Case(
        "a task that is missing, just now",
        not_running("TaskMissing", "Task work does not exist", reconciling("TaskMissing")),
        ["waits a minute for", "Task work does not exist", "kubectl get tasks -n team-a"],
        status={"state": "CREATED", "isAgentRunning": False, "executorRef": None},
        executor=None,
    ),
    Case(
        "a task that stays missing",
        not_running("TaskMissing", "", condition("Stalled", "True", "TaskMissing")),
        ["it waits for a person"],
        status={"state": "ERROR", "isAgentRunning": False},
    ),
    Case(
        "suspended by wish",
        [
            condition("Ready", "True", "Suspended"),
            condition("Suspended", "True", "Requested"),
            condition("ExecutorReady", "False", "NotNeeded"),
            condition("AgentReady", "False", "NoAgentWanted"),
        ],
        [
            "`operatingMode` asks for it.",
            "Nothing until operatingMode is changed",
            """-p '{"spec":{"operatingMode":"Running"}}'""",
        ],
        status={"isAgentRunning": False, "executorRef": None},
        spec={"operatingMode": "Suspended"},
        executor=None,
        silent=("kandev resume", "NotNeeded", "NoAgentWanted"),
    ),
    Case(
        "suspended by wish, and not to come back by itself",
        [condition("Suspended", "True", "Requested")],
        ["It rests. `operatingMode` asks for it.", "Then ask for a resume", "kandev resume demo"],
        status={"isAgentRunning": False, "executorRef": None},
        spec={"operatingMode": "Suspended", "resume": {"policy": "OnRequest"}},
        executor=None,
    ),
    Case(
        "suspended for being idle",
        [
            condition("Ready", "True", "Suspended"),
            condition("Suspended", "True", "IdleTimeout", "", at(days=2)),
        ],
        [
            "No turn for longer than",
            "for 2 days",
            "Nothing until a resume is asked for",
            "resume demo",
        ],
        status={"isAgentRunning": False, "executorRef": None},
        executor=None,
    ),
    Case(
        "workspace only",
        [condition("Ready", "True", "WorkspaceServed")],
        ["shell, files and git are served", "operatingMode WorkspaceOnly"],
        status={"isAgentRunning": False},
        spec={"operatingMode": "WorkspaceOnly"},
        silent=("kandev resume",),
    ),
    Case(
        "finished, to be deleted",
        [
            condition("Ready", "True", "Finished"),
            condition("Finished", "True", "Completed", "", at(minutes=10)),
        ],
        ["is COMPLETED", "It deletes the session in 50 minutes", "Create a new TaskSession"],
        status={"state": "COMPLETED", "isAgentRunning": False, "executorRef": None},
        spec={"operatingMode": "Finished", "lifecycle": {"ttlSecondsAfterFinished": 3600}},
        executor=None,
    ),
    Case(
        "finished, to stay",
        [condition("Finished", "True", "Cancelled")],
        ["Nothing more. The session stays until somebody deletes it."],
        status={"state": "CANCELLED", "isAgentRunning": False},
    ),
    Case(
        "prompts and turns that were lost",
        not_running("AgentExited", "killed"),
        [
            "first prompt: the agent died while it was being handed over",
            "last turn: it was cut off 4 minutes ago; nothing of it is sent again by itself",
        ],
        status=GONE
        | {
            "firstPrompt": {"id": "first", "fate": "unknown"},
            "interruptedTurn": {"promptId": "p", "at": at(minutes=4)},
        },
    ),
    Case(
        "a first prompt that has not gone out",
        [condition("Ready", "True", "AgentReady"), condition("AgentReady", "True", "AgentReady")],
        ["first prompt: it has not been sent yet", "sends the first prompt as soon as"],
        spec={"prompt": {"text": "begin"}},
    ),
    Case(
        "a reason of a later operator",
        not_running("CosmicRay", "a bit flipped"),
        ["A reason that this version of the plugin does not know.", "a bit flipped", "-o yaml"],
        status=GONE,
    ),
    Case(
        "a reason at home in two conditions means what its own condition means",
        not_running("StartTimedOut", "", condition("AgentReady", "False", "StartTimedOut")),
        ["Starting stood still for longer than it may."],
        status=GONE,
        silent=("It did not answer within the start time.",),
    ),
]
