"""A fresh start: the old agent first, the old token then, the new conversation last."""

from dataclasses import replace
from typing import Any

import pytest

from builders import (
    a_condition,
    a_report,
    a_session,
    a_status,
    a_token,
    a_token_ref,
    an_executor,
    an_executor_status,
    an_operation,
    session_observed,
    some_conditions,
    uid_of,
)
from kandev_operator.api.session import (
    OperatingMode,
    TaskSession,
)
from kandev_operator.core.observed import Found, SessionObserved, Unreadable
from plans import action, decide, done, said, waits, wishing, with_status, written


def kept(**overrides: Any) -> TaskSession:
    """A session whose token is kept already."""
    return a_session(status=a_status(resume_token_ref=a_token_ref(), **overrides))


def served(session: TaskSession | None = None, **report: Any) -> SessionObserved:
    """That session, and what its agentctl reports."""
    return session_observed(session or kept(), report=a_report(**report))


def wished(**status: Any) -> TaskSession:
    """A session whose fresh start was asked for."""
    base = a_session(annotations=wishing(fresh_start="2"))
    return base.replacing(status=a_status(resume_token_ref=a_token_ref(), **status))


@pytest.mark.parametrize("phase", ["idle", "running", "opening", "none", "exited"])
def test_a_fresh_start_is_an_intent_first_and_no_token_is_left_in_that_write(phase: str) -> None:
    plan = decide(served(wished(), phase=phase))
    status = written(plan)
    assert (done(plan), status.intent.kind, status.epoch) == ("", "FreshStart", 2)
    assert status.resume_token_ref is None
    assert status.last_handled_fresh_start_request == "2"
    assert status.state == "STARTING"


def begun(**report: Any) -> SessionObserved:
    """A fresh start was written down; agentctl has not done it yet."""
    o = served(wished(), **report)
    return with_status(o, decide(o).status)


@pytest.mark.parametrize("phase", ["idle", "running", "opening"])
def test_the_old_agent_is_stopped_first(phase: str) -> None:
    plan = decide(begun(phase=phase))
    assert done(plan) == "StopAgent"
    assert action(plan, "StopAgent").operation_id == "uid-s-a-2-stop-exec-1"


def test_then_the_token_is_retired_and_then_the_new_conversation_opened() -> None:
    o = replace(begun(phase="none"), secret=Found(a_token()))
    plan = decide(o)
    assert done(plan) == "RetireToken StartAgent"
    start, retire = action(plan, "StartAgent"), action(plan, "RetireToken")
    assert (start.mode, start.token, start.epoch, retire.epoch) == ("new", None, 2, 2)
    assert start.operation_id == "uid-s-a-2"


@pytest.mark.parametrize("phase", ["idle", "stopping", "none", "exited"])
def test_B010_no_old_token_is_stored_while_a_fresh_start_is_under_way(phase: str) -> None:
    """Neither the journal's token nor a late one in the Secret comes back."""
    plan = decide(replace(begun(phase=phase), secret=Found(a_token())))
    assert "StoreToken" not in done(plan)
    status = plan.status
    assert status is None or (status.resume_token_ref is None and status.is_resumable is False)


def test_B010_after_the_fresh_start_only_the_new_token_counts() -> None:
    started = an_operation("uid-s-a-2", mode="new")
    new = a_token("tok-2", established=False, epoch=2)
    o = replace(begun(), probe=served(token=new, epoch=2, operations=(started,)).probe)
    plan = decide(o)
    assert said(plan) == "WAITING_FOR_INPUT True/AgentReady"
    assert action(plan, "StoreToken").token == new
    assert action(plan, "StoreToken").epoch == 2
    assert written(plan).resume_token_ref.sha256_prefix == new.sha256[:12]
    assert written(plan).resume_token_ref.established is False


