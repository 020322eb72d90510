"""While agentctl answers and the agent lives, or is not to live (`core.agentrules`)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import builders as b
from kandev_operator.api.session import OperatingMode
from kandev_operator.core.actions import (
    AdoptTerm,
    ConfigureAgent,
    RetireToken,
    StartAgent,
    StopAgent,
)
from kandev_operator.core.intents import epoch_of_intent
from kandev_operator.core.observed import Found, Missing, TurnSeen, Unreadable
from kandev_operator.core.session import decide_session
from unit.core.scenes import after, answer, condition, has, names, plan_of, the, told

pytestmark = pytest.mark.unit

FRESH = "kandev.dev/fresh-start-requested"
RESUME = "kandev.dev/resume-requested"
LIVE = ["idle", "running"]


def in_mode(mode: OperatingMode, **more: Any) -> Any:
    spec = {"operating_mode": mode, **more.pop("spec", {})}
    return b.a_session(spec=spec, status=b.a_status(**more))


# ---- fences -----------------------------------------------------------------------------


def test_a_higher_term_at_agentctl_is_adopted_before_anything_is_done() -> None:
    plan = plan_of(report=b.a_report("exited", term=7))
    assert the(plan, AdoptTerm) == AdoptTerm(7)
    assert (plan.status, names(plan)) == (None, ["AdoptTerm"])


def test_a_higher_epoch_in_the_workspace_is_taken_over_before_anything_is_done() -> None:
    session = b.a_session(status=b.a_status(epoch=2, intent=b.an_intent(epoch=2)))
    known = b.an_operation("uid-s-a-2")
    plan = plan_of(session, report=b.a_report("exited", epoch=9, operations=(known,)))
    assert plan.status is not None
    assert (plan.status.epoch, names(plan)) == (9, [])
    assert plan.status.intent == b.an_intent(epoch=2)


def test_an_intent_older_than_the_workspace_that_its_journal_does_not_know_is_forgotten() -> None:
    session = b.a_session(status=b.a_status(epoch=9, intent=b.an_intent("FreshStart", epoch=2)))
    o = b.session_observed(session, report=b.a_report("exited", epoch=9))
    plan = decide_session(o, b.NOW)
    assert plan.status is not None
    assert (plan.status.intent, names(plan)) == (None, [])
    then = decide_session(after(o, plan), b.NOW)
    assert then.status is not None
    assert then.status.intent is not None
    assert then.status.intent.kind == "Resume"


def test_the_workspace_of_an_older_uid_of_the_same_name_gives_its_epoch() -> None:
    session = b.a_session(uid="uid-new", status=b.a_status(epoch=1))
    report = b.a_report("exited", epoch=6)
    plan = plan_of(session, report=report, executor=bound_to(session))
    assert plan.status is not None
    assert plan.status.epoch == 6


def bound_to(session: Any) -> Found[Any]:
    return Found(b.an_executor(status=b.an_executor_status(holds=session)))


def test_the_epoch_of_an_intent_is_the_end_of_its_operation_id() -> None:
    assert epoch_of_intent(b.an_intent(epoch=12)) == 12
    assert epoch_of_intent(b.an_intent().replacing(operation_id="made-by-hand")) == 0


# ---- the workspace ----------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["idle", "running", "initialized"])
def test_another_sessions_agent_on_these_files_is_waited_for(phase: str) -> None:
    plan = plan_of(report=b.a_report(phase, session="s-b"))
    assert told(plan) == ("ERROR", "WorkspaceInUse")
    assert answer(plan, "WorkspaceReady") == ("False", "WorkspaceInUse")
    assert answer(plan, "AgentReady") == ("False", "AgentNotRunning")
    assert names(plan) == []


@pytest.mark.parametrize("phase", ["idle", "running"])
def test_the_agent_of_an_older_uid_of_this_name_is_not_run_beside(phase: str) -> None:
    session = b.a_session(uid="uid-new", status=b.a_status())
    plan = plan_of(session, report=b.a_report(phase), executor=bound_to(session))
    assert told(plan) == ("ERROR", "WorkspaceInUse")
    assert names(plan) == []


def test_an_unreadable_journal_starts_no_agent() -> None:
    plan = plan_of(
        report=b.a_report("none", journal_state="unreadable", journal_message="disk image broken")
    )
    assert told(plan) == ("ERROR", "JournalUnreadable")
    assert "disk image broken" in condition(plan, "Ready").message
    assert names(plan) == []


@pytest.mark.parametrize(
    ("state", "reason"), [("unreadable", "JournalUnreadable"), ("full", "JournalFull")]
)
def test_a_live_agent_is_not_set_to_error_for_its_journal(state: str, reason: str) -> None:
    plan = plan_of(report=b.a_report("idle", journal_state=state))
    assert told(plan) == ("WAITING_FOR_INPUT", "AgentReady")
    assert answer(plan, "WorkspaceReady") == ("False", reason)


# ---- a fresh start ----------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["idle", "running", "none", "exited"])
def test_a_fresh_start_wish_becomes_one_intent_without_a_token(phase: str) -> None:
    session = b.a_session(
        annotations={FRESH: "1"},
        status=b.a_status(resume_token_ref=b.a_token_ref(), epoch=4),
    )
    plan = plan_of(session, report=b.a_report(phase, epoch=4))
    status = plan.status
    assert status is not None
    assert told(plan) == ("STARTING", "Starting")
    assert status.intent is not None
    assert (status.intent.kind, status.intent.operation_id) == ("FreshStart", "uid-s-a-5")
    assert (status.epoch, status.resume_token_ref, names(plan)) == (5, None, [])
    assert status.last_handled_fresh_start_request == "1"
    assert status.is_agent_running is (phase in LIVE)
    assert plan.requeue == timedelta(0)


def fresh(**report: Any) -> Any:
    status = b.a_status(epoch=5, intent=b.an_intent("FreshStart", epoch=5), resume_token_ref=None)
    return b.session_observed(b.a_session(status=status), report=b.a_report(**report))


@pytest.mark.parametrize("phase", ["idle", "running", "opening", "stopping"])
def test_the_old_agent_is_ended_before_a_fresh_start(phase: str) -> None:
    plan = decide_session(fresh(phase=phase, epoch=4), b.NOW)
    assert the(plan, StopAgent) == StopAgent("uid-s-a-5-stop-exec-1", 5, "uid-s-a")
    assert told(plan)[1] == "Stopping"


def test_B010_a_fresh_start_retires_the_token_in_the_secret_and_opens_a_new_conversation() -> None:
    plan = decide_session(fresh(phase="none", epoch=4), b.NOW)
    assert [type(each).__name__ for each in plan.actions] == ["RetireToken", "StartAgent"]
    assert the(plan, RetireToken).epoch == 5
    start = the(plan, StartAgent)
    assert (start.mode, start.token, start.operation_id) == ("new", None, "uid-s-a-5")


@pytest.mark.parametrize("state", ["running", "failed"])
def test_B010_no_late_report_of_the_old_token_brings_it_back(state: str) -> None:
    code = "agent_error" if state == "failed" else None
    operation = b.an_operation("uid-s-a-5", state, code=code, mode="new")
    plan = decide_session(fresh(phase="none", epoch=5, operations=(operation,)), b.NOW)
    assert "StoreToken" not in [type(each).__name__ for each in plan.actions]
    assert plan.status is not None
    assert plan.status.resume_token_ref is None
    assert (plan.status.is_resumable, plan.status.needs_resume) == (False, False)


def test_the_agent_of_a_fresh_start_can_be_stopped_within_the_same_epoch() -> None:
    """One epoch stops two agents: the one before the fresh start, and the one that it started."""
    first = the(decide_session(fresh(phase="idle", epoch=4), b.NOW), StopAgent)
    done = b.an_operation("uid-s-a-5", mode="new")
    o = fresh(phase="idle", epoch=5, operations=(done,), execution_id="exec-2")
    asleep = o.session.spec.replacing(operating_mode=OperatingMode.SUSPENDED)
    o = replace(o, session=o.session.replacing(spec=asleep))
    second = the(decide_session(o, b.NOW), StopAgent)
    assert first.epoch == second.epoch == 5
    assert first.operation_id != second.operation_id


# ---- no agent is wanted -----------------------------------------------------------------


@pytest.mark.parametrize("mode", [OperatingMode.SUSPENDED, OperatingMode.WORKSPACE_ONLY])
@pytest.mark.parametrize("phase", ["idle", "running", "opening", "stopping"])
def test_the_agent_is_ended_gently_first(mode: OperatingMode, phase: str) -> None:
    plan = plan_of(in_mode(mode, state="RUNNING"), report=b.a_report(phase))
    assert names(plan) == ["StopAgent"]
    assert told(plan) == ("RUNNING", "Stopping")
    assert answer(plan, "Reconciling") == ("True", "Progressing")
    assert plan.status is not None
    assert plan.status.is_agent_running is True


@pytest.mark.parametrize(
    ("before", "state"),
    [
        ("RUNNING", "WAITING_FOR_INPUT"),
        ("ERROR", "WAITING_FOR_INPUT"),
        ("STARTING", "WAITING_FOR_INPUT"),
        ("WAITING_FOR_INPUT", "WAITING_FOR_INPUT"),
        ("CREATED", "CREATED"),
        (None, "CREATED"),
    ],
)
def test_a_suspended_session_is_ready_and_keeps_a_calm_state(
    before: str | None, state: str
) -> None:
    plan = plan_of(in_mode(OperatingMode.SUSPENDED, state=before), report=b.a_report("none"))
    assert told(plan) == (state, "Suspended")
    assert answer(plan, "Suspended") == ("True", "Requested")
    assert answer(plan, "AgentReady") == ("False", "NoAgentWanted")
    assert plan.status is not None
    assert (plan.status.needs_resume, plan.status.error_message) == (False, None)
    assert names(plan) == []


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(Missing(), id="its executor is gone"),
        pytest.param(Found(b.an_executor()), id="it has none yet"),
    ],
)
def test_a_suspended_session_is_given_no_executor(executor: Any) -> None:
    ref = b.a_status().executor_ref if isinstance(executor, Missing) else None
    session = in_mode(OperatingMode.SUSPENDED, executor_ref=ref)
    plan = plan_of(session, executor=executor, probe=b.a_probe(None))
    assert told(plan)[1] == "Suspended"
    assert names(plan) == []


def test_a_suspended_session_whose_executor_cannot_be_read_is_not_called_at_rest() -> None:
    session = in_mode(OperatingMode.SUSPENDED, state="RUNNING")
    plan = plan_of(session, executor=Unreadable("timeout"), report=None)
    assert plan.status is None


def test_a_workspace_only_session_is_ready_without_an_agent() -> None:
    plan = plan_of(in_mode(OperatingMode.WORKSPACE_ONLY), report=b.a_report("none"))
    assert told(plan) == ("WAITING_FOR_INPUT", "WorkspaceServed")
    assert answer(plan, "AgentReady") == ("False", "NoAgentWanted")
    assert plan.status is not None
    assert plan.status.needs_resume is False


@pytest.mark.parametrize(
    "seen",
    [
        {"profile": b.a_profile_seen(supports_workspace_only=False)},
        {"report": b.a_report(capabilities=b.some_capabilities(supports_workspace_only=False))},
    ],
    ids=["the profile says no", "agentctl says no"],
)
def test_workspace_only_is_refused_where_it_is_not_supported(seen: dict[str, Any]) -> None:
    plan = plan_of(in_mode(OperatingMode.WORKSPACE_ONLY), **seen)
    assert told(plan) == ("ERROR", "ModeNotSupported")
    assert has(plan, "Stalled")
    assert plan.status is not None
    assert plan.status.is_agent_running is True, "what lives is said to live"
    assert names(plan) == []


# ---- attached ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phase", "permission", "state", "ready", "agent"),
    [
        ("idle", False, "WAITING_FOR_INPUT", "AgentReady", ("True", "AgentReady")),
        ("running", False, "RUNNING", "TurnRunning", ("False", "TurnRunning")),
        ("running", True, "RUNNING", "TurnRunning", ("False", "AwaitingPermission")),
    ],
    ids=["idle", "in a turn", "waiting for a permission"],
)
def test_a_live_agent_is_ready_whatever_it_does(
    phase: str, permission: bool, state: str, ready: str, agent: tuple[str, str]
) -> None:
    turn = TurnSeen("p-1", "2026-03-04T11:59:00Z", awaiting_permission=permission)
    plan = plan_of(report=b.a_report(phase, turn=turn if phase == "running" else None))
    assert told(plan) == (state, ready)
    assert answer(plan, "AgentReady") == agent
    assert plan.status is not None
    assert (plan.status.is_agent_running, plan.status.needs_resume) == (True, False)
    assert plan.status.agent_execution_id == "exec-1"
    assert (plan.status.turn is not None) is (phase == "running")
    assert names(plan) == []


@pytest.mark.parametrize(
    "seen",
    [
        {"profile": b.a_profile_seen(supports_session_resume=False)},
        {"profile": b.a_profile_seen(hash="hash-2")},
        {"report": b.a_report(capabilities=b.some_capabilities(resume=False))},
        {"report": b.a_report(token=None)},
        {"secret": Unreadable("forbidden")},
    ],
    ids=["profile forbids", "profile changed", "agent cannot", "no token", "Secret unreadable"],
)
def test_a_live_agent_is_never_set_to_error_for_what_a_resume_would_need(
    seen: dict[str, Any],
) -> None:
    plan = plan_of(b.a_session(status=b.a_status(resume_token_ref=b.a_token_ref())), **seen)
    assert told(plan) == ("WAITING_FOR_INPUT", "AgentReady")
    assert names(plan) == []


def test_a_resume_wish_for_a_live_agent_is_answered_by_its_living() -> None:
    session = b.a_session(annotations={RESUME: "1"}, status=b.a_status(state="WAITING_FOR_INPUT"))
    plan = plan_of(session)
    assert plan.status is not None
    assert plan.status.last_handled_resume_request == "1"
    assert names(plan) == []


# ---- configuring ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "adopt"),
    [
        (b.a_report("none", session=None), None),
        (b.a_report("none", session="s-b"), None),
        (b.a_report("none", profile_hash="old", token=None, turns_completed=0), None),
        (b.a_report("exited", session_uid="uid-older", epoch=0), "uid-older"),
    ],
    ids=["nobody is served", "another is served", "the profile changed", "an older UID is served"],
)
def test_the_agent_is_configured_where_something_else_would_run(report: Any, adopt: str) -> None:
    session = b.a_session(status=b.a_status(intent=b.an_intent("Start")))
    plan = plan_of(session, report=report)
    assert the(plan, ConfigureAgent) == ConfigureAgent(1, adopt)
