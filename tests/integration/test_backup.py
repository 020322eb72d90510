"""A backup and its restoring: another, empty cluster, the objects, the volumes, and nothing else.

The first cluster is lost as a whole: node, objects, Secrets. What is left is the file that
`kubectl kandev export` wrote, and the folders that stand for the volumes.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from cluster.controlplane import ControlPlane
from cluster.interface import Cluster
from stage.backup import export
from stage.kubelet import Kubelet
from stage.operatorprocess import OperatorProcess
from stage.podscene import IMAGE, PodScene
from stage.scene import Part
from stage.sessions import Body, Namespace, condition, profile, session, task

CRDS = Path(__file__).resolve().parents[2] / "crds"
TEAM = "backed-up"
MEMBER: Body = {
    "apiVersion": "kandev.dev/v1alpha1",
    "kind": "Executor",
    "metadata": {"name": "member"},
    "spec": {"runtime": "Pod", "pod": {}},
}
pytestmark = pytest.mark.timeout(300)


@asynccontextmanager
async def a_cluster(cluster: Cluster, folder: Path, log: Path) -> AsyncIterator[PodScene]:
    """A namespace with a node and an operator, which is not started yet."""
    operator = OperatorProcess(
        cluster.kubeconfig,
        log,
        namespaces=[TEAM],
        lease_namespace=TEAM,
        options=["--probe-seconds=1", "--pod-access=direct"],
    )
    place = Namespace(cluster, TEAM, folder, operator.tail)
    with Kubelet(cluster.kubeconfig, TEAM, folder / "volumes") as node:
        scene = PodScene(place, operator, folder, node)
        try:
            yield scene
        finally:
            operator.kill()
            scene.close()


def claims_of(place: Namespace) -> dict[str, Body]:
    """The claims as a storage's own backup brings them back: by name, without an owner."""
    return {
        each["metadata"]["name"]: {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": each["metadata"]["name"]},
            "spec": {key: each["spec"][key] for key in ("accessModes", "resources")},
        }
        for each in place.items("persistentvolumeclaims")
    }


async def begun(scene: PodScene) -> dict[str, Part]:
    """Sessions of every sort, each with a history."""
    part = scene.part
    await scene.apply(MEMBER)
    own = await scene.born("own", prompt={"text": "alpha"})
    member = await scene.born("member", executor={"ref": {"name": "member"}}, prompt={"text": "a"})
    over = await scene.born("over", prompt={"text": "alpha"})
    rests = await scene.born("rests", prompt={"text": "alpha"})
    for each in (own, member, over, rests):
        await each.wait(lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "told")
        await each.idle()
    await own.ask_for("resume", "a wish of its day")
    await own.wait(lambda s: s.get("lastHandledResumeRequest") is not None, "heard")
    await own.ask("beta")
    await over.patch(operatingMode="Finished")
    await over.wait(lambda s: s.get("state") == "COMPLETED", "over")
    await rests.patch(operatingMode="Suspended")
    await rests.wait(lambda s: condition(s, "Suspended").get("status") == "True", "at rest")
    return {name: part(name) for name in ("own", "member", "over", "rests")}


async def test_sessions_go_on_in_an_empty_cluster_with_their_volumes(
    crds: Cluster, tmp_path: Path
) -> None:
    crds.create_namespace(TEAM)
    async with a_cluster(crds, tmp_path, tmp_path / "first.log") as first:
        await asyncio.to_thread(first.operator.start)
        parts = await begun(first)
        backup = await asyncio.to_thread(export, first.place)
        claims = await asyncio.to_thread(claims_of, first.place)
        tokens = {name: parts[name].token for name in ("own", "member", "rests")}
        uids = {name: part.uid for name, part in parts.items()}
    volumes, kept = tmp_path / "volumes", tmp_path / "kept"
    shutil.copytree(volumes / "claims", kept, symlinks=True)
    shutil.rmtree(volumes)
    shutil.copytree(kept, volumes / "claims", symlinks=True)
    heard = {name: part.prompts() for name, part in parts.items()}
    starts = {name: part.starts for name, part in parts.items()}
    assert "token" not in backup

    with ControlPlane() as second:
        second.kubectl("apply", "--server-side", "-f", str(CRDS))
        second.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(CRDS))
        second.create_namespace(TEAM)
        async with a_cluster(second, tmp_path, tmp_path / "second.log") as scene:
            await asyncio.to_thread(scene.operator.start)
            late = claims.pop(claim_in(backup, "member"))
            await scene.apply(*claims.values())
            await scene.kubectl("apply", "-f", "-", stdin=backup)
            await all_goes_on(scene, heard, starts, uids, late)
            for name, token in tokens.items():
                if name != "rests":
                    assert scene.part(name).token == token, "from the journal, not from a Secret"
    await asyncio.to_thread(crds.delete_namespace, TEAM)


