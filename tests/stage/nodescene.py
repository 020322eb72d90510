"""One operator, one namespace of a real node, and sessions whose pods run on it.

The operator runs outside the cluster, as in development. Sessions are applied as a user would, and
waited for; nothing here computes what their status should be.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from cluster.images import agents
from cluster.node import Node
from stage.operatorprocess import OperatorProcess
from stage.podagents import PodAgent
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import Talk, talk

SECONDS: Final = 180.0
FILES: Final = {"size": "64Mi", "storageClassName": "local"}
_CRDS = Path(__file__).resolve().parents[2] / "crds"


def install_crds(node: Node) -> None:
    """Apply the CRDs, and wait until they are served."""
    node.kubectl("apply", "--server-side", "-f", _CRDS)
    node.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", _CRDS)


def operator_beside(
    node: Node,
    namespace: str,
    log: Path,
    agentctl_image: str,
    *options: str,
    kubeconfig: Path | None = None,
) -> OperatorProcess:
    """An operator on this machine for one namespace of the node; not started yet."""
    return OperatorProcess(
        kubeconfig or node.kubeconfig,
        log,
        namespaces=[namespace],
        lease_namespace=namespace,
        options=[
            f"--agentctl-image={agentctl_image}",
            "--agentctl-pull-policy=Never",
            "--probe-seconds=2",
            *options,
        ],
    )


class NodeScene:
    """Sessions in pods; the scripted agent's image unless another is named."""

    def __init__(self, place: Namespace, operator: OperatorProcess, image: str) -> None:
        self.place, self.operator, self.image = place, operator, image

    def born(self, name: str, overlay: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """Apply a session with a profile and a task of its own, all of one name."""
        self.place.apply(*self.scripted(name, (), overlay, **spec))

    def scripted(
        self,
        name: str,
        options: Sequence[str] = (),
        overlay: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> list[Body]:
        """Profile, task and session with the scripted agent."""
        command = [*agents.SCRIPTED_COMMAND, *options]
        return self._bodies(name, command, {}, self.image, overlay, **spec)

    def born_as(self, name: str, agent: PodAgent, image: str, **spec: Any) -> None:
        """The same with a real agent."""
        extra = [agent.settings] if agent.settings is not None else []
        bodies = self._bodies(name, agent.command, agent.env, image, agent.overlay, **spec)
        self.place.apply(*extra, *bodies)

    def _bodies(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        image: str,
        overlay: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> list[Body]:
        pod: Body = {"template": {"spec": dict(overlay)}} if overlay else {}
        executor = {"template": {"spec": {"runtime": "Pod", "pod": pod}}}
        wanted = {"executor": executor, "workspace": FILES, **spec}
        return [
            profile(name, command, env, image=image),
            task(name),
            session(name, task=name, profile=name, **wanted),
        ]

    def idle(self, name: str) -> Body:
        return self.place.wait_idle(name, SECONDS)

    def idle_again(self, name: str, before: Body) -> Body:
        def again(now: Body) -> bool:
            lives = now.get("state") == "WAITING_FOR_INPUT" and now.get("isAgentRunning") is True
            return bool(lives and now["agentExecutionId"] != before["agentExecutionId"])

        return self.place.wait(name, again, "idle in a new execution", seconds=SECONDS)

    def failed(self, name: str, reason: str) -> Body:
        def holds(now: Body) -> bool:
            return now.get("state") == "ERROR" and condition(now, "Ready").get("reason") == reason

        return self.place.wait(name, holds, f"ERROR {reason}", seconds=SECONDS)

    def executor(self, name: str) -> Body:
        status: Body = self.place.executor_of(name)["status"]
        return status

    def executor_says(self, name: str, reason: str) -> Body:
        executor = self.place.status(name)["executorRef"]["name"]
        return self.place.wait(
            executor,
            lambda now: condition(now, "Ready").get("reason") == reason,
            reason,
            kind="executor",
            seconds=SECONDS,
        )

    def inside(self, name: str, *command: str) -> str:
        pod = self.executor(name)["podRef"]["name"]
        return self.place.kubectl("exec", pod, "--container=agent", "--", *command)

    @asynccontextmanager
    async def talk(self, name: str) -> AsyncIterator[Talk]:
        place = self.place
        async with talk(
            place.cluster.kubeconfig, place.name, name, operator_namespace=place.name
        ) as it:
            yield it

    async def ask(self, name: str, text: str, seconds: float = 60) -> str:
        async with self.talk(name) as it:
            return await it.ask(text, seconds)

    async def remembers(self, name: str, text: str = "alpha") -> None:
        assert f"the first was: {text}" in await self.ask(name, "what was the first?")
