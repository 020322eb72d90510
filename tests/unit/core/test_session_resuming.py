"""No agent lives: the intent under way, then the questions of resuming (`core.resuming`)."""

from datetime import timedelta
from typing import Any

import pytest

import builders as b
from kandev_operator.api.session import (
    Intent,
    OperatingMode,
    ResumeFailure,
    ResumePolicy,
    TaskSession,
)
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core import backoff
from kandev_operator.core.actions import ConfigureAgent, StartAgent
from kandev_operator.core.observed import CapabilitiesSeen, FailureSeen, Found, Missing, Unreadable
from kandev_operator.core.resuming import kind_of
from kandev_operator.core.session import decide_session
from unit.core.scenes import after, answer, condition, has, names, plan_of, the, told

pytestmark = pytest.mark.unit

RESUME = "kandev.dev/resume-requested"
NO_TOKEN: dict[str, Any] = {"token": None, "turns_completed": 0}


def trying(kind: str = "Resume", **status: Any) -> TaskSession:
    """A session with an intent under way, decided a minute ago."""
    more = {
        key: status.pop(key) for key in ("policy", "on_failure", "annotations") if key in status
    }
    return b.a_session(status=b.a_status(**{"intent": b.an_intent(kind), **status}), **more)


def gone(**status: Any) -> TaskSession:
    """A session whose intent succeeded; its agent is gone since."""
    return trying("Start", **status)


DONE = (b.an_operation(),)


# ---- carrying out an intent -------------------------------------------------------------


@pytest.mark.parametrize("phase", ["none", "exited", "initializing", "initialized"])
def test_a_start_that_agentctl_does_not_know_is_done(phase: str) -> None:
    plan = plan_of(trying("Start"), report=b.a_report(phase, **NO_TOKEN))
    start = the(plan, StartAgent)
    assert (start.operation_id, start.mode, start.epoch) == ("uid-s-a-1", "new", 1)
    assert (start.token, start.timeout_seconds) == (None, 120)
    assert plan.requeue == timedelta(seconds=5)


def test_the_agent_is_configured_first_and_its_memory_read_before_anything_is_started() -> None:
    plan = plan_of(trying("Start"), report=b.a_report("none", session=None))
    assert names(plan) == ["ConfigureAgent"]
    assert the(plan, ConfigureAgent).epoch == 1


def test_a_resume_goes_with_the_token_of_the_journal() -> None:
    plan = plan_of(trying(), report=b.a_report("exited"))
    start = the(plan, StartAgent)
    assert (start.mode, start.token) == ("resume", b.a_token())
    assert plan.status is not None
    assert plan.status.resume_reason == "agent_not_running"


def test_a_resume_goes_with_the_token_of_the_secret_where_the_journal_is_lost() -> None:
    kept = b.a_token("tok-2")
    plan = plan_of(trying(), report=b.a_report("none", **NO_TOKEN), secret=Found(kept))
    assert the(plan, StartAgent).token == kept


def test_a_changed_profile_is_configured_in_the_same_pass_as_a_start() -> None:
    report = b.a_report("none", profile_hash="old", **NO_TOKEN)
    assert names(plan_of(trying("Start"), report=report)) == ["ConfigureAgent", "StartAgent"]


@pytest.mark.parametrize("phase", ["initializing", "opening", "stopping"])
def test_B005_an_operation_that_runs_is_waited_for(phase: str) -> None:
    plan = plan_of(
        trying(), report=b.a_report(phase, operations=(b.an_operation(state="running"),))
    )
    assert (names(plan), plan.requeue) == ([], timedelta(seconds=5))
    assert told(plan) == ("STARTING", "Resuming")


@pytest.mark.parametrize("phase", ["opening", "stopping"])
def test_an_operation_that_succeeded_is_waited_for_until_the_agent_is_where_it_said(
    phase: str,
) -> None:
    assert names(plan_of(trying(), report=b.a_report(phase, operations=DONE))) == []


def test_an_intent_of_a_kind_that_this_version_does_not_know_resumes_nothing() -> None:
    assert kind_of(Intent(operation_id="u-1", kind="Teleport", at="x")) == "Start"


# ---- a start that turns out to be a resume ----------------------------------------------


def test_a_session_made_again_takes_up_the_conversation_that_the_workspace_holds() -> None:
    plan = plan_of(trying("Start"), report=b.a_report("none"))
    assert plan.status is not None
    assert plan.status.intent is not None
    assert (plan.status.intent.kind, plan.status.epoch, names(plan)) == ("Resume", 2, [])


