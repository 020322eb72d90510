"""A Task's summary: the first state that holds, recomputed from its sessions."""

import pytest

from builders import NOW, a_session, a_task
from kandev_operator.api.session import SessionState, TaskSession, TaskSessionStatus
from kandev_operator.core.task import decide_task, state_of
from plans import truth, written


def some(*states: str | None) -> list[TaskSession]:
    """Sessions in these states."""
    return [a_session(status=TaskSessionStatus(state=state)) for state in states]


@pytest.mark.parametrize(
    ("closed", "states", "expected"),
    [
        pytest.param("Completed", ["RUNNING", "ERROR"], "COMPLETED", id="closed as completed"),
        pytest.param("Cancelled", ["RUNNING"], "CANCELLED", id="closed as cancelled"),
        pytest.param(None, ["STARTING", "ERROR"], "IN_PROGRESS", id="one starts"),
        pytest.param(None, ["RUNNING", "WAITING_FOR_INPUT"], "IN_PROGRESS", id="one works"),
        pytest.param(None, ["WAITING_FOR_INPUT", "ERROR"], "REVIEW", id="one waits for input"),
        pytest.param(None, ["ERROR", "CREATED"], "BLOCKED", id="one has failed"),
        pytest.param(None, [], "TODO", id="there is none"),
        pytest.param(None, ["CREATED", "COMPLETED"], "TODO", id="one has not begun"),
        pytest.param(None, [None], "TODO", id="one was not even seen yet"),
        pytest.param(None, ["COMPLETED", "CANCELLED"], "REVIEW", id="all came to their end"),
    ],
)
def test_where_the_work_stands(closed: str | None, states: list[str | None], expected: str) -> None:
    assert state_of(a_task(closed=closed), some(*states)) == expected


def test_B028_a_task_is_not_stuck_on_a_failure_that_is_over() -> None:
    task = a_task()
    blocked = decide_task(task, some("ERROR", "COMPLETED"), NOW)
    assert written(blocked).state == "BLOCKED"
    stored = task.replacing(status=blocked.status)
    assert written(decide_task(stored, some("STARTING", "COMPLETED"), NOW)).state == "IN_PROGRESS"
    assert written(decide_task(stored, some("WAITING_FOR_INPUT"), NOW)).state == "REVIEW"


def test_sessions_are_counted_by_state() -> None:
    plan = decide_task(a_task(), some("ERROR", "ERROR", None, *map(str, SessionState)), NOW)
    counts = written(plan).sessions
    assert (counts.total, counts.error, counts.created, counts.running) == (10, 3, 2, 1)
    assert truth(plan, "Ready") == "True/Summarized"


def test_a_summary_is_written_only_when_it_differs() -> None:
    task = a_task()
    plan = decide_task(task, some("RUNNING"), NOW)
    stored = task.replacing(status=plan.status)
    assert decide_task(stored, some("RUNNING"), NOW).status is None
    assert decide_task(stored, some("RUNNING", "RUNNING"), NOW).status is not None


def test_a_task_that_is_being_deleted_is_left_alone() -> None:
    assert decide_task(a_task(deleting=True), some("RUNNING"), NOW).status is None
