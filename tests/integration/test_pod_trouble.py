"""Trouble around pods: nodes that fall silent, two pods on one workspace, volumes, quota, drain."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from kandev_operator.api.session import TaskSession
from kandev_operator.core.pods.claim import claim_name
from stage.kubelet import Kubelet, Pod
from stage.podscene import PodScene, template, until
from stage.scene import Part
from stage.sessions import condition

IMPATIENT = {"unreachableGraceSeconds": 3}


async def test_b068_a_silent_node_is_not_a_dead_one(pods: PodScene) -> None:
    part = await pods.born("silent", lifecycle=IMPATIENT)
    before = await part.with_history()
    status = pods.executor(part)["status"]
    pod = pods.pod(part)
    pods.node.fall_silent()
    try:
        await part.remembers()  # its containers live on, and are asked as ever
        os.killpg(pod.agent.process.pid, 9)  # type: ignore[union-attr]
        name = part.status["executorRef"]["name"]
        lost = await pods.executor_becomes(
            name,
            lambda s: condition(s, "Ready").get("reason") == "NodeLost" and s["state"] == "error",
            "NodeLost",
        )
        assert pods.node.node in condition(lost, "Ready")["message"]
        status_lost = await part.failed("NodeLost", stalled=False)
        assert status_lost["isResumable"] is not False
        assert len(pods.pods(part)) == 1, "no second pod beside one that may live"
    finally:
        pods.node.come_back()
    await part.idle_again(before)
    assert pods.executor(part)["status"]["podRef"] == status["podRef"]
    await part.remembers()
    assert part.opened_new == 1


async def test_a_force_deleted_pod_whose_agent_lives_on_is_fenced_off(pods: PodScene) -> None:
    part = await pods.born("lives-on")
    before = await part.with_history()
    old_pid = part.pid
    pods.node.is_deaf = True
    kubeconfig, name = pods.place.cluster.kubeconfig, pods.place.name
    with Kubelet(kubeconfig, name, pods.node.folder, "node-2") as other:
        try:
            status = await pods.delete_pod(part, "--force", "--grace-period=0")
            await until(lambda: other.pods, "the next pod is on the other node")
            executor = part.status["executorRef"]["name"]
            await pods.executor_becomes(
                executor,
                lambda s: "WorkspaceInUse" in json.dumps(s["conditions"]),
                "WorkspaceInUse",
            )
            assert part.starts == 1, "one writer at a time"
            os.kill(old_pid, 0)
        finally:
            pods.node.is_deaf = False
        await pods.resumed_elsewhere(part, before, status)
        await part.remembers()
        assert part.opened_new == 1
        assert other.errors == []
        await pods.kubectl("delete", "tasksession", "lives-on", "--wait=false")
        await until(lambda: not other.pods, "its pod is gone")


async def test_a_shared_volume_and_a_silent_node_wait_for_a_persons_word(pods: PodScene) -> None:
    part = await pods.born("shared", workspace={"accessModes": ["ReadWriteMany"]})
    before = await part.with_history()
    pod = pods.pod(part)
    pods.node.fall_silent()
    kubeconfig, name = pods.place.cluster.kubeconfig, pods.place.name
    with Kubelet(kubeconfig, name, pods.node.folder, "node-3") as other:
        try:
            status = await pods.delete_pod(part, "--force", "--grace-period=0")
            failed = await part.failed("NodeLost", stalled=False)
            uid = status["podRef"]["uid"]
            assert f"kandev.dev/confirmed-dead={uid}" in failed["errorMessage"]
            assert pods.pods(part) == []
            os.killpg(pod.agent.process.pid, 9)  # type: ignore[union-attr]
            await asyncio.to_thread(pods.place.annotate, "shared", "confirmed-dead", uid)
            await pods.resumed_elsewhere(part, before, status)
            await part.remembers()
        finally:
            pods.node.come_back()
        await pods.kubectl("delete", "tasksession", "shared", "--wait=false")
        await until(lambda: not other.pods, "its pod is gone")


async def test_a_workspace_that_is_gone_is_said_and_not_replaced(pods: PodScene) -> None:
    part = await pods.born("no-files")
    before = await part.with_history()
    claim = before["workspaceRef"]["name"]
    free = '{"metadata":{"finalizers":null}}'
    await pods.kubectl("delete", "pvc", claim, "--wait=false")
    await pods.kubectl("patch", "pvc", claim, "--type=merge", "-p", free)
    await pods.delete_pod(part)
    status = await part.failed("WorkspaceMissing", seconds=60)
    assert claim in status["errorMessage"]
    await until(lambda: not pods.pods(part), "no pod waits for it")
    with pytest.raises(Exception, match="not found"):
        await pods.claim(claim)
    await part.ask_for("fresh-start", "yes")
    await part.idle_again(before)
    assert part.status["workspaceRef"]["uid"] != before["workspaceRef"]["uid"]
    assert part.opened_new == 2


async def test_a_claim_that_goes_while_the_session_rests_is_told_at_rest(pods: PodScene) -> None:
    part = await pods.born("rests-on-nothing")
    before = await part.with_history()
    claim = before["workspaceRef"]["name"]
    await part.patch(operatingMode="Suspended")
    await part.wait(lambda s: condition(s, "Suspended").get("status") == "True", "suspended")
    await until(lambda: not pods.pods(part), "its pod is gone")
    free = '{"metadata":{"finalizers":null}}'
    await pods.kubectl("delete", "pvc", claim, "--wait=false")
    await pods.kubectl("patch", "pvc", claim, "--type=merge", "-p", free)
    await pods.restart_operator()  # claims are looked at, not watched
    rests = await part.wait(
        lambda s: condition(s, "WorkspaceReady")["reason"] == "WorkspaceMissing", "told"
    )
    assert claim in condition(rests, "Ready")["message"]
    assert condition(rests, "Suspended")["status"] == "True"
    await part.patch(operatingMode="Running")
    status = await part.failed("WorkspaceMissing")
    assert claim in status["errorMessage"]
    assert pods.pods(part) == []


async def test_a_claim_that_somebody_else_made_is_adopted_as_it_is(pods: PodScene) -> None:
    await pods.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "mine"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    part = await pods.born("adopts", workspace={"claimName": "mine"})
    status = await part.idle()
    assert status["workspaceRef"]["name"] == "mine"
    claim = await pods.claim("mine")
    assert "ownerReferences" not in claim["metadata"]


async def test_an_adopted_claim_may_come_later(pods: PodScene) -> None:
    part = await pods.born("waits", workspace={"claimName": "later"})
    status = await part.failed("WorkspaceMissing")
    assert "later" in status["errorMessage"]
    await pods.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "later"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    await part.idle()


async def test_a_quota_that_refuses_the_pod_is_told_and_tried_again(pods: PodScene) -> None:
    part = await pods.born("full", operatingMode="Suspended")
    await part.wait(lambda s: condition(s, "Suspended").get("status") == "True", "suspended")
    hard = {"pods": "0"}
    await pods.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "none"},
            "spec": {"hard": hard},
        }
    )
    # What the quota controller of a whole cluster would write.
    counted = json.dumps({"status": {"hard": hard, "used": {"pods": "0"}}})
    words = ("patch", "resourcequota", "none", "--subresource=status", "--type=merge")
    await pods.kubectl(*words, "-p", counted)
    await part.patch(operatingMode="Running")
    status = await part.failed("QuotaExceeded", stalled=False)
    assert "exceeded quota" in status["errorMessage"]
    await pods.kubectl("delete", "resourcequota", "none")
    await part.idle(seconds=90)


async def test_a_pod_that_no_node_takes_says_what_the_scheduler_says(pods: PodScene) -> None:
    pods.node.schedules = lambda pod: (
        "0/1 nodes are available: 1 Insufficient cpu."
        if "greedy" in pod["metadata"]["name"]
        else ""
    )
    part = await pods.born("greedy", lifecycle={"startTimeoutSeconds": 3})
    await part.wait(lambda s: "Insufficient cpu" in json.dumps(s), "telling")
    status = await part.failed("Unschedulable", stalled=False)
    assert "Insufficient cpu" in status["errorMessage"]
    pods.node.schedules = lambda _pod: ""
    await part.idle()


async def test_b034_an_agentctl_that_never_answers_is_an_error_in_time(pods: PodScene) -> None:
    agent = {"name": "agent", "env": [{"name": "PYTHONSTARTUP", "value": "/x"}]}
    part = await pods.born(
        "mute", executor=template({"containers": [agent]}), lifecycle={"startTimeoutSeconds": 4}
    )
    await until(lambda: pods.pods(part), "the pod is made")
    pod = await _on_the_node(pods, part)
    await until(lambda: pod.agent.process is not None, "its agentctl is started")
    os.killpg(pod.agent.process.pid, 19)  # type: ignore[union-attr]
    status = await part.failed("AgentctlUnreachable", stalled=False, seconds=60)
    assert "8700" in status["errorMessage"]
    assert "lastSeenAt" not in pods.executor(part)["status"]
    os.killpg(pod.agent.process.pid, 18)  # type: ignore[union-attr]
    await part.idle()


async def test_a_drained_executor_of_a_template_gives_way_to_a_new_one(pods: PodScene) -> None:
    part = await pods.born("drained")
    before = await part.with_history()
    executor = pods.executor(part)
    async with part.talk() as it:
        await it.prompt("slow 30", "long")
        await part.wait(lambda s: s["state"] == "RUNNING", "in a turn")
        drain = '{"spec":{"drain":true}}'
        name = executor["metadata"]["name"]
        await pods.kubectl("patch", "executor", name, "--type=merge", "-p", drain)
        report = await it.turn_ended("long")
    assert report.last_turn is not None
    assert report.last_turn.outcome == "completed", "the turn could end"
    now = await part.idle_again(before)
    assert now["executorRef"]["uid"] != executor["metadata"]["uid"]
    assert now["workspaceRef"] == before["workspaceRef"]
    await part.remembers()


async def test_a_drained_executor_of_its_own_takes_nobody_in(pods: PodScene) -> None:
    own = {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "own"},
        "spec": {"runtime": "Pod", "pod": {}},
    }
    await pods.apply(own)
    rests = await pods.executor_becomes("own", lambda s: s.get("state") == "stopped", "at rest")
    assert condition(rests, "Ready")["reason"] == "Idle"
    part = await pods.born("guest", executor={"ref": {"name": "own"}})
    before = await part.with_history()
    drain = '{"spec":{"drain":true}}'
    await pods.kubectl("patch", "executor", "own", "--type=merge", "-p", drain)
    status = await part.failed("ExecutorDraining")
    assert "own" in status["errorMessage"]
    await until(lambda: not pods.pods(part), "its pod is gone")
    back = '{"spec":{"drain":false}}'
    await pods.kubectl("patch", "executor", "own", "--type=merge", "-p", back)
    await part.idle_again(before)
    await part.remembers()


async def test_repositories_are_cloned_once_and_work_is_never_reset(
    pods: PodScene, tmp_path: Path
) -> None:
    origin = tmp_path / "origin"
    _git(tmp_path, "init", "-q", "-b", "main", str(origin))
    (origin / "README").write_text("hello\n")
    _git(origin, "add", ".")
    _git(origin, "commit", "-qm", "first")
    part = await pods.born("clones", operatingMode="Suspended")
    repositories = [{"name": "code", "url": f"file://{origin}"}]
    await part.repair("task", {"repositories": repositories})
    await part.patch(operatingMode="Running")
    status = await part.idle()
    assert status["worktree"]["branch"] == "kandev/clones"
    session = TaskSession.from_body(pods.get("tasksession", "clones"))
    tree = pods.node.folder / "claims" / claim_name(session) / "worktree" / "code"
    assert _git(tree, "branch", "--show-current").strip() == "kandev/clones"
    (tree / "README").write_text("work\n")
    await pods.delete_pod(part)
    await part.idle_again(status)
    assert (tree / "README").read_text() == "work\n"


async def test_a_clone_that_fails_says_so_in_gits_words(pods: PodScene, tmp_path: Path) -> None:
    part = await pods.born("no-clone", operatingMode="Suspended")
    repositories = [{"name": "code", "url": f"file://{tmp_path}/nowhere"}]
    await part.repair("task", {"repositories": repositories})
    await part.patch(operatingMode="Running")
    status = await part.failed("CloneFailed", stalled=False)
    assert "nowhere" in status["errorMessage"]
    assert "code" in status["errorMessage"]


async def test_b071_a_crash_loop_is_an_error_with_the_last_exit_code(pods: PodScene) -> None:
    part = await pods.born("loops")
    await part.with_history()
    pod = pods.pod(part)

    async def kill_again_and_again() -> None:
        while True:
            if pod.agent.process is not None:
                pods.node.kill(pod)
            await asyncio.sleep(0.05)

    killing = asyncio.create_task(kill_again_and_again())
    try:
        status = await part.failed("CrashLoopBackOff", stalled=False, seconds=60)
    finally:
        killing.cancel()
    assert "exit code" in status["errorMessage"]
    assert status["isResumable"] is not False
    await part.idle()
    await part.remembers()
    assert part.opened_new == 1


async def _on_the_node(pods: PodScene, part: Part) -> Pod:
    uid = pods.executor(part)["metadata"]["uid"]

    def there() -> bool:
        return any(
            each.body["metadata"]["labels"]["kandev.dev/executor-uid"] == uid
            for each in list(pods.node.pods.values())
        )

    await until(there, "the pod is on the node")
    return pods.node.pod_of(uid)


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout
