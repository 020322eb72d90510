"""The signing key is replaced under running agents: one step for a person, and nobody notices.

Sessions in pods and on this machine, a program that calls them all the while with the key of the
Secret, as the plugin does, and an operator that is killed in the middle.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cluster.interface import Cluster
from integration.conftest import end_agentctls
from kandev_operator.clients.signing import SECRET_NAME
from stage.caller import Caller, key_of
from stage.kubelet import Kubelet
from stage.operatorprocess import OperatorProcess
from stage.podscene import PodScene
from stage.scene import until
from stage.sessions import Body, Namespace

pytestmark = pytest.mark.timeout(300)
SETTLE = 16.0
"""Longer than the played node takes to renew a mounted ConfigMap, and the operator to look."""


@contextlib.asynccontextmanager
async def a_scene(cluster: Cluster, name: str, folder: Path) -> AsyncIterator[PodScene]:
    """Sessions in pods, and on this machine."""
    root = folder / "root"
    root.mkdir(parents=True)
    operator = OperatorProcess(
        cluster.kubeconfig,
        folder / "operator.log",
        namespaces=[name],
        roots={name: root},
        lease_namespace=name,
        options=["--probe-seconds=1", "--pod-access=direct", f"--key-settle-seconds={SETTLE:g}"],
    )
    place = Namespace(cluster, name, root, operator.tail)
    with Kubelet(cluster.kubeconfig, name, folder / "volumes") as node, operator:
        scene = PodScene(place, operator, folder, node)
        try:
            yield scene
        finally:
            scene.close()
            operator.kill()
            await asyncio.to_thread(end_agentctls, root)
    assert node.errors == []


async def test_the_key_is_replaced_under_running_agents(
    crds: Cluster, namespace: str, place: Namespace, tmp_path: Path
) -> None:
    async with a_scene(crds, namespace, tmp_path / "it") as scene:
        in_pod, local = await scene.born("in-pod"), await scene.begin("local")
        before = {part: await part.with_history() for part in (in_pod, local)}
        old = key_of(scene)
        caller = Caller(in_pod, local)
        calling = asyncio.create_task(caller.run())
        wish = "kandev.dev/rotate-requested=today"
        await scene.kubectl("annotate", "secret", SECRET_NAME, "--overwrite", wish)
        await until(lambda: key_of(scene).retired, "the next key is listed", 60)
        assert key_of(scene).kid == old.kid
        await scene.restart_operator()
        await until(lambda: key_of(scene).kid != old.kid, "it signs", 120)
        assert [each.kid for each in key_of(scene).retired] == [old.kid]
        seen = caller.calls
        await until(lambda: caller.calls > seen + 10, "calls with the new key", 60)
        # With it the operator acts, too.
        in_pod.kill()
        now = await in_pod.idle_again(before[in_pod])
        await in_pod.remembers()
        await local.remembers()
        calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        assert caller.wrong == []
        assert local.starts == 1
        assert in_pod.starts == 2, "only the one that was killed"
        assert now["epoch"] == before[in_pod]["epoch"] + 1
        assert local.status["agentExecutionId"] == before[local]["agentExecutionId"]
        listed: Body = json.loads(
            scene.get("configmap", "kandev-agentctl-keys")["data"]["jwks.json"]
        )
        assert {each["kid"] for each in listed["keys"]} == {old.kid, key_of(scene).kid}
