"""Servers on the loopback that play the API server or an agentctl, and what they were asked."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import Limits, open_session
from kandev_operator.clients.kube import Kube
from kandev_operator.contract.claims import Scope
from unit.clients.wire import SECRET_TOKEN, TOKEN, kubeconfig

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Asked:
    """One request, as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Peer:
    """A server that answers from a list, in order; the last answer again and again."""

    server: TestServer
    answers: list[Handler] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return str(self.server.make_url("")).rstrip("/")

    def answer(self, *handlers: Handler) -> None:
        self.answers[:] = handlers

    def json(self, body: Any, status: int = 200, **headers: str) -> None:
        self.answer(json_answer(body, status, **headers))

    async def handle(self, request: web.Request) -> web.StreamResponse:
        text = await request.read()
        self.asked.append(
            Asked(
                request.method,
                request.raw_path.split("?")[0],
                dict(request.query),
                dict(request.headers),
                await request.json() if text else None,
            )
        )
        handler = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        return await handler(request)


def json_answer(body: Any, status: int = 200, **headers: str) -> Handler:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return handler


@pytest.fixture(name="json_answer")
def _json_answer() -> Callable[..., Handler]:
    return json_answer


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    app = web.Application(client_max_size=8 * 1024 * 1024)
    server = TestServer(app)
    played = Peer(server)
    app.router.add_route("*", "/{path:.*}", played.handle)
    await server.start_server()
    yield played
    await server.close()


@pytest.fixture
def config(peer: Any, tmp_path: Path) -> str:
    return kubeconfig(tmp_path / "config", peer.url, token=SECRET_TOKEN)


@pytest.fixture
def outcomes() -> list[tuple[str, str, str]]:
    return []


@pytest.fixture
async def kube(config: str, outcomes: list[tuple[str, str, str]]) -> AsyncIterator[Kube]:
    async with await Kube.connect(
        config,
        on_request=lambda verb, plural, outcome, _seconds: outcomes.append((verb, plural, outcome)),
    ) as kube:
        yield kube


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session() as session:
        yield session


@pytest.fixture
def minted() -> list[tuple[Scope, ...]]:
    return []


@pytest.fixture
def client(session: aiohttp.ClientSession, peer: Any, minted: list[Any]) -> AgentctlClient:
    def mint(*scopes: Scope) -> str:
        minted.append(scopes)
        return TOKEN

    return AgentctlClient(session, peer.url, mint, "i-1", limits=Limits(total=1, silence=0.2))
