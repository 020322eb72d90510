"""The questions of resuming, for a session that should run and has no live agent."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    HASH,
    NOW,
    a_profile_seen,
    a_report,
    a_session,
    a_status,
    a_token,
    a_token_ref,
    ago,
    an_intent,
    an_operation,
    session_observed,
    some_capabilities,
)
from kandev_operator.api.agent import Capabilities
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.observed import Found, Missing, SessionObserved, TurnSeen, Unreadable
from plans import action, condition, decide, done, said, truth, waits, wishing, with_status, written

CUT_OFF = TurnSeen("p-1", rfc3339(ago(20)), outcome="interrupted")
COMPLETED = TurnSeen("p-1", rfc3339(ago(40)), outcome="completed")


def gone(
    *, phase: str = "exited", report: dict[str, Any] | None = None, **session: Any
) -> SessionObserved:
    """An agent that had lived for an hour, and ended ten seconds ago."""
    status = session.pop("status", {})
    more = {key: session.pop(key) for key in ("secret", "profile") if key in session}
    fields: dict[str, Any] = {
        "operations": (an_operation(ended_at=ago(3600)),),
        "exit_text": "The agent ended with code 1.",
        "exited_at": ago(10),
        **(report or {}),
    }
    kept: dict[str, Any] = {
        "state": "WAITING_FOR_INPUT",
        "intent": an_intent(at=rfc3339(ago(3600))),
        "agent_execution_id": "exec-1",
        "resume_token_ref": a_token_ref(),
    }
    told = a_session(status=a_status(**{**kept, **status}), **session)
    return session_observed(told, report=a_report(phase, **fields), **more)


def intends(plan: Any) -> str:
    """The intent that is newly written, and its attempt."""
    status = written(plan)
    assert status.state == "STARTING"
    return f"{status.intent.kind} {status.attempt}"


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
        pytest.param(IDLE, "WAITING_FOR_INPUT False/AgentNotRunning", id="idle: it waits"),
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
    assert said(decide(o)) == "WAITING_FOR_INPUT False/AgentNotRunning"


@pytest.mark.parametrize("state", ["running", "succeeded"])
def test_b005_a_wish_while_a_resume_is_under_way_starts_no_second_one(state: str) -> None:
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


def test_b005_whoever_repeats_an_intent_repeats_the_same_operation() -> None:
    o = gone(policy="OnRequest", annotations=wishing(resume="1"))
    o = with_status(o, decide(o).status)
    first, second = decide(o), decide(replace(o, term=o.term + 1), NOW + timedelta(seconds=30))
    assert first.actions == second.actions
    assert first.status is None
    asked_twice = a_session(annotations=wishing(resume="2"), policy="OnRequest")
    more = replace(o, session=asked_twice.replacing(status=o.session.status))
    assert decide(more).actions == first.actions


# ---- the intent under way ---------------------------------------------------------------


def under_way(kind: str = "Resume", *, phase: str = "none", **overrides: Any) -> SessionObserved:
    """An intent is written down. Without `operations`, agentctl has not heard of it."""
    report = {"operations": (), **overrides.pop("report", {})}
    status = {"state": "STARTING", "intent": an_intent(kind), **overrides.pop("status", {})}
    return gone(phase=phase, report=report, status=status, **overrides)


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
            under_way("Start", report={"token": None, "turns_completed": 0}),
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
    start = action(
        decide(under_way("Start", report={"token": None, "turns_completed": 0})), "StartAgent"
    )
    assert (start.mode, start.token, start.operation_id) == ("new", None, "uid-s-a-1")


def test_an_intent_of_a_kind_from_the_future_resumes_nothing_by_itself() -> None:
    o = under_way("Teleport", report={"token": None, "turns_completed": 0})
    assert action(decide(o), "StartAgent").mode == "new"


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


# ---- may it be resumed? -----------------------------------------------------------------

UNASKED = some_capabilities(resume=None, profile_hash=None, probed_at=None)
NO = Capabilities(supports_session_resume=False)


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(
            {"profile": a_profile_seen(supports_session_resume=False)}, id="the profile says no"
        ),
        pytest.param(
            {"report": {"capabilities": some_capabilities(resume=False)}}, id="the agent says no"
        ),
        pytest.param(
            {"report": {"capabilities": UNASKED}, "status": {"capabilities": NO}},
            id="the agent said no last time",
        ),
    ],
)
def test_a_conversation_of_an_agent_that_cannot_resume(overrides: dict[str, Any]) -> None:
    plan = decide(gone(**overrides))
    assert (said(plan), done(plan)) == ("ERROR False/NotResumable stalled", "")
    status = written(plan)
    assert (status.is_resumable, status.resume_reason) == (False, "not_resumable")
    assert (status.executor_status, truth(plan, "WorkspaceReady")) == (
        "ready",
        "True/WorkspaceReady",
    )
    assert status.resume_token_ref is not None
    fresh = decide(gone(**overrides, on_failure="FreshConversation"))
    assert intends(fresh) == "FreshStart 1"


def test_an_agent_that_cannot_resume_and_never_finished_a_turn_starts_anew() -> None:
    o = gone(
        report={
            "capabilities": some_capabilities(resume=False),
            "token": a_token(established=False),
        },
        status={"resume_token_ref": a_token_ref(established=False)},
    )
    assert intends(decide(o)) == "Start 1"


def test_the_live_answer_is_asked_for_again_before_the_call() -> None:
    o = under_way(
        report={"capabilities": some_capabilities(resume=False)},
        status={"capabilities": Capabilities(supports_session_resume=True)},
    )
    assert said(decide(o)) == "ERROR False/NotResumable stalled"


@pytest.mark.parametrize(
    ("phase", "report", "expected"),
    [
        pytest.param("initializing", {"capabilities": UNASKED}, "", id="it is being asked"),
        pytest.param(
            "none",
            {"capabilities": UNASKED, "profile_hash": "hash-0"},
            "ConfigureAgent",
            id="another command is configured: first the right one",
        ),
        pytest.param(
            "none",
            {"capabilities": some_capabilities(profile_hash="hash-0"), "profile_hash": "hash-0"},
            "ConfigureAgent",
            id="the answer is about another command",
        ),
        pytest.param(
            "none",
            {"capabilities": UNASKED},
            "StartAgent",
            id="nobody will be asked but by a start",
        ),
    ],
)
def test_an_unknown_capability_is_neither_yes_nor_no(
    phase: str, report: dict[str, Any], expected: str
) -> None:
    plan = decide(under_way(phase=phase, report=report))
    assert done(plan) == expected
    assert truth(plan, "Resumable") == "Unknown/CapabilityUnknown"
    assert (written(plan).state, written(plan).is_resumable) == ("STARTING", None)


def test_an_unknown_capability_is_an_error_after_the_start_time_and_asked_for_again() -> None:
    report = {"capabilities": UNASKED}
    o = under_way(phase="initializing", report=report, lifecycle={"start_timeout_seconds": 30})
    assert written(decide(o, ago(31))).state == "STARTING"
    plan = decide(o, ago(30))
    assert said(plan) == "ERROR False/CapabilityUnknown at work"
    assert written(plan).resume_token_ref is not None
    assert "not_resumable" not in written(plan).error_message
    assert 1 < (waits(plan) or 0) < 3
    again = decide(with_status(o, plan.status), NOW)
    assert intends(again) == "Resume 2"


def test_a_probe_that_failed_since_the_intent_is_judged_at_once() -> None:
    from kandev_operator.core.observed import FailureSeen

    failure = FailureSeen("command_not_found", "no such file: agent")
    fresh = some_capabilities(resume=None, probed_at=rfc3339(ago(5)), failure=failure)
    plan = decide(under_way(report={"capabilities": fresh}))
    assert said(plan) == "ERROR False/CommandNotFound stalled"
    assert written(plan).error_message == "command_not_found: no such file: agent"
    stale = replace(fresh, probed_at=rfc3339(ago(300)))
    assert done(decide(under_way(report={"capabilities": stale}))) == "StartAgent"


# ---- where the token is -----------------------------------------------------------------

LOST: dict[str, Any] = {"token": None, "turns_completed": 3}


@pytest.mark.parametrize(
    ("journal", "secret", "used"),
    [
        pytest.param(a_token(epoch=3), Missing(), "tok-1", id="in the journal"),
        pytest.param(None, Found(a_token("tok-s", epoch=3)), "tok-s", id="in the Secret only"),
        pytest.param(
            a_token(epoch=2), Found(a_token("tok-s", epoch=3)), "tok-s", id="newer in the Secret"
        ),
        pytest.param(
            a_token(epoch=3), Found(a_token("tok-s", epoch=2)), "tok-1", id="older in the Secret"
        ),
    ],
)
def test_which_token_is_resumed_with(journal: Any, secret: Any, used: str) -> None:
    plan = decide(under_way(report={"token": journal}, secret=secret))
    assert action(plan, "StartAgent").token.value == used
    assert written(plan).is_resumable is True


@pytest.mark.parametrize("kind", ["Start", "Resume"])
def test_a_secret_that_cannot_be_read_is_not_an_empty_one(kind: str) -> None:
    report = {"token": None, "turns_completed": 0}
    plan = decide(under_way(kind, report=report, secret=Unreadable("forbidden")))
    assert said(plan) == "STARTING False/ResumeTokenUnknown at work"
    assert (done(plan), waits(plan), written(plan).is_resumable) == ("", 5, None)
    assert truth(plan, "Resumable") == "Unknown/ResumeTokenUnknown"


@pytest.mark.parametrize("state", ["gone", "under way"])
def test_a_token_that_is_nowhere(state: str) -> None:
    make = gone if state == "gone" else under_way
    plan = decide(make(report=LOST, secret=Missing()))
    assert said(plan) == "ERROR False/MissingResumeToken stalled"
    assert (done(plan), written(plan).resume_reason) == ("", "missing_resume_token")
    assert written(plan).is_resumable is False
    assert truth(plan, "ExecutorReady") == "True/ExecutorReady"


def test_a_token_that_is_nowhere_is_no_loss_where_no_turn_was_completed() -> None:
    report = {"token": None, "turns_completed": 0}
    ref = {"resume_token_ref": a_token_ref(established=False)}
    assert intends(decide(gone(report=report, secret=Missing(), status=ref))) == "Start 1"


def test_before_the_secret_was_looked_at_nothing_is_concluded() -> None:
    plan = decide(gone(report=LOST, secret=None))
    assert (done(plan), written(plan).is_resumable) == ("", True)
    assert written(plan).state == "STARTING"


def test_a_session_that_was_configured_away_is_made_ours_first() -> None:
    plan = decide(under_way(report={"session_uid": None, "token": None}))
    assert done(plan) == "ConfigureAgent"
    assert a_profile_seen().value.hash == HASH
    assert condition(plan, "WorkspaceReady").reason == "Checking"
