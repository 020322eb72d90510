"""The API server goes back in time, or stands still, at the moments that hurt most.

A prompt that the restored objects know nothing of, a pod that they bring back, a resume that is
decided or under way while nothing answers: no prompt is sent twice, no second agent lives, and
epochs heal. What happens to a session in calm is `test_restored_api.py` and `test_api_outage.py`.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.controlplane import ControlPlane
from stage.kubelet import Kubelet
from stage.operatorprocess import OperatorProcess
from stage.podscene import PodScene
from stage.scene import until
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import talk
from stage.witness import Diary, agreed

LONGER_THAN_THE_LEASE = 8.0
"""Seconds; the operators of these tests hold theirs for five."""


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def at_rest(status: Body) -> bool:
    return condition(status, "Suspended").get("status") == "True"


async def test_a_prompt_that_was_sent_after_the_backup_is_not_sent_again(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    diary: Diary,
) -> None:
    """In the backup the session had not begun: no prompt, no epoch, no token."""
    cluster = own_control_plane
    make_operator("--sweep-seconds=600").start()
    place.apply(profile(command=diary.agent()), task())
    wanted = session("s", place.worktree("s"), prompt={"text": "alpha"}, operatingMode="Suspended")
    place.apply(wanted)
    place.wait("s", at_rest, "at rest")
    backup = await asyncio.to_thread(cluster.snapshot)
    place.patch("tasksession", "s", {"spec": {"operatingMode": "Running"}})
    place.wait("s", lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "prompted")
    place.wait_idle("s")
    [first] = diary.processes

    await asyncio.to_thread(cluster.restore, backup)
    place.wait("s", at_rest, "at rest again")
    place.patch("tasksession", "s", {"spec": {"operatingMode": "Running"}})
    place.wait_idle("s")
    assert not is_alive(first), "it was ended before another one began"
    async with talk(cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        status = await agreed(place, "s", s)
        assert "the first was: alpha" in await s.ask("what was the first?")
        assert status["epoch"] == (await s.status()).epoch
    assert diary.prompts == ["alpha", "what was the first?"]
    assert diary.openings == ["session/new", "session/resume"]
    assert place.status("s")["firstPrompt"]["fate"] == "delivered"


async def test_a_pod_that_the_backup_brings_back_holds_the_only_agent(
    own_control_plane: ControlPlane, place: Namespace, tmp_path: Path
) -> None:
    """The session had moved to another pod since: that one's object is gone, the old one's is
    there again, and the node does what the API server says."""
    cluster = own_control_plane
    operator = OperatorProcess(
        cluster.kubeconfig,
        tmp_path / "operator.log",
        namespaces=[place.name],
        lease_namespace=place.name,
        options=["--probe-seconds=1", "--pod-access=direct", "--sweep-seconds=600"],
    )
    place.tail = operator.tail
    with Kubelet(cluster.kubeconfig, place.name, tmp_path / "volumes") as node, operator:
        pods = PodScene(place, operator, tmp_path, node)
        try:
            part = await pods.born("moved", prompt={"text": "alpha"})
            await part.wait(
                lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "prompted"
            )
            before = await part.idle()
            backup = await asyncio.to_thread(cluster.snapshot)
            status = await pods.delete_pod(part)
            now = await pods.resumed_elsewhere(part, before, status)
            assert "the first was: alpha" in await part.ask("beta")
            second = part.pid

            await asyncio.to_thread(cluster.restore, backup)
            await until(lambda: not is_alive(second), "the pod that nobody knows of is gone", 60)
            healed = await part.wait(
                lambda s: (
                    s.get("isAgentRunning") is True
                    and s.get("state") == "WAITING_FOR_INPUT"
                    and s.get("epoch", 0) > now["epoch"]
                ),
                "resumed above the forgotten epoch",
                90,
            )
            await part.remembers()
            assert healed["epoch"] == now["epoch"] + 1
            assert part.prompts() == ["alpha", "beta", "what was the first?"]
            assert part.opened_new == 1
            assert len(pods.pods(part)) == 1
        finally:
            pods.close()
    assert node.errors == []


@pytest.mark.parametrize("moment", ["before it is decided", "under way"])
async def test_a_resume_meets_an_api_server_that_stands_still(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    diary: Diary,
    moment: str,
) -> None:
    """Longer than the lease: another could have led meanwhile. One resume comes of it."""
    cluster = own_control_plane
    operator = make_operator("--probe-seconds=1").start()
    place.apply(profile(command=diary.agent("--slow-start=3")), task())
    place.apply(session("s", place.worktree("s"), prompt={"text": "alpha"}))
    place.wait("s", lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "prompted")
    before = place.wait_idle("s")
    [agent] = diary.processes
    if moment == "under way":
        os.kill(agent, signal.SIGKILL)
        place.wait("s", lambda s: (s.get("intent") or {}).get("kind") == "Resume", "decided")
    await asyncio.to_thread(cluster.pause_apiserver)
    try:
        if moment == "before it is decided":
            os.kill(agent, signal.SIGKILL)
        await asyncio.sleep(LONGER_THAN_THE_LEASE)
        assert operator.is_running
    finally:
        await asyncio.to_thread(cluster.resume_apiserver)
    await asyncio.to_thread(operator.wait_ready)
    place.wait("s", lambda s: s.get("epoch") == before["epoch"] + 1, "one intent")
    place.wait_idle("s")
    async with talk(cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        status = await agreed(place, "s", s)
        assert "the first was: alpha" in await s.ask("what was the first?")
    assert status["epoch"] == before["epoch"] + 1
    assert diary.openings == ["session/new", "session/resume"]
    assert diary.prompts == ["alpha", "what was the first?"]
    assert len([pid for pid in diary.processes if is_alive(pid)]) == 1
