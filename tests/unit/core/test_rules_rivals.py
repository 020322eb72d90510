"""Two executors in one folder: whoever's agentctl lives there holds it, else the older."""

from dataclasses import replace
from typing import Any

import pytest

from builders import a_process, an_executor, an_executor_status, executor_observed
from kandev_operator.core.observed import Missing, Rival
from plans import decide_on, done, written


def a_rival(created: str, *, holds: bool = False) -> Rival:
    return Rival("other", "elsewhere", "uid-other", created, holds)


@pytest.mark.parametrize(
    ("rival", "process", "in_use"),
    [
        pytest.param(a_rival("2020-01-01T00:00:00Z"), Missing(), True, id="the older comes first"),
        pytest.param(a_rival("2090-01-01T00:00:00Z"), Missing(), False, id="we are the older"),
        pytest.param(
            a_rival("2020-01-01T00:00:00Z"),
            a_process(),
            False,
            id="whoever's agentctl lives there holds it",
        ),
        pytest.param(
            a_rival("2090-01-01T00:00:00Z", holds=True),
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
    assert ("StopProcess" in done(plan)) is False
    reasons = [each.reason for each in written(plan).conditions] if plan.status else []
    assert ("WorkspaceInUse" in reasons) is in_use
