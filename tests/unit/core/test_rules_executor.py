"""An executor's ends, its finalizer, what it may not be, and its process."""

from dataclasses import replace
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
    ago,
    an_executor,
    an_executor_status,
    executor_observed,
    some_conditions,
)
from kandev_operator.api import group
from kandev_operator.api.executor import ExecutorStatus, Runtime
from kandev_operator.api.timestamps import moment, rfc3339
from kandev_operator.core.observed import (
    Answer,
    ExecutorObserved,
    Failed,
    Found,
    Missing,
    RuntimeProblem,
    Unreadable,
)
from plans import (
    action,
    condition,
    decide_on,
    done,
    said,
    truth,
    waits,
    with_executor_status,
    written,
)

NOT_TRIED = a_probe(None, answer=Answer.NOT_TRIED)


def local(status: ExecutorStatus | None = None, **o: Any) -> ExecutorObserved:
    """A local executor that holds session `s-a`; nobody has asked its agentctl yet."""
    meta = {key: o.pop(key) for key in ("finalizers", "deleting", "made_for") if key in o}
    executor = an_executor(status=status or an_executor_status(), **meta)
    return executor_observed(executor, **{"probe": NOT_TRIED, **o})


# ---- ends -------------------------------------------------------------------------------


def an_orphan(owner: Any, **meta: Any) -> ExecutorObserved:
    """An executor that was made for a session."""
    executor = an_executor(made_for=a_session(), status=an_executor_status(), **meta)
    return executor_observed(executor, owner=owner)


@pytest.mark.parametrize(
    ("o", "expected"),
    [
        pytest.param(an_orphan(Missing()), "DeleteExecutor", id="its session is positively gone"),
        pytest.param(an_orphan(Unreadable("away")), "", id="its session cannot be read"),
        pytest.param(an_orphan(Found(a_session())), "", id="its session is there"),
        pytest.param(
            executor_observed(an_executor(status=an_executor_status()), owner=Missing()),
            "",
            id="it was made for nobody",
        ),
    ],
)
def test_an_executor_goes_with_its_session(o: ExecutorObserved, expected: str) -> None:
    assert done(decide_on(o)) == expected


FREED = "SetFinalizer"
ENDED = "StopProcess SetFinalizer"
"""What carries the executor's name is ended, whether its run.json names it or not."""


@pytest.mark.parametrize(
    ("o", "expected", "again"),
    [
        pytest.param(
            local(deleting=True), "StopProcess", 1, id="local: its process is ended first"
        ),
        pytest.param(local(deleting=True, process=Missing()), ENDED, None, id="local: no process"),
        pytest.param(
            local(deleting=True, process=a_process("uid-other-1")),
            ENDED,
            None,
            id="local: the process is another executor's",
        ),
        pytest.param(
            local(deleting=True, process=Unreadable("no /proc")),
            "",
            30,
            id="local: nobody knows whether it has a process",
        ),
        pytest.param(local(deleting=True, finalizers=()), "", None, id="it was freed before"),
    ],
)
def test_a_deleted_executor(o: ExecutorObserved, expected: str, again: float | None) -> None:
    plan = decide_on(o)
    assert (done(plan), waits(plan), plan.status) == (expected, again, None)
    if expected == ENDED:
        assert action(plan, "SetFinalizer").present is False
        assert action(plan, "StopProcess").strangers is False


def a_remote(seconds_ago: float = 10, **o: Any) -> ExecutorObserved:
    """A remote executor that somebody deleted a while ago."""
    executor = an_executor(
        runtime=Runtime.REMOTE,
        deletion_timestamp=rfc3339(ago(seconds_ago)),
        status=o.pop("status", an_executor_status()),
    )
    return executor_observed(executor, **o)


@pytest.mark.parametrize(
    ("o", "expected", "again"),
    [
        pytest.param(a_remote(), "StopAgent", 2, id="its agent lives: it is stopped"),
        pytest.param(a_remote(report=a_report("running")), "StopAgent", 2, id="it is in a turn"),
        pytest.param(
            a_remote(9999, report=a_report("running")),
            "StopAgent",
            2,
            id="the operator was away for long: it is stopped all the same",
        ),
        pytest.param(a_remote(report=a_report("none")), FREED, None, id="its agent is gone"),
        pytest.param(
            a_remote(report=a_report(session="s-b")), FREED, None, id="it serves another session"
        ),
        pytest.param(
            a_remote(status=an_executor_status(holds=None)), FREED, None, id="it holds nobody"
        ),
        pytest.param(a_remote(probe=NOT_TRIED), "", 2, id="nobody has looked yet"),
        pytest.param(a_remote(9999, probe=NOT_TRIED), "", 2, id="nobody has looked yet, for long"),
        pytest.param(
            a_remote(probe=NOT_TRIED, status=an_executor_status(agentctl_url=None)),
            "",
            20,
            id="there is no address to look at",
        ),
        pytest.param(a_remote(report=None), "", 20, id="it is silent"),
        pytest.param(a_remote(30, report=None), FREED, None, id="it is silent for too long"),
        pytest.param(
            a_remote(30, report=a_report("stopping")), FREED, None, id="it stops for too long"
        ),
        pytest.param(a_remote(report=a_report(term=9)), "AdoptTerm", 0, id="a higher term"),
    ],
)
def test_a_deleted_remote_executor(o: ExecutorObserved, expected: str, again: float | None) -> None:
    plan = decide_on(o)
    assert (done(plan), waits(plan), plan.status) == (expected, again, None)


