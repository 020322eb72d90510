"""What a failed start or resume leads to, how often it is tried again, and when it ends."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import NOW, a_profile_seen, a_token, a_token_ref, ago, an_intent, an_operation
from kandev_operator.api.agent import EnvVar, SecretKeyRef
from kandev_operator.api.timestamps import moment, rfc3339
from kandev_operator.contract.status import FailureCode
from kandev_operator.core import backoff, failures
from kandev_operator.core.failures import Handling
from kandev_operator.core.observed import FailureSeen, SessionObserved, TurnSeen
from plans import decide, done, said, truth, waits, wishing, with_status, written
from situations import NOTHING_YET, gone, intends, under_way

MEANING = {
    "session_not_found": ("SessionNotFound", "SessionNotFound", "gone"),
    "resume_unsupported": ("NotResumable", "NotResumable", "unable"),
    "rejected": ("ResumeFailed", "StartFailed", "person"),
    "agent_error": ("ResumeFailed", "StartFailed", "retry"),
    "held_elsewhere": ("HeldElsewhere", "HeldElsewhere", "retry"),
    "authentication_required": ("AuthenticationRequired", "AuthenticationRequired", "person"),
    "timed_out": ("ResumeTimedOut", "StartTimedOut", "retry"),
    "agent_exited": ("AgentExited", "AgentExited", "retry"),
    "command_not_found": ("CommandNotFound", "CommandNotFound", "person"),
    "cwd_missing": ("WorktreeMissing", "WorktreeMissing", "retry"),
    "initialize_failed": ("InitializeFailed", "InitializeFailed", "retry"),
    "protocol_mismatch": ("ProtocolMismatch", "ProtocolMismatch", "person"),
    "garbage": ("ProtocolMismatch", "ProtocolMismatch", "person"),
    "invalid_token": ("InvalidResumeToken", "InvalidResumeToken", "person"),
    "workspace_in_use": ("WorkspaceInUse", "WorkspaceInUse", "retry"),
    "journal_unavailable": ("JournalUnreadable", "JournalUnreadable", "retry"),
    "interrupted": ("Interrupted", "Interrupted", "retry"),
    "superseded": ("Superseded", "Superseded", "retry"),
    "upstream_unavailable": ("ResumeFailed", "StartFailed", "retry"),
}
"""Reason of a resume, reason of a start, and how it is handled."""


def failing(
    code: str = "agent_error",
    kind: str = "Resume",
    *,
    established: bool = True,
    seconds_ago: float = 1,
    attempt: int = 1,
    **overrides: Any,
) -> SessionObserved:
    """An operation that failed a moment ago."""
    operation = an_operation(code=code, ended_at=ago(seconds_ago))
    report = {
        "operations": (operation,),
        "token": a_token(established=established),
        "turns_completed": 1 if established else 0,
        **overrides.pop("report", {}),
    }
    ref = a_token_ref(established=established)
    status = {"resume_token_ref": ref, "attempt": attempt, **overrides.pop("status", {})}
    return under_way(kind, report=report, status=status, **overrides)


def first_start(code: str, **overrides: Any) -> SessionObserved:
    """The very first start failed."""
    return failing(
        code,
        "Start",
        report={**NOTHING_YET["report"], **overrides.pop("report", {})},
        status={**NOTHING_YET["status"], **overrides.pop("status", {})},
        **overrides,
    )


# ---- the table --------------------------------------------------------------------------


@pytest.mark.parametrize("code", list(FailureCode))
def test_every_failure_of_the_contract_has_a_row(code: FailureCode) -> None:
    of_a_resume, of_a_start, handling = MEANING[code]
    failure = FailureSeen(str(code), "")
    assert failures.judge(failure, resuming=True) == (of_a_resume, Handling(handling))
    assert failures.judge(failure, resuming=False) == (of_a_start, Handling(handling))


def test_the_table_knows_no_failure_that_the_contract_does_not() -> None:
    assert set(failures._TABLE) == set(FailureCode) == set(MEANING)


@pytest.mark.parametrize("failure", [None, FailureSeen("from_the_future", "?")])
def test_a_failure_that_is_not_known_may_pass(failure: FailureSeen | None) -> None:
    assert failures.judge(failure, resuming=True) == ("ResumeFailed", Handling.RETRY)


def outcome(handling: str, established: bool, on_failure: str, reason: str) -> str:
    """What is to follow a failed resume, in words."""
    definite = handling in ("gone", "unable")
    if definite and not established:
        return "begins anew"
    if definite and on_failure == "FreshConversation":
        return "a fresh start"
    at_work = "at work" if handling == "retry" else "stalled"
    return f"ERROR False/{reason} {at_work}"


@pytest.mark.parametrize("on_failure", ["Error", "FreshConversation"])
@pytest.mark.parametrize("established", [True, False], ids=["established", "promised"])
@pytest.mark.parametrize("code", list(FailureCode))
def test_what_follows_a_failed_resume(code: str, established: bool, on_failure: str) -> None:
    reason, _, handling = MEANING[code]
    plan = decide(failing(code, established=established, on_failure=on_failure))
    expected = outcome(handling, established, on_failure, reason)
    if expected == "begins anew":
        assert intends(plan) == "Start 1"
    elif expected == "a fresh start":
        assert intends(plan) == "FreshStart 1"
    else:
        assert said(plan) == expected
        assert written(plan).intent == an_intent()
        assert written(plan).resume_token_ref is not None, "a token is never lost by a failure"
    assert done(plan) == "", "and nothing is done in the same pass"


@pytest.mark.parametrize("code", list(FailureCode))
def test_what_follows_a_failed_start(code: str) -> None:
    _, reason, handling = MEANING[code]
    plan = decide(first_start(code))
    at_work = "stalled" if handling == "person" else "at work"
    assert (said(plan), done(plan)) == (f"ERROR False/{reason} {at_work}", "")
    assert written(plan).error_message.endswith(": the agent's own words")


@pytest.mark.parametrize("policy", ["Auto", "OnRequest", "Never"])
def test_a_first_start_is_tried_again_under_every_policy(policy: str) -> None:
    assert said(decide(first_start("agent_error", policy=policy))).endswith("at work")
    assert intends(decide(first_start("agent_error", policy=policy, seconds_ago=30))) == "Start 2"


@pytest.mark.parametrize("policy", ["OnRequest", "Never"])
def test_a_failed_resume_is_not_repeated_where_nobody_asks(policy: str) -> None:
    plan = decide(failing(policy=policy, seconds_ago=3600))
    assert said(plan) == "ERROR False/ResumeFailed stalled"
    assert (written(plan).is_resumable, written(plan).needs_resume) == (True, True)


@pytest.mark.parametrize(
    ("code", "expected", "resumable"),
    [
        pytest.param("session_not_found", "ERROR False/SessionNotFound stalled", False, id="a"),
        pytest.param("agent_error", "ERROR False/ResumeFailed at work", True, id="b and c"),
        pytest.param("agent_exited", "ERROR False/AgentExited at work", True, id="d"),
        pytest.param("rejected", "ERROR False/ResumeFailed stalled", True, id="e"),
        pytest.param("held_elsewhere", "ERROR False/HeldElsewhere at work", True, id="f"),
    ],
)
def test_B041_gone_is_told_from_broken(code: str, expected: str, resumable: bool) -> None:
    plan = decide(failing(code))
    status = written(plan)
    assert (said(plan), status.is_resumable) == (expected, resumable)
    assert status.resume_token_ref is not None
    assert status.executor_status == "ready"
    assert truth(plan, "WorkspaceReady") == "True/WorkspaceReady"
    assert status.intent == an_intent(), "no new conversation in silence"


@pytest.mark.parametrize("code", ["rejected", "invalid_token"])
def test_B044_a_definite_no_is_not_repeated_by_a_restarted_operator(code: str) -> None:
    o = failing(code, seconds_ago=3600)
    plan = decide(o)
    assert "the agent's own words" in written(plan).error_message
    after = decide(replace(with_status(o, plan.status), term=9), NOW + timedelta(days=1))
    assert (after.status, after.actions) == (None, ())


def test_a_conversation_that_is_gone_stays_gone_until_somebody_asks() -> None:
    o = failing("session_not_found")
    o = with_status(o, decide(o).status)
    forgotten = with_status(o, o.session.status.replacing(intent=None))
    forgotten = replace(forgotten, probe=gone(report={"operations": ()}).probe)
    assert (decide(forgotten).status, decide(forgotten).actions) == (None, ())
    meta = forgotten.session.metadata.replacing(annotations=wishing(resume="1"))
    asked = decide(replace(forgotten, session=forgotten.session.replacing(metadata=meta)))
    assert intends(asked) == "Resume 1"


# ---- attempts ---------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", [1, 2])
def test_the_next_attempt_is_announced_and_then_made(attempt: int) -> None:
    o = failing(attempt=attempt, seconds_ago=0)
    plan = decide(o)
    due = backoff.next_attempt_at(NOW, attempt, "uid-s-a")
    assert said(plan) == "ERROR False/ResumeFailed at work"
    assert waits(plan) == (due - NOW).total_seconds()
    assert written(plan).next_attempt_at == rfc3339(due)
    o = with_status(o, plan.status)
    assert decide(o, due - timedelta(milliseconds=1)).status is None
    again = decide(o, due)
    assert intends(again) == f"Resume {attempt + 1}"
    assert written(again).next_attempt_at is None


def test_it_gives_up_after_max_attempts_and_keeps_the_token() -> None:
    plan = decide(failing(attempt=3, seconds_ago=9999))
    assert said(plan) == "ERROR False/MaxAttempts stalled"
    assert written(plan).error_message.startswith("max_attempts: Gave up after 3 attempts: ")
    assert (written(plan).is_resumable, written(plan).next_attempt_at) == (True, None)
    assert said(decide(failing(attempt=3, max_attempts=4))) == "ERROR False/ResumeFailed at work"


@pytest.mark.parametrize("code", ["agent_error", "rejected", "session_not_found"])
@pytest.mark.parametrize("attempt", [1, 3])
def test_a_wish_or_a_changed_profile_counts_attempts_anew(code: str, attempt: int) -> None:
    asked = decide(failing(code, attempt=attempt, annotations=wishing(resume="1")))
    assert (intends(asked), written(asked).last_handled_resume_request) == ("Resume 1", "1")
    mended = failing(code, attempt=attempt, profile=a_profile_seen(hash="hash-2"))
    assert intends(decide(mended)) == "Resume 1"


@pytest.mark.parametrize("policy", ["OnRequest", "Never"])
def test_a_changed_profile_alone_does_not_resume_where_nobody_asked(policy: str) -> None:
    mended = failing("rejected", policy=policy, profile=a_profile_seen(hash="hash-2"))
    assert said(decide(mended)) == "ERROR False/ResumeFailed stalled"


def test_a_changed_profile_begins_the_first_start_anew() -> None:
    mended = first_start("command_not_found", profile=a_profile_seen(hash="hash-2"))
    assert intends(decide(mended)) == "Start 1"


def test_a_renewed_secret_is_looked_for_where_the_profile_names_one() -> None:
    named = EnvVar(name="KEY", secret_key_ref=SecretKeyRef(name="keys", key="api"))
    o = failing("authentication_required", profile=a_profile_seen(env=(named,)))
    assert (said(decide(o)), waits(decide(o))) == (
        "ERROR False/AuthenticationRequired stalled",
        30.0,
    )
    assert decide(failing("authentication_required")).requeue is None


@pytest.mark.parametrize("attempt", range(1, 30))
def test_waiting_grows_to_a_limit_and_spreads_by_a_fifth(attempt: int) -> None:
    middle = min(300.0, 2.0**attempt)
    for key in ("uid-a", "uid-b", "uid-c"):
        seconds = backoff.delay(attempt, key).total_seconds()
        assert 0.8 * middle <= seconds <= 1.2 * middle
        assert backoff.delay(attempt, key) == backoff.delay(attempt, key)
    assert backoff.delay(attempt, "uid-a") != backoff.delay(attempt, "uid-b")


def test_B002_a_failed_resume_leaves_no_execution_behind() -> None:
    o = failing(status={"agent_execution_id": "exec-0", "is_agent_running": True})
    plan = decide(o)
    status = written(plan)
    assert status.state == "ERROR"
    assert (status.agent_execution_id, status.is_agent_running) == (None, False)
    o = with_status(o, status)
    meta = o.session.metadata.replacing(annotations=wishing(resume="1"))
    second = decide(replace(o, session=o.session.replacing(metadata=meta)))
    assert intends(second) == "Resume 1"
    assert written(second).resume_token_ref.sha256_prefix == a_token().sha256[:12]


def test_B007_no_failure_before_the_protocol_began_touches_the_token() -> None:
    for code in ("command_not_found", "cwd_missing", "initialize_failed", "workspace_in_use"):
        plan = decide(failing(code))
        assert "RetireToken" not in done(plan)
        assert written(plan).is_resumable is True
        assert written(plan).resume_token_ref.established is True


# ---- an agent that dies as soon as it lives ---------------------------------------------


def short_lived(attempt: int, *, lived: float = 2, died: datetime = NOW, **report: Any) -> Any:
    """Its start succeeded, and then it ended."""
    began = died - timedelta(seconds=lived)
    operation = an_operation(ended_at=began)
    return gone(
        report={"operations": (operation,), "exited_at": died, **report},
        status={"intent": an_intent(), "attempt": attempt},
    )


@pytest.mark.parametrize("attempt", [1, 2])
def test_an_agent_that_dies_at_once_is_waited_for(attempt: int) -> None:
    o = short_lived(attempt)
    plan = decide(o)
    assert said(plan) == "ERROR False/AgentExited at work"
    assert written(plan).error_message == "agent_exited: The agent ended with code 1."
    due = moment(written(plan).next_attempt_at) + timedelta(seconds=1)
    assert intends(decide(with_status(o, plan.status), due)) == f"Resume {attempt + 1}"


def test_an_agent_that_always_dies_at_once_is_given_up() -> None:
    plan = decide(short_lived(3, died=ago(3600)))
    assert said(plan) == "ERROR False/MaxAttempts stalled"
    assert written(plan).is_resumable is True


@pytest.mark.parametrize(
    "o",
    [
        pytest.param(short_lived(3, lived=60), id="it had lived for a minute"),
        pytest.param(
            short_lived(3, last_turn=TurnSeen("p", rfc3339(NOW), outcome="completed")),
            id="it had finished a turn",
        ),
        pytest.param(gone(phase="none", status={"attempt": 3}), id="it was stopped on purpose"),
        pytest.param(gone(status={"attempt": 3, "intent": None}), id="nobody began it"),
    ],
)
def test_an_agent_that_had_started_well_counts_anew(o: SessionObserved) -> None:
    assert intends(decide(o)) == "Resume 1"


def test_a_turn_of_an_earlier_execution_is_no_good_start() -> None:
    before = TurnSeen("p", rfc3339(ago(60)), outcome="completed")
    assert said(decide(short_lived(3, last_turn=before))) == "ERROR False/MaxAttempts stalled"


def test_an_agent_that_dies_at_once_and_keeps_nothing_is_not_started_without_end() -> None:
    """Not found, so begun anew; dies; not found again: all of it is one row of attempts."""
    plan = decide(failing("session_not_found", established=False, attempt=2))
    assert intends(plan) == "Start 2"
