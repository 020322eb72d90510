"""Who is in an executor, who is let in, and who is let go."""

from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_condition,
    a_probe,
    a_process,
    a_report,
    a_session,
    a_status,
    an_executor,
    an_executor_status,
    executor_observed,
    some_conditions,
    uid_of,
)
from kandev_operator.api.executor import Runtime
from kandev_operator.api.refs import ObjectRef
from kandev_operator.api.session import TaskSession, TaskSessionStatus
from kandev_operator.core.observed import Answer, ExecutorObserved, Found, Missing, Unreadable
from plans import action, decide_on, done, truth, with_executor_status, written

HERE = ObjectRef(name="ex-a", uid=uid_of("ex-a"))
THERE = ObjectRef(name="ex-b", uid=uid_of("ex-b"))
NEXT = a_session("s-next", status=a_status(executor_ref=HERE))


def held(
    *,
    bound: Any = None,
    report: Any = None,
    probe: Any = None,
    made_for: TaskSession | None = None,
    runtime: Runtime = Runtime.REMOTE,
    spec: dict[str, Any] | None = None,
    status: Any = None,
    **o: Any,
) -> ExecutorObserved:
    """An executor that holds session `s-a`; it has no process of ours unless it is local."""
    executor = an_executor(
        runtime=runtime,
        made_for=made_for,
        spec=spec,
        status=status or an_executor_status(agentctl_url="https://build-7.example.com:8443"),
    )
    more = {} if bound is None else {"bound": bound}
    looked = probe or a_probe(report or a_report())
    return executor_observed(executor, probe=looked, **more, **o)


def holder(plan: Any) -> str | None:
    """The name of the session that is in, by the new status."""
    ref = written(plan).session_ref
    return ref.name if ref else None


# ---- letting in -------------------------------------------------------------------------


def test_the_first_session_that_points_here_is_answered() -> None:
    empty = an_executor(status=an_executor_status(holds=None))
    plan = decide_on(executor_observed(empty, claimant=NEXT, task_uid="uid-t"))
    assert (holder(plan), truth(plan, "Bound")) == ("s-next", "True/Bound")
    assert written(plan).task_id == "uid-t"


def test_nobody_is_let_in_over_the_session_that_is_in() -> None:
    plan = decide_on(held(claimant=NEXT))
    assert (holder(plan), done(plan)) == ("s-a", "")


def test_an_empty_executor_is_ready_for_somebody() -> None:
    empty = an_executor(status=an_executor_status(holds=None))
    plan = decide_on(executor_observed(empty))
    assert (holder(plan), truth(plan, "Bound")) == (None, "False/NotBound")


# ---- letting go -------------------------------------------------------------------------


def at_rest(**status: Any) -> Found[TaskSession]:
    """Session `s-a` as it now is."""
    fields = {"executor_ref": None, "conditions": some_conditions(), **status}
    return Found(a_session(status=a_status(**fields)))


FINISHED = some_conditions(a_condition("Finished", "True", "Completed"))


@pytest.mark.parametrize(
    ("o", "reason"),
    [
        pytest.param(held(bound=Missing()), "SessionGone", id="it is positively gone"),
        pytest.param(held(bound=at_rest(executor_ref=THERE)), "Releasing", id="it is elsewhere"),
        pytest.param(held(bound=at_rest()), "Releasing", id="it let go of one of Git's"),
        pytest.param(
            held(bound=at_rest(conditions=FINISHED), made_for=a_session()),
            "Releasing",
            id="it has finished, and the executor was made for it",
        ),
    ],
)
def test_a_session_is_let_go_and_its_agent_stopped_first(o: ExecutorObserved, reason: str) -> None:
    plan = decide_on(o)
    assert (holder(plan), truth(plan, "Bound")) == ("s-a", f"True/{reason}")
    stop = action(plan, "StopAgent")
    assert (stop.session_uid, stop.epoch) == ("uid-s-a", 1)
    assert stop.operation_id == "uid-s-a-1-release-exec-1"


@pytest.mark.parametrize(
    "o",
    [
        pytest.param(held(bound=Unreadable("away")), id="it cannot be read"),
        pytest.param(held(bound=at_rest(), made_for=a_session()), id="it has not pointed yet"),
        pytest.param(
            held(bound=Found(a_session(status=TaskSessionStatus()))), id="a restored one is empty"
        ),
        pytest.param(held(bound=at_rest(executor_ref=HERE)), id="it is in"),
    ],
)
def test_a_session_is_not_let_go_because(o: ExecutorObserved) -> None:
    plan = decide_on(o)
    assert (holder(plan), done(plan), truth(plan, "Bound")) == ("s-a", "", "True/Bound")