def claim_in(backup: str, name: str) -> str:
    """The claim that the session of this name adopts."""
    [body] = [
        each
        for each in yaml.safe_load_all(backup)
        if (each["kind"], each["metadata"]["name"]) == ("TaskSession", name)
    ]
    claim: str = body["spec"]["workspace"]["claimName"]
    return claim


async def all_goes_on(
    scene: PodScene,
    heard: dict[str, list[str]],
    starts: dict[str, int],
    uids: dict[str, str],
    late: Body,
) -> None:
    """Each where it was: no prompt is repeated, no wish replayed, nothing begun anew."""
    own, member, over, rests = (scene.part(name) for name in ("own", "member", "over", "rests"))
    await own.idle()
    await own.remembers()
    assert (own.opened_new, own.resumes) == (1, 1), "resumed once; the old wish is no news"
    assert own.prompts() == [*heard["own"], "what was the first?"]
    status = await over.wait(lambda s: condition(s, "Finished").get("status") == "True", "over")
    assert over.starts == starts["over"], status
    await rests.wait(lambda s: condition(s, "Suspended").get("status") == "True", "at rest")
    assert rests.starts == starts["rests"]
    # A volume that comes later than the objects: nothing begins without it.
    await member.wait(
        lambda s: condition(s, "WorkspaceReady").get("reason") == "WorkspaceMissing", "without"
    )
    assert member.starts == starts["member"]
    await scene.apply(late)
    await member.idle(90)
    await member.remembers("a")
    assert (member.opened_new, member.resumes) == (1, 1)
    await rests.patch(operatingMode="Running")
    await rests.idle()
    await rests.remembers()
    assert rests.opened_new == 1
    for part in (own, member, rests):
        assert part.uid != uids[part.name]
        assert part.prompts()[: len(heard[part.name])] == heard[part.name]
        assert part.status["firstPrompt"]["fate"] == "delivered"


async def test_the_plain_export_of_kubectl_replays_no_wish_either(pods: PodScene) -> None:
    """Annotations and all, on files that were retained: a wish that is found with no status is of
    the past."""
    wish = {"kandev.dev/resume-requested": "then", "kandev.dev/fresh-start-requested": "then"}
    part = await pods.born(
        "plain", annotations=wish, prompt={"text": "alpha"}, workspace={"policy": "Retain"}
    )
    await part.wait(lambda s: (s.get("firstPrompt") or {}).get("fate") == "delivered", "told")
    before = await part.idle()
    shown = json.loads(await pods.kubectl("get", "tasksession", "plain", "-o", "json"))
    part.remember_uid()
    await pods.kubectl("delete", "tasksession", "plain", "--timeout=60s")
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
        shown["metadata"].pop(key, None)
    shown.pop("status")
    shown["spec"]["workspace"] = {"claimName": before["workspaceRef"]["name"]}
    await pods.apply(shown)
    again = pods.part("plain")
    await again.idle()
    status = again.status
    assert status["lastHandledFreshStartRequest"] == "then"
    await again.remembers()
    assert again.opened_new == 1, "no fresh start"
    assert again.prompts() == ["alpha", "what was the first?"]


async def test_secrets_are_in_it_only_when_asked_for(crds: Cluster, place: Namespace) -> None:
    place.kubectl("create", "secret", "generic", "keys", "--from-literal=k=hunter2-hunter2")
    reference = {"name": "K", "secretKeyRef": {"name": "keys", "key": "k"}}
    wanted = session("s", executor={"template": {"spec": {"runtime": "Pod", "pod": {}}}})
    body = profile(image=IMAGE)
    body["spec"]["env"] = [reference]
    place.apply(body, task(), wanted)
    claim = {"kind": "PersistentVolumeClaim", "name": "files", "uid": "u"}
    place.kubectl(
        "patch",
        "tasksession",
        "s",
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"observedGeneration": 1, "workspaceRef": claim}}),
    )
    plain = export(place)
    assert [each["kind"] for each in yaml.safe_load_all(plain)] == [
        "AgentProfile",
        "Task",
        "TaskSession",
    ]
    whole = export(place, "--secrets")
    [secret] = [each for each in yaml.safe_load_all(whole) if each["kind"] == "Secret"]
    assert secret["data"]["k"]
    place.kubectl("apply", "--dry-run=server", "-f", "-", stdin=whole)
