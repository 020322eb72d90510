"""What the operator will do next with a session, and when.

Read off the status (Reconciling, nextAttemptAt, intent) and the spec's limits of time; said in
sentences, the nearest thing first. This knows the documented rules, not the operator's code: where
the two could differ, it says what the operator has written down and no more.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from kandev_operator.api import group
from kandev_operator.api.profile import AgentProfile
from kandev_operator.api.session import IntentKind, OperatingMode, ResumePolicy, SessionState
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.cli.clock import ahead
from kandev_operator.cli.seen import Seen, after, read_moment

_MISSING: Final = frozenset({"TaskMissing", "ProfileMissing", "ExecutorMissing"})
_BUSY: Final = "ExecutorBusy"
_SILENT: Final = frozenset({"AgentctlUnreachable", "AgentctlUnhealthy"})
_LEFT: Final = (
    "Nothing, until an operator runs again: then it looks at every session by itself. By what "
    "the last one wrote, it would go on like this:"
)
_STOPPING: Final = "Stopping"
_TOKEN_UNKNOWN: Final = "ResumeTokenUnknown"
_LOOKED_AT: Final = frozenset({"WorkspaceInUse", "JournalUnreadable"})
"""Stalled, and yet looked at every few seconds: nobody tells when such a thing is over."""
_UNWATCHED: Final = frozenset({"SecretMissing", "PromptMissing"})
"""What would mend these stands in Secrets and ConfigMaps, which nobody watches."""
_LOGIN: Final = "AuthenticationRequired"
_AGAIN: Final = (
    "It looks again by itself every few seconds, and goes on as soon as the cause is gone."
)
_OPENING: Final = frozenset({"Starting", "Resuming"})


def outlook(seen: Seen) -> tuple[str, ...]:
    """Sentences, in the order in which they matter. Never empty."""
    if seen.is_left:
        return (_LEFT, *_prospects(seen))
    return _prospects(seen)


def _prospects(seen: Seen) -> tuple[str, ...]:
    """What it does, or would do if there were one."""
    if seen.session.metadata.is_deleting:
        return ("It clears away what belongs to the session; then the object is gone.",)
    if seen.is_unseen:
        return (
            "It looks at the session as soon as it sees it. Where this lasts longer than a few "
            "seconds, no operator runs that serves this namespace.",
        )
    lines = [*_news(seen), *(_ended(seen) or _resting(seen) or _at_work(seen))]
    return tuple(lines) or (_otherwise(seen),)


def _otherwise(seen: Seen) -> str:
    """What is left to say where nothing is under way."""
    if seen.session.status.state != SessionState.ERROR and seen.holds("Ready"):
        return "Nothing: what was asked for is reached."
    if seen.session.status.state != SessionState.ERROR or seen.holds("Reconciling"):
        return "It looks again by itself, and goes on when the cause is gone."
    return "Nothing by itself: somebody has to remove the cause first."


def _when(due: datetime, now: datetime) -> str:
    return f"{ahead(due, now)} ({rfc3339(due)})"


def _news(seen: Seen) -> Iterator[str]:
    """What was asked for and is not answered yet."""
    if seen.is_outdated:
        yield (
            f"It has not looked at the newest spec yet (generation "
            f"{seen.session.metadata.generation}, the status is about "
            f"{seen.session.status.observed_generation}): all this may change."
        )
    if seen.pending(group.ANNOTATION_FRESH_START_REQUESTED):
        yield "A fresh start was asked for, and it has not dealt with that yet."
    if seen.pending(group.ANNOTATION_RESUME_REQUESTED):
        yield "A resume was asked for, and it has not dealt with that yet."
    if seen.pending(group.ANNOTATION_CONFIRMED_DEAD):
        yield "A pod was confirmed dead, and it has not dealt with that yet."
    if seen.holds("Finished"):
        return
    closed = seen.task is not None and seen.task.spec.closed is not None
    if closed or seen.session.spec.operating_mode is OperatingMode.FINISHED:
        why = "its task is closed" if closed else "operatingMode says so"
        yield f"It finishes the session, because {why}: the agent is stopped gently."


def _ended(seen: Seen) -> list[str]:
    finished = seen.condition("Finished")
    if finished is None or not finished.is_true:
        return []
    ttl = seen.session.spec.lifecycle.ttl_seconds_after_finished
    due = after(finished.last_transition_time, ttl)
    if ttl is not None and seen.is_in_git:
        return ["It keeps the session: ttlSecondsAfterFinished is ignored for objects of Git."]
    if due is not None:
        return [f"It deletes the session {_when(due, seen.now)}, as ttlSecondsAfterFinished says."]
    return ["Nothing more. The session stays until somebody deletes it."]


def _resting(seen: Seen) -> list[str]:
    suspended = seen.condition("Suspended")
    if suspended is None or not suspended.is_true:
        return []
    if seen.session.spec.operating_mode is OperatingMode.SUSPENDED:
        return ["Nothing until operatingMode is changed; workspace and conversation are kept."]
    if seen.session.spec.operating_mode is OperatingMode.RUNNING:
        return ["Nothing until a resume is asked for; workspace and conversation are kept."]
    return ["Nothing until the session is asked to do something else."]


def _at_work(seen: Seen) -> Iterator[str]:
    work, status = seen.condition("Reconciling"), seen.session.status
    doing = work.reason if work is not None and work.is_true else None
    if doing in _MISSING:
        yield _missing(seen)
    elif (retry := _next_attempt(seen)) is not None:
        yield retry
    elif seen.holds("Stalled") and not _left_to_people(seen):
        yield _stalled(seen)
    elif seen.reason == _STOPPING:
        yield "It waits until the agent has ended: asked first, then forced. Nothing of it is lost."
    elif status.is_agent_running:
        yield from _running(seen)
    elif doing is not None and status.state == SessionState.ERROR:
        yield _AGAIN
    elif doing is not None:
        yield from _reconciling(seen, doing)
    else:
        yield from _without_agent(seen)
    yield from _draining(seen)


def _missing(seen: Seen) -> str:
    due = read_moment(seen.session.status.next_attempt_at)
    over = f", which is over {_when(due, seen.now)}" if due is not None else ""
    return (
        f"It waits a minute for what is missing to be applied{over}; then it says Stalled, and "
        "goes on as soon as it appears."
    )


def _stalled(seen: Seen) -> str:
    if seen.reason in _LOOKED_AT:
        return _AGAIN
    if seen.reason in _UNWATCHED:
        return "It looks every few seconds whether what is missing is there, and then goes on."
    if seen.reason == _LOGIN and _names_secrets(seen.profile):
        return (
            "Nothing by itself: it waits for a person. It looks every half minute whether a "
            "Secret that the AgentProfile names has changed, and then tries again."
        )
    return (
        "Nothing by itself: it waits for a person. It looks again when one of the objects "
        "changes, and from time to time."
    )


def _names_secrets(profile: AgentProfile | None) -> bool:
    if profile is None:
        return False
    servers = profile.spec.mcp_servers
    variables = [*profile.spec.env, *(each for server in servers for each in server.env)]
    variables += [each for server in servers for each in server.headers]
    return any(each.secret_key_ref is not None for each in variables)


def _left_to_people(seen: Seen) -> bool:
    """Nothing is wrong but that the agent is gone and the policy lets people ask for it."""
    asked = seen.session.spec.resume.policy is not ResumePolicy.AUTO
    gone = seen.reason in ("AgentExited", "AgentNotRunning")
    return asked and bool(seen.session.status.needs_resume) and gone


def _next_attempt(seen: Seen) -> str | None:
    status = seen.session.status
    due = read_moment(status.next_attempt_at)
    if due is not None:
        most = seen.session.spec.resume.max_attempts
        tried = f"; {status.attempt} of at most {most} attempts were made" if status.attempt else ""
        return f"It tries again {_when(due, seen.now)}{tried}."
    due = read_moment(seen.executor.status.next_attempt_at) if seen.executor else None
    return f"It tries the executor again {_when(due, seen.now)}." if due is not None else None


def _running(seen: Seen) -> Iterator[str]:
    """The agent lives: what could end that, and what it waits for."""
    status, limits = seen.session.status, seen.session.spec.lifecycle
    first = seen.session.spec.prompt
    if first is not None and (status.first_prompt is None or status.first_prompt.fate is None):
        yield "It sends the first prompt as soon as the agent is ready."
    agent = seen.condition("AgentReady")
    if agent is not None and agent.reason == "AwaitingPermission":
        yield "It leaves the question to people: the turn waits, however long that takes."
    elif agent is not None and agent.is_true:
        due = after(agent.last_transition_time, limits.idle_timeout_seconds)
        if due is not None:
            yield f"It suspends the session {_when(due, seen.now)} unless a turn begins."
    due = after(status.started_at, limits.max_duration_seconds)
    if due is not None:
        yield f"It suspends the session {_when(due, seen.now)}: maxDurationSeconds is over then."


def _reconciling(seen: Seen, doing: str) -> Iterator[str]:
    executor = seen.executor
    if executor is not None and executor.metadata.is_deleting:
        name = executor.metadata.name
        yield f"It waits until executor {name} is gone, and goes on in the next one of that name."
    elif seen.reason == _BUSY:
        yield "It takes its turn when the executor is free. This wait has no limit of time."
    elif seen.reason == _TOKEN_UNKNOWN:
        yield "It reads the Secret again every few seconds, and begins nothing new before that."
    elif seen.reason in _SILENT:
        yield from _silence(seen)
    elif doing in _OPENING:
        yield _opening(seen)
    else:
        yield _starting(seen)


def _opening(seen: Seen) -> str:
    """The agent has been, or is being, asked. It could be asked when its executor was ready."""
    status, spec = seen.session.status, seen.session.spec
    seconds = spec.resume.timeout_seconds
    if status.intent is None or status.intent.kind != IntentKind.RESUME:
        seconds = min(seconds, spec.lifecycle.start_timeout_seconds)
    there = seen.condition("ExecutorReady")
    asked = [status.intent.at if status.intent else None]
    asked += [there.last_transition_time if there is not None and there.is_true else None]
    dues = [due for due in (after(each, seconds) for each in asked) if due is not None]
    until = f"; its time is over {_when(max(dues), seen.now)}" if dues else ""
    if dues and max(dues) <= seen.now:
        until = "; that time is over, and the outcome is about to be written"
    return f"It waits for the agent's answer, {seconds} seconds at most{until}."


def _silence(seen: Seen) -> Iterator[str]:
    seconds = seen.session.spec.lifecycle.unreachable_grace_seconds
    silent = seen.executors("AgentctlReady") or seen.condition("ExecutorReady")
    due = after(silent.last_transition_time, seconds) if silent is not None else None
    if due is not None:
        yield (
            f"It asks agentctl again and again, and concludes nothing from its silence. The "
            f"executor is in error when unreachableGraceSeconds is over, {_when(due, seen.now)}."
        )


def _starting(seen: Seen) -> str:
    """agentctl's own start is what has a limit of time; before it begins there is none."""
    goes_on = "It goes on with the next step as soon as the one before is done."
    seconds = seen.session.spec.lifecycle.start_timeout_seconds
    agentctl = seen.executors("AgentctlReady")
    began = seen.executor.status.started_at if seen.executor else None
    due = after(began, seconds)
    if due is None or (agentctl is not None and agentctl.is_true):
        return goes_on
    return (
        f"{goes_on} An agentctl that never answers has {seconds} seconds; they are over "
        f"{_when(due, seen.now)}."
    )


def _without_agent(seen: Seen) -> Iterator[str]:
    """Nothing is under way, and no agent runs."""
    spec = seen.session.spec
    if spec.operating_mode is OperatingMode.WORKSPACE_ONLY:
        yield "Nothing: shell, files and git are served, and no agent is asked for."
    elif spec.resume.policy is ResumePolicy.ON_REQUEST:
        yield "Nothing until a resume is asked for: resume.policy is OnRequest."
    elif spec.resume.policy is ResumePolicy.NEVER:
        yield "Nothing: resume.policy is Never, so only a fresh start brings an agent back."
    elif seen.session.status.is_agent_running is False:
        yield "It resumes the conversation by itself: resume.policy is Auto."


def _draining(seen: Seen) -> Iterator[str]:
    executor = seen.executor
    if executor is None or not executor.spec.drain:
        return
    if seen.session.status.is_agent_running is False:
        return
    draining = seen.executors("Draining")
    began = draining.last_transition_time if draining is not None and draining.is_true else None
    due = after(began, executor.spec.drain_deadline_seconds)
    if due is not None and seen.session.status.turn is not None:
        yield f"It cuts the turn off {_when(due, seen.now)}, because the executor is drained."
    else:
        yield "It stops the agent gently, because the executor is drained."
