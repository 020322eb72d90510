"""One operator, one namespace, a Docker engine (real or played), and sessions in its containers."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from cluster.docker import Engine
from cluster.images import agents
from stage.operatorprocess import OperatorProcess
from stage.playedengine import PlayedEngine
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import Talk, talk

SECONDS = 60.0
AGENTCTL = "localhost/kandev-agentctl:test"


class DockerStage:
    """Sessions in containers, and what befalls those."""

    def __init__(
        self,
        place: Namespace,
        operator: OperatorProcess,
        engine: Engine | PlayedEngine,
        image: str,
        command: Sequence[str] = agents.SCRIPTED_COMMAND,
    ) -> None:
        self.place, self.operator, self.engine, self.image = place, operator, engine, image
        self._command = list(command)

    def born(self, name: str, docker: Mapping[str, Any] | None = None, **spec: Any) -> None:
        """Apply a profile, a task and a session; `image=None` is a profile without one."""
        image = {"image": spec.pop("image", self.image)}
        command, block = self._command, dict(docker or {})
        executor = {"template": {"spec": {"runtime": "LocalDocker", "localDocker": block}}}
        self.place.apply(
            profile(name, command, **{key: value for key, value in image.items() if value}),
            task(name, **spec.pop("task_spec", {})),
            session(name, task=name, profile=name, executor=executor, **spec),
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

    def executor_when(self, name: str, holds: Callable[[Body], Any], what: str) -> Body:
        executor = self.place.status(name)["executorRef"]["name"]
        return self.place.wait(executor, holds, what, kind="executor", seconds=SECONDS)

    def containers(self, name: str) -> list[Body]:
        """Those of the session's executor."""
        uid = self.place.executor_of(name)["metadata"]["uid"]
        return self.engine.containers(f"kandev.dev/executor-uid={uid}")

    def container(self, name: str) -> Body:
        """The only one that is there once everything has settled."""
        (only,) = self.containers(name)
        return only

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


def account(engine: Engine) -> str:
    """What the engine and its containers say, for a failed test's report."""
    parts = []
    try:
        for each in engine.containers():
            state = json.dumps(each["State"])
            parts.append(f"--- container {each['Name']} {each['Config']['Image']}\n{state}")
            url = f"/containers/{each['Id']}/logs?stdout=1&stderr=1&tail=20"
            parts.append(str(engine.call("GET", url)))
    except OSError as error:
        parts.append(f"the engine does not answer: {error}")
    log: Path = engine.log
    if log.exists():
        parts.append("--- dockerd\n" + log.read_text(errors="replace")[-3000:])
    return "\n".join(parts)


def until(holds: Callable[[], Any], what: str, seconds: float = SECONDS) -> None:
    """Poll until something outside the cluster is so."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not so after {seconds:g} s: {what}"
        time.sleep(0.1)
