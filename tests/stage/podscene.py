"""A scene whose sessions live in pods: one operator, one namespace, and a node that is played.

The namespace enforces Pod Security `restricted`, so every pod of every test passes it.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stage.kubelet import Kubelet, Pod
from stage.operatorprocess import OperatorProcess
from stage.scene import Holds, Part, Scene, until
from stage.sessions import Body, Namespace

IMAGE: Final = "registry.example.com/agents/fake:1"
POD: Final[Body] = {"template": {"spec": {"runtime": "Pod", "pod": {}}}}
ENFORCED: Final = "pod-security.kubernetes.io/enforce=restricted"


def template(spec: Body) -> Body:
    """An executor's template with this pod overlay."""
    pod = {"template": {"spec": spec}}
    return {"template": {"spec": {"runtime": "Pod", "pod": pod}}}


class PodScene(Scene):
    """Sessions in pods."""

    def __init__(
        self, place: Namespace, operator: OperatorProcess, folder: Path, node: Kubelet
    ) -> None:
        super().__init__(place, operator, folder)
        self.node = node

    async def born(
        self,
        name: str,
        *options: str,
        executor: Body | None = None,
        profile_spec: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> Part:
        """A session in a pod, applied with its profile and task."""
        return await self.begin(
            name,
            *options,
            executor=executor or POD,
            profile_spec={"image": IMAGE, **(profile_spec or {})},
            **spec,
        )

    def executor(self, part: Part) -> Body:
        """The executor that the session points at."""
        return self.get("executor", part.status["executorRef"]["name"])

    def pod(self, part: Part) -> Pod:
        """Its pod, on the node."""
        return self.node.pod_of(self.executor(part)["metadata"]["uid"])

    def pods(self, part: Part) -> list[Body]:
        """All pod objects that carry the session's UID."""
        label = "kandev.dev/session-uid"
        return [
            each
            for each in self.listed("pods")
            if each["metadata"]["labels"].get(label) == part.uid
        ]

    async def delete_pod(self, part: Part, *options: str) -> Body:
        """Delete the session's pod as a person would; the executor's status before."""
        status: Body = self.executor(part)["status"]
        await self.kubectl("delete", "pod", status["podRef"]["name"], "--wait=false", *options)
        return status

    async def resumed_elsewhere(self, part: Part, before: Body, status: Body) -> Body:
        """Idle again, in another pod than before."""
        now = await part.idle_again(before)
        executor: Body = self.executor(part)["status"]
        assert executor["podRef"]["uid"] != status["podRef"]["uid"]
        assert executor["state"] == "ready"
        assert "errorMessage" not in now
        return now

    async def executor_becomes(self, executor: str, holds: Holds, what: str) -> Body:
        """Poll an executor by its name."""
        return await self.wait(executor, holds, what, kind="executor")

    async def claim(self, name: str) -> Body:
        return await asyncio.to_thread(self.place.get, "persistentvolumeclaim", name)


__all__ = ["ENFORCED", "IMAGE", "POD", "PodScene", "template", "until"]
