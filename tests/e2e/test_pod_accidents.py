"""Accidents of one pod on a real node: put out, out of memory, killed, restarted, raced for.

Each ends with the conversation going on; the agent's own diary says which prompts reached it.
"""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster.node import flags
from kandev_operator.core.pods import layout
from kandev_operator.core.podseen import OVER
from stage.realpods import PATIENCE, RealPart, RealPodScene
from stage.scene import until
from stage.sessions import Body, condition, session

CGROUP_V2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
MEMORY = {"resources": {"limits": {"memory": "300Mi"}}}
# Larger than agentctl, and the kernel kills the largest; smaller, and there are many of them.
ONE_HOG = "terminal: python3 -E -S -c 'b = bytes(1) * 600_000_000'"
MANY_HOGS = (
    "terminal: for i in $(seq 30); do python3 -E -S -c 'import time; b = bytearray(18_000_000); "
    "time.sleep(60)' & done; wait"
)


async def test_b020_b028_a_full_scratch_volume_puts_a_pod_out(scene: RealPodScene) -> None:
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    overlay = {
        "volumes": [scratch],
        "containers": [{"name": "agent", "volumeMounts": mounts}],
    }
    part, neighbour = await scene.born("full", overlay=overlay), await _neighbour(scene, "full")
    before, untouched = await part.with_history(), await neighbour.idle()
    old = part.executor["status"]["podRef"]
    async with scene.watching(part) as seen:
        await part.ask("terminal: dd if=/dev/zero of=/scratch/big bs=1M count=8")
        await part.resumed(before, same_pod=False, pod_uid=old["uid"])
    said = seen.told(part, "PodEvicted")
    assert 'EmptyDir volume "scratch" exceeds the limit "2Mi"' in said
    assert seen.ready(part) == ["True", "False", "True"]
    await part.remembers()
    assert part.opened_new == 1
    assert len([each for each in part.prompts() if "scratch" in each]) == 1
    assert neighbour.status == untouched, "another session of the same task"
    task = await scene.wait("full", lambda s: s.get("state") == "REVIEW", "REVIEW", kind="task")
    assert task["state"] == "REVIEW"
    phases = {each["metadata"]["uid"]: each["status"]["phase"] for each in scene.pods(part)}
    assert phases[old["uid"]] in OVER, "it is kept, and its logs can be read"


async def test_b019_b023_an_eviction_by_the_api_in_a_turn(scene: RealPodScene) -> None:
    part = await scene.born("asked-out")
    before = await part.with_history()
    await part.in_a_turn()
    ref = part.executor["status"]["podRef"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": ref["name"], "namespace": scene.place.name},
    }
    path = f"/api/v1/namespaces/{scene.place.name}/pods/{ref['name']}/eviction"
    async with scene.watching(part) as seen:
        await scene.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
        await part.resumed(before, same_pod=False, pod_uid=ref["uid"])
    assert "EvictionByEvictionAPI" in seen.told(part, "PodEvicted")
    assert part.status["interruptedTurn"]["promptId"] == "long"
    assert part.prompts() == ["alpha", "slow 1000"]
    await part.remembers()
    assert (part.resumes, part.opened_new) == (1, 1)


async def test_a_command_that_eats_all_memory_is_killed_alone(scene: RealPodScene) -> None:
    """By the kernel, and on version 1 of control groups; on version 2 its container goes along."""
    part = await scene.born("one-hog", profile_spec=MEMORY)
    before = await part.with_history()
    uid = part.pod_uid
    if CGROUP_V2:
        await _eats(part, ONE_HOG)
        await part.resumed(before, same_pod=True, pod_uid=uid)
    else:
        assert "Terminal: " in await part.ask(ONE_HOG)
        assert (part.pod_uid, part.restarts()) == (uid, 0)
        assert part.status["agentExecutionId"] == before["agentExecutionId"]
    assert part.prompts() == ["alpha", ONE_HOG]
    await part.remembers()


async def test_b026_a_container_that_is_killed_for_its_memory_says_so(scene: RealPodScene) -> None:
    part = await scene.born("many-hogs", profile_spec=MEMORY)
    before = await part.with_history()
    uid = part.pod_uid
    async with scene.watching(part) as seen:
        await _eats(part, MANY_HOGS)
        await part.resumed(before, same_pod=True, pod_uid=uid)
    said = seen.told(part, "OOMKilled")
    assert "Container agent ended with exit code 137" in said
    assert part.restarts() >= 1
    assert part.status["interruptedTurn"]["promptId"] == "hog"
    assert part.prompts() == ["alpha", MANY_HOGS], "not sent again"
    await part.remembers()
    assert part.opened_new == 1


