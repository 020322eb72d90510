"""The questions of resuming, for a session that should run and has no live agent."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_report,
    a_session,
    a_token,
    ago,
    an_intent,
    an_operation,
)
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.observed import (
    SessionObserved,
    TurnSeen,
)
from plans import action, condition, decide, done, said, waits, wishing, with_status, written
from situations import NOTHING_YET, gone, intends, under_way

CUT_OFF = TurnSeen("p-1", rfc3339(ago(20)), outcome="interrupted")
COMPLETED = TurnSeen("p-1", rfc3339(ago(40)), outcome="completed")


# ---- who asks for a resume --------------------------------------------------------------

IDLE: dict[str, Any] = {"last_turn": COMPLETED}
IN_A_TURN: dict[str, Any] = {"last_turn": CUT_OFF}


@pytest.mark.parametrize(
    "report", [pytest.param(IDLE, id="idle"), pytest.param(IN_A_TURN, id="in a turn")]
)
@pytest.mark.parametrize(
    ("policy", "wish"),
    [
        pytest.param("Auto", {}, id="Auto, by itself"),
        pytest.param("Auto", wishing(resume="1"), id="Auto, and asked for"),
        pytest.param("OnRequest", wishing(resume="1"), id="OnRequest, asked for"),
    ],
)
def test_a_lost_agent_is_resumed_once(
    report: dict[str, Any], policy: str, wish: dict[str, str]
) -> None:
    o = gone(report=report, policy=policy, annotations=wish)
    plan = decide(o)
    assert (intends(plan), done(plan), waits(plan)) == ("Resume 1", "", 0)
    status = written(plan)
    assert (status.epoch, status.intent.operation_id) == (2, "uid-s-a-2")
    assert (status.is_agent_running, status.needs_resume) == (False, True)
    assert status.last_handled_resume_request == wish.get("kandev.dev/resume-requested")
    o = with_status(o, status)
    deed = decide(o)
    assert done(deed) == "StartAgent"
    start = action(deed, "StartAgent")
    assert (start.operation_id, start.epoch, start.mode) == ("uid-s-a-2", 2, "resume")
    assert (start.token, start.timeout_seconds) == (a_token(), 120)


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(IDLE, "WAITING_FOR_INPUT False/AgentNotRunning stalled", id="idle: it waits"),
        pytest.param(IN_A_TURN, "ERROR False/AgentExited stalled", id="in a turn: an error"),
    ],
)
@pytest.mark.parametrize(
    ("policy", "wish"),
    [
        pytest.param("OnRequest", {}, id="OnRequest, and nobody asks"),
        pytest.param("Never", {}, id="Never"),
        pytest.param("Never", wishing(resume="1"), id="Never, though somebody asks"),
    ],
)
def test_a_lost_agent_is_left_alone(
    report: dict[str, Any], expected: str, policy: str, wish: dict[str, str]
) -> None:
    plan = decide(gone(report=report, policy=policy, annotations=wish))
    status = written(plan)
    assert (said(plan), done(plan), status.intent) == (
        expected,
        "",
        an_intent(at=rfc3339(ago(3600))),
    )
    assert (status.is_agent_running, status.needs_resume, status.is_resumable) == (
        False,
        True,
        True,
    )
    assert status.agent_execution_id is None
    assert status.last_handled_resume_request == wish.get("kandev.dev/resume-requested")
    assert (status.interrupted_turn is not None) == (report is IN_A_TURN)


def test_the_words_for_an_agent_that_was_left_alone() -> None:
    idle, cut = (decide(gone(report=each, policy="Never")) for each in (IDLE, IN_A_TURN))
    assert written(idle).resume_reason == "agent_not_running"
    assert written(idle).error_message is None
    assert condition(idle, "Ready").message.endswith("only a fresh start brings one back.")
    asked = decide(gone(report=IDLE, policy="OnRequest"))
    assert condition(asked, "Ready").message.endswith("resume the session to go on.")
    assert written(cut).resume_reason == "agent_exited"
    assert written(cut).error_message == "agent_exited: The agent ended with code 1."


def test_never_still_begins_the_first_conversation() -> None:
    o = gone(
        policy="Never",
        phase="none",
        report={"token": None, "turns_completed": 0, "operations": ()},
        status={"intent": None, "resume_token_ref": None, "attempt": None},
    )
    assert intends(decide(o)) == "Start 1"


# ---- wishes -----------------------------------------------------------------------------


def test_a_wish_handled_already_is_no_wish() -> None:
    o = gone(
        policy="OnRequest",
        annotations=wishing(resume="1"),
        status={"last_handled_resume_request": "1"},
    )
    assert said(decide(o)) == "WAITING_FOR_INPUT False/AgentNotRunning stalled"


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_B005_a_wish_while_a_resume_is_under_way_starts_no_second_one(state: str) -> None:
    o = gone(
        phase="opening",
        policy="OnRequest",
        annotations=wishing(resume="2"),
        report={"operations": (an_operation(state=state),)},
        status={"state": "STARTING", "intent": an_intent(), "last_handled_resume_request": "1"},
    )
    plan = decide(o)
    assert (done(plan), waits(plan)) == ("", 5)
    assert plan.status is None or written(plan).intent == an_intent()
    lives = decide(replace(o, probe=replace(o.probe, report=a_report("idle"))))
    assert written(lives).last_handled_resume_request == "2", "the agent that lives is the answer"
    assert written(lives).intent == an_intent()


def test_B005_whoever_repeats_an_intent_repeats_the_same_operation() -> None:
    o = gone(policy="OnRequest", annotations=wishing(resume="1"))
    o = with_status(o, decide(o).status)
    first, second = decide(o), decide(replace(o, term=o.term + 1), NOW + timedelta(seconds=30))
    assert first.actions == second.actions
    assert first.status is None
    asked_twice = a_session(annotations=wishing(resume="2"), policy="OnRequest")
    more = replace(o, session=asked_twice.replacing(status=o.session.status))
    assert decide(more).actions == first.actions


# ---- the intent under way ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("o", "expected"),
    [
        pytest.param(under_way(), "StartAgent", id="not done yet: it is done"),
        pytest.param(
            under_way(report={"profile_hash": "hash-0"}),
            "ConfigureAgent StartAgent",
            id="another command is configured: first the right one, then the resume",
        ),
        pytest.param(
            under_way(phase="opening", report={"operations": (an_operation(state="running"),)}),
            "",
            id="under way: it is waited for",
        ),
        pytest.param(
            under_way(phase="opening", report={"operations": (an_operation(),)}),
            "",
            id="done, and the conversation is about to be open",
        ),
        pytest.param(
            under_way("Start", **NOTHING_YET),
            "StartAgent",
            id="a start that is not done yet",
        ),
    ],
)
def test_an_intent_is_done_and_then_waited_for(o: SessionObserved, expected: str) -> None:
    plan = decide(o)
    assert (done(plan), waits(plan)) == (expected, 5)
    assert plan.status is None or written(plan).state == "STARTING"


def test_a_first_start_opens_a_new_conversation() -> None:
    start = action(decide(under_way("Start", **NOTHING_YET)), "StartAgent")
    assert (start.mode, start.token, start.operation_id) == ("new", None, "uid-s-a-1")


def test_an_intent_of_a_kind_from_the_future_resumes_nothing_by_itself() -> None:
    assert action(decide(under_way("Teleport", **NOTHING_YET)), "StartAgent").mode == "new"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param("Auto", "STARTING", id="Auto: it is resumed instead"),
        pytest.param("OnRequest", "WAITING_FOR_INPUT", id="OnRequest: it is left for a wish"),
        pytest.param("Never", "WAITING_FOR_INPUT", id="Never: it is left"),
    ],
)
def test_a_start_never_begins_anew_over_a_conversation_that_is_there(
    policy: str, expected: str
) -> None:
    plan = decide(under_way("Start", policy=policy))
    assert (written(plan).state, done(plan)) == (expected, "")
    intent = written(plan).intent
    assert (intent.kind if intent else None) == ("Resume" if policy == "Auto" else None)
