"""How a verdict becomes the whole of a status: what is written, when, and with which Events."""

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
    a_status,
    a_token,
    a_token_ref,
    ago,
    an_executor,
    an_executor_status,
    an_operation,
    session_observed,
    some_capabilities,
    some_conditions,
)
from invariants import shows_no_token, status_is_well_formed
from kandev_operator.api.session import FirstPromptStatus, OperatingMode, TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core import status as rendering
from kandev_operator.core.actions import SendFirstPrompt
from kandev_operator.core.observed import Found, Missing, SessionObserved, TurnSeen
from plans import action, condition, decide, done, said, truth, waits, with_status, written
from situations import NOTHING_YET, gone, under_way


def stored() -> SessionObserved:
    """An idle agent that got its first prompt; all of it is written already."""
    first = FirstPromptStatus(id="first", fate="accepted")
    status = a_status(resume_token_ref=a_token_ref(), first_prompt=first)
    seen = session_observed(a_session(prompt="Go", status=status))
    return with_status(seen, decide(seen).status)


# ---- an agent that never was ------------------------------------------------------------


@pytest.mark.parametrize(
    ("o", "expected"),
    [
        pytest.param(
            session_observed(a_session(), task=Missing(), report=None, executor=Missing()),
            "False/NotStarted",
            id="nothing was begun",
        ),
        pytest.param(
            replace(gone(**NOTHING_YET, phase="none"), task=Missing()),
            "False/AgentNotRunning",
            id="it was started, and kept nothing",
        ),
        pytest.param(replace(gone(), task=Missing()), "False/AgentNotRunning", id="it lived"),
    ],
)
def test_an_agent_that_was_never_started_is_not_said_to_be_gone(
    o: SessionObserved, expected: str
) -> None:
    plan = decide(o)
    assert truth(plan, "Ready") == "False/TaskMissing"
    assert truth(plan, "AgentReady") == expected


# ---- what is worth a write --------------------------------------------------------------


@pytest.mark.parametrize(
    "o",
    [
        pytest.param(replace(stored(), probe=a_probe(last_seen=NOW)), id="it was seen again"),
        pytest.param(
            replace(
                stored(),
                probe=a_probe(a_report(capabilities=some_capabilities(probed_at=rfc3339(NOW)))),
            ),
            id="it was asked again, with the same answer",
        ),
        pytest.param(
            replace(stored(), probe=a_probe(a_report(prompts=(("first", "delivered"),)))),
            id="an accepted prompt was delivered",
        ),
    ],
)
def test_what_rides_on_later_writes(o: SessionObserved) -> None:
    assert decide(o).status is None


@pytest.mark.parametrize(
    "report",
    [
        pytest.param(a_report("running"), id="a turn began"),
        pytest.param(a_report(execution_id="exec-2"), id="another execution"),
        pytest.param(a_report(capabilities=some_capabilities(resume=False)), id="another answer"),
        pytest.param(a_report(prompts=(("first", "not_delivered"),)), id="a prompt was lost"),
        pytest.param(a_report(journal_state="full"), id="the disk is full"),
    ],
)
def test_what_is_written_at_once(report: Any) -> None:
    assert decide(replace(stored(), probe=a_probe(report))).status is not None


def starting(seconds_ago: float) -> SessionObserved:
    """A start that began so long ago, told in other words than status has."""
    return under_way(status={"started_at": rfc3339(ago(seconds_ago))})


def test_healthy_progress_of_a_start_waits_for_ten_seconds_of_standstill() -> None:
    plan = decide(starting(4))
    assert (plan.status, done(plan), waits(plan)) == (None, "StartAgent", 5)
    assert decide(starting(10)).status is not None


