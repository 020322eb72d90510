"""Two executors in one folder: whoever's agentctl lives there holds it, else the older."""

from dataclasses import replace
from typing import Any

import pytest

from builders import a_process, an_executor, an_executor_status, executor_observed
from kandev_operator.core.observed import Missing, Rival
from plans import decide_on, done, written

OLDER, YOUNGER = "2020-01-01T00:00:00Z", "2090-01-01T00:00:00Z"


def a_rival(created: str, *, holds: bool = False, **more: bool) -> Rival:
    return Rival("other", "elsewhere", "uid-other", created, holds, **more)


@pytest.mark.parametrize(
    ("rival", "process", "in_use"),
    [
        pytest.param(a_rival(OLDER), Missing(), True, id="the older comes first"),
        pytest.param(a_rival(YOUNGER), Missing(), False, id="we are the older"),
        pytest.param(
            a_rival(OLDER),
            a_process(),
            False,
            id="whoever's agentctl lives there holds it",
        ),
        pytest.param(
            a_rival(YOUNGER, holds=True),
            Missing(),
            True,
            id="a younger one that lives there is left alone",
        ),
    ],
)
def test_two_executors_never_share_a_folder(rival: Rival, process: Any, in_use: bool) -> None:
    executor = an_executor(status=an_executor_status())
    o = replace(executor_observed(executor, process=process), rivals=(rival,))
    plan = decide_on(o)
    assert "StopProcess" not in done(plan)
    assert is_taken(plan) is in_use


def is_taken(plan: Any) -> bool:
    reasons = [each.reason for each in plan.status.conditions] if plan.status else []
    return "WorkspaceInUse" in reasons


@pytest.mark.parametrize(
    ("keeps", "rival", "process", "in_use"),
    [
        pytest.param(
            False, a_rival(YOUNGER, keeps=True), Missing(), True, id="its session has its files"
        ),
        pytest.param(
            False,
            a_rival(YOUNGER, keeps=True, is_session=True),
            Missing(),
            True,
            id="and may have lost its executor",
        ),
        pytest.param(True, a_rival(OLDER), Missing(), False, id="our session has its files"),
        pytest.param(True, a_rival(OLDER, keeps=True), Missing(), True, id="both say so: older"),
        pytest.param(True, a_rival(YOUNGER, keeps=True), Missing(), False, id="both: we are older"),
        pytest.param(
            True,
            a_rival(YOUNGER, holds=True),
            Missing(),
            True,
            id="whoever's agentctl lives there comes before all",
        ),
        pytest.param(
            False, a_rival(OLDER, keeps=True), a_process(), False, id="also where it is ours"
        ),
    ],
)
def test_a_folder_follows_its_session(
    keeps: bool, rival: Rival, process: Any, in_use: bool
) -> None:
    executor = an_executor(status=an_executor_status())
    o = executor_observed(executor, process=process)
    plan = decide_on(replace(o, rivals=(rival,), keeps=keeps))
    assert is_taken(plan) is in_use
    if in_use:
        assert written(plan).worktree is None, "files of another session are not ours to name"
        who = "Session" if rival.is_session else "Executor"
        assert f"{who} other of namespace elsewhere" in written(plan).error_message
