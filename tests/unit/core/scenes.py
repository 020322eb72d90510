"""What the tables of this room look at: plans taken apart, and observations a step later."""

from dataclasses import replace
from typing import Any

import builders as b
from kandev_operator.api import conditions
from kandev_operator.api.conditions import Condition
from kandev_operator.api.session import TaskSession, TaskSessionStatus
from kandev_operator.core.actions import Action
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import ExecutorObserved, SessionObserved
from kandev_operator.core.session import decide_session
from kandev_operator.core.verdict import Plan


def plan_of(session: TaskSession | None = None, **observed: Any) -> Plan[TaskSessionStatus]:
    """Decide about a session; every keyword is one of `session_observed`."""
    return decide_session(b.session_observed(session, **observed), b.NOW)


def told(plan: Plan[Any]) -> tuple[str, str]:
    """What a plan writes, in short: state, and the reason of Ready."""
    assert plan.status is not None, "nothing is written"
    return plan.status.state, condition(plan, "Ready").reason


def condition(plan: Plan[Any], type_: str) -> Condition:
    assert plan.status is not None, "nothing is written"
    found = conditions.get(plan.status.conditions, type_)
    assert found is not None, f"there is no {type_}"
    return found


def answer(plan: Plan[Any], type_: str) -> tuple[str, str]:
    """A condition, in short."""
    found = condition(plan, type_)
    return found.status, found.reason


def has(plan: Plan[Any], type_: str) -> bool:
    assert plan.status is not None, "nothing is written"
    return conditions.get(plan.status.conditions, type_) is not None


def names(plan: Plan[Any]) -> list[str]:
    """The actions by name, in order; keeping a token is not told of."""
    kept = [type(action).__name__ for action in plan.actions]
    return [name for name in kept if name != "StoreToken"]


def the(plan: Plan[Any], kind: type[Action]) -> Any:
    """The one action of this kind."""
    found = [action for action in plan.actions if isinstance(action, kind)]
    assert len(found) == 1, f"{len(found)} actions of kind {kind.__name__}"
    return found[0]


def after(o: Any, plan: Plan[Any]) -> Any:
    """The same observation, once the plan's status is stored."""
    if plan.status is None:
        return o
    if isinstance(o, SessionObserved):
        return replace(o, session=o.session.replacing(status=plan.status))
    assert isinstance(o, ExecutorObserved)
    return replace(o, executor=o.executor.replacing(status=plan.status))


def executor_plan(executor: Any = None, **observed: Any) -> Plan[Any]:
    """Decide about an executor; every keyword is one of `executor_observed`."""
    return decide_executor(b.executor_observed(executor, **observed), b.NOW)
