"""Session and executor point at each other, and what the executor then says of itself."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_condition,
    a_probe,
    a_report,
    a_session,
    a_status,
    a_token_ref,
    an_executor,
    an_executor_status,
    an_intent,
    session_observed,
    some_conditions,
)
from kandev_operator.api.session import TaskSessionStatus
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.observed import (
    Answer,
    Found,
    SessionObserved,
)
from plans import condition, decide, done, said, with_status, written

# ---- waiting for both sides -------------------------------------------------------------


@pytest.mark.parametrize(
    ("executor", "expected"),
    [
        pytest.param(
            an_executor(status=an_executor_status(holds=None)),
            "STARTING False/WaitingForExecutor at work",
            id="it has not answered yet",
        ),
        pytest.param(
            an_executor(status=an_executor_status(holds="s-b")),
            "STARTING False/ExecutorBusy at work",
            id="it answered another session first",
        ),
        pytest.param(
            an_executor(status=an_executor_status(holds=None), spec={"drain": True}),
            "ERROR False/ExecutorDraining stalled",
            id="it is drained and takes nobody in",
        ),
        pytest.param(
            an_executor(status=an_executor_status(holds=None, agentctl="False")),
            "ERROR False/AgentctlUnreachable at work",
            id="it is in error and answers nobody",
        ),
    ],
)
def test_nobody_acts_before_both_point_at_each_other(executor: Any, expected: str) -> None:
    session = a_session(status=a_status(intent=an_intent("Start")))
    plan = decide(
        session_observed(session, executor=Found(executor), report=a_report(session=None))
    )
    assert (said(plan), done(plan)) == (expected, "")


@pytest.mark.parametrize("word", ["holds another", "is drained"])
def test_a_live_agent_that_lost_its_place_is_ended(word: str) -> None:
    """A restored API server gave the place to another session, under the live agent."""
    holds, drain = ("s-b", False) if word == "holds another" else (None, True)
    lost = an_executor(status=an_executor_status(holds=holds), spec={"drain": drain})
    session = a_session(status=a_status(resume_token_ref=a_token_ref()))
    plan = decide(session_observed(session, executor=Found(lost)))
    assert done(plan) == "StopAgent"


@pytest.mark.parametrize(
    ("executor", "expected"),
    [
        pytest.param({"spec": {"drain": True}}, "ERROR False/ExecutorDraining stalled", id="drain"),
        pytest.param({"deleting": True}, "STARTING False/ExecutorStarting at work", id="deletion"),
    ],
)
def test_nothing_is_begun_in_an_executor_that_is_left(
    executor: dict[str, Any], expected: str
) -> None:
    left = an_executor(status=an_executor_status(), **executor)
    session = a_session(status=a_status(resume_token_ref=a_token_ref()))
    plan = decide(session_observed(session, executor=Found(left), report=a_report("none")))
    assert (said(plan), done(plan)) == (expected, "")


# ---- the executor's readiness -----------------------------------------------------------


def seen_through(executor_status: Any, *, state: str, probe: Any = None) -> SessionObserved:
    """A bound session whose executor says this of itself."""
    silent = a_probe(None)
    session = a_session(status=a_status(state=state, is_agent_running=True))
    executor = Found(an_executor(status=executor_status))
    return session_observed(session, executor=executor, probe=probe or silent)


@pytest.mark.parametrize(
    ("status", "state", "expected"),
    [
        pytest.param(
            an_executor_status(agentctl="Unknown"),
            "STARTING",
            "STARTING Unknown/Starting at work",
            id="no answer yet, within the start time",
        ),
        pytest.param(
            an_executor_status(agentctl="Unknown", reason="AgentctlUnreachable"),
            "RUNNING",
            "RUNNING Unknown/AgentctlUnreachable at work",
            id="an answer was lost, within the grace time: the state is kept",
        ),
        pytest.param(
            an_executor_status(agentctl="Unknown", reason="NodeUnknown"),
            "WAITING_FOR_INPUT",
            "WAITING_FOR_INPUT Unknown/NodeUnknown at work",
            id="the node's state is unknown: never missing",
        ),
        pytest.param(
            an_executor_status(agentctl="Unknown"),
            "ERROR",
            "STARTING False/Starting at work",
            id="a failed one that comes again is starting",
        ),
        pytest.param(
            an_executor_status(agentctl="False"),
            "RUNNING",
            "ERROR False/AgentctlUnreachable at work",
            id="an answer was lost beyond the grace time",
        ),
        pytest.param(
            an_executor_status(agentctl="False", reason="OOMKilled"),
            "WAITING_FOR_INPUT",
            "ERROR False/OOMKilled at work",
            id="its start failed for a named cause",
        ),
        pytest.param(
            an_executor_status(
                agentctl="False",
                conditions=some_conditions(
                    a_condition("Ready", "False", "NotAllowed"),
                    a_condition("Stalled", "True", "NotAllowed"),
                ),
            ),
            "CREATED",
            "ERROR False/NotAllowed stalled",
            id="a person must act",
        ),
    ],
)
def test_what_the_executor_says_is_handed_on(status: Any, state: str, expected: str) -> None:
    plan = decide(seen_through(status, state=state))
    assert (said(plan), done(plan)) == (expected, "")
    assert written(plan).is_agent_running is None
    assert written(plan).needs_resume is False


def test_what_keeps_agentctl_from_being_used_is_named() -> None:
    told = some_conditions(
        a_condition("AgentctlReady", "Unknown", "NotUsed"),
        a_condition("Ready", "Unknown", "Unschedulable").replacing(message="No node has room."),
    )
    status = an_executor_status(agentctl="Unknown", conditions=told)
    o = session_observed(
        a_session(status=a_status(state="STARTING")),
        executor=Found(an_executor(status=status)),
        probe=a_probe(None),
    )
    plan = decide(o)
    assert condition(plan, "ExecutorReady").reason == "Unschedulable"
    assert condition(plan, "ExecutorReady").message == "No node has room."
    assert written(plan).resume_reason == "unschedulable"


def test_an_executor_in_error_says_when_it_is_looked_at_again() -> None:
    due = rfc3339(NOW + timedelta(seconds=30))
    status = an_executor_status(
        agentctl="False",
        reason="OOMKilled",
        next_attempt_at=due,
        error_message="oom_killed: 2 GiB were too few.",
    )
    plan = decide(seen_through(status, state="RUNNING"))
    assert written(plan).next_attempt_at == due
    assert written(plan).error_message == "oom_killed: 2 GiB were too few."


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param(a_probe(answer=Answer.NOT_TRIED, report=None), id="was not looked at yet"),
        pytest.param(a_probe(None), id="was silent just now, and its own pass will judge it"),
    ],
)
def test_an_executor_called_ready_whose_agentctl(probe: Any) -> None:
    plan = decide(seen_through(an_executor_status(), state="RUNNING", probe=probe))
    assert (plan.status, plan.actions) == (None, ())


def test_B007_a_start_that_failed_for_its_image_keeps_the_token() -> None:
    kept = a_status(resume_token_ref=a_token_ref(), capabilities={"supports_session_resume": True})
    session = a_session(status=TaskSessionStatus.model_validate(kept.dump()))
    failed = an_executor_status(agentctl="False", reason="ImagePullFailed")
    plan = decide(
        session_observed(session, executor=Found(an_executor(status=failed)), report=None)
    )
    assert said(plan) == "ERROR False/ImagePullFailed at work"
    assert (written(plan).is_resumable, done(plan)) == (True, "")
    assert written(plan).resume_token_ref == a_token_ref()


def test_B034_an_agentctl_that_was_never_reached_is_said_to_be_so() -> None:
    failed = an_executor_status(
        agentctl="False", error_message="agentctl_unreachable: never at http://127.0.0.1:8700"
    )
    plan = decide(seen_through(failed, state="STARTING"))
    assert "http://127.0.0.1:8700" in condition(plan, "Ready").message
    assert written(plan).state == "ERROR"
    assert written(plan).last_seen_at is None


def test_B028_a_failure_of_the_executor_is_over_when_it_answers_again() -> None:
    failed = session_observed(
        executor=Found(an_executor(status=an_executor_status(agentctl="False"))), report=None
    )
    o = with_status(failed, decide(failed).status)
    assert o.session.status.state == "ERROR"
    well = decide(replace(session_observed(), session=o.session))
    assert said(well) == "WAITING_FOR_INPUT True/AgentReady"
    assert (written(well).error_message, written(well).resume_reason) == (None, None)
    assert condition(well, "Ready").last_transition_time == rfc3339(NOW)
