"""What becomes of a session's files on a real node: claims deleted, owners deleted, nobody there.

A claim that is gone is said, and nothing is put in its place; whatever is deleted goes, whether an
operator runs or not.
"""

import asyncio
import json

from cluster.errors import KubectlError
from stage.realpods import PATIENCE, RealPart, RealPodScene
from stage.scene import until
from stage.sessions import Body, condition


def claims(scene: RealPodScene) -> list[str]:
    return [each["metadata"]["name"] for each in scene.listed("persistentvolumeclaims")]


async def nothing_is_invented(scene: RealPodScene, part: RealPart, claim: str) -> Body:
    """The loss is said, naming the claim; no claim, no pod and no conversation takes its place."""
    status = await part.failed("WorkspaceMissing")
    await until(lambda: claim not in claims(scene), "the claim is gone", PATIENCE)
    await until(lambda: scene.pods(part) == [], "no pod waits for it", PATIENCE)
    status = await part.wait(
        lambda s: "does not exist any more" in s.get("errorMessage", ""), "told as it is"
    )
    assert claim in status["errorMessage"]
    assert condition(status, "WorkspaceReady")["reason"] == "WorkspaceMissing"
    await part.ask_for("resume", "all the same")
    await scene.restart_operator()
    await part.failed("WorkspaceMissing")
    assert claims(scene) == []
    return status


async def begun_anew(part: RealPart, before: Body) -> None:
    """Only who asks for it gets an empty workspace, and a conversation that knows nothing."""
    await part.ask_for("fresh-start", "yes")
    now = await part.idle_again(before)
    assert now["workspaceRef"]["uid"] != before["workspaceRef"]["uid"]
    assert (part.opened_new, part.resumes) == (1, 0)
    assert part.prompts() == []
    assert "the first was: new words" in await part.ask("new words")


async def test_a_claim_deleted_under_a_running_session(scene: RealPodScene) -> None:
    part = await scene.born("under")
    before = await part.with_history()
    claim, uid = before["workspaceRef"]["name"], part.pod_uid
    await scene.kubectl("delete", "pvc", claim, "--wait=false")
    await part.remembers()  # its pod has it still
    assert part.pod_uid == uid
    await part.delete_pod()
    await nothing_is_invented(scene, part, claim)
    await begun_anew(part, before)


async def test_a_claim_deleted_while_the_session_rests(scene: RealPodScene) -> None:
    part = await scene.born("rests")
    before = await part.with_history()
    claim = before["workspaceRef"]["name"]
    await part.patch(operatingMode="Suspended")
    await part.wait(lambda s: condition(s, "Suspended").get("status") == "True", "suspended")
    await until(lambda: scene.pods(part) == [], "its pod is gone", PATIENCE)
    await scene.kubectl("delete", "pvc", claim, "--wait=false")
    await until(lambda: claims(scene) == [], "the claim is gone", PATIENCE)
    await scene.restart_operator()  # claims are looked at, not watched
    rests = await part.wait(
        lambda s: condition(s, "WorkspaceReady")["reason"] == "WorkspaceMissing", "told at rest"
    )
    assert claim in condition(rests, "Ready")["message"]
    assert condition(rests, "Suspended")["status"] == "True"
    await part.patch(operatingMode="Running")
    await nothing_is_invented(scene, part, claim)
    await begun_anew(part, before)


async def test_b016_what_is_deleted_goes_without_an_operator(scene: RealPodScene) -> None:
    """A pod, a session with all that is its own, and a namespace with whatever is in it."""
    goes, kept = await scene.born("goes"), await scene.born("kept", workspace=_retained())
    before = await asyncio.gather(goes.with_history(), kept.with_history())
    executors = [each["executorRef"]["name"] for each in before]
    pod = await kept.delete_pod()
    await until(lambda: pod not in _pods(scene), "its pod is gone", PATIENCE)
    scene.operator.kill()
    try:
        pod = await goes.delete_pod()
        await until(lambda: pod not in _pods(scene), "its pod is gone", PATIENCE)
        await scene.kubectl("delete", "tasksession", "goes", "kept", "--timeout=60s")
        for executor in executors:
            await scene.wait_gone("executor", executor)
        await until(lambda: not _pods(scene), "their pods are gone", PATIENCE)
        files = before[1]["workspaceRef"]["name"]
        await until(lambda: claims(scene) == [files], "only what was to be kept stays", PATIENCE)
        await scene.kubectl("delete", "task,agentprofile", "--all", "--timeout=60s")
        await scene.on_node("delete", "namespace", scene.place.name, "--timeout=120s")
    finally:
        scene.operator.start()


async def test_b016_a_namespace_goes_with_all_that_lives_in_it(scene: RealPodScene) -> None:
    idle, busy = await scene.born("idle"), await scene.born("busy")
    await asyncio.gather(idle.with_history(), busy.with_history())
    await busy.in_a_turn()
    await scene.on_node("delete", "namespace", scene.place.name, "--timeout=180s")
    try:
        left = await scene.on_node("get", "namespace", scene.place.name, "--output=json")
    except KubectlError as error:
        left = str(error)
    assert "not found" in left, json.loads(left)


def _retained() -> Body:
    return {"size": "64Mi", "policy": "Retain"}


def _pods(scene: RealPodScene) -> list[str]:
    return [each["metadata"]["uid"] for each in scene.pods()]