# ---- what it may not be -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("runtime", "finalizers", "expected"),
    [
        (Runtime.LOCAL_STANDALONE, (), True),
        (Runtime.REMOTE, (), True),
        (Runtime.LOCAL_STANDALONE, (group.FINALIZER,), False),
        (Runtime.POD, (), False),
    ],
)
def test_the_finalizer_is_set_at_first_sight(
    runtime: Runtime, finalizers: tuple[str, ...], expected: bool
) -> None:
    executor = an_executor(runtime=runtime, status=an_executor_status(), finalizers=finalizers)
    plan = decide_on(executor_observed(executor))
    assert (done(plan) == "SetFinalizer") == expected
    if expected:
        assert action(plan, "SetFinalizer").present is True


@pytest.mark.parametrize(
    ("reason", "expected", "again"),
    [
        pytest.param("NotAllowed", "error False/NotAllowed stalled", None, id="not allowed here"),
        pytest.param(
            "WorktreeMissing", "error False/WorktreeMissing at work", 5, id="its folder is gone"
        ),
    ],
)
def test_a_runtime_that_cannot_be_had(reason: str, expected: str, again: float | None) -> None:
    problem = RuntimeProblem(reason, "/trees/one is no folder.")
    plan = decide_on(local(problem=problem))
    assert (said(plan), done(plan), waits(plan)) == (expected, "", again)
    assert written(plan).error_message.endswith(": /trees/one is no folder.")
    assert truth(plan, "Bound") == "True/Bound", "a lost folder lets nobody go"


def test_what_is_not_allowed_lets_nobody_in_and_touches_nothing() -> None:
    problem = RuntimeProblem("NotAllowed", "no local executors here")
    empty = an_executor_status(holds=None)
    plan = decide_on(
        local(empty, finalizers=(), problem=problem, claimant=a_session(), process=Missing())
    )
    assert (done(plan), written(plan).session_ref) == ("", None)


def test_a_missing_folder_is_the_workspaces_fault() -> None:
    plan = decide_on(local(problem=RuntimeProblem("WorktreeMissing", "gone")))
    assert truth(plan, "WorkspaceReady") == "False/WorktreeMissing"
    assert condition(plan, "AgentctlReady").reason == "NotUsed"


def test_a_higher_term_is_adopted_before_anything_is_written() -> None:
    plan = decide_on(executor_observed(report=a_report(term=4)))
    assert (done(plan), plan.status, waits(plan)) == ("AdoptTerm", None, 0)


# ---- its process ------------------------------------------------------------------------

NEW = ExecutorStatus()
PINNED = an_executor_status(boot_id=None, pid=None, agentctl_url=None, agentctl="Unknown")


def test_the_instance_is_pinned_before_its_process_is_started() -> None:
    o = local(NEW, process=Missing(), claimant=a_session())
    plan = decide_on(o)
    status = written(plan)
    assert (done(plan), waits(plan), said(plan)) == ("", 0, "starting Unknown/Starting at work")
    assert (status.instance_id, status.started_at) == ("uid-ex-a-1", rfc3339(NOW))
    next_pass = decide_on(with_executor_status(o, status))
    assert action(next_pass, "StartProcess").instance_id == "uid-ex-a-1"


def test_a_leader_that_takes_over_starts_no_second_process() -> None:
    again = decide_on(local(PINNED, process=Missing()))
    assert action(again, "StartProcess").instance_id == "uid-ex-a-1"
    found = decide_on(local(PINNED, process=a_process(), probe=a_probe()))
    assert (done(found), said(found)) == ("", "ready True/AgentctlReady")
    assert (written(found).boot_id, written(found).pid) == ("boot-1", 77)


def test_a_process_that_cannot_be_looked_up_is_neither_started_nor_missed() -> None:
    plan = decide_on(local(process=Unreadable("no /proc")))
    assert (done(plan), said(plan)) == ("", "starting Unknown/Starting at work")


def test_a_stranger_on_the_same_files_is_ended_first() -> None:
    plan = decide_on(local(process=a_process("uid-before-3")))
    assert (done(plan), waits(plan)) == ("StopProcess", 1)
    assert written(plan).instance_id == "uid-ex-a-1"