@pytest.mark.parametrize(
    ("session", "executor", "waited"),
    [
        pytest.param(300, {}, None, id="nothing has moved since long"),
        pytest.param(3, {}, 7, id="the session's own last step"),
        pytest.param(300, {"seconds_ago": 4}, 6, id="its executor came further"),
        pytest.param(300, {"started_at": rfc3339(ago(1))}, 9, id="its executor begins again"),
        pytest.param(300, {"seconds_ago": -60}, 10, id="by a clock that is ahead of ours"),
    ],
)
def test_each_step_of_a_start_begins_the_standstill_anew(
    session: float, executor: dict[str, Any], waited: float | None
) -> None:
    """A start of ten minutes in which something moves is not written down step by step."""
    since = executor.pop("seconds_ago", 300)
    there = an_executor_status(
        **{"started_at": rfc3339(ago(300)), **executor},
        conditions=some_conditions(
            a_condition("AgentctlReady", "True", "AgentctlReady", seconds_ago=since)
        ),
    )
    told = some_conditions(a_condition("Ready", "False", "Starting", seconds_ago=session))
    o = under_way(
        status={"started_at": rfc3339(ago(300)), "conditions": told},
    )
    plan = decide(replace(o, executor=Found(an_executor(status=there))))
    if waited is None:
        assert plan.status is not None
    else:
        assert (plan.status, waits(plan)) == (None, min(waited, 5))


# ---- what is known and what is not ------------------------------------------------------


def test_a_failure_says_a_word_and_a_sentence_and_recovery_leaves_nothing_of_it() -> None:
    o = under_way(report={"operations": (an_operation(code="rejected", message="no such id"),)})
    plan = decide(o)
    assert written(plan).error_message == "resume_failed: no such id"
    assert written(plan).resume_reason == "resume_failed"
    well = decide(replace(with_status(o, plan.status), probe=a_probe()))
    assert (written(well).error_message, written(well).resume_reason) == (None, None)


@pytest.mark.parametrize(
    ("o", "word"),
    [
        pytest.param(gone(policy="Never"), "agent_not_running", id="left alone"),
        pytest.param(under_way(), "agent_not_running", id="on its way"),
        pytest.param(
            session_observed(
                executor=Found(an_executor(status=an_executor_status(holds=None))), report=None
            ),
            "executor_not_ready",
            id="waiting for its executor",
        ),
        pytest.param(session_observed(task=Missing(), report=None), "task_missing", id="no task"),
        pytest.param(session_observed(), None, id="running"),
    ],
)
def test_the_word_that_pages_know(o: SessionObserved, word: str | None) -> None:
    plan = decide(o)
    assert written(plan).resume_reason == word


def test_the_workspace_of_what_is_no_pod_is_the_executor_itself() -> None:
    status = written(decide(session_observed()))
    ref = status.workspace_ref
    assert (ref.kind, ref.name, ref.uid) == ("Executor", "ex-a", "uid-ex-a")
    assert status.executor_status == "ready"


def test_an_executor_that_holds_another_says_nothing_of_this_session() -> None:
    busy = Found(an_executor(status=an_executor_status(holds="s-b")))
    status = written(decide(session_observed(executor=busy, report=a_report(session="s-b"))))
    assert (status.executor_status, status.workspace_ref) == (None, None)
    assert status.agent_execution_id is None


def test_a_moment_that_is_none_is_left_out_and_not_stored() -> None:
    """The API server would refuse the whole status for it."""
    turn = TurnSeen("p-1", "teatime")
    caps = some_capabilities(probed_at="yesterday")
    o = session_observed(report=a_report("running", turn=turn, capabilities=caps))
    status = written(decide(o))
    assert (status.turn.started_at, status.turn.prompt_id) == (None, "p-1")
    assert status.capabilities.probed_at is None


def test_a_turn_that_was_cut_off_is_shown_until_a_later_one_ends() -> None:
    cut = TurnSeen("p-1", rfc3339(ago(9)), outcome="interrupted")
    o = session_observed(report=a_report(last_turn=cut))
    plan = decide(o)
    assert written(plan).interrupted_turn.prompt_id == "p-1"
    later = TurnSeen("p-2", rfc3339(ago(1)), outcome="completed")
    plan = decide(replace(with_status(o, plan.status), probe=a_probe(a_report(last_turn=later))))
    assert written(plan).interrupted_turn is None


def test_a_finished_session_forgets_what_ran() -> None:
    over = a_session(spec={"operating_mode": OperatingMode.FINISHED}, status=a_status())
    status = written(decide(session_observed(over, report=a_report("none"))))
    assert (status.executor_status, status.turn, status.agent_execution_id) == (None, None, None)


