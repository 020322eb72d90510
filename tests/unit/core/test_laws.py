"""What holds for every decision, whatever was seen: checked on observations likely and not."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from builders import NOW
from invariants import shows_no_token, status_is_well_formed
from kandev_operator.api.session import OperatingMode
from kandev_operator.core import ladder, lifecycle
from kandev_operator.core.actions import (
    DeleteExecutor,
    DeleteSession,
    RetireToken,
    StartAgent,
    StartProcess,
    StopProcess,
    StoreToken,
)
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import (
    ExecutorObserved,
    Missing,
    SessionObserved,
    Unreadable,
)
from kandev_operator.core.session import decide_session
from kandev_operator.core.task import decide_task
from kandev_operator.core.verdict import Plan
from plans import with_executor_status, with_status
from strategies import executors_observed, sessions_observed, tasks_observed

pytestmark = pytest.mark.unit

lawful = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SETTLES_WITHIN = 5
"""Writes in a row at one instant: an epoch, an intent or two, and the status that follows."""


def hides_the_tokens(plan: Plan[Any]) -> None:
    for token in ("tok-1", "tok-2"):
        shows_no_token(repr(plan), token)
        shows_no_token(str(plan.status.dump()) if plan.status else "", token)


@given(o=sessions_observed())
@lawful
def test_every_session_has_one_answer_and_says_it_well(o: SessionObserved) -> None:
    plan = decide_session(o, NOW)
    assert decide_session(o, NOW) == plan
    hides_the_tokens(plan)
    assert plan.requeue is None or plan.requeue.total_seconds() >= 0
    if plan.status is not None:
        status_is_well_formed(o.session, plan.status)


@given(o=executors_observed())
@lawful
def test_every_executor_has_one_answer_and_says_it_well(o: ExecutorObserved) -> None:
    plan = decide_executor(o, NOW)
    assert decide_executor(o, NOW) == plan
    hides_the_tokens(plan)
    assert plan.requeue is None or plan.requeue.total_seconds() >= 0
    if plan.status is not None:
        status_is_well_formed(o.executor, plan.status)


@given(seen=tasks_observed())
@lawful
def test_every_task_has_one_answer_and_says_it_once(seen: Any) -> None:
    task, sessions = seen
    plan = decide_task(task, sessions, NOW)
    assert plan.status is not None
    status_is_well_formed(task, plan.status)
    stored = task.replacing(status=plan.status)
    assert decide_task(stored, sessions, NOW).status is None


@given(o=sessions_observed())
@lawful
def test_a_session_that_nothing_happens_to_comes_to_rest(o: SessionObserved) -> None:
    for _ in range(SETTLES_WITHIN):
        plan = decide_session(o, NOW)
        if plan.status is None:
            return
        o = with_status(o, plan.status)
    raise AssertionError(f"it is written again and again: {plan.status}")


@given(o=executors_observed())
@lawful
def test_an_executor_that_nothing_happens_to_comes_to_rest(o: ExecutorObserved) -> None:
    for _ in range(SETTLES_WITHIN):
        plan = decide_executor(o, NOW)
        if plan.status is None:
            return
        o = with_executor_status(o, plan.status)
    raise AssertionError(f"it is written again and again: {plan.status}")


def begins_something(o: SessionObserved, plan: Plan[Any]) -> bool:
    """Anything is started, or about to be."""
    new = plan.status is not None and plan.status.intent not in (None, o.session.status.intent)
    return new or any(isinstance(each, StartAgent | RetireToken) for each in plan.actions)


@given(o=sessions_observed())
@lawful
def test_a_failed_look_up_begins_ends_and_retires_nothing(o: SessionObserved) -> None:
    plan = decide_session(o, NOW)
    if any(isinstance(each, Unreadable) for each in (o.task, o.profile, o.executor)):
        assert not begins_something(o, plan)
    if any(isinstance(each, DeleteSession) for each in plan.actions):
        wanted = lifecycle.wanted(o.session, o.task, NOW)
        assert wanted.mode is OperatingMode.FINISHED
        assert not lifecycle.is_owned_by_git(o.session)


@given(o=sessions_observed())
@lawful
def test_what_may_be_a_conversation_is_never_begun_over(o: SessionObserved) -> None:
    plan = decide_session(o, NOW)
    starts = [each for each in plan.actions if isinstance(each, StartAgent)]
    fresh = o.session.status.intent is not None and o.session.status.intent.kind == "FreshStart"
    for start in starts:
        assert o.own_report is not None, "never on files that are not this session's"
        assert not o.own_report.is_live or fresh
        assert (start.mode == "resume") == (start.token is not None)
        if start.mode == "new" and not fresh:
            assert not isinstance(o.secret, Unreadable) or ladder.known_token(o) is not None
            assert not ladder.had_turn(o)
    if any(isinstance(each, RetireToken) for each in plan.actions):
        assert fresh
        assert not any(isinstance(each, StoreToken) for each in plan.actions)


@given(o=sessions_observed())
@lawful
def test_a_token_is_replaced_by_nothing_but_a_token_or_a_fresh_start(o: SessionObserved) -> None:
    plan = decide_session(o, NOW)
    if plan.status is None or o.session.status.resume_token_ref is None:
        return
    begun = plan.status.intent is not None and plan.status.intent.kind == "FreshStart"
    assert plan.status.resume_token_ref is not None or begun


@given(o=executors_observed())
@lawful
def test_a_failed_look_up_lets_nobody_go_and_starts_no_process(o: ExecutorObserved) -> None:
    plan = decide_executor(o, NOW)
    held = o.executor.status.session_ref
    if isinstance(o.bound, Unreadable) and held and not o.executor.spec.drain:
        assert plan.status is None or plan.status.session_ref == held
    if not isinstance(o.owner, Missing):
        assert not any(isinstance(each, DeleteExecutor) for each in plan.actions)
    if isinstance(o.process, Unreadable):
        assert not any(isinstance(each, StartProcess) for each in plan.actions)
        if held:
            assert not any(isinstance(each, StopProcess) for each in plan.actions)