def test_a_fresh_start_done_before_a_journal_was_lost_is_not_done_again() -> None:
    """The Secret has the new token, so nothing is retired a second time."""
    empty = served(phase="none", token=None, epoch=0, turns_completed=0).probe
    o = replace(begun(), probe=empty, secret=Found(a_token("tok-2", epoch=2)))
    plan = decide(o)
    assert "RetireToken" not in done(plan)
    assert written(plan).intent.kind == "Resume"


@pytest.mark.parametrize("mode", [OperatingMode.SUSPENDED, OperatingMode.WORKSPACE_ONLY])
def test_a_fresh_start_waits_for_operating_mode_running(mode: OperatingMode) -> None:
    session = wished().replacing(spec=wished().spec.replacing(operating_mode=mode))
    plan = decide(served(session, phase="none"))
    assert written(plan).intent is None
    assert written(plan).last_handled_fresh_start_request is None


def test_a_fresh_start_waits_for_a_place_that_is_not_being_left() -> None:
    drained = an_executor(status=an_executor_status(), spec={"drain": True})
    plan = decide(replace(served(wished(), phase="none"), executor=Found(drained)))
    assert said(plan) == "ERROR False/ExecutorDraining stalled"
    assert written(plan).last_handled_fresh_start_request is None


# ---- wishes to resume, while the agent lives --------------------------------------------


def test_a_resume_wish_while_the_agent_lives_is_answered_by_nothing() -> None:
    session = a_session(annotations=wishing(resume="now"), status=a_status())
    plan = decide(served(session.replacing(status=a_status(resume_token_ref=a_token_ref()))))
    assert (done(plan), written(plan).last_handled_resume_request) == ("", "now")
    assert written(plan).intent is None


def test_wishes_that_came_with_the_object_are_recorded_and_not_done() -> None:
    session = a_session(annotations=wishing(resume="a", fresh_start="b"))
    unbound = Found(an_executor(status=an_executor_status(holds=None)))
    plan = decide(session_observed(session, executor=unbound, report=None))
    status = written(plan)
    assert status.last_handled_resume_request == "a"
    assert status.last_handled_fresh_start_request == "b"
    assert status.intent.kind == "Start"
    bound = replace(
        session_observed(report=a_report(token=None, turns_completed=0)), session=session
    )
    later = decide(with_status(bound, plan.status))
    assert written(later).intent.kind == "Start", "and they stay done with"


def test_a_wish_counts_by_its_difference_and_not_by_its_age() -> None:
    handled = a_status(last_handled_fresh_start_request="2026-02", resume_token_ref=a_token_ref())
    for value, expected in (("2026-02", None), ("2026-01", "FreshStart")):
        session = a_session(annotations=wishing(fresh_start=value), status=handled)
        intent = written(decide(served(session))).intent
        assert (intent.kind if intent else None) == expected


def test_another_condition_than_ready_shows_that_the_object_was_seen_before() -> None:
    conditions = some_conditions(a_condition("Finished", "False", "NotFinished"))
    session = wished(conditions=conditions)
    assert written(decide(served(session))).intent.kind == "FreshStart"
    assert uid_of("s-a") == session.metadata.uid


def test_an_old_fresh_start_retires_no_second_conversation() -> None:
    """It was done, and a promised token is known; then the journal was set back."""
    known = with_status(begun(), begun().session.status.replacing(resume_token_ref=a_token_ref()))
    report = served(phase="none", turns_completed=0, token=a_token("tok-2", established=False))
    plan = decide(replace(known, probe=report.probe))
    assert done(plan) == "StoreToken StartAgent"
    assert action(plan, "StartAgent").mode == "new", "nothing is lost by a promised one"


def test_an_old_fresh_start_begins_nothing_over_a_secret_that_cannot_be_read() -> None:
    promised = a_token_ref(established=False)
    known = with_status(begun(), begun().session.status.replacing(resume_token_ref=promised))
    empty = served(phase="none", token=None, turns_completed=0).probe
    plan = decide(replace(known, probe=empty, secret=Unreadable("forbidden")))
    assert (done(plan), waits(plan)) == ("", 5)
