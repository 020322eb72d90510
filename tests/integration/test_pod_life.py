"""A session's life in pods: born, lost in every way that pods are lost, resumed with its memory."""

import asyncio
from typing import Any

from stage.podscene import IMAGE, PodScene, template, until
from stage.sessions import Body, condition


async def test_a_session_gets_a_pod_and_remembers_in_the_next_one(pods: PodScene) -> None:
    part = await pods.born("first")
    before = await part.with_history()
    status = pods.executor(part)["status"]
    assert (status["state"], status["nodeName"]) == ("ready", pods.node.node)
    assert status["agentctlURL"].endswith(":8700")
    assert condition(status, "PodScheduled")["reason"] == "Scheduled"
    assert before["workspaceRef"]["kind"] == "PersistentVolumeClaim"
    assert before["nodeName"] == pods.node.node
    await pods.delete_pod(part)
    await pods.resumed_elsewhere(part, before, status)
    assert (part.resumes, part.opened_new) == (1, 1)
    await part.remembers()


async def test_b019_a_pod_deleted_twice_within_seconds_is_made_again(pods: PodScene) -> None:
    part = await pods.born("twice")
    before = await part.with_history()
    first = await pods.delete_pod(part, "--force", "--grace-period=0")
    name = part.status["executorRef"]["name"]

    def is_another(now: Body) -> bool:
        ref = now.get("podRef")
        return bool(ref) and ref["uid"] != first["podRef"]["uid"]

    await pods.executor_becomes(name, is_another, "in another pod")
    await pods.delete_pod(part, "--force", "--grace-period=0")
    await pods.resumed_elsewhere(part, before, first)
    await part.remembers()
    assert part.opened_new == 1


async def test_b020_an_evicted_pod_is_told_replaced_and_kept_for_its_logs(pods: PodScene) -> None:
    part = await pods.born("evicted")
    before = await part.with_history()
    status = pods.executor(part)["status"]
    words = 'Usage of EmptyDir volume "v" exceeds the limit "10Mi".'
    name = part.status["executorRef"]["name"]
    seen: list[Body] = []

    def told(now: Body) -> bool:
        seen.append(now)
        return words in condition(now, "AgentctlReady").get("message", "")

    waiting = asyncio.create_task(pods.executor_becomes(name, told, "telling of the eviction"))
    await asyncio.sleep(0)
    pods.node.evict(pods.pod(part), words)
    now = await waiting
    assert condition(now, "Ready")["reason"] == "PodEvicted"
    assert now.get("agentctlURL") != status["agentctlURL"]
    await pods.resumed_elsewhere(part, before, status)
    await part.remembers()
    old = {each["metadata"]["name"]: each["status"] for each in pods.pods(part)}
    assert old[status["podRef"]["name"]]["reason"] == "Evicted"


async def test_b071_a_container_that_is_killed_is_restarted_in_place(pods: PodScene) -> None:
    part = await pods.born("in-place")
    before = await part.with_history()
    status = pods.executor(part)["status"]
    pods.node.kill(pods.pod(part))
    await part.idle_again(before)
    now = pods.executor(part)["status"]
    assert now["podRef"] == status["podRef"]
    assert now["instanceId"] == status["instanceId"]
    assert now["bootId"] != status["bootId"]
    await part.remembers()
    assert part.resumes == 1


async def test_b026_a_container_killed_for_its_memory_says_so(pods: PodScene) -> None:
    part = await pods.born("memory")
    before = await part.with_history()
    name = part.status["executorRef"]["name"]

    def told(now: Body) -> bool:
        return condition(now, "Ready").get("reason") == "OOMKilled"

    waiting = asyncio.create_task(pods.executor_becomes(name, told, "OOMKilled"))
    await asyncio.sleep(0)
    pods.node.out_of_memory(pods.pod(part))
    now = await waiting
    assert "exit code 137" in condition(now, "Ready")["message"]
    await part.idle_again(before)
    await part.remembers()


async def test_b067_an_agent_that_is_killed_alone_needs_no_new_pod(pods: PodScene) -> None:
    part = await pods.born("child")
    before = await part.with_history()
    status = pods.executor(part)["status"]
    part.kill()
    await part.idle_again(before)
    assert pods.executor(part)["status"]["podRef"] == status["podRef"]
    await part.remembers()