async def test_b067_an_agent_killed_alone_in_a_turn_and_when_idle(scene: RealPodScene) -> None:
    part = await scene.born("child")
    before = await part.with_history()
    uid = part.pod_uid
    part.signal_agent()
    again = await part.resumed(before, same_pod=True, pod_uid=uid)
    await part.in_a_turn()
    part.signal_agent()
    now = await part.resumed(again, same_pod=True, pod_uid=uid)
    assert now["interruptedTurn"]["promptId"] == "long"
    assert (part.restarts(), part.resumes, part.opened_new) == (0, 2, 1)
    assert part.prompts() == ["alpha", "slow 1000"]
    await part.remembers()


async def test_b071_a_container_restarted_in_place_and_then_in_a_loop(scene: RealPodScene) -> None:
    part = await scene.born("in-place")
    before = await part.with_history()
    uid, boot = part.pod_uid, part.executor["status"]["bootId"]
    await part.in_a_turn()
    part.signal_agentctl()
    again = await part.resumed(before, same_pod=True, pod_uid=uid)
    assert again["interruptedTurn"]["promptId"] == "long"
    assert part.executor["status"]["bootId"] != boot
    assert (part.restarts(), part.resumes) == (1, 1)
    async with scene.watching(part) as seen:
        await _killed_until(part, "CrashLoopBackOff")
        said = await part.executor_says("CrashLoopBackOff", state="error")
        assert "exit code 137" in said
        await part.resumed(again, same_pod=True, pod_uid=uid)
    assert "ERROR" in {each["state"] for each in seen.sessions[part.name]}
    assert 1 < part.resumes <= part.restarts(), "one resume for each restart, at most"
    assert part.opened_new == 1
    assert part.prompts() == ["alpha", "slow 1000"]
    await part.remembers()


async def test_b041_a_conversation_without_a_turn_is_begun_again_quietly(
    scene: RealPodScene,
) -> None:
    part = await scene.born("no-turn")
    before = await part.idle()
    async with scene.watching(part) as seen:
        uid = await part.delete_pod()
        await part.resumed(before, same_pod=False, pod_uid=uid)
    assert "ERROR" not in {each["state"] for each in seen.sessions[part.name]}
    assert part.opened_new == 2
    await part.ask("alpha")
    await part.remembers()


async def test_b050_prompts_that_waited_when_the_pod_went_are_neither_lost_nor_doubled(
    scene: RealPodScene,
) -> None:
    part = await scene.born("queue")
    before = await part.with_history()
    uid = part.pod_uid
    await part.in_a_turn()
    async with part.talk() as it:
        for text in ("second", "third"):
            await it.prompt(text, text)
    await part.delete_pod("--force", "--grace-period=0")
    await part.resumed(before, same_pod=False, pod_uid=uid)
    each_once = ["alpha", "slow 1000", "second", "third"]
    await until(lambda: part.prompts() == each_once, "each once, in order", PATIENCE)
    await part.remembers()
    assert part.prompts() == [*each_once, "what was the first?"]
    assert part.opened_new == 1


async def test_b031_start_and_resume_meet_and_there_is_one_runtime(scene: RealPodScene) -> None:
    part, again = scene.part("meet"), {"kandev.dev/resume-requested": "now"}
    born = asyncio.create_task(scene.born("meet", "--slow-start=5", annotations=again))

    async def ask_again() -> None:
        for wish in range(5):
            await part.ask_for("resume", f"wish-{wish}")

    await born
    await asyncio.gather(ask_again(), scene.restart_operator())
    status = await part.idle()
    assert len(scene.pods(part)) == 1
    assert len(scene.listed("executors")) == 1
    assert (part.starts, part.opened_new, part.resumes) == (1, 1, 0)
    assert part.restarts() == 0
    await part.ask("alpha")
    await part.remembers()
    assert (await part.idle())["agentExecutionId"] == status["agentExecutionId"]