@pytest.mark.parametrize(
    ("status", "expected", "attempt"),
    [
        pytest.param(
            an_executor_status(started_at=rfc3339(ago(60)), attempt=9),
            "starting Unknown/Starting at work",
            1,
            id="it had lived for a minute: at once, and counted anew",
        ),
        pytest.param(
            an_executor_status(started_at=rfc3339(ago(5)), attempt=1),
            "starting Unknown/Starting at work",
            2,
            id="it ended soon: at once",
        ),
        pytest.param(
            an_executor_status(started_at=rfc3339(ago(5)), attempt=2),
            "error False/CrashLoopBackOff at work",
            3,
            id="it ended soon again: after a while",
        ),
    ],
)
def test_a_process_that_ended_is_made_anew_under_a_new_id(
    status: ExecutorStatus, expected: str, attempt: int
) -> None:
    plan = decide_on(local(status, process=Missing()))
    new = written(plan)
    assert (said(plan), done(plan), new.attempt) == (expected, "", attempt)
    assert (new.instance_id, new.boot_id, new.agentctl_url) == ("uid-ex-a-2", None, None)
    assert (new.next_attempt_at is not None) == expected.startswith("error")


def test_back_off_is_waited_for_and_then_the_process_is_started() -> None:
    crashed = an_executor_status(started_at=rfc3339(ago(5)), attempt=4)
    o = local(crashed, process=Missing())
    plan = decide_on(o)
    o = with_executor_status(o, plan.status)
    due = moment(written(plan).next_attempt_at)
    assert 12 < (due - NOW).total_seconds() < 20
    before = decide_on(o, due - timedelta(seconds=1))
    assert (before.status, done(before), waits(before)) == (None, "", 1)
    at_last = decide_on(o, due)
    assert action(at_last, "StartProcess").instance_id == "uid-ex-a-2"
    assert said(at_last) == "starting Unknown/Starting at work"
    assert written(at_last).error_message is None
    assert written(at_last).started_at == rfc3339(due)


def test_a_process_that_cannot_be_started_says_why_and_waits_longer_each_time() -> None:
    failed = Failed("StartProcess", "ProcessExited", "exec format error", fatal=False)
    o = local(PINNED, process=Missing(), failed=failed)
    plan = decide_on(o)
    assert (said(plan), done(plan)) == ("error False/ProcessExited at work", "")
    assert written(plan).error_message == "process_exited: exec format error"
    second = decide_on(with_executor_status(o, plan.status))
    assert (written(plan).attempt, written(second).attempt) == (2, 3)
    assert (waits(second) or 0) > (waits(plan) or 0)


def test_an_executor_made_for_a_session_that_is_not_in_has_no_process() -> None:
    session = a_session()
    idle = local(an_executor_status(holds=None), made_for=session)
    plan = decide_on(idle)
    assert (said(plan), done(plan)) == ("stopped True/Idle", "StopProcess")
    assert written(plan).instance_id is None
    gone = decide_on(replace(idle, process=Missing()))
    assert (done(gone), waits(gone)) == ("", None)


def test_an_executor_that_git_keeps_has_its_process_before_a_session_comes() -> None:
    plan = decide_on(local(NEW, process=Missing()))
    assert written(plan).instance_id == "uid-ex-a-1"
    assert truth(plan, "Bound") == "False/NotBound"


# ---- not looked at yet ------------------------------------------------------------------


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(an_executor_status(), id="ready"),
        pytest.param(an_executor_status(agentctl="Unknown"), id="starting"),
        pytest.param(
            an_executor_status(agentctl="False", error_message="agentctl_unreachable: gone"),
            id="in error",
        ),
        pytest.param(
            an_executor_status(
                agentctl="False",
                conditions=some_conditions(
                    a_condition("AgentctlReady", "False", "AgentctlUnreachable"),
                    a_condition("Stalled", "True", "AgentctlUnreachable"),
                ),
            ),
            id="stalled",
        ),
    ],
)
def test_what_was_known_stays_until_somebody_has_looked(status: ExecutorStatus) -> None:
    plan = decide_on(local(status))
    new = written(plan)
    assert (new.state, new.instance_id, new.boot_id) == (status.state, "uid-ex-a-1", "boot-1")
    for each in status.conditions:
        assert truth(plan, each.type) == f"{each.status}/{each.reason}"
    assert decide_on(local(new)).status is None


@pytest.mark.parametrize("probe", [NOT_TRIED, a_probe()], ids=["not tried", "well"])
def test_a_remote_address_that_changed_is_pinned_anew(probe: Any) -> None:
    """What was heard before came from the old address, even a good answer."""
    before = an_executor_status(agentctl_url="https://old.example.com")
    o = executor_observed(an_executor(runtime=Runtime.REMOTE, status=before), probe=probe)
    plan = decide_on(o)
    new = written(plan)
    assert said(plan) == "starting Unknown/Starting at work"
    assert (new.instance_id, new.boot_id) == (None, None)
    assert (new.agentctl_url, new.started_at) == ("https://build-7.example.com:8443", rfc3339(NOW))
    heard = a_probe(a_report(instance_id="its-own", boot_id="boot-9"))
    answered = decide_on(replace(with_executor_status(o, new), probe=heard))
    assert said(answered) == "ready True/AgentctlReady"
    assert (written(answered).instance_id, written(answered).boot_id) == ("its-own", "boot-9")
