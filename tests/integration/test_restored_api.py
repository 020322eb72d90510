"""The API server comes back from an older backup, or objects come back without their status.

The workspace remembers what the cluster forgot: epochs, terms, prompts, the conversation.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, profile, session, task
from stage.talk import talk
from stage.witness import Diary, agreed


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


async def test_the_api_server_is_restored_from_a_backup(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    diary: Diary,
) -> None:
    """Under a running operator, whose memory is then of a history that is lost.

    The periodic sweep is out of the way: the operator has to notice by itself.
    """
    cluster = own_control_plane
    if place.cluster is not cluster:
        pytest.skip("the operator's cluster is not ours to restore")
    operator = make_operator("--sweep-seconds=600").start()
    place.apply(profile(command=diary.agent()), task())
    place.apply(
        session("s", place.worktree("s"), prompt={"text": "alpha"}),
        session("gone-again", place.worktree("g"), operatingMode="Suspended"),
    )
    place.wait("s", lambda now: (now.get("firstPrompt") or {}).get("fate"), "prompted")
    place.wait_idle("s")
    place.wait("gone-again", lambda now: now.get("conditions"), "handled")
    async with talk(cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.until(lambda r: r.turns_completed == 1)
        await agreed(place, "s", s)
        backup = await asyncio.to_thread(cluster.snapshot)
        # A history that the backup does not know: an epoch, a term, a turn, a new session.
        report = await s.status()
        assert report.agent.pid is not None
        os.kill(report.agent.pid, signal.SIGKILL)
        place.wait("s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed")
        await s.ask("beta")
        operator.kill()
        operator.start()
        place.annotate("s", "resume-requested", "meanwhile")
        place.apply(session("lost", place.worktree("l"), operatingMode="Suspended"))
        place.wait("lost", lambda now: now.get("conditions"), "handled")
        status = await agreed(place, "s", s)
        report = await s.status()
        assert status["epoch"] == report.epoch == 2

        await asyncio.to_thread(cluster.restore, backup)
        status = await agreed(place, "s", s, 45)
        assert status["epoch"] == 2, "the workspace remembers"
        assert (await s.status()).agent.execution_id == report.agent.execution_id
        assert "the first was: alpha" in await s.ask("gamma")
        await agreed(place, "s", s)
        # The next intent goes on above what the cluster forgot, and is obeyed.
        report = await s.status()
        assert report.agent.pid is not None
        os.kill(report.agent.pid, signal.SIGKILL)
        status = place.wait(
            "s",
            lambda now: now.get("epoch", 0) > 2 and now["isAgentRunning"],
            "resumed",
            seconds=45,
        )
        assert status["epoch"] == 3
        assert "the first was: alpha" in await s.ask("delta")
        assert await s.user_messages() == ["alpha", "beta", "gamma", "delta"]
    assert diary.prompts == ["alpha", "beta", "gamma", "delta"]
    assert diary.openings == ["session/new", "session/resume", "session/resume"]
    await asyncio.to_thread(operator.wait_ready)
    began = time.monotonic()
    place.apply(session("late", place.worktree("late"), operatingMode="Suspended"))
    place.wait("late", lambda now: now.get("conditions"), "handled", seconds=30)
    assert time.monotonic() - began < 10, "the watch follows the history that holds"
    assert operator.get("/healthz")[0] == 200


async def test_a_session_applied_anew_on_its_old_workspace(
    place: Namespace, operator: OperatorProcess, diary: Diary
) -> None:
    """Deleted and applied again, as Git does it: the same conversation, no prompt repeated."""
    place.apply(profile(command=diary.agent()), task())
    wanted = session("s", place.worktree("s"), prompt={"text": "alpha"})
    place.apply(wanted)
    place.wait("s", lambda now: (now.get("firstPrompt") or {}).get("fate"), "prompted")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.until(lambda r: r.turns_completed == 1)
        await s.ask("beta")
    old = place.get("tasksession", "s")
    executor = place.executor_of("s")
    place.kubectl("delete", "tasksession", "s", "--timeout=30s")
    place.apply(wanted)
    new = place.get("tasksession", "s")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    place.wait_idle("s")
    assert place.executor_of("s")["metadata"]["uid"] != executor["metadata"]["uid"]
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        assert "the first was: alpha" in await s.ask("gamma")
        status = await agreed(place, "s", s)
        assert await s.user_messages() == ["alpha", "beta", "gamma"]
    assert diary.prompts == ["alpha", "beta", "gamma"]
    assert "session/new" not in diary.openings[1:]
    assert status["firstPrompt"]["fate"] in ("accepted", "delivered")
    assert [each["metadata"]["uid"] for each in place.items("executors")] == [
        place.executor_of("s")["metadata"]["uid"]
    ]
