"""A scene whose sessions live in pods of a real node: one operator for all of a module's tests.

The operator runs outside the cluster, as in development, and watches all namespaces; each test has
one of its own, which enforces Pod Security `restricted`. The scripted agent keeps its diary on the
session's volume, whose folder is on this machine: it can be read whatever becomes of the pod. So
can the processes of a pod, and be signalled as the kernel, or a machine that dies, would.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from cluster.errors import KubectlError
from cluster.images import agents
from cluster.node import Node
from stage.operatorprocess import OperatorProcess
from stage.podscene import POD, template
from stage.scene import Holds, Part, Scene
from stage.sessions import Body, Namespace, condition

PATIENCE: Final = 180.0
"""Seconds: what a real node does takes its time on a machine that does other things beside it."""
_VOLUME = "/workspace"
_SESSION = "kandev.dev/session-uid"


def everywhere(node: Node, home: str, log: Path, agentctl_image: str) -> OperatorProcess:
    """An operator on this machine for all namespaces of the node, whose own is `home`; not started
    yet."""
    return OperatorProcess(
        node.kubeconfig,
        log,
        lease_namespace=home,
        options=[
            f"--agentctl-image={agentctl_image}",
            "--agentctl-pull-policy=Never",
            "--pod-access=direct",
            "--probe-seconds=2",
        ],
    )


class RealPodScene(Scene):
    """One namespace of a real node, and the sessions in it."""

    def __init__(
        self, node: Node, place: Namespace, operator: OperatorProcess, home: str, image: str
    ) -> None:
        super().__init__(place, operator, place.root)
        self.node, self.home, self.image = node, home, image

    def part(self, name: str) -> "RealPart":
        return RealPart(self, name)

    async def born(
        self,
        name: str,
        *options: str,
        overlay: Body | None = None,
        profile_spec: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> "RealPart":
        """A session in a pod, applied with its profile and task; `overlay` is its pod template."""
        part = await self.begin(
            name,
            *options,
            executor=template(overlay) if overlay else POD,
            profile_spec={"image": self.image, **(profile_spec or {})},
            **{"workspace": {"size": "64Mi"}, **spec},
        )
        assert isinstance(part, RealPart)
        return part

    async def wait(
        self, name: str, holds: Holds, what: str, *, kind: str = "tasksession", seconds: float = 0
    ) -> Body:
        return await super().wait(name, holds, what, kind=kind, seconds=max(seconds, PATIENCE))

    async def wait_gone(self, kind: str, name: str, seconds: float = 0) -> None:
        await super().wait_gone(kind, name, max(seconds, PATIENCE))

    async def on_node(self, *words: str, seconds: float = 200) -> str:
        """kubectl as the cluster's administrator, about nothing in particular."""
        return await asyncio.to_thread(self.node.kubectl, *words, timeout=seconds)

    def pods(self, *parts: "RealPart") -> list[Body]:
        """All pod objects of these sessions; of all, without any."""
        uids = {part.uid for part in parts}
        return [
            each
            for each in self.listed("pods")
            if not parts or (each["metadata"].get("labels") or {}).get(_SESSION) in uids
        ]

    @asynccontextmanager
    async def watching(self, *parts: "RealPart") -> AsyncIterator["Seen"]:
        """Every status that these sessions and their executors have while the block lasts."""
        seen = Seen()

        def once() -> None:
            for part in parts:
                seen.add(part)

        async def look() -> None:
            while True:
                once()
                await asyncio.sleep(0.1)

        looking = asyncio.create_task(look())
        try:
            yield seen
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
            once()


class Seen:
    """What was to be read in status, in order, without repetitions."""

    def __init__(self) -> None:
        self.sessions: dict[str, list[Body]] = {}
        self.executors: dict[str, list[Body]] = {}

    def add(self, part: "RealPart") -> None:
        with suppress(LookupError):  # between two executors, and after the session's end
            status = part.status
            _append(self.sessions.setdefault(part.name, []), status)
            _append(self.executors.setdefault(part.name, []), part.executor["status"])

    def ready(self, part: "RealPart") -> list[str]:
        """The edges of the session's Ready: whether it was true."""
        edges: list[str] = []
        for status in self.sessions[part.name]:
            word = str(condition(status, "Ready").get("status") == "True")
            if edges[-1:] != [word]:
                edges.append(word)
        return edges

    def told(self, part: "RealPart", reason: str) -> str:
        """What the executor's Ready said under this reason; everything, one line each."""
        rows = [condition(each, "Ready") for each in self.executors[part.name]]
        said = [each["message"] for each in rows if each.get("reason") == reason]
        known = sorted({str(each.get("reason")) for each in rows})
        assert said, f"no executor of {part.name} said {reason}, only {known}"
        return "\n".join(dict.fromkeys(said))

    def never_dead(self, part: "RealPart") -> None:
        """No word, at no moment, that the agent is gone, or that anything had failed."""
        for status in self.sessions[part.name]:
            assert status["state"] in ("RUNNING", "WAITING_FOR_INPUT"), status
            assert status.get("isAgentRunning") is not False, status
            assert not status.get("needsResume"), status
        uids = {(each.get("podRef") or {}).get("uid") for each in self.executors[part.name]}
        assert len(uids) == 1, f"another pod: {uids}"