@pytest.mark.parametrize("policy", [ResumePolicy.ON_REQUEST, ResumePolicy.NEVER])
def test_a_session_made_again_resumes_nothing_by_itself_where_its_policy_says_so(
    policy: ResumePolicy,
) -> None:
    o = b.session_observed(trying("Start", policy=policy), report=b.a_report("none"))
    plan = decide_session(o, b.NOW)
    assert told(plan) == ("WAITING_FOR_INPUT", "AgentNotRunning")
    assert plan.status is not None
    assert (plan.status.intent, plan.status.needs_resume) == (None, True)
    assert decide_session(after(o, plan), b.NOW).status is None


def test_a_start_waits_while_the_secret_that_may_hold_a_token_cannot_be_read() -> None:
    plan = plan_of(
        trying("Start"), report=b.a_report("none", **NO_TOKEN), secret=Unreadable("forbidden")
    )
    assert (told(plan), names(plan)) == (("STARTING", "ResumeTokenUnknown"), [])
    assert answer(plan, "Resumable") == ("Unknown", "ResumeTokenUnknown")


def test_a_fresh_start_that_was_done_is_not_done_again_by_a_journal_that_lost_it() -> None:
    session = trying("FreshStart", resume_token_ref=b.a_token_ref("tok-2"))
    report = b.a_report("none", operations=(), **NO_TOKEN)
    plan = plan_of(session, report=report, secret=Found(b.a_token("tok-2")))
    assert plan.status is not None
    assert plan.status.intent is not None
    assert (plan.status.intent.kind, names(plan)) == ("Resume", [])


def test_a_fresh_start_that_only_the_secret_knows_to_be_done_is_not_done_again() -> None:
    session = trying("FreshStart", epoch=5, resume_token_ref=None)
    session = session.replacing(
        status=session.status.replacing(intent=b.an_intent("FreshStart", epoch=5))
    )
    report = b.a_report("none", epoch=0, **NO_TOKEN)
    plan = plan_of(session, report=report, secret=Found(b.a_token("tok-2", epoch=5)))
    assert plan.status is not None
    assert plan.status.intent is not None
    assert plan.status.intent.kind == "Resume"


# ---- the capability is asked again before a resume --------------------------------------


def unasked(phase: str = "none", **caps: Any) -> Any:
    seen = CapabilitiesSeen(**{"profile_hash": b.HASH, **caps})
    return b.a_report(phase, capabilities=seen)


def test_a_resume_is_not_sent_before_the_agent_said_that_it_can() -> None:
    plan = plan_of(trying(), report=unasked("initializing"))
    assert (told(plan), names(plan)) == (("STARTING", "Resuming"), [])
    assert plan.requeue == timedelta(seconds=5)


def test_a_new_configuration_is_asked_before_the_resume() -> None:
    profile = b.a_profile_seen(hash="hash-2")
    assert names(plan_of(trying(), report=b.a_report("exited"), profile=profile)) == [
        "ConfigureAgent"
    ]


def test_where_nobody_is_asking_any_more_the_resume_itself_asks() -> None:
    assert the(plan_of(trying(), report=unasked("none")), StartAgent).mode == "resume"


def test_a_probe_that_failed_for_this_attempt_is_its_failure() -> None:
    failure = FailureSeen("command_not_found", "no such file: agent")
    plan = plan_of(trying(), report=unasked("none", failure=failure, probed_at=rfc3339(b.ago(30))))
    assert told(plan) == ("ERROR", "CommandNotFound")
    assert names(plan) == []


def test_a_probe_that_failed_before_this_attempt_is_asked_again_by_the_attempt() -> None:
    """Somebody installed the agent and wishes a resume: the old answer must not stand for ever."""
    failure = FailureSeen("command_not_found", "no such file: agent")
    plan = plan_of(trying(), report=unasked("none", failure=failure, probed_at=rfc3339(b.ago(90))))
    assert the(plan, StartAgent).mode == "resume"


