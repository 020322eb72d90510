"""Pods that are refused, or do not come up, on a real node: what is said, and how it is mended.

The API server's, the kubelet's and git's own words are handed on; nothing has to be deleted to
recover, and a conversation that was there before is there afterwards.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.node import flags
from kandev_operator.core.podseen import OVER
from stage.gitserver import GitServer
from stage.podscene import template
from stage.realpods import RealPart, RealPodScene
from stage.scene import until
from stage.sessions import Body, condition

PRIVILEGED = {"privileged": True, "allowPrivilegeEscalation": True}


async def mended(part: RealPart, overlay: Body | None = None) -> Body:
    """Idle, after its template was changed; nothing of what was wrong is left."""
    executor = template(overlay) if overlay else {"template": {"spec": {"pod": {"template": None}}}}
    await part.patch(executor=executor)
    now = await part.idle()
    assert "errorMessage" not in now
    return now


async def test_what_a_restricted_namespace_refuses_is_told_in_its_words(
    scene: RealPodScene,
) -> None:
    plain = await scene.born("plain")  # what the operator makes by itself is let in
    agent = {"name": "agent", "securityContext": PRIVILEGED}
    loose = await scene.born("loose", overlay={"containers": [agent]})
    status = await loose.failed("InvalidTemplate")
    assert 'violates PodSecurity "restricted:latest": privileged' in status["errorMessage"]
    assert scene.pods(loose) == []
    await mended(loose)
    await plain.idle()
    for part in (plain, loose):
        await part.ask("alpha")
        await part.remembers()
        assert part.prompts() == ["alpha", "what was the first?"]


async def test_b025_dead_pods_take_no_room_and_a_full_quota_is_waited_for(
    scene: RealPodScene,
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "1"}},
    }
    await scene.apply(quota)
    scratch = {"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}
    mount = {"name": "scratch", "mountPath": "/scratch"}
    overlay = {"volumes": [scratch], "containers": [{"name": "agent", "volumeMounts": [mount]}]}
    first = await scene.born("first", overlay=overlay)
    before = await first.with_history()
    uid = first.pod_uid
    await first.ask("terminal: dd if=/dev/zero of=/scratch/big bs=1M count=4")
    await first.resumed(before, same_pod=False, pod_uid=uid)
    phases = [each["status"]["phase"] for each in scene.pods(first)]
    assert len(phases) == 2
    assert len(OVER.intersection(phases)) == 1
    second = await scene.born("second")
    status = await second.failed("QuotaExceeded", stalled=False)
    assert "exceeded quota: few, requested: pods=1, used: pods=1" in status["errorMessage"]
    assert scene.pods(second) == []
    await first.patch(operatingMode="Suspended")
    await second.with_history()
    await first.patch(operatingMode="Running")
    await first.failed("QuotaExceeded", stalled=False)
    await scene.kubectl("delete", "resourcequota", "few")
    await first.idle()
    for part in (first, second):
        await part.remembers()
        assert part.opened_new == 1


async def test_b026_init_containers_that_fail_are_named_and_mended(scene: RealPodScene) -> None:
    """A script that ends badly, a command that is not there, and one that needs too much memory."""
    hog = ["python3", "-E", "-S", "-c", "b = bytes(1) * 300_000_000"]
    small = {"limits": {"memory": "32Mi"}}
    image = {"name": "setup", "image": scene.image}
    script = {**image, "command": ["sh", "-c", "echo no licence >&2; exit 7"]}
    missing = {**image, "command": ["/opt/no-such-thing"]}
    parts = dict(
        zip(
            ("script", "missing", "hog"),
            [
                await scene.born("script", overlay={"initContainers": [script]}),
                await scene.born("missing", overlay={"initContainers": [missing]}),
                await scene.born(
                    "hog",
                    overlay={"initContainers": [{**image, "command": hog, "resources": small}]},
                ),
            ],
            strict=True,
        )
    )
    status = await parts["script"].failed("InitFailed", stalled=False)
    assert "Init container setup ended with exit code 7" in status["errorMessage"]
    status = await parts["missing"].failed("InitFailed", stalled=False)
    assert "setup" in status["errorMessage"]
    assert "/opt/no-such-thing" in status["errorMessage"]
    status = await parts["hog"].failed("OOMKilled", stalled=False)
    assert "Init container setup ended with exit code 137" in status["errorMessage"]
    well = {"initContainers": [{**image, "command": ["true"]}]}
    for part in parts.values():
        await mended(part, well)
    for part in parts.values():
        assert len(scene.pods(part)) == 1
        assert (part.starts, part.opened_new) == (1, 1)


async def test_a_clone_that_fails_is_named_and_mended_by_the_task(
    scene: RealPodScene, tmp_path: Path
) -> None:
    with GitServer(tmp_path, flags.GATEWAY) as git:
        git.make("shop", {"README": "hello\n"})
        part = await scene.born("clones", operatingMode="Suspended")
        code = {"name": "code", "url": f"{git.url}/no-such.git"}
        await part.repair("task", {"repositories": [code]})
        await part.patch(operatingMode="Running")
        status = await part.failed("CloneFailed", stalled=False)
        assert "Init container kandev-workspace ended with exit code 1" in status["errorMessage"]
        assert "repository code" in status["errorMessage"]
        assert "no-such.git" in status["errorMessage"]
        await part.repair("task", {"repositories": [{**code, "url": f"{git.url}/shop.git"}]})
        before = await part.with_history()
        assert (part.volume / "worktree/code/README").read_text() == "hello\n"
        # Once there, it is left alone: also by a server that is away.
    uid = await part.delete_pod()
    await part.resumed(before, same_pod=False, pod_uid=uid)
    await part.remembers()


async def test_b038_a_volume_that_comes_late_is_waited_for(scene: RealPodScene) -> None:
    late = {"name": "settings", "configMap": {"name": "late"}}
    mount = {"name": "settings", "mountPath": "/settings"}
    overlay = {"volumes": [late], "containers": [{"name": "agent", "volumeMounts": [mount]}]}
    part = await scene.born("mounts", overlay=overlay)
    async with scene.watching(part) as seen:
        await part.wait(
            lambda s: 'configmap "late" not found' in condition(s, "Ready").get("message", ""),
            "told in the kubelet's words",
        )
        assert part.status["state"] == "STARTING"
        body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}
        await scene.apply(body)
        await part.idle()
    assert "error" not in {each.get("state") for each in seen.executors[part.name]}
    assert (len(scene.pods(part)), part.starts) == (1, 1)


async def test_b040_b007_an_image_that_stalls_or_is_not_there(scene: RealPodScene) -> None:
    part = await scene.born("image")
    before = await part.with_history()
    token = part.token
    with _deaf_registry() as registry:
        stalls = f"{registry}/agents/stalls:1"
        await part.repair("agentprofile", {"image": stalls})
        uid = await part.delete_pod()
        told = await part.wait(
            lambda s: stalls in condition(s, "Ready").get("message", ""), "naming the image"
        )
        # The runtime gives a connection up that says nothing, and then that is told.
        given_up = condition(told, "Ready")["reason"] == "ImagePullFailed"
        assert told["state"] == "STARTING" or given_up
        missing = "registry.invalid/agents/none:1"
        await part.repair("agentprofile", {"image": missing})
        status = await part.failed("ImagePullFailed", stalled=False)
    assert missing in status["errorMessage"]
    assert status["isResumable"] is True
    await scene.restart_operator()
    await part.repair("agentprofile", {"image": scene.image})
    await part.resumed(before, same_pod=False, pod_uid=uid)
    assert part.token == token
    assert (part.opened_new, part.resumes) == (1, 1)
    await part.remembers()


async def test_a_neighbours_trouble_is_its_own(scene: RealPodScene) -> None:
    loops = {"name": "loops", "image": scene.image, "command": ["sh", "-c", "exit 3"]}
    hog = ["python3", "-E", "-S", "-c", "b = bytes(1) * 300_000_000"]
    eats = {
        "name": "eats",
        "image": scene.image,
        "command": hog,
        "resources": {"limits": {"memory": "32Mi"}},
    }
    none = {"name": "none", "image": "registry.invalid/none:1"}
    part = await scene.born("beside", overlay={"containers": [loops, eats, none]})
    await part.with_history()

    def in_trouble() -> bool:
        told = {each["name"]: each for each in part.pod["status"]["containerStatuses"]}
        back_off = [told[name]["restartCount"] for name in ("loops", "eats")]
        return min(back_off) > 0 and "waiting" in told["none"]["state"]

    await until(in_trouble, "all three in trouble", 120)
    status = await part.idle()
    assert condition(status, "Ready")["status"] == "True"
    await part.remembers()
    assert part.restarts() == 0


@contextmanager
def _deaf_registry() -> Iterator[str]:
    """An address where connections are taken and nothing is ever said."""
    with socket.create_server((flags.GATEWAY, 0), backlog=50) as listening:
        yield f"{flags.GATEWAY}:{listening.getsockname()[1]}"
