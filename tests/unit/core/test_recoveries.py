"""Ways back from states that nobody meant: each was found by the world machine, or nearly.

A restored API server, a journal that is lost, a place given away under a live agent, an answer
that would stand for ever: status must find its way back to the world, and no agent be left alone.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import builders as b
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.session import OperatingMode, ResumePolicy
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.actions import StartAgent, StopAgent
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import (
    Answer,
    CapabilitiesSeen,
    FailureSeen,
    Found,
    Missing,
    Probe,
    Unreadable,
)
from plans import action, condition, decide, decide_on, done, said, truth, with_status, written

pytestmark = pytest.mark.unit

RESUME = "kandev.dev/resume-requested"


def observed(report: Any, *, seen: dict[str, Any] | None = None, **status: Any) -> Any:
    session = b.a_session(status=b.a_status(**status))
    return b.session_observed(session, report=report, **(seen or {}))


# ---- an older status than the workspace -------------------------------------------------


def test_an_intent_older_than_the_workspace_that_no_journal_knows_is_forgotten() -> None:
    o = observed(b.a_report("exited", epoch=9), epoch=9, intent=b.an_intent("FreshStart", epoch=2))
    healed = decide(o)
    assert (written(healed).intent, done(healed)) == (None, "")
    assert written(decide(with_status(o, healed.status))).intent.kind == "Resume"


def test_an_agent_whose_place_was_given_away_is_ended() -> None:
    taken = b.an_executor(status=b.an_executor_status(holds="s-b"))
    plan = decide(b.session_observed(executor=Found(taken)))
    assert action(plan, "StopAgent").session_uid == "uid-s-a"
    assert written(plan).is_agent_running is True


# ---- an agent that nobody holds ---------------------------------------------------------


def served(session: Any, *, holds: str | None = None, phase: str = "idle", **seen: Any) -> Any:
    """An executor whose agentctl serves `s-a`, which is not the session that it holds."""
    executor = b.an_executor(status=b.an_executor_status(holds=holds))
    return b.executor_observed(executor, report=b.a_report(phase), served=session, **seen)


def there(**status: Any) -> Any:
    return Found(b.a_session(status=b.a_status(**status)))


ELSEWHERE = ObjectRef(name="ex-b", uid="uid-ex-b")
FINISHED = b.some_conditions(b.a_condition("Finished", "True", "Completed"))
ASLEEP = b.some_conditions(b.a_condition("Suspended", "True", "Requested"))


@pytest.mark.parametrize("holds", [None, "s-b"], ids=["empty", "another is in"])
@pytest.mark.parametrize(
    "session",
    [
        pytest.param(Missing(), id="its session is positively gone"),
        pytest.param(there(conditions=FINISHED, executor_ref=None), id="it has finished"),
        pytest.param(there(conditions=ASLEEP, executor_ref=None), id="it rests"),
        pytest.param(there(executor_ref=ELSEWHERE), id="it runs elsewhere"),
    ],
)
def test_an_agent_that_has_no_business_here_is_ended(session: Any, holds: str | None) -> None:
    plan = decide_on(served(session, holds=holds))
    assert action(plan, "StopAgent") == StopAgent("uid-s-a-1-release-exec-1", 1, "uid-s-a")


@pytest.mark.parametrize(
    ("session", "phase"),
    [
        pytest.param(Unreadable("timeout"), "idle", id="nobody can be asked"),
        pytest.param(there(), "idle", id="it points here and waits to be let in"),
        pytest.param(Found(b.a_session()), "idle", id="it was never looked at yet"),
        pytest.param(Missing(), "none", id="no process of it is left"),
    ],
)
def test_an_agent_that_may_have_business_here_is_left_alone(session: Any, phase: str) -> None:
    assert "StopAgent" not in done(decide_on(served(session, phase=phase)))


def test_a_remote_executor_that_is_deleted_asks_first_however_late_it_is() -> None:
    status = b.an_executor_status()
    long_ago = {"deletion_timestamp": rfc3339(b.ago(900))}
    executor = b.an_executor(runtime=b.Runtime.REMOTE, status=status, **long_ago)
    assert done(decide_on(b.executor_observed(executor, probe=Probe()))) == ""
    assert done(decide_on(b.executor_observed(executor))) == "StopAgent"
    assert done(decide_on(b.executor_observed(executor, report=b.a_report(term=8)))) == "AdoptTerm"
    silent = b.a_probe(b.a_report(), answer=Answer.UNREACHABLE)
    for seen in ({"probe": silent}, {"report": b.a_report("none")}):
        assert done(decide_on(b.executor_observed(executor, **seen))) == "SetFinalizer"


# ---- answers that would stand for ever --------------------------------------------------


def unasked(phase: str = "none", **caps: Any) -> Any:
    return b.a_report(phase, capabilities=CapabilitiesSeen(**{"profile_hash": b.HASH, **caps}))


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(unasked(), id="nobody is asking any more"),
        pytest.param(
            unasked(
                failure=FailureSeen("command_not_found", "no such file"),
                probed_at=rfc3339(b.ago(90)),
            ),
            id="the answer is older than the attempt",
        ),
        pytest.param(
            unasked(failure=FailureSeen("initialize_failed", "garbage"), probed_at="yesterday"),
            id="nobody knows how old the answer is",
        ),
    ],
)
def test_where_no_new_answer_would_come_the_resume_itself_asks(report: Any) -> None:
    plan = decide(observed(report, intent=b.an_intent()))
    assert action(plan, "StartAgent").mode == "resume"


def test_an_agent_that_is_being_asked_is_waited_for() -> None:
    plan = decide(observed(unasked("initializing"), intent=b.an_intent()))
    assert (done(plan), plan.requeue) == ("StoreToken", timedelta(seconds=5))


# ---- one epoch, two agents --------------------------------------------------------------


def test_the_agent_of_a_fresh_start_can_be_stopped_within_the_same_epoch() -> None:
    status = {"epoch": 5, "intent": b.an_intent("FreshStart", epoch=5), "resume_token_ref": None}
    first = action(decide(observed(b.a_report("idle", epoch=4), **status)), "StopAgent")
    opened = b.an_operation("uid-s-a-5", mode="new")
    report = b.a_report("idle", epoch=5, operations=(opened,), execution_id="exec-2")
    o = observed(report, **status)
    asleep = o.session.spec.replacing(operating_mode=OperatingMode.SUSPENDED)
    o = replace(o, session=o.session.replacing(spec=asleep))
    second = action(decide(o), "StopAgent")
    assert first.epoch == second.epoch == 5
    assert first.operation_id != second.operation_id


# ---- memory that is lost on one side only -----------------------------------------------


def test_a_fresh_start_that_only_the_secret_knows_to_be_done_is_not_done_again() -> None:
    report = b.a_report("none", epoch=0, token=None, turns_completed=0)
    kept = {"secret": Found(b.a_token("tok-2", epoch=5))}
    intent = b.an_intent("FreshStart", epoch=5)
    plan = decide(observed(report, seen=kept, epoch=5, intent=intent, resume_token_ref=None))
    assert written(plan).intent.kind == "Resume"


def test_the_token_of_a_higher_epoch_wins_over_a_journal_that_was_set_back() -> None:
    kept = {"secret": Found(b.a_token("tok-2", epoch=5))}
    intent = b.an_intent(epoch=6)
    plan = decide(observed(b.a_report("exited"), seen=kept, epoch=6, intent=intent))
    assert action(plan, "StartAgent").token.value == "tok-2"


@pytest.mark.parametrize("policy", [ResumePolicy.ON_REQUEST, ResumePolicy.NEVER])
def test_a_session_made_again_resumes_nothing_by_itself_where_its_policy_says_so(
    policy: ResumePolicy,
) -> None:
    session = b.a_session(status=b.a_status(intent=b.an_intent("Start")), policy=policy)
    o = b.session_observed(session, report=b.a_report("none"))
    plan = decide(o)
    assert said(plan) == "WAITING_FOR_INPUT False/AgentNotRunning stalled"
    assert (written(plan).intent, written(plan).needs_resume) == (None, True)
    assert decide(with_status(o, plan.status)).status is None


def test_policy_never_is_not_moved_by_a_wish() -> None:
    status = b.a_status(intent=b.an_intent("Start"))
    session = b.a_session(status=status, policy=ResumePolicy.NEVER, annotations={RESUME: "1"})
    report = b.a_report("exited", operations=(b.an_operation(),))
    plan = decide(b.session_observed(session, report=report))
    assert truth(plan, "Ready") == "False/AgentNotRunning"
    assert written(plan).last_handled_resume_request == "1"


def test_a_taken_away_wish_stays_remembered() -> None:
    session = b.a_session(status=b.a_status(last_handled_resume_request="1"))
    assert written(decide(b.session_observed(session))).last_handled_resume_request == "1"


# ---- what cannot be read, and what is broken --------------------------------------------


def test_an_executor_that_does_not_fit_this_version_is_said_and_not_called_missing() -> None:
    session = b.a_session()
    why = Unreadable("spec.runtime: no such runtime", lasting=True)
    plan = decide(b.session_observed(session, executor=why))
    assert said(plan) == "ERROR False/SpecInvalid stalled"
    assert "no such runtime" in condition(plan, "Stalled").message


@pytest.mark.parametrize(
    ("state", "reason"), [("unreadable", "JournalUnreadable"), ("full", "JournalFull")]
)
def test_what_is_wrong_with_the_journal_under_a_live_agent_is_said(state: str, reason: str) -> None:
    plan = decide(b.session_observed(report=b.a_report("idle", journal_state=state)))
    assert truth(plan, "Ready") == "True/AgentReady"
    assert truth(plan, "WorkspaceReady") == f"False/{reason}"


def test_a_process_that_ends_again_and_again_has_to_wait() -> None:
    status = b.an_executor_status(attempt=2, started_at=rfc3339(b.ago(5)))
    o = b.executor_observed(b.an_executor(status=status), process=Missing(), probe=Probe())
    plan = decide_on(o)
    assert truth(plan, "AgentctlReady") == "False/CrashLoopBackOff"
    assert written(plan).next_attempt_at is not None
    assert written(plan).instance_id == "uid-ex-a-2"
    o = replace(o, executor=o.executor.replacing(status=plan.status))
    assert decide_on(o).status is None
    later = decide_executor(o, b.NOW + timedelta(seconds=30))
    assert action(later, "StartProcess").instance_id == "uid-ex-a-2"
    assert written(later).started_at == rfc3339(b.NOW + timedelta(seconds=30))


def test_the_mode_that_is_not_supported_does_not_hide_that_the_agent_lives() -> None:
    spec = {"operating_mode": OperatingMode.WORKSPACE_ONLY}
    session = b.a_session(spec=spec, status=b.a_status())
    profile = b.a_profile_seen(supports_workspace_only=False)
    plan = decide(b.session_observed(session, profile=profile))
    assert said(plan) == "ERROR False/ModeNotSupported stalled"
    assert written(plan).is_agent_running is True
    assert truth(plan, "AgentReady") == "True/AgentReady"


def test_a_start_waits_while_the_secret_that_may_hold_a_token_cannot_be_read() -> None:
    report = b.a_report("none", token=None, turns_completed=0)
    secret = {"secret": Unreadable("forbidden")}
    plan = decide(observed(report, seen=secret, intent=b.an_intent("Start")))
    assert truth(plan, "Ready") == "False/ResumeTokenUnknown"
    assert not any(isinstance(each, StartAgent) for each in plan.actions)
