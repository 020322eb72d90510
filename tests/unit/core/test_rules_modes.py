"""The modes without an agent, the end of a session, and the limits of time."""

from typing import Any

import pytest

from builders import (
    a_profile_seen,
    a_report,
    a_session,
    session_observed,
    some_capabilities,
)
from kandev_operator.api.session import OperatingMode
from kandev_operator.core.observed import (
    Missing,
    Unreadable,
)
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
