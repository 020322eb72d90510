"""Why a session cannot do what was asked, with what to do about it.

Pure: the words are those of the explanation, so that `prompt` and `why` never say different
things.
"""

from datetime import datetime

from kandev_operator.api import conditions
from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.cli.advice import Steps
from kandev_operator.cli.explain import Explanation, explain
from kandev_operator.cli.faults import Refusal


def no_agent(session: TaskSession, executor: Executor | None, now: datetime) -> Refusal:
    """No agent runs, so there is nobody to talk to."""
    told = explain(session, executor, None, None, now)
    word = session.status.resume_reason
    said = f"no agent runs in session {session.metadata.name}"
    return Refusal(f"{said}{f': {word}' if word else ''}", *hints(told))


def not_served(why: Refusal, session: TaskSession, now: datetime) -> Refusal:
    """Nobody serves the session's workspace, where the conversation is kept."""
    return Refusal(why.message, *hints(explain(session, None, None, None, now)))


def hints(told: Explanation) -> tuple[str, ...]:
    """An explanation in a few lines, under an error."""
    causes = [each.message for each in told.causes[:1] if each.message]
    return (told.headline, *causes, *told.outlook[:1], *steps(told.steps))


def steps(found: Steps) -> tuple[str, ...]:
    """Steps as lines."""
    return tuple(f"{each.text} {each.command}" if each.command else each.text for each in found)


def is_left_alone(session: TaskSession) -> bool:
    """No agent runs, and the operator is not at work on bringing one back."""
    status = session.status
    working = conditions.is_true(status.conditions, "Reconciling") or status.next_attempt_at
    return status.is_agent_running is False and not working
