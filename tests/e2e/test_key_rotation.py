"""The signing key is replaced under an agent in a real pod; its node renews the list by itself."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from cluster.node import Node
from kandev_operator.clients.signing import SECRET_NAME
from stage.caller import Caller, key_of
from stage.nodescene import install_crds, operator_beside
from stage.pods import Pods
from stage.realpods import RealPodScene
from stage.scene import until
from stage.sessions import Namespace

SETTLE = 120
"""Longer than a kubelet takes, which looks about once a minute."""


@pytest.mark.timeout(600, func_only=True)
async def test_the_key_is_replaced_under_a_pod(
    pods: Pods, node: Node, agentctl_image: str, scripted_agent_image: str, tmp_path: Path
) -> None:
    install_crds(node)
    options = ("--pod-access=direct", f"--key-settle-seconds={SETTLE}")
    log = tmp_path / "operator.log"
    operator = operator_beside(node, pods.namespace, log, agentctl_image, *options)
    place = Namespace(node, pods.namespace, tmp_path, operator.tail)
    scene = RealPodScene(node, place, operator, pods.namespace, scripted_agent_image)
    with operator, contextlib.closing(scene):
        part = await scene.born("s")
        before = await part.with_history()
        old = key_of(scene)
        caller = Caller(part)
        calling = asyncio.create_task(caller.run())
        wish = "kandev.dev/rotate-requested=today"
        await scene.kubectl("annotate", "secret", SECRET_NAME, "--overwrite", wish)
        await until(lambda: key_of(scene).kid != old.kid, "the new key signs", 2 * SETTLE)
        seen = caller.calls
        await until(lambda: caller.calls > seen + 20, "calls with the new key", 60)
        await part.remembers()
        calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        assert caller.wrong == []
        assert part.restarts() == 0
        assert part.starts == 1
        assert part.status["agentExecutionId"] == before["agentExecutionId"]
