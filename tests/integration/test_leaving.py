"""Sessions that are deleted: the agent ends, nothing is left running, and others go on."""

import asyncio
import shutil

from kandev_operator.clients.processes import carrying
from stage.scene import Part, Scene, until


async def nothing_runs(part: Part) -> None:
    """No process with the mark of this session's state folder is left."""
    root = part.scene.place.root
    for state in (root / ".kandev").glob("*"):
        if any((state / "sessions").glob(part.uid)):
            mark = f"KANDEV_STATE={state}"
            await until(lambda mark=mark: not carrying(mark), "no process is left")


async def delete(part: Part) -> None:
    """Delete the session, and wait until it and its executor are gone, with all processes."""
    executor = part.status["executorRef"]["name"]
    part.remember_uid()
    await part.scene.kubectl("delete", "tasksession", part.name, "--wait=false")
    await part.scene.wait_gone("tasksession", part.name)
    await part.scene.wait_gone("executor", executor)
    await nothing_runs(part)


async def test_a_deleted_session_leaves_nothing_running(scene: Scene) -> None:
    other = await scene.begin("stays")
    untouched = await other.with_history()
    part = await scene.begin("goes", "--escape-child", "--ignore-term", "--ignore-eof")
    await part.with_history()
    secret = part.status["resumeTokenRef"]["secretName"]
    await delete(part)
    # The garbage collector that no bare control plane has would take it by this reference.
    owner = scene.get("secret", secret)["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("TaskSession", part.uid)
    assert other.status["conditions"] == untouched["conditions"]


async def test_a_session_deleted_in_the_middle_of_a_resume(scene: Scene) -> None:
    part = await scene.begin("mid-resume")
    await part.with_history()
    part.behave("--hang-at=resume")
    part.kill()
    await until(lambda: part.resumes, "the resume is under way")
    await delete(part)
    assert part.resumes == 1


async def test_a_session_deleted_in_the_middle_of_a_turn(scene: Scene) -> None:
    part = await scene.begin("mid-turn")
    await part.idle()
    async with part.talk() as it:
        await it.prompt("slow 1000")
    await part.wait(lambda s: s["state"] == "RUNNING", "running")
    await delete(part)
    assert part.heard("session/cancel"), "the agent was asked to stop its turn"


async def test_a_session_deleted_when_its_folder_is_gone(scene: Scene) -> None:
    part = await scene.begin("folder-gone")
    await part.idle()
    await asyncio.to_thread(shutil.rmtree, scene.place.root / "folder-gone")
    part.kill()
    await part.failed("WorktreeMissing", stalled=False)
    await delete(part)


async def test_a_session_deleted_while_the_operator_is_away(scene: Scene) -> None:
    part = await scene.begin("away")
    await part.with_history()
    scene.operator.kill()
    part.remember_uid()
    await scene.kubectl("delete", "tasksession", "away", "--wait=false")
    await asyncio.to_thread(scene.operator.start)
    await scene.wait_gone("tasksession", "away")
    await nothing_runs(part)


async def test_made_again_under_the_same_name_the_conversation_goes_on(scene: Scene) -> None:
    """A session restored from a backup or by Git has a new UID; its files remember it."""
    part = await scene.begin("again")
    await part.with_history()
    token = part.token
    await delete(part)
    part = await scene.begin("again")
    await part.idle()
    assert part.token == token
    assert part.opened_new == 1
    await part.remembers()
