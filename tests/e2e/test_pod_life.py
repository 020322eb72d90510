"""A session's whole life in pods of a real node: apply, turn, every way a pod is lost, and back.

The operator runs outside the cluster, as in development, in a namespace that enforces Pod Security
*restricted*. The agent is the scripted one; its image has no agentctl.
"""

import asyncio
import json
from collections.abc import Callable

import pytest

from stage.nodescene import NodeScene
from stage.sessions import condition

KILL_THE_AGENT = """
import os, pathlib
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    words = (folder / "cmdline").read_bytes().split(bytes(1))
    if any(word.endswith(b"acp_agent.py") for word in words):
        os.kill(int(folder.name), 9)
"""


@pytest.fixture(params=["direct", "proxy"])
def access(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_session_lives_in_a_pod_and_goes_on_in_the_next(
    make_stage: Callable[..., NodeScene], access: str
) -> None:
    stage = make_stage(access)
    stage.born("s")
    before = stage.idle("s")
    first = stage.executor("s")
    await stage.ask("s", "alpha")
    stage.place.kubectl("delete", "pod", first["podRef"]["name"], "--wait=false")
    stage.idle_again("s", before)
    assert stage.executor("s")["podRef"]["uid"] != first["podRef"]["uid"]
    await stage.remembers("s")


async def test_five_accidents_in_a_row(stage: NodeScene) -> None:
    scratch = {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}}]}
    mount = [{"name": "scratch", "mountPath": "/scratch"}]
    limits = {"limits": {"memory": "300Mi"}}
    agent = {"name": "agent", "volumeMounts": mount, "resources": limits}
    stage.born("s", {**scratch, "containers": [agent]})
    status = stage.idle("s")
    await stage.ask("s", "the first words")

    async def survives() -> None:
        nonlocal status
        status = await asyncio.to_thread(stage.idle_again, "s", status)
        await stage.remembers("s", "the first words")

    # Evicted for its disk.
    stage.inside("s", "sh", "-c", "dd if=/dev/zero of=/scratch/big bs=1M count=8 || true")
    told = stage.executor_says("s", "PodEvicted")
    assert "exceeds the limit" in condition(told, "Ready")["message"]
    await survives()
    # Deleted.
    stage.place.kubectl("delete", "pod", stage.executor("s")["podRef"]["name"], "--wait=false")
    await survives()
    # Its agent killed alone.
    same = stage.executor("s")["podRef"]
    stage.inside("s", "python3", "-c", KILL_THE_AGENT)
    await survives()
    assert stage.executor("s")["podRef"] == same
    # Evicted by the API.
    pod = stage.executor("s")["podRef"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": stage.place.name},
    }
    path = f"/api/v1/namespaces/{stage.place.name}/pods/{pod}/eviction"
    stage.place.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
    await survives()
    # Force-deleted, while its container lives on for a moment.
    pod = stage.executor("s")["podRef"]["name"]
    stage.place.kubectl("delete", "pod", pod, "--force", "--grace-period=0")
    await survives()


async def test_an_image_that_does_not_exist_is_named_and_mended(stage: NodeScene) -> None:
    agent = {"name": "agent", "image": "registry.invalid/agents/none:1"}
    stage.born("s", {"containers": [agent]})
    status = stage.failed("s", "ImagePullFailed")
    assert "registry.invalid/agents/none:1" in status["errorMessage"]
    mended = {"template": {"spec": {"pod": {"template": None}}}}
    stage.place.patch("tasksession", "s", {"spec": {"executor": mended}})
    stage.idle("s")


async def test_suspended_and_back(stage: NodeScene) -> None:
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    stage.place.patch("tasksession", "s", {"spec": {"operatingMode": "Suspended"}})
    stage.place.wait(
        "s", lambda s: condition(s, "Suspended").get("status") == "True", "suspended", seconds=60
    )
    stage.place.kubectl(
        *("wait", "--for=delete", "pod", "--timeout=90s"),
        *("--selector", "kandev.dev/executor-uid"),
    )
    stage.place.patch("tasksession", "s", {"spec": {"operatingMode": "Running"}})
    stage.idle_again("s", before)
    await stage.remembers("s")