def test_a_capability_that_stays_unknown_is_an_error_of_its_own_and_never_a_no() -> None:
    slow = b.an_intent(at=rfc3339(b.ago(600)))
    o = b.session_observed(trying(intent=slow), report=unasked("initializing"))
    plan = decide_session(o, b.NOW)
    assert told(plan) == ("ERROR", "CapabilityUnknown")
    assert answer(plan, "Resumable") == ("Unknown", "CapabilityUnknown")
    assert plan.status is not None
    assert plan.status.resume_token_ref is not None
    assert plan.requeue is not None
    again = decide_session(after(o, plan), b.NOW + plan.requeue)
    assert again.status is not None
    assert again.status.intent is not None
    assert (again.status.intent.kind, again.status.attempt) == ("Resume", 2)


def test_a_live_no_of_the_agent_ends_a_resume_under_way() -> None:
    no = b.some_capabilities(resume=False)
    plan = plan_of(trying(), report=b.a_report("initialized", capabilities=no))
    assert (told(plan), names(plan)) == (("ERROR", "NotResumable"), [])


# ---- the questions ----------------------------------------------------------------------


def begun(plan: Any) -> tuple[str, int]:
    assert plan.status is not None
    assert plan.status.intent is not None
    return plan.status.intent.kind, plan.status.attempt


QUESTIONS = [
    pytest.param({}, NO_TOKEN, {}, "Start", id="no conversation yet: a new one"),
    pytest.param(
        {}, {"token": b.a_token(established=False), "turns_completed": 0},
        {}, "Resume", id="a promised token is tried",
    ),
    pytest.param(
        {}, {"token": b.a_token(established=False), "turns_completed": 0},
        {"profile": b.a_profile_seen(supports_session_resume=False)},
        "Start", id="a promised token that cannot be resumed loses nothing",
    ),
    pytest.param({}, {}, {}, "Resume", id="a history is resumed"),
    pytest.param(
        {"policy": ResumePolicy.ON_REQUEST, "annotations": {RESUME: "1"}}, {},
        {}, "Resume", id="a wish resumes under OnRequest",
    ),
    pytest.param(
        {"on_failure": ResumeFailure.FRESH_CONVERSATION}, {},
        {"profile": b.a_profile_seen(supports_session_resume=False)},
        "FreshStart", id="a fresh conversation where spec asks for one and none can be resumed",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "report", "seen", "kind"), QUESTIONS)
def test_an_agent_that_is_gone_is_brought_back(
    spec: dict[str, Any], report: dict[str, Any], seen: dict[str, Any], kind: str
) -> None:
    plan = plan_of(gone(**spec), report=b.a_report("none", operations=DONE, **report), **seen)
    assert begun(plan) == (kind, 1)
    assert names(plan) == []


@pytest.mark.parametrize(
    ("seen", "report", "reason", "resumable"),
    [
        (
            {"profile": b.a_profile_seen(supports_session_resume=False)},
            {},
            "NotResumable",
            ("False", "NotResumable"),
        ),
        (
            {},
            {"capabilities": b.some_capabilities(resume=False)},
            "NotResumable",
            ("False", "NotResumable"),
        ),
        (
            {"secret": Missing()},
            {"token": None},
            "MissingResumeToken",
            ("False", "MissingResumeToken"),
        ),
    ],
    ids=["the profile forbids it", "the agent cannot", "no token anywhere"],
)
def test_what_cannot_be_resumed_is_said_and_the_executor_stays_ready(
    seen: dict[str, Any], report: dict[str, Any], reason: str, resumable: tuple[str, str]
) -> None:
    plan = plan_of(gone(), report=b.a_report("exited", operations=DONE, **report), **seen)
    assert told(plan) == ("ERROR", reason)
    assert answer(plan, "Resumable") == resumable
    assert answer(plan, "ExecutorReady") == ("True", "ExecutorReady")
    assert answer(plan, "WorkspaceReady") == ("True", "WorkspaceReady")
    assert plan.status is not None
    assert (plan.status.executor_status, plan.status.is_resumable) == ("ready", False)
    assert (names(plan), has(plan, "Stalled")) == ([], True)