async def test_b040_an_image_that_does_not_exist_is_named_and_mended(pods: PodScene) -> None:
    part = await pods.born("image", profile_spec={"image": "agents/missing:1"})
    status = await part.failed("ImagePullFailed", stalled=False)
    assert "agents/missing:1" in status["errorMessage"]
    await part.repair("agentprofile", {"image": IMAGE})
    await part.idle()
    assert "errorMessage" not in part.status


async def test_b007_a_start_that_fails_keeps_the_token(pods: PodScene) -> None:
    part = await pods.born("kept")
    await part.with_history()
    token = part.token
    await part.repair("agentprofile", {"image": "agents/missing:2"})
    await pods.delete_pod(part)
    status = await part.failed("ImagePullFailed", stalled=False)
    assert status["isResumable"] is True
    await pods.restart_operator()
    await part.repair("agentprofile", {"image": IMAGE})
    await part.idle()
    assert part.token == token
    await part.remembers()
    assert part.opened_new == 1


async def test_a_policy_that_waits_is_asked_before_a_new_pod_is_made(pods: PodScene) -> None:
    part = await pods.born("asked", resume={"policy": "OnRequest"})
    before = await part.with_history()
    status = await pods.delete_pod(part)

    def waits(now: Body) -> bool:
        reason = now.get("resumeReason") == "agent_not_running"
        return bool(reason and now["needsResume"] and now.get("executorStatus") == "stopped")

    now = await part.wait(waits, "waiting to be asked")
    assert now["state"] == "WAITING_FOR_INPUT"
    await until(lambda: not pods.pods(part), "the pod is gone")
    await part.ask_for("resume", "please")
    await pods.resumed_elsewhere(part, before, status)
    await part.remembers()


async def test_a_suspended_session_has_no_pod_and_comes_back(pods: PodScene) -> None:
    part = await pods.born("rests")
    before = await part.with_history()
    claim = before["workspaceRef"]["name"]
    executor = before["executorRef"]["name"]
    await part.patch(operatingMode="Suspended")
    await part.wait(lambda s: condition(s, "Suspended").get("status") == "True", "suspended")
    await until(lambda: not pods.pods(part), "the pod is gone")
    rests = await pods.executor_becomes(
        executor, lambda s: condition(s, "Ready").get("reason") == "Idle", "at rest"
    )
    assert rests["state"] == "stopped"
    assert "sessionRef" not in rests
    status = part.status
    assert "executorRef" not in status
    assert status["workspaceRef"]["name"] == claim
    assert condition(status, "Ready")["status"] == "True"
    assert (await pods.claim(claim))["metadata"].get("deletionTimestamp") is None
    await part.patch(operatingMode="Running")
    await part.idle_again(before)
    await part.remembers()
    assert part.opened_new == 1


