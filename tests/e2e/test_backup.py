"""Objects that are deleted come back from a backup, on the volumes that a real node kept."""

import asyncio

from stage.backup import export
from stage.realpods import PATIENCE, RealPart, RealPodScene
from stage.scene import until

OURS = "executors,tasks,agentprofiles"


async def test_a_namespace_is_emptied_and_restored_on_its_volumes(scene: RealPodScene) -> None:
    retain = {"size": "64Mi", "policy": "Retain"}
    kept = await scene.born("kept", prompt={"text": "alpha"}, workspace=retain)
    orphan = await scene.born("orphan", prompt={"text": "alpha"})
    for part in (kept, orphan):
        await part.wait(lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "told")
        await part.idle()
    backup = await asyncio.to_thread(export, scene.place)
    before = {part.name: (part.uid, claim_of(scene, part)) for part in (kept, orphan)}

    await scene.kubectl("delete", "tasksession", "kept", "--timeout=60s")
    await scene.kubectl("delete", "tasksession", "orphan", "--cascade=orphan", "--timeout=60s")
    await scene.kubectl("delete", OURS, "--all", "--timeout=60s")
    await until(lambda: scene.listed("pods") == [], "all pods are gone", PATIENCE)
    await scene.kubectl("apply", "-f", "-", stdin=backup)

    for part in (scene.part("kept"), scene.part("orphan")):
        assert isinstance(part, RealPart)
        await part.idle()
        await part.remembers()
        assert part.prompts() == ["alpha", "what was the first?"]
        assert (part.opened_new, part.resumes) == (1, 1)
        uid, claim = before[part.name]
        assert part.uid != uid
        assert claim_of(scene, part) == claim, "the very volume"


def claim_of(scene: RealPodScene, part: RealPart) -> tuple[str, str]:
    claim = scene.get("persistentvolumeclaim", part.status["workspaceRef"]["name"])
    return claim["metadata"]["uid"], claim["spec"]["volumeName"]
