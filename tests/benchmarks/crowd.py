"""Hundreds of sessions on light agentctls, applied at once and waited for.

A `Crowd` is one process of `sidecars`, and the objects of as many sessions as are asked for, each
on a Remote executor with an address of its own. Objects are made through many requests at once,
not by kubectl, which would take minutes. Knows nothing of what is measured.
"""

import asyncio
import json
import select
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from benchmarks.ground import Ground, environment
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import AGENT_PROFILES, TASK_SESSIONS, TASKS, Resource
from kandev_operator.contract import paths
from stage.sessions import Body, Namespace, profile, session, task

_AT_ONCE = 24
_PER_TASK = 20


@dataclass(frozen=True)
class Calls:
    """What the sidecars were asked since the counts were begun."""

    by_path: dict[str, int]
    asked: int
    """How many of them were asked for their status."""
    latest: float
    """When the last of these was first asked, in seconds since the epoch."""

    def of(self, end: str) -> int:
        """Calls whose path ends like this."""
        return sum(count for path, count in self.by_path.items() if path.endswith(end))


class Sidecars:
    """The process that all agentctls of a crowd live in."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sidecars"],
            env=environment(),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 30)
        line = self._process.stdout.readline() if ready else ""
        if not line.strip().isdigit():
            self._process.kill()
            raise AssertionError("the light agentctls did not start")
        self.port = int(line)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait(10)

    def url(self, number: int) -> str:
        """The address of one of them."""
        return f"http://127.1.{number // 250}.{number % 250 + 1}:{self.port}"

    def calls(self) -> Calls:
        told = self._call("GET")
        return Calls(told["calls"], told["asked"], told["latest"])

    def prompt(self, number: int) -> None:
        """Have one of them work for a second."""
        body = {"session_id": "any", "prompt_id": uuid.uuid4().hex, "content": [{"type": "text"}]}
        request = urllib.request.Request(
            f"{self.url(number)}{paths.PROMPT}", json.dumps(body).encode(), method="POST"
        )
        urllib.request.urlopen(request, timeout=20).close()

    def count_anew(self) -> None:
        self._call("DELETE")

    def _call(self, method: str) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/calls", method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


def bodies(sidecars: Sidecars, first: int, count: int, **spec: Any) -> list[Body]:
    """Sessions on executors of their own, each at its own address; twenty to a task."""
    made = []
    for number in range(first, first + count):
        remote = {"runtime": "Remote", "remote": {"url": sidecars.url(number)}}
        executor = {"template": {"spec": remote}}
        tasked = f"t{number // _PER_TASK}"
        made.append(session(f"s{number}", task=tasked, executor=executor, **spec))
    return made


def settle_in(
    ground: Ground, place: Namespace, sessions: Sequence[Body], *, anew: bool = True
) -> None:
    """Make the sessions; before the first ones a profile and the tasks that they name."""
    tasks = sorted({each["spec"]["taskRef"]["name"] for each in sessions})
    if anew:
        asyncio.run(_create(ground, place, AGENT_PROFILES, [profile()]))
        asyncio.run(_create(ground, place, TASKS, [task(name) for name in tasks]))
    asyncio.run(_create(ground, place, TASK_SESSIONS, sessions))


async def _create(
    ground: Ground, place: Namespace, resource: Resource, wanted: Sequence[Body]
) -> None:
    turnstile = asyncio.Semaphore(_AT_ONCE)
    async with await Kube.connect(ground.user) as kube:

        async def one(body: Body) -> None:
            async with turnstile:
                await kube.create(resource, place.name, body, timeout=60)

        async with asyncio.TaskGroup() as tasks:
            for body in wanted:
                tasks.create_task(one(body))


def statuses(ground: Ground, place: Namespace) -> list[Body]:
    """The status of every session there."""

    async def listed() -> list[Body]:
        async with await Kube.connect(ground.user) as kube:
            found, _ = await kube.list(TASK_SESSIONS, place.name, timeout=60)
            return [each.get("status") or {} for each in found]

    return asyncio.run(listed())


def wait_all(
    ground: Ground,
    place: Namespace,
    count: int,
    holds: Callable[[Body], bool],
    seconds: float = 900,
) -> None:
    """Return when so many sessions are as wanted."""
    end = time.monotonic() + seconds
    while True:
        there = sum(holds(each) for each in statuses(ground, place))
        if there >= count:
            return
        if time.monotonic() > end:
            raise AssertionError(f"{there} of {count} sessions are as wanted:\n{place.tail()}")
        time.sleep(1.0)


def is_idle(status: Body) -> bool:
    """The agent runs and waits for a prompt."""
    return status.get("state") == "WAITING_FOR_INPUT" and status.get("isAgentRunning") is True