# ---- tokens -----------------------------------------------------------------------------


def test_a_token_that_is_kept_already_is_not_stored_again() -> None:
    assert action(decide(session_observed()), "StoreToken").token == a_token()
    assert (done(decide(stored())), decide(stored()).status) == ("", None)


def test_no_token_and_no_prompt_is_shown() -> None:
    o = session_observed(a_session(prompt="Our secret plan"), first_prompt=Found("Our secret plan"))
    plan = decide(o)
    shows_no_token(repr(plan), "tok-1")
    shows_no_token(str(written(plan).dump()) + repr(plan.notices), "tok-1")
    assert "secret plan" not in repr(SendFirstPrompt("first", "Our secret plan"))


# ---- Events -----------------------------------------------------------------------------


def test_an_event_tells_of_a_start_and_none_of_healthy_turns() -> None:
    o = session_observed()
    plan = decide(o)
    [notice] = plan.notices
    assert (notice.reason, notice.warning) == ("AgentReady", False)
    turn = decide(replace(with_status(o, plan.status), probe=a_probe(a_report("running"))))
    assert turn.notices == ()


def test_an_event_warns_of_a_failure_once() -> None:
    o = under_way(report={"operations": (an_operation(code="rejected", message="no"),)})
    plan = decide(o)
    [notice] = plan.notices
    assert (notice.reason, notice.warning) == ("ResumeFailed", True)
    assert notice.message == "resume_failed: no"
    o = with_status(o, plan.status)
    meta = o.session.metadata.replacing(generation=2)
    again = decide(replace(o, session=o.session.replacing(metadata=meta)))
    assert (written(again).observed_generation, again.notices) == (2, ())


# ---- conditions -------------------------------------------------------------------------


def test_B052_each_condition_stands_once_through_a_whole_life() -> None:
    o = session_observed(a_session(), executor=Missing(), report=None)
    refused = an_operation("uid-s-a-2", code="rejected")
    seen: list[str] = []
    for step in (
        {"executor": Found(an_executor(status=an_executor_status(holds=None)))},
        {"executor": Found(an_executor(status=an_executor_status())), "probe": a_probe()},
        {"probe": a_probe(a_report("exited", exited_at=NOW, operations=()))},
        {"probe": a_probe(a_report("none", operations=(refused,)))},
        {"probe": a_probe()},
    ):
        o = replace(o, **step)
        plan = decide(o, NOW + timedelta(minutes=len(seen)))
        status_is_well_formed(o.session, written(plan))
        seen.append(said(plan))
        o = with_status(o, plan.status)
    assert seen == [
        "STARTING False/WaitingForExecutor at work",
        "WAITING_FOR_INPUT True/AgentReady",
        "STARTING False/Resuming at work",
        "ERROR False/ResumeFailed stalled",
        "WAITING_FOR_INPUT True/AgentReady",
    ]


def test_B053_each_bad_spec_has_its_own_reason_and_the_generation_it_was_judged_for() -> None:
    def judged(generation: int, **o: Any) -> Any:
        session: TaskSession = a_session(generation=generation, status=before.session.status)
        return decide(session_observed(session, report=None, **o))

    before = session_observed(a_session(status=a_status()))
    plan = judged(2, profile=Missing())
    assert truth(plan, "Ready") == "False/ProfileMissing"
    before = with_status(before, plan.status)
    plan = judged(3, task=Missing())
    assert truth(plan, "Ready") == "False/TaskMissing"
    assert {each.observed_generation for each in written(plan).conditions} == {3}
    assert written(plan).observed_generation == 3


def test_a_condition_dates_from_the_change_of_its_answer_alone() -> None:
    o = gone(policy="Never")
    first = decide(o)
    later = with_status(o, first.status)
    meta = later.session.metadata.replacing(generation=2)
    plan = decide(
        replace(later, session=later.session.replacing(metadata=meta)), NOW + timedelta(hours=1)
    )
    for each in ("AgentReady", "ExecutorReady", "Finished"):
        assert condition(plan, each).last_transition_time == rfc3339(NOW)


def test_the_riding_fields_are_fields() -> None:
    assert set(type(a_status()).model_fields) >= rendering.RIDING
