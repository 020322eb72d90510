"""Plans in the words of a table: what a decision says, in one line, and what it does.

`said` reads `STATE READY/REASON`, with `stalled` or `at work` behind it; `done` names the actions
in their order. Both are what a person would ask of a plan first; the rest is read from `written`.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from builders import NOW
from kandev_operator.api import conditions
from kandev_operator.api.conditions import Condition
from kandev_operator.api.executor import ExecutorStatus
from kandev_operator.api.session import TaskSessionStatus
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import ExecutorObserved, SessionObserved
from kandev_operator.core.session import decide_session
from kandev_operator.core.verdict import Plan


def decide(o: SessionObserved, now: datetime = NOW) -> Plan[TaskSessionStatus]:
    """The plan for a session, at `NOW` unless said otherwise."""
    return decide_session(o, now)


def decide_on(o: ExecutorObserved, now: datetime = NOW) -> Plan[ExecutorStatus]:
    """The plan for an executor, at `NOW` unless said otherwise."""
    return decide_executor(o, now)


def written(plan: Plan[Any]) -> Any:
    """The status that is to be stored; there must be one."""
    assert plan.status is not None, f"nothing is written: {plan}"
    return plan.status


def condition(plan: Plan[Any], type_: str) -> Condition:
    """One condition of that status."""
    found = conditions.get(written(plan).conditions, type_)
    assert found is not None, f"no condition {type_}"
    return found


def truth(plan: Plan[Any], type_: str) -> str:
    """`TRUTH/REASON` of one condition."""
    found = condition(plan, type_)
    return f"{found.status}/{found.reason}"


def said(plan: Plan[Any]) -> str:
    """The state, Ready with its reason, and whether anybody is at work or needed."""
    status = written(plan)
    stalled = " stalled" if conditions.is_true(status.conditions, "Stalled") else ""
    at_work = " at work" if conditions.is_true(status.conditions, "Reconciling") else ""
    return f"{status.state} {truth(plan, 'Ready')}{stalled}{at_work}"


def done(plan: Plan[Any]) -> str:
    """The names of the actions, in order."""
    return " ".join(type(action).__name__ for action in plan.actions)


def action(plan: Plan[Any], name: str) -> Any:
    """The one action of this name."""
    [found] = [each for each in plan.actions if type(each).__name__ == name]
    return found


def waits(plan: Plan[Any]) -> float | None:
    """When to look again, in seconds."""
    return plan.requeue.total_seconds() if plan.requeue is not None else None


def with_status(o: SessionObserved, status: TaskSessionStatus | None) -> SessionObserved:
    """The same observation after that status was stored."""
    if status is None:
        return o
    return replace(o, session=o.session.replacing(status=status))


def with_executor_status(o: ExecutorObserved, status: ExecutorStatus | None) -> ExecutorObserved:
    """The same observation after that status was stored."""
    if status is None:
        return o
    return replace(o, executor=o.executor.replacing(status=status))


def wishing(**wishes: str) -> Mapping[str, str]:
    """Annotations: `wishing(resume="1", fresh_start="2")`."""
    return {
        f"kandev.dev/{word.replace('_', '-')}-requested": value for word, value in wishes.items()
    }