@pytest.mark.parametrize(
    ("report", "free"),
    [
        pytest.param(a_report("none"), True, id="no agent: free"),
        pytest.param(a_report("exited"), True, id="its agent ended: free"),
        pytest.param(a_report(session=None, phase="none"), True, id="it serves nobody: free"),
        pytest.param(a_report("running", session="s-b"), True, id="another session's agent"),
        pytest.param(a_report("stopping"), False, id="its agent is being stopped"),
        pytest.param(a_report("initialized"), False, id="its agent may soon live"),
    ],
)
@pytest.mark.parametrize("why", [Missing(), at_rest()], ids=["gone", "left"])
def test_the_place_is_free_when_no_agent_of_it_lives(report: Any, free: bool, why: Any) -> None:
    plan = decide_on(held(bound=why, report=report, claimant=NEXT))
    assert holder(plan) == ("s-next" if free else "s-a")
    assert done(plan) == ("" if free else "StopAgent")


@pytest.mark.parametrize("answer", [Answer.UNREACHABLE, Answer.NOT_TRIED, Answer.CLOCK_SKEW])
def test_an_agentctl_that_cannot_be_asked_is_not_assumed_to_be_empty(answer: Answer) -> None:
    probe = a_probe(None, answer=answer)
    assert holder(decide_on(held(bound=Missing(), probe=probe, claimant=NEXT))) == "s-a"
    local: dict[str, Any] = {
        "runtime": Runtime.LOCAL_STANDALONE,
        "bound": Missing(),
        "probe": probe,
    }
    for process in (a_process(), Unreadable("no /proc")):
        assert holder(decide_on(held(**local, process=process, claimant=NEXT))) == "s-a"
    assert holder(decide_on(held(**local, process=Missing(), claimant=NEXT))) == "s-next"


def test_what_belongs_to_a_session_goes_with_it() -> None:
    o = held()
    o = with_executor_status(o, decide_on(o).status)
    assert o.executor.status.capabilities is not None
    left = held(bound=at_rest(), report=a_report("none", session=None), status=o.executor.status)
    status = written(decide_on(left))
    assert (status.capabilities, status.task_id, status.session_ref) == (None, None, None)


# ---- draining ---------------------------------------------------------------------------

DRAIN = {"drain": True, "drain_deadline_seconds": 100}


def draining(since: float, **o: Any) -> ExecutorObserved:
    """An executor that has been drained for so many seconds."""
    began = a_condition("Draining", "True", "WaitingForTurn", seconds_ago=since)
    known = an_executor_status(agentctl_url="https://build-7.example.com:8443")
    status = known.replacing(conditions=some_conditions(*known.conditions, began))
    return held(spec=DRAIN, status=status, **o)


@pytest.mark.parametrize(
    ("o", "expected", "deed"),
    [
        pytest.param(
            held(spec=DRAIN, report=a_report("running")),
            "True/WaitingForTurn",
            "",
            id="a turn may end first",
        ),
        pytest.param(
            draining(99, report=a_report("running")),
            "True/WaitingForTurn",
            "",
            id="until the deadline",
        ),
        pytest.param(
            draining(100, report=a_report("running")),
            "True/DeadlineReached",
            "StopAgent",
            id="and is cut off then",
        ),
        pytest.param(
            held(spec=DRAIN, report=a_report("idle")),
            "True/Stopping",
            "StopAgent",
            id="an idle agent is stopped at once",
        ),
        pytest.param(
            held(spec=DRAIN, probe=a_probe(None)),
            "True/WaitingForTurn",
            "",
            id="a silent agentctl may have a turn",
        ),
    ],
)
def test_a_session_leaves_a_drained_executor(o: ExecutorObserved, expected: str, deed: str) -> None:
    plan = decide_on(o)
    assert (holder(plan), truth(plan, "Draining"), done(plan)) == ("s-a", expected, deed)


@pytest.mark.parametrize("report", [a_report("none"), a_report("exited")])
def test_a_drained_executor_is_empty_and_takes_nobody_in(report: Any) -> None:
    plan = decide_on(held(spec=DRAIN, report=report, claimant=NEXT))
    assert (holder(plan), done(plan), truth(plan, "Draining")) == (None, "", "True/Drained")


def test_an_executor_that_is_no_longer_drained_is_used_again() -> None:
    o = held(spec=DRAIN, report=a_report("none"), claimant=NEXT)
    drained = with_executor_status(o, decide_on(o).status)
    used = held(status=drained.executor.status, report=a_report("none"), claimant=NEXT)
    plan = decide_on(used, NOW + timedelta(minutes=1))
    assert (holder(plan), truth(plan, "Draining")) == ("s-next", "False/NotDraining")
