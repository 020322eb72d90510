"""A session's status in words for a person: what is, why, what comes next, what one can do.

`explain` is a pure function of the objects and of the time. It adds nothing to what the operator
wrote: a reason becomes the sentence that documents it, a moment becomes how long ago that is, and
a reason's row in the table of advice becomes commands that can be pasted. Where the operator does
not know, neither does this.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kandev_operator.api import reasons
from kandev_operator.api.conditions import Condition
from kandev_operator.api.executor import Executor, ExecutorState
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import OperatingMode, ResumePolicy, SessionState, TaskSession
from kandev_operator.api.task import Task
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.api.troubles import stuck
from kandev_operator.cli import advice
from kandev_operator.cli.advice import ADVICE, UNKNOWN_REASON, Step, Steps
from kandev_operator.cli.clock import ago, span
from kandev_operator.cli.leader import LEASE_NAME, Leader, NobodyLeads, NotKnown
from kandev_operator.cli.outlook import outlook
from kandev_operator.cli.seen import WISHES, Seen, read_moment

_QUESTIONS: Final = ("ExecutorReady", "WorkspaceReady", "AgentReady", "Resumable")
_EXPECTED: Final = frozenset({"NotNeeded", "NoAgentWanted"})
"""Reasons for a False that is just what was asked for."""
_EXPECTED_AT_REST: Final = _EXPECTED | {"WorkspaceUnknown"}
_HOPELESS: Final = frozenset({"NotResumable", "MissingResumeToken"})
"""Why a resume would be refused again, however often it is asked for."""
_AT_REST: Final = {"Finished": "It has come to its end. ", "Suspended": "It rests. "}
_FATES: Final = {
    "accepted": "agentctl has it; it goes to the agent in its turn",
    "queued": "agentctl has it; it goes to the agent in its turn",
    "sending": "it is being handed to the agent",
    "delivered": "the agent got it",
    "not_delivered": "it never reached the agent, and will not be sent",
    "unknown": "the agent died while it was being handed over; nobody sends it again by itself",
}


Named = tuple[Condition, str, tuple[Condition, ...]]
"""A condition, what it is called here, and the conditions that stand beside it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that is so."""

    label: str
    words: str


@dataclass(frozen=True, slots=True)
class Cause:
    """A condition that explains something: the operator's reason, and what it means."""

    condition: str
    reason: str
    meaning: str
    message: str
    since: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole of it, in the order in which it is read."""

    headline: str
    caution: str
    """Why all the rest may be out of date; empty where there is no reason to think so."""
    facts: tuple[Fact, ...]
    causes: tuple[Cause, ...]
    outlook: tuple[str, ...]
    steps: Steps


def explain(
    session: TaskSession,
    executor: Executor | None,
    task: Task | None,
    profile: AgentProfile | None,
    now: datetime,
    leader: Leader | None = None,
) -> Explanation:
    """Explain a session. What could not be read is None, and is left out."""
    seen = Seen(session, executor, task, profile, now, leader)
    return Explanation(
        headline=_headline(seen),
        caution=caution(leader, now) if _matters(seen) else "",
        facts=tuple(_facts(seen)),
        causes=tuple(_causes(seen)),
        outlook=outlook(seen),
        steps=_steps(seen),
    )


def caution(leader: Leader | None, now: datetime) -> str:
    """What it means for a status that nobody leads, or that this cannot be known."""
    match leader:
        case NobodyLeads(namespace=namespace, since=since, released=released):
            last = f" since {rfc3339(since)}, {ago(since, now)}" if since is not None else ""
            ended = "the last one ended as it was told to" if released else "the last one vanished"
            return (
                f"No operator runs: nobody has renewed the Lease {LEASE_NAME} in namespace "
                f"{namespace}{last}; {ended}. What stands here is what it wrote last, and may be "
                "out of date."
            )
        case NotKnown(why=why):
            return (
                f"Whether an operator runs cannot be seen. {why} Where it keeps its Lease is said "
                "with --operator-namespace."
            )
        case _:
            return ""


def _matters(seen: Seen) -> bool:
    """Not knowing is worth a word only where something waits for an operator."""
    waits = seen.is_unseen or seen.is_outdated or any(map(seen.pending, WISHES))
    return seen.is_left or waits


def meaning(type_: str, reason: str, others: tuple[Condition, ...] = ()) -> str:
    """The sentence that documents a reason, in an object with these conditions."""
    said = reasons.meaning(type_, reason, [(each.type, each.reason) for each in others])
    return said or "A reason that this version of the plugin does not know."


def _headline(seen: Seen) -> str:
    session = seen.session
    name = f"{session.metadata.namespace}/{session.metadata.name}"
    if session.metadata.is_deleting:
        return f"Session {name} is being deleted."
    if seen.is_unseen:
        age = read_moment(session.metadata.creation_timestamp)
        made = f" It was made {ago(age, seen.now)}." if age is not None else ""
        return f"Session {name} has not been looked at by any operator yet.{made}"
    for type_ in ("Finished", "Suspended", "Ready", "AgentReady"):
        found = seen.condition(type_)
        if found is not None and found.reason == seen.reason:
            said = meaning(type_, found.reason, session.status.conditions)
            rests = _AT_REST.get(type_, "")
            return f"Session {name} is {session.status.state or 'CREATED'}. {rests}{said}"
    return f"Session {name} is {session.status.state or 'CREATED'}."


def _facts(seen: Seen) -> Iterator[Fact]:
    if seen.is_unseen:
        return
    status = seen.session.status
    state = {str(word): word.doc for word in SessionState}.get(status.state or "", "")
    yield Fact("state", f"{status.state or 'CREATED'}: {state}".rstrip(": "))
    if seen.session.spec.operating_mode is not OperatingMode.RUNNING:
        mode = seen.session.spec.operating_mode
        yield Fact("asked for", f"operatingMode {mode}: {mode.doc}")
    yield Fact("agent", _agent(seen))
    if not seen.holds("Finished"):
        yield Fact("conversation", _conversation(seen))
    if (executor := _executor(seen)) is not None:
        yield Fact("executor", executor)
    if (workspace := _workspace(seen)) is not None:
        yield Fact("workspace", workspace)
    yield from _prompts(seen)
    if status.error_message:
        yield Fact("error", status.error_message)
    # The sentence and the page of the alert that tells of it, where it lasts.
    if (trouble := stuck(seen.session.dump())) is not None:
        yield Fact("trouble", f"{trouble.trouble.doc} See {trouble.trouble.runbook}.")


def _agent(seen: Seen) -> str:
    status = seen.session.status
    running = {
        True: "it runs",
        False: "it does not run",
        None: "not known at present whether it runs",
    }[status.is_agent_running]
    known = status.capabilities.agent if status.capabilities else None
    who = f" ({' '.join(part for part in (known.name, known.version) if part)})" if known else ""
    if status.turn is not None:
        began = read_moment(status.turn.started_at)
        since = f", for {span(seen.now - began)}" if began is not None else ""
        waits = "; it waits for a permission" if status.turn.awaiting_permission else ""
        return f"{running}{who}, in a turn{since}{waits}"
    if status.needs_resume:
        why = f" ({status.resume_reason})" if status.resume_reason else ""
        return f"{running}{who}, although it should: a resume is needed{why}"
    return running + who


def _conversation(seen: Seen) -> str:
    status = seen.session.status
    resumable = seen.condition("Resumable")
    why = ""
    if resumable is not None and not resumable.is_true:
        why = f": {meaning('Resumable', resumable.reason)}"
    answer = {
        True: "it could be resumed in a new process",
        False: f"it could not be resumed{why}",
        None: f"not known whether it could be resumed{why}",
    }[status.is_resumable]
    if seen.profile is not None and not seen.profile.spec.supports_session_resume:
        answer += f" AgentProfile {seen.profile.metadata.name} forbids resuming."
    return answer


def _executor(seen: Seen) -> str | None:
    executor = seen.executor
    if executor is None:
        return f"{seen.executor_name}, which cannot be read" if seen.executor_name else None
    said = f"{executor.metadata.name} ({executor.spec.runtime.value})"
    state = {str(word): word.doc for word in ExecutorState}.get(executor.status.state or "")
    said += f" is {executor.status.state}: {state}" if state else ""
    held = executor.status.session_ref
    if held is not None and held.uid != seen.session.metadata.uid:
        said += f" It holds session {held.name}."
    if executor.status.node_name:
        said += f" Node {executor.status.node_name}."
    return said


def _workspace(seen: Seen) -> str | None:
    status = seen.session.status
    parts = []
    if status.worktree is not None and status.worktree.path:
        branch = f", branch {status.worktree.branch}" if status.worktree.branch else ""
        parts.append(f"{status.worktree.path}{branch}")
    ref = status.workspace_ref
    if ref is not None and ref.kind and ref.name:
        parts.append(f"in {ref.kind} {ref.name}")
    return " ".join(parts) or None


def _prompts(seen: Seen) -> Iterator[Fact]:
    status = seen.session.status
    first = status.first_prompt
    if first is not None and first.fate is not None and first.fate != "delivered":
        yield Fact("first prompt", _FATES.get(first.fate, first.fate))
    elif seen.session.spec.prompt is not None and first is None:
        yield Fact("first prompt", "it has not been sent yet")
    cut = status.interrupted_turn
    if cut is not None:
        at = read_moment(cut.at)
        when = f" {ago(at, seen.now)}" if at is not None else ""
        yield Fact("last turn", f"it was cut off{when}; nothing of it is sent again by itself")


def _causes(seen: Seen) -> Iterator[Cause]:
    """The conditions that explain something, each reason once."""
    told: set[str] = set()
    for each, name, others in (*_of_session(seen), *_of_executor(seen)):
        if each.reason not in told:
            message = each.message if each.message not in told else ""
            told |= {each.reason, each.message}
            yield _cause(each.replacing(message=message), name, others, seen.now)


def _of_session(seen: Seen) -> Iterator[Named]:
    others = seen.session.status.conditions
    yield from ((each, each.type, others) for each in _of_interest(seen))


def _of_executor(seen: Seen) -> Iterator[Named]:
    """What is wrong with the executor, and not said by the session already."""
    others = seen.executor.status.conditions if seen.executor is not None else ()
    for each in others:
        wrong = each.is_true if each.type in ("Draining", "Stalled") else each.status == "False"
        if wrong and each.type not in ("Bound", "Ready"):
            yield each, f"executor {each.type}", others


def _of_interest(seen: Seen) -> Iterator[Condition]:
    for type_ in ("Ready", "Stalled", "Reconciling"):
        if (found := seen.condition(type_)) is not None:
            yield found
    for type_ in ("Suspended", "Finished"):
        found = seen.condition(type_)
        if found is not None and found.is_true:
            yield found
    rests = seen.holds("Suspended") or seen.holds("Finished")
    expected = _EXPECTED_AT_REST if rests else _EXPECTED
    for type_ in _QUESTIONS:
        found = seen.condition(type_)
        if found is None or found.reason in expected:
            continue
        if not found.is_true or found.reason == "HistoryLost":
            yield found


def _cause(condition: Condition, name: str, others: tuple[Condition, ...], now: datetime) -> Cause:
    said = meaning(condition.type, condition.reason, others)
    news = not said.startswith(condition.message.rstrip("."))
    since = read_moment(condition.last_transition_time)
    return Cause(
        condition=f"{name} {condition.status}",
        reason=condition.reason,
        meaning=said,
        message=condition.message if news else "",
        since=f"for {span(now - since)}" if since is not None else "",
    )


def _steps(seen: Seen) -> Steps:
    if seen.is_left:
        start = tuple(filled(seen, step) for step in advice.START_OPERATOR)
        return start + tuple(each for each in _of_the_reason(seen) if each != advice.WAIT)
    return _of_the_reason(seen)


def _of_the_reason(seen: Seen) -> Steps:
    if seen.session.metadata.is_deleting:
        return (advice.WAIT,)
    chosen: list[Step] = []
    for step in ADVICE.get(seen.reason, UNKNOWN_REASON):
        chosen += [each for each in _fitting(seen, step) if each not in chosen]
    wakes = advice.MODE_RUNNING in chosen and not seen.holds("Finished")
    if wakes and seen.session.spec.resume.policy is ResumePolicy.ON_REQUEST:
        chosen.append(advice.THEN_RESUME)
    if seen.is_in_git and any(each.command and " edit " in each.command for each in chosen):
        chosen.append(Step("Git owns this session: change it there, or the change is undone."))
    return tuple(filled(seen, step) for step in chosen)


def _fitting(seen: Seen, step: Step) -> Steps:
    """The step, or what is to be done in its place for this very session."""
    spec, resumable = seen.session.spec, seen.condition("Resumable")
    if step not in (advice.RESUME, advice.AGAIN):
        return (step,)
    if spec.operating_mode is not OperatingMode.RUNNING:
        return (advice.MODE_RUNNING,)
    hopeless = resumable is not None and resumable.reason in _HOPELESS
    if hopeless and seen.session.status.is_resumable is False:
        return (advice.FRESH, advice.NEW_SESSION)
    if spec.resume.policy is ResumePolicy.NEVER and seen.session.status.needs_resume:
        return (advice.FRESH,)
    return (step,)


def filled(seen: Seen, step: Step) -> Step:
    """The step with the names of this session in its command."""
    if step.command is None:
        return step
    session, executor = seen.session, seen.executor
    pod = executor.status.pod_ref if executor is not None else None
    node = session.status.node_name or (executor.status.node_name if executor else None)
    command = step.command.format(
        session=session.metadata.name,
        ns=f" -n {session.metadata.namespace}",
        executor=seen.executor_name or "EXECUTOR",
        profile=session.spec.agent_profile_ref.name,
        task=session.spec.task_ref.name,
        pod=pod.name if pod else "POD",
        pod_uid=pod.uid if pod else "POD-UID",
        node=node or "NODE",
        operator_ns=seen.operator_namespace,
    )
    return Step(step.text, command)