async def test_b035_b037_an_operator_that_dies_around_a_pods_start(scene: RealPodScene) -> None:
    lives, comes = await scene.born("lives"), scene.part("comes")
    before = await lives.with_history()
    uid = lives.pod_uid
    await scene.born("comes")
    await comes.wait(lambda s: s.get("executorRef") is not None, "given an executor")
    async with scene.watching(lives) as seen:
        await scene.restart_operator()
        await comes.idle()
        assert (await lives.idle())["agentExecutionId"] == before["agentExecutionId"]
    seen.never_dead(lives)
    assert (lives.pod_uid, lives.resumes) == (uid, 0)
    assert (len(scene.pods(comes)), comes.starts, comes.opened_new) == (1, 1, 1)


async def test_b022_ready_follows_an_agentctl_that_is_away_for_a_while(scene: RealPodScene) -> None:
    part = await scene.born("frozen")
    before = await part.with_history()
    async with scene.watching(part) as seen:
        part.signal_agentctl(signal.SIGSTOP)
        try:
            await part.wait(lambda s: condition(s, "Ready")["status"] != "True", "not Ready")
        finally:
            part.signal_agentctl(signal.SIGCONT)
        now = await part.idle()
        await part.wait(lambda s: condition(s, "Ready")["status"] == "True", "Ready")
    assert now["agentExecutionId"] == before["agentExecutionId"]
    assert seen.ready(part) == ["True", "False", "True"]
    for status in seen.sessions[part.name]:
        is_ready = condition(status, "Ready")["status"] == "True"
        assert is_ready is (status["executorStatus"] == "ready"), status
    seen.never_dead(part)
    assert (part.starts, part.restarts()) == (1, 0)


async def test_b034_an_agentctl_that_cannot_be_reached(scene: RealPodScene) -> None:
    """As a NetworkPolicy, or a broken network, would have it: nothing comes back from any pod."""
    known = await scene.born("known", lifecycle={"unreachableGraceSeconds": 10})
    before = await known.with_history()
    await known.in_a_turn()
    async with scene.watching(known) as seen:
        with _no_way_in():
            never = await scene.born("never", lifecycle={"startTimeoutSeconds": 15})
            for part in (known, never):
                status = await part.failed("AgentctlUnreachable", stalled=False)
                assert f":{layout.PORT}" in status["errorMessage"]
                assert "isAgentRunning" not in status, "nobody knows"
            assert "lastSeenAt" not in never.executor["status"]
        await never.idle()
        await known.wait(lambda s: s["state"] == "RUNNING", "in its turn again")
    states = [each["state"] for each in seen.executors["known"]]
    assert states.index("starting") < states.index("error"), "unknown comes before an error"
    assert known.status["agentExecutionId"] == before["agentExecutionId"], "found as it was left"
    for part, prompts in ((known, ["alpha", "slow 1000"]), (never, [])):
        assert (part.starts, part.resumes, part.restarts()) == (1, 0, 0)
        assert part.prompts() == prompts
        assert len(scene.pods(part)) == 1


@contextmanager
def _no_way_in() -> Iterator[None]:
    rule = ["OUTPUT", "-d", flags.SUBNET, "-p", "tcp", "--dport", str(layout.PORT), "-j", "DROP"]
    subprocess.run(["iptables", "-w", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-w", "-D", *rule], check=True)


async def _killed_until(part: RealPart, reason: str) -> None:
    """Kill its first process whenever it is there, until the kubelet waits before the next try."""

    def waits() -> bool:
        states = [each["state"] for each in part.pod["status"]["containerStatuses"]]
        if any(each.get("waiting", {}).get("reason") == reason for each in states):
            return True
        with suppress(ProcessLookupError):
            part.signal_agentctl()
        return False

    await until(waits, reason, PATIENCE)


async def _eats(part: RealPart, text: str) -> None:
    async with part.talk() as it:
        await it.prompt(text, "hog")


async def _neighbour(scene: RealPodScene, of: str) -> RealPart:
    """Another session of the same task and profile."""
    executor: Body = {"template": {"spec": {"runtime": "Pod", "pod": {}}}}
    files = {"size": "64Mi"}
    body = session("neighbour", task=of, profile=of, executor=executor, workspace=files)
    await scene.apply(body)
    part = scene.part("neighbour")
    assert isinstance(part, RealPart)
    return part