class RealPart(Part):
    """One session in a pod of the node."""

    scene: RealPodScene

    def command(self, *options: str) -> list[str]:
        notes = (f"--log={_VOLUME}/diary", f"--options={_VOLUME}/manners")
        return [*agents.SCRIPTED_COMMAND, *notes, *options]

    @property
    def log(self) -> Path:
        return self.volume / "diary"

    @property
    def manners(self) -> Path:
        return self.volume / "manners"

    @property
    def volume(self) -> Path:
        """The folder of the session's volume, on this machine."""
        name = self.status["workspaceRef"]["name"]
        claim = self.scene.get("persistentvolumeclaim", name)
        return self.scene.node.folder / "volumes" / claim["spec"]["volumeName"]

    @property
    def executor(self) -> Body:
        """The executor that the session points at; LookupError when it points at none."""
        return self.scene.get("executor", self.status["executorRef"]["name"])

    @property
    def pod_uid(self) -> str:
        uid: str = self.executor["status"]["podRef"]["uid"]
        return uid

    @property
    def pod(self) -> Body:
        """The pod that its executor is in."""
        return self.scene.get("pod", self.executor["status"]["podRef"]["name"])

    async def delete_pod(self, *options: str) -> str:
        """Delete the session's pod as a person would; its UID."""
        ref = self.executor["status"]["podRef"]
        await self.scene.kubectl("delete", "pod", ref["name"], "--wait=false", *options)
        uid: str = ref["uid"]
        return uid

    async def executor_says(self, reason: str, *, state: str | None = None) -> str:
        """Wait until its executor's Ready has this reason; the message."""
        name = self.status["executorRef"]["name"]
        status = await self.scene.wait(
            name,
            lambda s: (
                condition(s, "Ready").get("reason") == reason and state in (None, s.get("state"))
            ),
            reason,
            kind="executor",
        )
        message: str = condition(status, "Ready")["message"]
        return message

    async def in_a_turn(self, text: str = "slow 1000", prompt_id: str = "long") -> None:
        """Prompt, and return when the turn is under way."""
        async with self.talk() as it:
            await it.prompt(text, prompt_id)
        await self.wait(
            lambda s: s["state"] == "RUNNING" and text in self.prompts(), "in that turn"
        )

    async def resumed(self, before: Body, *, same_pod: bool, pod_uid: str) -> Body:
        """Idle in a new execution, in the same pod or in another one, with nothing to mend."""
        now = await self.idle_again(before)
        assert (self.pod_uid == pod_uid) is same_pod
        assert "errorMessage" not in now
        return now

    def restarts(self) -> int:
        """How often the kubelet started the agent's container of the present pod again."""
        return next(
            each["restartCount"]
            for each in self.pod["status"]["containerStatuses"]
            if each["name"] == "agent"
        )

    # ---- its processes, seen from the machine --------------------------------------------

    def processes(self, pod_uid: str | None = None) -> dict[int, str]:
        """The command lines of all processes of its pod, by the machine's own process ids."""
        return dict(_processes(f"pod{pod_uid or self.pod_uid}"))

    def process(self, words: str, pod_uid: str | None = None) -> int:
        """The first process of its pod with these words in its command line."""
        found = [pid for pid, line in self.processes(pod_uid).items() if words in line]
        if not found:
            raise ProcessLookupError(f"{words}: not in the pod")
        return min(found)

    def signal_agent(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.process(agents.SCRIPTED_COMMAND[-1]), number)

    def signal_agentctl(
        self, number: signal.Signals = signal.SIGKILL, pod_uid: str | None = None
    ) -> None:
        """The container's first process: its end is the container's."""
        os.kill(self.process("kandev-agentctl run", pod_uid), number)


def _processes(pod: str) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if pod in (folder / "cgroup").read_text():
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                yield int(folder.name), line.decode(errors="replace")


def _append(found: list[Body], status: Body) -> None:
    if found[-1:] != [status]:
        found.append(status)


__all__ = ["PATIENCE", "KubectlError", "RealPart", "RealPodScene", "Seen"]