async def test_a_deleted_session_takes_its_pod_along(pods: PodScene) -> None:
    part = await pods.born("goes")
    status = await part.with_history()
    part.remember_uid()
    claim = await pods.claim(status["workspaceRef"]["name"])
    await pods.kubectl("delete", "tasksession", "goes", "--wait=false")
    await pods.wait_gone("tasksession", "goes")
    await pods.wait_gone("executor", status["executorRef"]["name"])
    await until(lambda: not pods.pods(part), "the pod is gone")
    owner = claim["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("TaskSession", part.uid)
    assert "finalizers" not in claim["metadata"] or "kandev" not in str(
        claim["metadata"]["finalizers"]
    )


async def test_b037_an_operator_killed_while_a_pod_comes_up_finds_it_again(pods: PodScene) -> None:
    part = await pods.born("orphan")
    await until(lambda: bool(pods.pods(part)), "the pod is made")
    await pods.restart_operator()
    await part.idle()
    assert len(pods.pods(part)) == 1
    assert (part.opened_new, part.resumes) == (1, 0)


async def test_b035_a_restarted_operator_attaches_to_pods_that_live(pods: PodScene) -> None:
    part = await pods.born("attached")
    before = await part.with_history()
    status = pods.executor(part)["status"]
    await pods.restart_operator()
    await part.ask("beta")
    now = await part.idle()
    assert now["agentExecutionId"] == before["agentExecutionId"]
    assert pods.executor(part)["status"]["podRef"] == status["podRef"]
    assert part.resumes == 0


async def test_b050_a_turn_that_is_cut_off_by_its_pod_is_not_repeated(pods: PodScene) -> None:
    part = await pods.born("cut-off")
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 1000", "long")
    await part.wait(lambda s: s["state"] == "RUNNING", "in a turn")
    pods.node.evict(pods.pod(part), "out of disk")
    now = await part.idle_again(before)
    assert now["interruptedTurn"]["promptId"] == "long"
    assert part.prompts().count("slow 1000") == 1
    await part.remembers()


async def test_b023_a_turn_that_ends_gently_with_its_pod_is_cut_off_as_well(pods: PodScene) -> None:
    part = await pods.born("gently")
    before = await part.with_history()
    async with part.talk() as it:
        await it.prompt("slow 1000", "long")
    await part.wait(lambda s: s["state"] == "RUNNING", "in a turn")
    status = await pods.delete_pod(part)
    now = await pods.resumed_elsewhere(part, before, status)
    assert part.heard("session/cancel"), "the agent was asked first, and could keep what it had"
    assert now["interruptedTurn"]["promptId"] == "long"
    assert part.prompts() == ["alpha", "slow 1000"]
    await part.remembers()


async def test_a_session_that_lived_through_five_accidents_remembers(pods: PodScene) -> None:
    part = await pods.born("five")
    status = await part.with_history("the first words")

    async def survives(accident: Any) -> None:
        nonlocal status
        result = accident()
        if asyncio.iscoroutine(result):
            await result
        status = await part.idle_again(status)
        await part.remembers("the first words")

    await survives(lambda: pods.delete_pod(part))
    await survives(lambda: pods.node.evict(pods.pod(part), "pressure"))
    await survives(lambda: pods.node.out_of_memory(pods.pod(part)))
    await survives(part.kill)
    await survives(lambda: pods.delete_pod(part, "--force", "--grace-period=0"))
    assert part.opened_new == 1


async def test_b028_its_neighbour_never_notices(pods: PodScene) -> None:
    part, other = await pods.born("falls"), await pods.born("stands")
    before, untouched = await part.with_history(), await other.with_history()
    pods.node.evict(pods.pod(part), "pressure")
    await part.idle_again(before)
    assert other.status == untouched
    task = await pods.wait("falls", lambda s: s.get("state") == "REVIEW", "REVIEW", kind="task")
    assert task["state"] == "REVIEW"


async def test_a_template_that_the_server_refuses_says_so_and_is_mended(pods: PodScene) -> None:
    volume: Body = {"name": "odd", "emptyDir": {"sizeLimit": "much"}}
    part = await pods.born("odd", executor=template({"volumes": [volume]}))
    status = await part.failed("InvalidTemplate")
    assert "much" in status["errorMessage"] or "quantities" in status["errorMessage"]
    volume["emptyDir"] = {"sizeLimit": "10Mi"}
    await part.patch(executor=template({"volumes": [volume]}))
    await part.idle()
    executor = pods.executor(part)
    assert executor["spec"]["pod"]["template"]["spec"]["volumes"] == [volume]


async def test_a_template_that_fights_the_operator_is_refused(pods: PodScene) -> None:
    agent = {"name": "agent", "command": ["sh"]}
    part = await pods.born("fights", executor=template({"containers": [agent]}))
    status = await part.failed("InvalidTemplate")
    assert "command and args" in status["errorMessage"]
    assert pods.pods(part) == []


PRIVILEGED = {"privileged": True, "allowPrivilegeEscalation": True}


async def test_what_a_restricted_namespace_refuses_is_told(pods: PodScene) -> None:
    agent = {"name": "agent", "securityContext": PRIVILEGED}
    part = await pods.born("loose", executor=template({"containers": [agent]}))
    status = await part.failed("InvalidTemplate")
    assert "privileged" in status["errorMessage"]