@pytest.mark.parametrize("policy", [ResumePolicy.ON_REQUEST, ResumePolicy.NEVER])
@pytest.mark.parametrize(
    ("outcome", "state", "reason"),
    [
        ("completed", "WAITING_FOR_INPUT", "AgentNotRunning"),
        ("interrupted", "ERROR", "AgentExited"),
    ],
    ids=["it was idle", "a turn was cut off"],
)
def test_without_policy_or_wish_the_agent_is_left_alone(
    policy: ResumePolicy, outcome: str, state: str, reason: str
) -> None:
    last = b.a_turn(outcome)
    report = b.a_report("exited", operations=DONE, last_turn=last, exit_text="exited with code 9")
    plan = plan_of(gone(policy=policy), report=report)
    assert told(plan) == (state, reason)
    assert condition(plan, "Ready").status == "False"
    assert plan.status is not None
    assert (plan.status.needs_resume, plan.status.is_resumable) == (True, True)
    assert (plan.status.interrupted_turn is not None) is (outcome == "interrupted")
    assert names(plan) == []


def test_policy_never_is_not_moved_by_a_wish() -> None:
    session = gone(policy=ResumePolicy.NEVER, annotations={RESUME: "1"})
    plan = plan_of(session, report=b.a_report("exited", operations=DONE))
    assert told(plan)[1] == "AgentNotRunning"
    assert plan.status is not None
    assert plan.status.last_handled_resume_request == "1"


def test_an_unreadable_secret_is_not_a_missing_token() -> None:
    report = b.a_report("exited", operations=DONE, token=None)
    plan = plan_of(gone(), report=report, secret=Unreadable("timeout"))
    assert (told(plan)[1], names(plan)) == ("ResumeTokenUnknown", [])


# ---- an agent that dies again and again -------------------------------------------------


def died(seconds_after: float, **report: Any) -> Any:
    """The operation ended a minute ago; the agent died so many seconds later."""
    at = b.ago(60 - seconds_after)
    return b.a_report("exited", operations=DONE, exited_at=at, **report)


def test_an_agent_that_dies_at_once_is_brought_back_with_growing_patience() -> None:
    due = backoff.next_attempt_at(b.ago(1), 2, "uid-s-a")
    plan = plan_of(gone(attempt=2), report=died(59))
    assert told(plan) == ("ERROR", "AgentExited")
    assert plan.status is not None
    assert plan.status.next_attempt_at == rfc3339(due)
    assert begun(plan_of(gone(attempt=2), report=died(40))) == ("Resume", 3)


def test_it_is_given_up_after_max_attempts_and_a_wish_or_a_new_profile_tries_again() -> None:
    plan = plan_of(gone(attempt=3), report=died(1, exit_text="exited with code 1"))
    assert told(plan) == ("ERROR", "MaxAttempts")
    assert "exited with code 1" in condition(plan, "Stalled").message
    wished = gone(attempt=3, annotations={RESUME: "2"})
    assert begun(plan_of(wished, report=died(1))) == ("Resume", 1)
    changed = b.a_profile_seen(hash="hash-2")
    assert begun(plan_of(gone(attempt=3), report=died(1), profile=changed)) == ("Resume", 1)


@pytest.mark.parametrize(
    "report",
    [
        pytest.param({"exited_at": b.NOW, "phase": "exited"}, id="it lived for a minute"),
        pytest.param(
            {
                "phase": "exited",
                "exited_at": b.ago(55),
                "last_turn": b.a_turn("completed", at=58),
            },
            id="it finished a turn",
        ),
        pytest.param({"phase": "none"}, id="it was ended on purpose"),
        pytest.param({"phase": "initialized"}, id="it was probed since"),
    ],
)
def test_attempts_count_anew_after_an_agent_that_had_started_well(report: dict[str, Any]) -> None:
    plan = plan_of(gone(attempt=3), report=b.a_report(**{"operations": DONE, **report}))
    assert begun(plan) == ("Resume", 1)


def test_a_death_whose_time_nobody_knows_is_counted_from_the_intent() -> None:
    report = b.a_report("exited", operations=DONE, exited_at=None)
    assert begun(plan_of(gone(attempt=1), report=report)) == ("Resume", 2)


def test_a_new_conversation_in_place_of_a_lost_promise_is_part_of_the_same_attempt() -> None:
    promised = {"token": b.a_token(established=False), "turns_completed": 0}
    failed = (b.an_operation(code="session_not_found"),)
    plan = plan_of(trying(attempt=3), report=b.a_report("none", operations=failed, **promised))
    assert begun(plan) == ("Start", 3)


def test_a_woken_session_is_resumed_at_once_however_short_it_had_run() -> None:
    session = gone(attempt=3)
    assert session.spec.operating_mode is OperatingMode.RUNNING
    assert begun(plan_of(session, report=b.a_report("none", operations=DONE))) == ("Resume", 1)
