"""A session's whole life in pods of a real node: apply, turn, every way a pod is lost, and back.

The operator runs outside the cluster, as in development, in a namespace that enforces Pod Security
*restricted*. The agent is the scripted one; its image has no agentctl.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.images import agents
from cluster.node import Node
from stage.operatorprocess import OperatorProcess
from stage.pods import Pods
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import Talk, talk

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 180.0
KILL_THE_AGENT = """
import os, pathlib
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    words = (folder / "cmdline").read_bytes().split(bytes(1))
    if any(word.endswith(b"acp_agent.py") for word in words):
        os.kill(int(folder.name), 9)
"""
FILES = {"size": "64Mi", "storageClassName": "local"}


class Stage:
    """One operator, one namespace, and sessions in it."""

    def __init__(self, place: Namespace, operator: OperatorProcess, image: str) -> None:
        self.place, self.operator, self.image = place, operator, image

    def born(self, name: str, overlay: Mapping[str, Any] | None = None, **spec: Any) -> None:
        pod: Body = {"template": {"spec": dict(overlay)}} if overlay else {}
        executor = {"template": {"spec": {"runtime": "Pod", "pod": pod}}}
        command = list(agents.SCRIPTED_COMMAND)
        self.place.apply(
            profile(name, command, image=self.image),
            task(name),
            session(
                name,
                task=name,
                profile=name,
                executor=executor,
                **{"workspace": FILES, **spec},
            ),
        )

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
    async def talk(self, name: str) -> Any:
        place = self.place
        async with talk(
            place.cluster.kubeconfig, place.name, name, operator_namespace=place.name
        ) as it:
            yield it

    async def ask(self, name: str, text: str) -> str:
        async with self.talk(name) as it:
            spoken: Talk = it
            return await spoken.ask(text)

    async def remembers(self, name: str, text: str = "alpha") -> None:
        assert f"the first was: {text}" in await self.ask(name, "what was the first?")


@pytest.fixture(params=["direct", "proxy"])
def access(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_stage(
    pods: Pods, node: Node, agentctl_image: str, scripted_agent_image: str, tmp_path: Path
) -> Iterator[Callable[[str], Stage]]:
    node.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
    names = [f"crd/{each}.kandev.dev" for each in ("tasksessions", "executors", "tasks")]
    node.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    made: list[OperatorProcess] = []

    def make(access: str = "direct") -> Stage:
        operator = OperatorProcess(
            node.kubeconfig,
            tmp_path / "operator.log",
            namespaces=[pods.namespace],
            lease_namespace=pods.namespace,
            options=[
                f"--agentctl-image={agentctl_image}",
                "--agentctl-pull-policy=Never",
                f"--pod-access={access}",
                "--probe-seconds=2",
            ],
        )
        made.append(operator)
        place = Namespace(node, pods.namespace, tmp_path, operator.tail)
        return Stage(place, operator.start(), scripted_agent_image)

    yield make
    for operator in made:
        operator.kill()


@pytest.fixture
def stage(make_stage: Callable[[str], Stage]) -> Stage:
    return make_stage("direct")


async def test_a_session_lives_in_a_pod_and_goes_on_in_the_next(
    make_stage: Callable[[str], Stage], access: str
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


async def test_five_accidents_in_a_row(stage: Stage) -> None:
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


async def test_an_image_that_does_not_exist_is_named_and_mended(stage: Stage) -> None:
    agent = {"name": "agent", "image": "registry.invalid/agents/none:1"}
    stage.born("s", {"containers": [agent]})
    status = stage.failed("s", "ImagePullFailed")
    assert "registry.invalid/agents/none:1" in status["errorMessage"]
    mended = {"template": {"spec": {"pod": {"template": None}}}}
    stage.place.patch("tasksession", "s", {"spec": {"executor": mended}})
    stage.idle("s")


async def test_suspended_and_back(stage: Stage) -> None:
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
