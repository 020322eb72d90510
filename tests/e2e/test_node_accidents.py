"""Accidents of a real node while sessions live on it: drained, deaf, without a runtime, forgotten.

A node that nobody hears of is not a dead one: its containers live on, and one writer at a time is
what all of this is about.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from cluster.node import flags
from cluster.node.node import CONTAINERD, KUBELET
from stage.realpods import PATIENCE, RealPart, RealPodScene
from stage.scene import until
from stage.sessions import Body, condition

DRAIN = ("drain", flags.NAME, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")


async def settled(*parts: RealPart) -> list[Body]:
    """Each with a history."""
    return list(await asyncio.gather(*(part.with_history() for part in parts)))


@asynccontextmanager
async def without(scene: RealPodScene, program: str) -> AsyncIterator[None]:
    """A program of the node is killed without a farewell, and is back at the end of the block."""
    await asyncio.to_thread(scene.node.stop_program, program, signal.SIGKILL)
    try:
        yield
    finally:
        if program not in scene.node.pids:
            scene.node.start_program(program)
        await until(scene.node.is_ready, "the node is back", PATIENCE)


def node_says(scene: RealPodScene, word: str) -> Callable[[], bool]:
    """Whether the cluster says this of the node's Ready."""

    def holds() -> bool:
        node = scene.node.kubectl("get", "node", flags.NAME, "--output=json")
        return condition(json.loads(node)["status"], "Ready").get("status") == word

    return holds


async def test_b022_b023_a_drained_node_loses_no_conversation(scene: RealPodScene) -> None:
    idle, busy = await scene.born("idle"), await scene.born("busy")
    before = await settled(idle, busy)
    uids = [idle.pod_uid, busy.pod_uid]
    await busy.in_a_turn()
    async with scene.watching(idle, busy) as seen:
        try:
            # As a person would: the pods have a controller, so nothing has to be forced.
            await scene.on_node(*DRAIN)
            for part, uid in zip((idle, busy), uids, strict=True):
                said = await part.executor_says("Unschedulable", state="starting")
                assert "unschedulable" in said
                assert uid not in [each["metadata"]["uid"] for each in scene.pods(part)]
                status = await part.wait(
                    lambda s: "unschedulable" in condition(s, "Ready")["message"], "told"
                )
                assert status["state"] == "STARTING"
                assert condition(status, "Ready")["status"] != "True"
                assert "errorMessage" not in status
        finally:
            await scene.on_node("uncordon", flags.NAME)
        for part, was, uid in zip((idle, busy), before, uids, strict=True):
            await part.resumed(was, same_pod=False, pod_uid=uid)
    assert seen.ready(idle) == ["True", "False", "True"]
    assert busy.status["interruptedTurn"]["promptId"] == "long"
    for part, prompts in ((idle, ["alpha"]), (busy, ["alpha", "slow 1000"])):
        assert "EvictionByEvictionAPI" in seen.told(part, "PodEvicted")
        assert part.prompts() == prompts
        await part.remembers()
        assert (part.opened_new, part.resumes) == (1, 1)
        assert len(scene.pods(part)) == 1


async def test_b068_sessions_live_on_without_a_kubelet(scene: RealPodScene) -> None:
    idle, busy = await scene.born("idle"), await scene.born("busy")
    await settled(idle, busy)
    await busy.in_a_turn("slow 150", "long")
    uids = [idle.pod_uid, busy.pod_uid]
    async with scene.watching(idle, busy) as seen:
        async with without(scene, KUBELET):
            await until(node_says(scene, "Unknown"), "the node counts as lost", PATIENCE)
            await idle.remembers()
            # The whole of a restarted operator's first look falls into the silence.
            await scene.restart_operator()
            await idle.remembers()
        async with busy.talk() as it:
            ended = await it.turn_ended("long")
        await busy.idle()
    assert ended.last_turn is not None
    assert ended.last_turn.outcome == "completed"
    for part, uid in zip((idle, busy), uids, strict=True):
        seen.never_dead(part)
        assert (part.pod_uid, part.restarts()) == (uid, 0)
        assert (part.starts, part.resumes, part.opened_new) == (1, 0, 1)
    assert busy.prompts() == ["alpha", "slow 150"]


