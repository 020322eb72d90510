"""The end of a session, and the limits of time: idle, too long, and long over."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_condition,
    a_probe,
    a_report,
    a_session,
    a_task,
    ago,
    an_executor,
    an_executor_status,
    an_intent,
    an_operation,
    some_conditions,
)
from kandev_operator.api.session import OperatingMode, TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core import lifecycle
from kandev_operator.core.actions import StopAgent
from kandev_operator.core.observed import (
    Answer,
    Found,
    Missing,
    SessionObserved,
    TurnSeen,
    Unreadable,
)
from plans import condition, decide, done, said, truth, waits, wishing, with_status, written
from situations import in_mode

# ---- the end ----------------------------------------------------------------------------


def closed(how: str, **overrides: Any) -> SessionObserved:
    """A running session whose task was closed."""
    return in_mode("Running", task=Found(a_task(closed=how)), **overrides)


CUT: dict[str, Any] = {"last_turn": TurnSeen("p", rfc3339(ago(2)), outcome="interrupted")}
SETTLED: dict[str, Any] = {"last_turn": TurnSeen("p", rfc3339(ago(2)), outcome="completed")}


@pytest.mark.parametrize(
    ("o", "expected"),
    [
        pytest.param(in_mode("Finished", report="none"), "COMPLETED", id="asked for, while idle"),
        pytest.param(
            in_mode("Finished", report=a_report("none", **CUT), status={"state": "RUNNING"}),
            "CANCELLED",
            id="asked for, and a turn was cut off by it",
        ),
        pytest.param(
            in_mode("Finished", report=a_report("none", **SETTLED), status={"state": "RUNNING"}),
            "COMPLETED",
            id="asked for, and the turn came to its end all the same",
        ),
        pytest.param(closed("Completed", report="none"), "COMPLETED", id="the task is completed"),
        pytest.param(closed("Cancelled", report="none"), "CANCELLED", id="the task is cancelled"),
        pytest.param(
            in_mode("Finished", report=None, executor=Missing()),
            "COMPLETED",
            id="its executor is gone",
        ),
        pytest.param(
            in_mode("Finished", report=None, executor=Missing(), task=Missing(), profile=Missing()),
            "COMPLETED",
            id="nothing that it refers to is there",
        ),
        pytest.param(
            in_mode("Finished", report="none", status={"state": "CANCELLED"}),
            "CANCELLED",
            id="it had ended before",
        ),
        pytest.param(
            closed("Cancelled", report="none", status={"state": "COMPLETED"}),
            "COMPLETED",
            id="it had ended in order before its task was cancelled",
        ),
    ],
)
def test_how_a_session_ends(o: SessionObserved, expected: str) -> None:
    plan = decide(o)
    status = written(plan)
    assert (said(plan), done(plan)) == (f"{expected} True/Finished", "")
    assert truth(plan, "Finished") == f"True/{expected.capitalize()}"
    assert (status.executor_ref, status.intent, status.agent_execution_id) == (None, None, None)
    assert (status.needs_resume, status.is_agent_running) == (False, False)
    assert decide(with_status(o, status)).status is None


def test_prompts_that_wait_for_a_finished_session_are_told_as_dropped() -> None:
    waiting = {"prompts": (("p1", "delivered"), ("p2", "queued"))}
    plan = decide(in_mode("Finished", report=a_report("none", **waiting)))
    assert (said(plan), done(plan)) == ("COMPLETED True/Finished", "StopAgent")
    stop = plan.actions[0]
    assert isinstance(stop, StopAgent)
    assert stop.for_good
    asked = (an_operation(stop.operation_id),)
    again = in_mode("Finished", report=a_report("none", operations=asked, **waiting))
    assert done(decide(again)) == ""


def test_an_agent_that_is_ended_for_good_drops_what_waits() -> None:
    for mode, for_good in (("Finished", True), ("Suspended", False)):
        stop = decide(in_mode(mode, report="idle")).actions[0]
        assert isinstance(stop, StopAgent)
        assert stop.for_good is for_good


def test_the_end_cannot_be_left() -> None:
    ended = some_conditions(a_condition("Finished", "True", "Completed"))
    over = in_mode(
        "Running",
        report="none",
        status={"state": "COMPLETED", "conditions": ended},
        annotations=wishing(resume="1", fresh_start="1"),
    )
    plan = decide(over)
    assert (said(plan), done(plan)) == ("COMPLETED True/Finished", "")


@pytest.mark.parametrize(
    ("state", "probe", "held"),
    [
        pytest.param("ready", a_probe(None), True, id="silent within the grace time"),
        pytest.param("starting", a_probe(None), True, id="starting again"),
        pytest.param("ready", a_probe(None, answer=Answer.NOT_TRIED), True, id="not looked at yet"),
        pytest.param("error", a_probe(None), False, id="lost beyond the grace time"),
    ],
)
def test_an_agent_that_may_be_in_a_turn_holds_up_the_end(
    state: str, probe: Any, held: bool
) -> None:
    executor = Found(an_executor(status=an_executor_status(state=state)))
    plan = decide(in_mode("Finished", executor=executor, probe=probe))
    assert (plan.status is None) == held
    assert done(plan) == ""


# ---- the time to live -------------------------------------------------------------------


def ended(seconds_ago: float = 100, **session: Any) -> SessionObserved:
    """A session that finished a while ago, and lives ninety seconds more."""
    finished = a_condition("Finished", "True", "Completed", seconds_ago=seconds_ago)
    status = {"state": "COMPLETED", "executor_ref": None, "conditions": some_conditions(finished)}
    return in_mode(
        "Finished",
        report=None,
        status=status,
        lifecycle={"ttl_seconds_after_finished": 90},
        **session,
    )


def test_a_finished_session_is_deleted_when_its_time_is_over() -> None:
    assert done(decide(ended(90))) == "DeleteSession"
    before = decide(ended(89))
    assert (done(before), waits(before)) == ("", 1)


@pytest.mark.parametrize(
    "mark",
    [
        {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}},
        {"labels": {"helm.toolkit.fluxcd.io/name": "apps"}},
        {"annotations": {"argocd.argoproj.io/tracking-id": "apps:kandev.dev/TaskSession"}},
    ],
)
def test_a_finished_session_that_git_owns_is_kept_and_says_so(mark: dict[str, Any]) -> None:
    plan = decide(ended(9999, **mark))
    assert (done(plan), waits(plan)) == ("", None)
    assert "ttlSecondsAfterFinished is ignored" in condition(plan, "Ready").message


def test_a_finished_session_without_a_time_to_live_stays() -> None:
    o = ended(9999)
    forever = a_session(spec={"operating_mode": OperatingMode.FINISHED}, status=o.session.status)
    assert done(decide(replace(o, session=forever))) == ""


# ---- limits of time ---------------------------------------------------------------------


def idle_for(seconds: float, *, report: Any = "idle", **session: Any) -> SessionObserved:
    """A session whose agent has been idle for so long; it may be for a minute."""
    ready = a_condition("AgentReady", "True", "AgentReady", seconds_ago=seconds)
    status = {"conditions": some_conditions(ready), **session.pop("status", {})}
    limits = session.pop("lifecycle", {"idle_timeout_seconds": 60})
    return in_mode("Running", report=report, status=status, lifecycle=limits, **session)


def test_an_idle_session_is_looked_at_when_its_time_is_over() -> None:
    plan = decide(idle_for(40))
    assert (written(plan).state, done(plan), waits(plan)) == ("WAITING_FOR_INPUT", "", 20)


def test_an_idle_session_falls_asleep_in_status_alone() -> None:
    o = idle_for(60)
    plan = decide(o)
    assert (said(plan), done(plan)) == ("WAITING_FOR_INPUT False/Stopping at work", "StopAgent")
    assert truth(plan, "Suspended") == "False/IdleTimeout"
    o = replace(with_status(o, plan.status), probe=a_probe(a_report("none")))
    rests = decide(o)
    assert said(rests) == "WAITING_FOR_INPUT True/Suspended"
    assert truth(rests, "Suspended") == "True/IdleTimeout"
    stays = with_status(o, rests.status)
    assert decide(stays, NOW + timedelta(days=1)).status is None


def test_a_turn_keeps_a_session_awake() -> None:
    busy = a_condition("AgentReady", "False", "TurnRunning", seconds_ago=9999)
    o = idle_for(0, report="running", status={"conditions": some_conditions(busy)})
    assert said(decide(o)) == "RUNNING True/TurnRunning"


def test_max_duration_counts_from_the_last_start() -> None:
    limits = {"max_duration_seconds": 300}
    before = idle_for(1, lifecycle=limits, status={"started_at": rfc3339(ago(299))})
    assert waits(decide(before)) == 1
    over = idle_for(1, lifecycle=limits, status={"started_at": rfc3339(ago(300))})
    assert truth(decide(over), "Suspended") == "False/Expired"
    assert done(decide(over)) == "StopAgent"


@pytest.mark.parametrize("reason", ["IdleTimeout", "Expired"])
@pytest.mark.parametrize("wish", [wishing(resume="1"), wishing(fresh_start="1")])
def test_a_wish_wakes_a_session_that_a_limit_put_to_sleep(
    reason: str, wish: dict[str, str]
) -> None:
    asleep = some_conditions(a_condition("Suspended", "True", reason))
    limits = {"idle_timeout_seconds": 60, "max_duration_seconds": 60}
    old = {"conditions": asleep, "started_at": rfc3339(ago(9999)), "intent": None}
    o = in_mode("Running", report="none", status=old, lifecycle=limits)
    assert said(decide(o)) == "WAITING_FOR_INPUT True/Suspended"
    meta = o.session.metadata.replacing(annotations=wish)
    woken = replace(o, session=o.session.replacing(metadata=meta))
    plan = decide(woken)
    assert written(plan).intent.kind in ("Resume", "FreshStart")
    assert written(plan).started_at == rfc3339(NOW), "and its duration counts anew"
    assert decide(with_status(woken, plan.status)).requeue is not None
    assert truth(plan, "Suspended") == "False/NotSuspended"


def test_a_wish_wakes_a_session_whose_policy_is_on_request() -> None:
    asleep = some_conditions(a_condition("Suspended", "True", "IdleTimeout"))
    status = {"conditions": asleep, "intent": an_intent(at=rfc3339(ago(3600)))}
    o = in_mode(
        "Running",
        report="none",
        status=status,
        lifecycle={"idle_timeout_seconds": 60},
        policy="OnRequest",
        annotations=wishing(resume="1"),
    )
    assert written(decide(o)).state == "STARTING"


@pytest.mark.parametrize(
    ("task", "mode", "expected"),
    [
        (Found(a_task(closed="Completed")), "Suspended", "Finished"),
        (Found(a_task()), "Suspended", "Suspended"),
        (Found(a_task()), "WorkspaceOnly", "WorkspaceOnly"),
        (Missing(), "Finished", "Finished"),
        (Unreadable(), "Running", "Running"),
    ],
)
def test_a_closed_task_stands_before_the_spec(task: Any, mode: str, expected: str) -> None:
    session: TaskSession = in_mode(mode).session
    assert lifecycle.wanted(session, task, NOW).mode == expected
