"""agentctl is killed at random moments of a working day: nothing that was acknowledged is lost.

`KANDEV_KILLS=200` plays the long day, `KANDEV_SEED` another one; the seed is printed.
"""

import os

import pytest

from integration.agentctl.harness import Sidecar
from integration.agentctl.workday import play

KILLS = int(os.environ.get("KANDEV_KILLS", "40"))
SEED = int(os.environ.get("KANDEV_SEED", "20260704"))


@pytest.mark.timeout(120 + 30 * KILLS)
def test_whenever_agentctl_is_killed_nothing_acknowledged_is_lost(unstarted: Sidecar) -> None:
    print(f"KANDEV_SEED={SEED} KANDEV_KILLS={KILLS}")
    counted = play(unstarted, SEED, KILLS)
    assert counted["prompts"] >= KILLS
    assert counted["permission answers"] > 0
    assert counted["operations"] > 0
    spread = min(3, KILLS // 10)
    assert len(counted["killed while"]) >= spread, "the moments are spread over the day"
