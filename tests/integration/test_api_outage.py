"""The API server goes away while sessions run: nothing is lost, nothing turns to ERROR.

Killed for 20 s and not a minute: all times that matter here are shorter. The Lease (5 s here) runs
out, clients have given up several times over, and agentctl's grace (60 s by default) concerns
agentctl alone, which is well. Paused for 8 s: connections stay open and nothing answers.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, profile, session, task
from stage.talk import talk
from stage.witness import Diary, agreed


@pytest.mark.parametrize(("fault", "seconds"), [("kill", 20.0), ("pause", 8.0)])
async def test_the_api_server_is_away_while_sessions_run(
    own_control_plane: ControlPlane,
    place: Namespace,
    operator: OperatorProcess,
    tmp_path: Path,
    fault: str,
    seconds: float,
) -> None:
    cluster = own_control_plane
    if place.cluster is not cluster:
        pytest.skip("the operator's cluster is not ours to break")
    busy, idle = Diary(tmp_path / "busy.jsonl"), Diary(tmp_path / "idle.jsonl")
    place.apply(
        task(), profile("busy", command=busy.agent()), profile("idle", command=idle.agent())
    )
    place.apply(session("busy", place.worktree("busy"), profile="busy"))
    place.apply(session("idle", place.worktree("idle"), profile="idle"))
    place.wait_idle("busy"), place.wait_idle("idle")
    pid = operator.pid
    config, system = place.cluster.kubeconfig, place.name
    async with (
        talk(config, place.name, "busy", operator_namespace=system) as one,
        talk(config, place.name, "idle", operator_namespace=system) as other,
    ):
        before = [place.status(name) for name in ("busy", "idle")]
        await one.prompt("alpha, slow 8", "held")
        place.wait_state("busy", "RUNNING")
        breaks, mends = {
            "kill": (cluster.kill_apiserver, cluster.start_apiserver),
            "pause": (cluster.pause_apiserver, cluster.resume_apiserver),
        }[fault]
        await asyncio.to_thread(breaks)
        try:
            end = time.monotonic() + seconds
            assert "the first was: beta" in await other.ask("beta")
            assert (await one.turn_ended("held")).last_turn is not None
            await until(lambda: operator.get("/readyz")[0] == 503, "not ready", 15)
            while time.monotonic() < end:
                assert operator.get("/healthz")[0] == 200
                assert operator.get("/readyz")[0] == 503
                await asyncio.sleep(0.5)
            assert "the first was: alpha" in await one.ask("gamma")
        finally:
            await asyncio.to_thread(mends)
        await asyncio.to_thread(operator.wait_ready, 40)
        after = [await agreed(place, "busy", one, 30), await agreed(place, "idle", other)]
    assert operator.pid == pid
    assert operator.is_running
    for was, now in zip(before, after, strict=True):
        assert now["state"] == "WAITING_FOR_INPUT"
        assert now["epoch"] == was["epoch"]
        assert now["agentExecutionId"] == was["agentExecutionId"]
    assert busy.openings == idle.openings == ["session/new"]
    warned = [each["message"] for each in place.items("events") if each["type"] == "Warning"]
    assert warned == [], "an Event tells of every ERROR"
    # And it is a whole operator still: what is new is seen.
    place.apply(session("late", place.worktree("late"), profile="idle"))
    place.wait_idle("late")


async def until(holds: Callable[[], object], what: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not {what} after {seconds} s"
        await asyncio.sleep(0.1)