async def test_sessions_live_on_without_a_container_runtime(scene: RealPodScene) -> None:
    part = await scene.born("runs")
    await settled(part)
    uid = part.pod_uid
    await part.in_a_turn("slow 150", "long")
    async with scene.watching(part) as seen:
        async with without(scene, CONTAINERD):
            await until(node_says(scene, "False"), "its kubelet says so", PATIENCE)
            async with part.talk() as it:
                await it.turn_ended("long")
            await part.remembers()
        await part.idle()
    seen.never_dead(part)
    assert (part.pod_uid, part.restarts()) == (uid, 0)
    assert (part.starts, part.opened_new) == (1, 1)
    assert part.prompts() == ["alpha", "slow 150", "what was the first?"]


async def test_b068_a_pod_that_dies_unseen_is_unknown_and_then_lost(scene: RealPodScene) -> None:
    """The kubelet is dead when the container dies: nobody reports it, until it is back."""
    part = await scene.born("unseen", lifecycle={"unreachableGraceSeconds": 15})
    (before,) = await settled(part)
    uid = part.pod_uid
    async with scene.watching(part) as seen:
        async with without(scene, KUBELET):
            await until(node_says(scene, "Unknown"), "the node counts as lost", PATIENCE)
            part.signal_agentctl()
            said = await part.executor_says("NodeLost", state="error")
            assert flags.NAME in said
            status = await part.failed("NodeLost", stalled=False)
            assert status["isResumable"] is not False
            assert "isAgentRunning" not in status, "it is not known"
            assert len(scene.pods(part)) == 1, "no second pod beside one that may live"
        await part.resumed(before, same_pod=True, pod_uid=uid)
    states = [each["state"] for each in seen.executors[part.name]]
    assert states.index("starting") < states.index("error"), "unknown comes before lost"
    await part.remembers()
    assert (part.restarts(), part.resumes, part.opened_new) == (1, 1, 1)
    assert part.prompts() == ["alpha", "what was the first?"]


async def test_b023_a_node_that_is_deleted_and_comes_back(scene: RealPodScene) -> None:
    """Its kubelet is dead and its containers live on. Where only one node can write the volume, a
    new pod is made and waits for a node; where others could, a person must say that it is dead."""
    one = await scene.born("one-node")
    many = await scene.born(
        "many-nodes", workspace={"size": "64Mi", "accessModes": ["ReadWriteMany"]}
    )
    before = await settled(one, many)
    uids = [one.pod_uid, many.pod_uid]
    async with scene.watching(one, many) as seen:
        async with without(scene, KUBELET):
            await scene.on_node("delete", "node", flags.NAME)
            assert flags.NAME in await many.executor_says("NodeLost", state="error")
            failed = await many.failed("NodeLost", stalled=False)
            word = f"kandev.dev/confirmed-dead={uids[1]}"
            assert word in failed["errorMessage"]
            await one.executor_says("Unschedulable", state="starting")
            for part, uid in ((one, uids[0]), (many, uids[1])):
                assert part.starts == 1, "one writer at a time"
                part.process("kandev-agentctl run", uid)
            assert scene.pods(many) == []
            many.signal_agentctl(pod_uid=uids[1])  # the machine is switched off
            await scene.kubectl("annotate", "tasksession", many.name, word)
            await until(lambda: len(scene.pods(many)) == 1, "the next pod is made", PATIENCE)
        for part, was, uid in zip((one, many), before, uids, strict=True):
            await part.resumed(was, same_pod=False, pod_uid=uid)
            seen.told(part, "NodeLost")
    for part in (one, many):
        await part.remembers()
        assert (part.starts, part.resumes, part.opened_new) == (2, 1, 1)
        assert part.prompts() == ["alpha", "what was the first?"]
    assert _variable(many, "KANDEV_DEAD_BOOT_ID"), "told that nobody else writes"


def _variable(part: RealPart, name: str) -> Any:
    agent = next(each for each in part.pod["spec"]["containers"] if each["name"] == "agent")
    return next((each["value"] for each in agent["env"] if each["name"] == name), None)
