"""Which step of a session's life has just been taken? Read off two statuses, before and after.

A step has a name, the moment at which it began (as some status says it) and what it failed for.
It ends with the write that shows it. Nothing is decided or remembered here: the same pass that
wrote the status tells what it wrote, so a step is told once, by the process that took it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kandev_operator.api import conditions
from kandev_operator.api.executorstatus import ExecutorStatus
from kandev_operator.api.session import IntentKind, SessionState, TaskSessionStatus

WHOLE: Final = {
    str(IntentKind.START): "start",
    str(IntentKind.RESUME): "resume",
    str(IntentKind.FRESH_START): "fresh start",
}
"""The step that all others of an attempt are part of."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step that has ended."""

    name: str
    began: str | None
    """RFC 3339; None where no status says it: then it began when it ended."""
    failure: str = ""
    """The reason, where it did not succeed."""
    is_whole: bool = False
    """It is the whole of the attempt."""


def of_session(before: TaskSessionStatus, after: TaskSessionStatus) -> Iterator[Step]:
    """The steps that ended between these two statuses of a session."""
    intent = before.intent
    asked = intent.at if intent is not None else None
    if _turned_true(before.conditions, after.conditions, "ExecutorReady"):
        # Between two attempts it was lost and is back: then it is a step of the earlier one.
        lost = conditions.get(before.conditions, "ExecutorReady")
        yield Step("executor ready", asked or (lost.last_transition_time if lost else None))
    came = bool(after.is_agent_running) and not before.is_agent_running
    failed = after.state == SessionState.ERROR and before.state != SessionState.ERROR
    if intent is not None and (came or failed):
        failure = "" if came else _reason(after)
        there = conditions.get(after.conditions, "ExecutorReady")
        if there is not None and there.is_true:
            yield Step("agent ready", _later(asked, there.last_transition_time), failure)
        yield Step(WHOLE.get(intent.kind, "start"), asked, failure, is_whole=True)
    if before.turn is not None and (
        after.turn is None or after.turn.started_at != before.turn.started_at
    ):
        cut = after.interrupted_turn is not None and before.interrupted_turn is None
        yield Step("turn", before.turn.started_at, "Interrupted" if cut else "")


def of_executor(before: ExecutorStatus, after: ExecutorStatus) -> Iterator[Step]:
    """The steps that ended between these two statuses of an executor that is bound."""
    bound = conditions.get(after.conditions, "Bound")
    since = bound.last_transition_time if bound is not None and bound.is_true else None
    pods = (before.pod_ref, after.pod_ref)
    if pods[1] is not None and (pods[0] is None or pods[0].uid != pods[1].uid):
        yield Step("pod made", _later(since, before.started_at))
    if _turned_true(before.conditions, after.conditions, "AgentctlReady"):
        yield Step("agentctl ready", after.started_at or since)


def _turned_true(before: conditions.Conditions, after: conditions.Conditions, type_: str) -> bool:
    return conditions.is_true(after, type_) and not conditions.is_true(before, type_)


def _later(one: str | None, other: str | None) -> str | None:
    """The later of two moments; as texts of one form they compare like the moments."""
    return max((each for each in (one, other) if each), default=None)


def _reason(status: TaskSessionStatus) -> str:
    ready = conditions.get(status.conditions, "Ready")
    return ready.reason if ready is not None else ""
