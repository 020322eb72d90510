"""Field cases that can be played on decisions alone, where no table of this room has them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import builders as b
from kandev_operator.core.binding import desired_executor
from kandev_operator.core.observed import Found, Missing, Probe
from plans import (
    action,
    decide,
    decide_on,
    done,
    said,
    truth,
    with_executor_status,
    with_status,
    written,
)

pytestmark = pytest.mark.unit


def test_B013_what_was_refused_at_the_operators_start_recovers_without_a_human() -> None:
    """Executor and session are verified again and say so; nothing is concluded from silence."""
    silent = b.a_probe(b.a_report(), answer=b.seen.Answer.UNREACHABLE)
    executor = decide_on(b.executor_observed(probe=silent))
    assert truth(executor, "AgentctlReady") == "Unknown/AgentctlUnreachable"
    held = b.an_executor(status=executor.status)
    session = b.a_session(status=b.a_status(state="WAITING_FOR_INPUT", is_agent_running=True))
    waiting = decide(b.session_observed(session, executor=Found(held), probe=silent))
    assert said(waiting) == "WAITING_FOR_INPUT Unknown/AgentctlUnreachable at work"

    o = with_executor_status(b.executor_observed(), executor.status)
    well = decide_on(o)
    assert said(well) == "ready True/AgentctlReady"
    back = with_status(b.session_observed(session), waiting.status)
    assert said(decide(back)) == "WAITING_FOR_INPUT True/AgentReady"


def test_B014_what_an_old_schema_does_not_store_is_not_done_again_and_again() -> None:
    """Without a place for the intent nothing is ever done: it is decided anew, and that is all."""
    o = b.session_observed(b.a_session(status=b.a_status()), report=b.a_report("exited"))
    for _ in range(3):
        plan = decide(o)
        assert "StartAgent" not in done(plan)
        pruned = written(plan).replacing(intent=None, attempt=None)
        o = with_status(o, pruned)


@pytest.mark.parametrize("state", ["RUNNING", "WAITING_FOR_INPUT", "ERROR", "STARTING"])
def test_B035_before_the_first_look_nothing_is_judged_gone(state: str) -> None:
    status = b.a_status(state=state, is_agent_running=state == "RUNNING")
    plan = decide(b.session_observed(b.a_session(status=status), probe=Probe()))
    assert (plan.status, plan.actions) == (None, ())
    executor = decide_on(b.executor_observed(probe=Probe()))
    assert (written(executor).state, executor.actions) == ("ready", ())


def test_B035_agents_that_live_are_attached_and_the_others_resumed_once() -> None:
    alive = decide(b.session_observed())
    assert (said(alive), done(alive)) == ("WAITING_FOR_INPUT True/AgentReady", "StoreToken")
    o = b.session_observed(report=b.a_report("exited"))
    intends = decide(o)
    assert written(intends).intent.kind == "Resume"
    o = with_status(o, intends.status)
    assert action(decide(o), "StartAgent").operation_id == written(intends).intent.operation_id


def test_B037_whoever_comes_after_a_crash_makes_the_same_executor_and_the_same_call() -> None:
    session = b.a_session(template=b.a_template())
    again = b.a_session(template=b.a_template())
    assert desired_executor(session).manifest() == desired_executor(again).manifest()
    intent = b.a_session(status=b.a_status(intent=b.an_intent(), epoch=1))
    o = b.session_observed(intent, report=b.a_report("exited"))
    first, second = decide(o), decide(replace(o, term=2))
    assert action(first, "StartAgent") == action(second, "StartAgent")


def test_B046_a_history_that_is_replayed_is_no_turn() -> None:
    runs = b.an_operation(state="running")
    session = b.a_session(status=b.a_status(intent=b.an_intent()))
    plan = decide(b.session_observed(session, report=b.a_report("opening", operations=(runs,))))
    assert said(plan) == "STARTING False/Resuming at work"
    assert written(plan).turn is None
    assert written(plan).is_agent_running is not True


ODD = ["tok\n", "a\r\nb", "nul\0in", "🦊", "x" * 10_000, "../../etc", "%2F", '{"a": 1}']


@pytest.mark.parametrize("value", ODD, ids=[repr(value)[:12] for value in ODD])
def test_B061_a_token_of_any_shape_is_handed_on_untouched_and_never_shown(value: str) -> None:
    session = b.a_session(status=b.a_status(intent=b.an_intent()))
    plan = decide(b.session_observed(session, report=b.a_report("exited", token=b.a_token(value))))
    assert action(plan, "StartAgent").token.value == value
    assert action(plan, "StoreToken").token.value == value
    assert value not in repr(plan)


@pytest.mark.parametrize("value", ["", " ", "\n\t"])
def test_B061_a_blank_token_is_a_missing_one(value: str) -> None:
    session = b.a_session(status=b.a_status(intent=b.an_intent()))
    report = b.a_report("exited", token=b.a_token(value))
    plan = decide(b.session_observed(session, report=report, secret=Missing()))
    assert said(plan) == "ERROR False/MissingResumeToken stalled"
    assert plan.actions == (), "it is neither used nor stored over a good one"


def test_B061_a_token_that_the_agent_refuses_is_said_without_its_value() -> None:
    refused = b.an_operation(code="invalid_token", message="the token has 3 characters")
    session = b.a_session(status=b.a_status(intent=b.an_intent()))
    report = b.a_report("none", operations=(refused,), token=b.a_token("abc"))
    plan = decide(b.session_observed(session, report=report))
    assert said(plan) == "ERROR False/InvalidResumeToken stalled"
    assert "abc" not in str(written(plan).dump())
    assert plan.requeue in (None, timedelta(0))


def test_B005_two_passes_over_one_wish_make_one_intent() -> None:
    wish: Any = {"annotations": {"kandev.dev/resume-requested": "1"}}
    session = b.a_session(status=b.a_status(intent=b.an_intent()), **wish)
    failed = b.an_operation(code="agent_error")
    o = b.session_observed(session, report=b.a_report("none", operations=(failed,)))
    first = decide(o)
    assert (written(first).epoch, written(first).last_handled_resume_request) == (2, "1")
    second = decide(with_status(o, first.status))
    assert action(second, "StartAgent").operation_id == "uid-s-a-2"
