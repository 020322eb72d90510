"""Whose agentctl answers, who makes the pod, and who is needed to take it away."""

import asyncio
import os
import signal

from stage.kubelet import Kubelet
from stage.podscene import PodScene, until
from stage.sessions import condition

FOREIGN = ("ForeignAgentctl", "AuthenticationFailed")


async def test_b070_another_sessions_agentctl_at_the_old_address(pods: PodScene) -> None:
    """The node is silent, so the pod's address stands in its object for long; the network has
    given it to another pod."""
    part = await pods.born("stale", lifecycle={"unreachableGraceSeconds": 3})
    before = await part.with_history()
    pod, known = pods.pod(part), pods.executor(part)["status"]["agentctlURL"]
    kubeconfig, name = pods.place.cluster.kubeconfig, pods.place.name
    pods.node.fall_silent()
    try:
        os.killpg(pod.agent.process.pid, signal.SIGKILL)  # type: ignore[union-attr]
        with Kubelet(kubeconfig, name, pods.node.folder, "node-2") as other:
            other.gives_next(pod.address)
            stranger = await pods.born("stranger")
            await stranger.with_history("beta")
            assert pods.executor(stranger)["status"]["agentctlURL"] == known
            name = part.status["executorRef"]["name"]
            told = await pods.executor_becomes(
                name, lambda s: condition(s, "Ready").get("reason") in FOREIGN, "foreign"
            )
            assert told["state"] == "error"
            status = await part.wait(lambda s: s.get("state") == "ERROR", "told")
            assert condition(status, "Ready")["reason"] in FOREIGN
            assert part.status["resumeTokenRef"] == before["resumeTokenRef"]
            await pods.kubectl("delete", "tasksession", "stranger", "--wait=false")
            await until(lambda: not other.pods, "its pod is gone")
            assert (stranger.starts, stranger.resumes) == (1, 0)
            assert stranger.prompts() == ["beta"], "nothing came to the wrong one"
    finally:
        pods.node.come_back()
    await part.idle_again(before)
    await part.remembers()
    assert (part.resumes, part.opened_new) == (1, 1)


async def test_b022_ready_follows_an_agentctl_that_is_away_for_a_while(pods: PodScene) -> None:
    part = await pods.born("frozen")
    before = await part.with_history()
    process = pods.pod(part).agent.process
    assert process is not None
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        away = await part.wait(lambda s: condition(s, "Ready")["status"] != "True", "not Ready")
        assert away["state"] == "WAITING_FOR_INPUT", "nobody knows of anything worse"
        assert away["executorStatus"] == "starting"
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    now = await part.wait(lambda s: condition(s, "Ready")["status"] == "True", "Ready")
    assert now["executorStatus"] == "ready"
    assert now["agentExecutionId"] == before["agentExecutionId"]
    assert (part.starts, part.resumes) == (1, 0)


async def test_b031_start_and_resume_meet_and_there_is_one_runtime(pods: PodScene) -> None:
    wish = {"kandev.dev/resume-requested": "at once"}
    part = await pods.born("meet", "--slow-start=3", annotations=wish)

    async def ask_again() -> None:
        for number in range(5):
            await part.ask_for("resume", f"wish-{number}")

    await asyncio.gather(ask_again(), pods.restart_operator())
    status = await part.idle()
    assert (len(pods.pods(part)), part.starts) == (1, 1)
    assert (part.opened_new, part.resumes) == (1, 0)
    await part.ask("alpha")
    assert (await part.idle())["agentExecutionId"] == status["agentExecutionId"]


async def test_b016_what_is_deleted_goes_without_an_operator(pods: PodScene) -> None:
    part = await pods.born("goes")
    before = await part.with_history()
    part.remember_uid()
    executor = pods.executor(part)
    assert not executor["metadata"].get("finalizers")
    await asyncio.to_thread(pods.operator.kill)
    try:
        old = await pods.delete_pod(part)
        uids = [each["metadata"]["uid"] for each in pods.pods(part)]
        await until(
            lambda: old["podRef"]["uid"] not in [e["metadata"]["uid"] for e in pods.pods(part)],
            f"the pod is gone, of {uids}",
        )
        await pods.kubectl("delete", "tasksession", "goes", "--timeout=30s")
        await pods.kubectl("delete", "executor", executor["metadata"]["name"], "--timeout=30s")
        claim = await pods.claim(before["workspaceRef"]["name"])
        assert claim["metadata"]["ownerReferences"][0]["uid"] == part.uid, "it goes with it"
    finally:
        await asyncio.to_thread(pods.operator.start)
    await until(lambda: not pods.pods(part), "nothing is made for what is gone")
