"""The modes without an agent, the end of a session, and the limits of time."""

from typing import Any

import pytest

from builders import (
    a_profile_seen,
    a_report,
    a_session,
    an_executor,
    an_executor_status,
    session_observed,
    some_capabilities,
)
from kandev_operator.api.session import OperatingMode
from kandev_operator.core.observed import Found, Missing, Unreadable
from plans import action, decide, done, said, truth, waits, wishing, with_status, written
from situations import in_mode

PHASES_TO_STOP = ["idle", "running", "opening", "stopping"]
PHASES_AT_REST = ["none", "exited", "initialized", "initializing"]


# ---- suspended --------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES_TO_STOP)
@pytest.mark.parametrize("mode", ["Suspended", "WorkspaceOnly", "Finished"])
def test_an_agent_is_first_stopped_gently(mode: str, phase: str) -> None:
    plan = decide(in_mode(mode, report=phase))
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT False/Stopping at work", "StopAgent")
    stop = action(plan, "StopAgent")
    assert (stop.session_uid, stop.epoch) == ("uid-s-a", 1)
    why = "finish" if mode == "Finished" else "stop"
    assert (stop.operation_id, stop.for_good) == (f"uid-s-a-1-{why}-exec-1", mode == "Finished")
    assert waits(plan) == 5
    assert truth(plan, "Finished") == "False/NotFinished"


@pytest.mark.parametrize("phase", PHASES_AT_REST)
def test_a_suspended_session_rests_when_no_agent_lives(phase: str) -> None:
    plan = decide(in_mode("Suspended", report=phase))
    status = written(plan)
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/Suspended", "")
    assert truth(plan, "Suspended") == "True/Requested"
    assert truth(plan, "AgentReady") == "False/NoAgentWanted"
    assert (status.needs_resume, status.is_resumable) == (False, True)
    assert status.executor_ref is not None, "what is no pod keeps its place"


def refused(**executor: Any) -> Any:
    """An executor that may not be used: nothing was ever started for it."""
    fields = {"instance_id": None, "boot_id": None, "pid": None, "reason": "NotUsed", **executor}
    return Found(an_executor(status=an_executor_status(agentctl="False", **fields)))


def test_where_nothing_was_ever_started_it_rests_at_once() -> None:
    status = {"state": "ERROR", "resume_token_ref": None}
    plan = decide(in_mode("Suspended", report=None, status=status, executor=refused()))
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/Suspended", "")
    assert truth(plan, "Suspended") == "True/Requested"


@pytest.mark.parametrize(
    ("status", "executor"),
    [
        pytest.param({"resume_token_ref": None}, {"instance_id": "uid-ex-a-1"}, id="a process"),
        pytest.param({}, {}, id="a conversation"),
    ],
)
def test_what_may_live_is_not_said_to_rest(
    status: dict[str, Any], executor: dict[str, Any]
) -> None:
    o = in_mode("Suspended", report=None, status=status, executor=refused(**executor))
    assert truth(decide(o), "Suspended") == "False/NotSuspended"


def test_one_that_waits_for_a_busy_executor_rests_and_gives_up_its_place_in_the_row() -> None:
    taken = Found(an_executor(status=an_executor_status(holds="s-b")))
    known = {"is_agent_running": False}
    plan = decide(in_mode("Suspended", report="none", status=known, executor=taken))
    assert (said(plan), written(plan).executor_ref) == ("WAITING_FOR_INPUT True/Suspended", None)
    alive = decide(in_mode("Suspended", report="idle", status=known, executor=taken))
    assert done(alive) == "StopAgent", "a restored API server gave its place away"


def test_a_finished_session_is_not_resumed() -> None:
    status = written(decide(in_mode("Finished", report="none")))
    assert (status.is_resumable, status.needs_resume) == (False, False)
    assert truth(decide(in_mode("Finished", report="none")), "Resumable") == "False/Finished"


def test_while_it_is_stopped_the_reason_is_told() -> None:
    assert truth(decide(in_mode("Suspended")), "Suspended") == "False/Stopping"


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        ("CREATED", "CREATED"),
        ("STARTING", "WAITING_FOR_INPUT"),
        ("RUNNING", "WAITING_FOR_INPUT"),
        ("ERROR", "WAITING_FOR_INPUT"),
        ("WAITING_FOR_INPUT", "WAITING_FOR_INPUT"),
    ],
)
@pytest.mark.parametrize("mode", ["Suspended", "WorkspaceOnly"])
def test_the_last_calm_state_is_kept(mode: str, state: str, kept: str) -> None:
    plan = decide(in_mode(mode, report="none", status={"state": state}))
    assert written(plan).state == kept
    assert written(plan).error_message is None


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param({"task": Missing()}, id="its task"),
        pytest.param({"profile": Missing()}, id="its profile"),
        pytest.param({"executor": Missing()}, id="its executor"),
    ],
)
def test_a_suspended_session_needs_no(overrides: dict[str, Any]) -> None:
    status = {} if "executor" in overrides else {"executor_ref": None}
    plan = decide(in_mode("Suspended", report=None, status=status, **overrides))
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/Suspended", "")


def test_a_session_that_was_made_suspended_is_given_no_executor() -> None:
    session = a_session(spec={"operating_mode": OperatingMode.SUSPENDED})
    plan = decide(session_observed(session, executor=Missing(), report=None))
    assert (said(plan), done(plan)) == ("CREATED True/Suspended", "")
    assert truth(plan, "ExecutorReady") == "False/NotNeeded"


def test_a_suspended_session_whose_executor_cannot_be_read_is_left_as_it_is() -> None:
    plan = decide(in_mode("Suspended", report=None, executor=Unreadable("away")))
    assert (plan.status, plan.actions) == (None, ())


def test_a_wish_while_suspended_is_answered_and_wakes_nobody() -> None:
    asleep = in_mode("Suspended", report="none", annotations=wishing(resume="1"))
    plan = decide(asleep)
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/Suspended", "")
    assert written(plan).last_handled_resume_request == "1"


def test_leaving_suspension_resumes_the_conversation() -> None:
    asleep = in_mode("Suspended", report="none")
    stored = decide(asleep).status
    awake = in_mode("Running", report="none")
    plan = decide(with_status(awake, stored))
    assert written(plan).intent.kind == "Resume"
    assert truth(plan, "Suspended") == "False/NotSuspended"


# ---- workspace only ---------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES_AT_REST)
def test_a_workspace_is_served_without_an_agent(phase: str) -> None:
    plan = decide(in_mode("WorkspaceOnly", report=phase))
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT True/WorkspaceServed", "")
    assert truth(plan, "ExecutorReady") == "True/ExecutorReady"
    assert truth(plan, "AgentReady") == "False/NoAgentWanted"
    assert written(plan).needs_resume is False


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param(
            {"profile": a_profile_seen(supports_workspace_only=False)}, id="the profile forbids it"
        ),
        pytest.param(
            {
                "report": a_report(
                    "none", capabilities=some_capabilities(supports_workspace_only=False)
                )
            },
            id="agentctl cannot",
        ),
    ],
)
def test_workspace_only_is_refused_where(overrides: dict[str, Any]) -> None:
    plan = decide(in_mode("WorkspaceOnly", **{"report": "none", **overrides}))
    assert (said(plan), done(plan)) == ("ERROR False/ModeNotSupported stalled", "")


def test_whether_agentctl_can_serve_a_workspace_alone_need_not_be_known() -> None:
    report = a_report("none", capabilities=some_capabilities(supports_workspace_only=None))
    assert said(decide(in_mode("WorkspaceOnly", report=report))).endswith("True/WorkspaceServed")
