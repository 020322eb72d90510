"""A stage for the plugin: a small API server and agentctl on the loopback, and the streams.

A test sets the scene in their plain fields, plays a command, and looks at what was said and asked.
"""

import asyncio
import io
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from kandev_operator.cli.commands import OPERATOR_NAMESPACE, Command, Where
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import Fault
from kandev_operator.cli.follow import Pace
from kandev_operator.cli.program import carry_out, desk_for
from kandev_operator.cli.screen import Screen
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import SECRET_NAME
from kandev_operator.clients.tokens import SigningKey
from unit.cli.bodies import NS, Json, executor_body, session_body
from unit.cli.fakeagentctl import FakeAgentctl
from unit.cli.fakeapi import FakeApi

FAST = Pace(first=0.01, longest=0.05, quiet=0.3)


class Attended(Screen):
    """A screen with somebody before it, who gives these answers and then says nothing more."""

    def __init__(self, out: io.StringIO, err: io.StringIO, *answers: str | None) -> None:
        super().__init__(io.StringIO(), out, err)
        self.answers = [*answers]
        self.questions: list[str] = []

    @property
    def is_attended(self) -> bool:
        return True

    async def ask(self, question: str) -> str | None:
        self.questions.append(question)
        if not self.answers:
            await asyncio.Event().wait()
        return self.answers.pop(0)


async def until(done: Callable[[], bool]) -> None:
    """Look again until it holds."""
    async with asyncio.timeout(10):
        for _ in itertools.count():
            if done():
                return
            await asyncio.sleep(0.005)


@dataclass
class Stage:
    """Everything together, and how a command is played on it."""

    api: FakeApi
    agentctl: FakeAgentctl
    desk: Desk
    out: io.StringIO
    err: io.StringIO

    def attend(self, *answers: str | None) -> Attended:
        """Put somebody before the screen."""
        screen = Attended(self.out, self.err, *answers)
        self.desk = replace(self.desk, screen=screen)
        return screen

    async def play(self, command: Command) -> int:
        return await carry_out(self.desk, command)

    async def refused(self, command: Command) -> Fault:
        """Play a command that must end in a fault."""
        try:
            await self.play(command)
        except Fault as fault:
            return fault
        raise AssertionError(f"it was not refused; said: {self.out.getvalue()}")

    @property
    def said(self) -> str:
        return self.out.getvalue()

    @property
    def noted(self) -> str:
        return self.err.getvalue()


def signing_secret(key: SigningKey) -> Json:
    return {"metadata": {"name": SECRET_NAME}, "data": key.to_secret_data()}


def kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"token": "an-administrators-token"}}],
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NS}}
                ],
            }
        )
    )
    return str(path)


@asynccontextmanager
async def serving(api: FakeApi) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    server = TestServer(app)
    await server.start_server()
    yield str(server.make_url("")).rstrip("/")
    await server.close()


@asynccontextmanager
async def standing(folder: Path) -> AsyncIterator[Stage]:
    """A stage on which a session is bound, its agent idle, and its agentctl well."""
    key, api = SigningKey.generate(), FakeApi()
    agentctl = FakeAgentctl(key)
    url = await agentctl.start()
    api.put("tasksessions", session_body())
    api.put("executors", executor_body(url))
    api.put("secrets", signing_secret(key), OPERATOR_NAMESPACE)
    out, err = io.StringIO(), io.StringIO()
    screen = Screen(io.StringIO(), out, err)
    async with serving(api) as server:
        config = kubeconfig(folder, server)
        async with await Kube.connect(config) as kube, open_session() as http:
            desk = desk_for(Where(kubeconfig=config), kube, http, screen)
            desk = replace(desk, pace=FAST, poll=0.01, insist=0.5)
            yield Stage(api, agentctl, desk, out, err)
    await agentctl.stop()
