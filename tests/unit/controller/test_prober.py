"""What a follower remembers of looks that failed: since when, in which words, and how steadily."""

import asyncio
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.errors import AgentctlError, TimedOut, Unreachable
from kandev_operator.controller.prober import Prober, Target
from kandev_operator.core.observed import Answer, Probe

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
REFUSED = Unreachable("GET /api/v1/status", "connection refused")
SILENT = TimedOut("GET /api/v1/status", "no answer in time")


class Failing:
    """An agentctl whose every look fails, as the list says; the last failure lasts."""

    def __init__(self, *failures: AgentctlError) -> None:
        self.failures = [*failures]
        self.looks = 0

    async def status(self) -> Any:
        self.looks += 1
        raise self.failures.pop(0) if len(self.failures) > 1 else self.failures[0]


async def after(looks: int, *failures: AgentctlError) -> tuple[Probe, int]:
    """The probe after so many looks, one second apart, and how often the bell was rung."""
    agentctl, rings = Failing(*failures), 0

    def ring(_uid: str) -> None:
        nonlocal rings
        rings += 1

    prober = Prober(
        lambda _target: cast("AgentctlClient", agentctl),
        ring,
        lambda: NOON + timedelta(seconds=agentctl.looks),
        period=0.001,
    )
    prober.track("uid", Target("http://far", None, "far", None))
    running = asyncio.create_task(prober.run())
    try:
        await until(lambda: agentctl.looks >= looks)
        return prober.probe("uid"), rings
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        for _ in itertools.count():
            if holds():
                return
            await asyncio.sleep(0)


def second(number: int) -> datetime:
    return NOON + timedelta(seconds=number)


@pytest.mark.parametrize(
    ("failures", "since", "steady"),
    [
        pytest.param([REFUSED], 1, None, id="one look proves nothing"),
        pytest.param([REFUSED, REFUSED], 1, 2, id="the second says the same"),
        pytest.param([REFUSED] * 5, 1, 2, id="and so do all others"),
        pytest.param([REFUSED, REFUSED, SILENT], 1, None, id="other words begin anew"),
        pytest.param([REFUSED, REFUSED, SILENT, SILENT], 1, 4, id="until they last too"),
    ],
)
async def test_since_when_and_how_steadily(
    failures: list[AgentctlError], since: int, steady: int | None
) -> None:
    probe, _ = await after(len(failures), *failures)
    assert probe.answer is Answer.UNREACHABLE
    assert probe.failing_since == second(since)
    assert probe.steady_since == (None if steady is None else second(steady))
    assert probe.message == failures[-1].message


async def test_only_what_is_new_rings_the_bell() -> None:
    _, rings = await after(30, REFUSED)
    assert rings == 2, "that it fails, and that it lasts"
