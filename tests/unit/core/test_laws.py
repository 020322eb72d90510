"""What holds for every decision, whatever was seen: checked on observations likely and not."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from builders import NOW, session_observed
from invariants import Broken, shows_no_token, status_is_well_formed
from kandev_operator.core import ladder, lifecycle
from kandev_operator.core.actions import (
    DeleteExecutor,
    DeleteSession,
    RetireToken,
    StartAgent,
    StartProcess,
    StoreToken,
)
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import (
    ExecutorObserved,
    Found,
    Missing,
    SessionObserved,
    Unreadable,
)
from kandev_operator.core.session import decide_session
from kandev_operator.core.task import decide_task
from kandev_operator.core.verdict import Plan
from plans import decide, with_executor_status, with_status
from strategies import executors_observed, ladders_observed, sessions_observed, tasks_observed

SETTLES_WITHIN = 5
"""Writes in a row at one instant: an epoch, an intent or two, and the status that follows."""


def lawful(examples: int) -> settings:
    """Always the same observations; and they are not made smaller, which would take minutes."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=[HealthCheck.too_slow],
    )


def does(plan: Plan[Any], *actions: type) -> bool:
    """The plan has an action of these kinds."""
    return any(isinstance(each, actions) for each in plan.actions)


def well_said(o: Any, about: Any, plan: Plan[Any]) -> None:
    """Its status is well formed, its time is not past, and no token is shown."""
    for token in ("tok-1", "tok-2"):
        shows_no_token(repr(plan), token)
        shows_no_token(repr(o), token)
    if plan.requeue is not None and plan.requeue.total_seconds() < 0:
        raise Broken("time", "it is to be looked at in the past")
    if plan.status is not None:
        status_is_well_formed(about, plan.status)
        shows_no_token(str(plan.status.dump()), "tok-")


# ---- sessions ---------------------------------------------------------------------------


def session_rests(o: SessionObserved) -> None:
    """Where nothing else happens, there is soon nothing to write."""
    for _ in range(SETTLES_WITHIN):
        plan = decide_session(o, NOW)
        if plan.status is None:
            return
        o = replace(with_status(o, plan.status), failed=None)
    raise Broken("rest", f"it is written again and again: {plan.status}")


def unread_is_not_gone(o: SessionObserved, plan: Plan[Any]) -> None:
    """A failed look-up begins, retires and deletes nothing."""
    new = plan.status is not None and plan.status.intent not in (None, o.session.status.intent)
    unread = any(isinstance(each, Unreadable) for each in (o.task, o.profile, o.executor))
    if unread and (new or does(plan, StartAgent, RetireToken)):
        raise Broken("unread", "something is begun though a look-up failed")
    wanted = lifecycle.wanted(o.session, o.task, NOW)
    kept = wanted.mode != "Finished" or lifecycle.is_owned_by_git(o.session)
    if kept and does(plan, DeleteSession):
        raise Broken("unread", "a session is deleted that has not finished, or that Git owns")


def conversations_are_kept(o: SessionObserved, plan: Plan[Any]) -> None:
    """Nothing but a fresh start begins over what may be a conversation, or drops its token."""
    intent = o.session.status.intent
    fresh = intent is not None and intent.kind == "FreshStart"
    if does(plan, RetireToken) and (not fresh or does(plan, StoreToken)):
        raise Broken("kept", "a token is retired without a fresh start, or stored with it")
    for start in (each for each in plan.actions if isinstance(each, StartAgent)):
        if o.own_report is None or (o.own_report.is_live and not fresh):
            raise Broken("kept", "an agent is started on another's files, or beside a live one")
        if (start.mode == "resume") != (start.token is not None):
            raise Broken("kept", f"{start.mode} with {start.token}")
        unsure = ladder.had_turn(o) or ladder.token_unreadable(o)
        if start.mode == "new" and not fresh and unsure:
            raise Broken("kept", "a new conversation in place of one that may be there")
    if plan.status is not None and o.session.status.resume_token_ref is not None:
        begun = plan.status.intent is not None and plan.status.intent.kind == "FreshStart"
        if plan.status.resume_token_ref is None and not begun:
            raise Broken("kept", "status forgets a token")


def every_law_of_a_session(o: SessionObserved) -> None:
    plan = decide_session(o, NOW)
    assert decide_session(o, NOW) == plan
    well_said(o, o.session, plan)
    session_rests(o)
    unread_is_not_gone(o, plan)
    conversations_are_kept(o, plan)


@given(o=sessions_observed())
@lawful(250)
def test_whatever_a_session_looks_like(o: SessionObserved) -> None:
    every_law_of_a_session(o)


@given(o=ladders_observed())
@lawful(250)
def test_whatever_became_of_a_conversation(o: SessionObserved) -> None:
    every_law_of_a_session(o)


# ---- executors --------------------------------------------------------------------------


def executor_rests(o: ExecutorObserved) -> None:
    """Where nothing else happens, there is soon nothing to write."""
    for _ in range(SETTLES_WITHIN):
        plan = decide_executor(o, NOW)
        if plan.status is None:
            return
        o = replace(with_executor_status(o, plan.status), failed=None)
    raise Broken("rest", f"it is written again and again: {plan.status}")


def unread_lets_nobody_go(o: ExecutorObserved, plan: Plan[Any]) -> None:
    """A failed look-up lets nobody go, and neither starts nor ends a process."""
    held = o.executor.status.session_ref
    drained = o.executor.spec.drain and o.executor.spec.pod and isinstance(o.owner, Found)
    if does(plan, DeleteExecutor) and not isinstance(o.owner, Missing) and not drained:
        raise Broken("unread", "an executor is deleted whose session may be there")
    unsure = isinstance(o.bound, Unreadable) and held and not o.executor.spec.drain
    if unsure and plan.status is not None and plan.status.session_ref != held:
        raise Broken("unread", "a session is let go that cannot be read")
    if isinstance(o.process, Unreadable) and does(plan, StartProcess):
        raise Broken("unread", "a process is started beside one that may be there")


@given(o=executors_observed())
@lawful(250)
def test_whatever_an_executor_looks_like(o: ExecutorObserved) -> None:
    plan = decide_executor(o, NOW)
    assert decide_executor(o, NOW) == plan
    well_said(o, o.executor, plan)
    executor_rests(o)
    unread_lets_nobody_go(o, plan)


@given(seen=tasks_observed())
@lawful(50)
def test_whatever_a_task_looks_like(seen: Any) -> None:
    task, sessions = seen
    plan = decide_task(task, sessions, NOW)
    assert plan.status is not None
    status_is_well_formed(task, plan.status)
    assert decide_task(task.replacing(status=plan.status), sessions, NOW).status is None


# ---- the laws themselves ----------------------------------------------------------------


@pytest.mark.parametrize("law", [conversations_are_kept, unread_is_not_gone])
def test_a_law_can_be_broken(law: Any) -> None:
    o = session_observed(task=Unreadable("away"))
    retired: Plan[Any] = Plan(actions=(RetireToken("s", 1),), status=decide(o).status)
    with pytest.raises(Broken):
        law(o, retired)
