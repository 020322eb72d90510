"""May a conversation be resumed, and with which token? Unknown is neither yes nor no."""

from dataclasses import replace
from typing import Any

import pytest

from builders import (
    HASH,
    NOW,
    a_profile_seen,
    a_token,
    a_token_ref,
    ago,
    some_capabilities,
)
from kandev_operator.api.agent import Capabilities
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.actions import StoreToken
from kandev_operator.core.observed import (
    FailureSeen,
    Found,
    Missing,
    Unreadable,
)
from plans import action, condition, decide, done, said, truth, waits, with_status, written
from situations import NOTHING_YET, gone, intends, under_way

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
            id="only a start will have it asked",
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
    assert written(plan).resume_token_ref.sha256_prefix == a_token(used).sha256[:12]
    stored = [each.token.value for each in plan.actions if isinstance(each, StoreToken)]
    assert stored in ([], [used]), "an older token takes nothing's place"


@pytest.mark.parametrize("kind", ["Start", "Resume"])
def test_a_secret_that_cannot_be_read_is_not_an_empty_one(kind: str) -> None:
    plan = decide(under_way(kind, **NOTHING_YET, secret=Unreadable("forbidden")))
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
