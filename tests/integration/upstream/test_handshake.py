"""Our client against a server that keeps what it was asked: when a token is used, and when not."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kandev_operator.agentctl.upstream.client import (
    Client,
    Instance,
    Refused,
    Unauthorized,
    Unreachable,
    Vanished,
)
from kandev_operator.agentctl.upstream.credentials import NAME, Credentials

pytestmark = pytest.mark.integration


class Upstream:
    """As much of it as a client sees before any agent runs."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.tokens = iter(f"token-{n}" for n in range(1, 100))
        self.token: str | None = None
        self.nonce: str | None = "the-nonce"
        self.handshakes = 0
        self.seen: list[tuple[str, str | None]] = []
        self.kept_when_used: list[bool] = []

    def restart(self) -> None:
        self.token, self.nonce = None, "the-nonce"

    async def handshake(self, request: web.Request) -> web.Response:
        self.handshakes += 1
        told = (await request.json())["nonce"]
        if self.nonce is None or told != self.nonce:
            return web.json_response({"error": "invalid or already-consumed nonce"}, status=403)
        self.nonce, self.token = None, next(self.tokens)
        return web.json_response({"token": self.token})

    async def instances(self, request: web.Request) -> web.StreamResponse:
        bearer = request.headers.get("Authorization")
        self.seen.append((request.path, bearer))
        if bearer is not None:
            try:
                kept = json.loads((self.state / NAME).read_text())["token"]
            except (OSError, ValueError):
                kept = None
            self.kept_when_used.append(bearer == f"Bearer {kept}")
        if self.token is None or bearer != f"Bearer {self.token}":
            return web.json_response({"error": "invalid auth token"}, status=401)
        return web.json_response({"instances": []})


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path)


@pytest.fixture
async def server(upstream: Upstream) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_post("/auth/handshake", upstream.handshake)
    app.router.add_get("/api/v1/instances", upstream.instances)
    async with TestServer(app) as server:
        yield server


@pytest.fixture
async def client(server: TestServer, tmp_path: Path) -> AsyncIterator[Client]:
    url = str(server.make_url("")).rstrip("/")
    (tmp_path / "nonce").write_text("the-nonce")
    it = Client(url, Credentials(tmp_path, url, tmp_path / "nonce"))
    yield it
    await it.close()


async def test_a_token_is_on_disk_before_it_is_used(client: Client, upstream: Upstream) -> None:
    assert await client.instances() == ()
    assert upstream.kept_when_used == [True]


async def test_many_calls_at_once_burn_the_nonce_once(client: Client, upstream: Upstream) -> None:
    await asyncio.gather(*(client.instances() for _ in range(8)))
    assert upstream.handshakes == 1


async def test_a_restart_of_theirs_gives_another_token(client: Client, upstream: Upstream) -> None:
    await client.instances()
    upstream.restart()
    await client.instances()
    assert upstream.handshakes == 2
    assert upstream.kept_when_used == [True, True, True]


async def test_a_burned_nonce_says_so_and_holds_no_secret(
    client: Client, upstream: Upstream
) -> None:
    upstream.nonce = None
    with pytest.raises(Unauthorized, match="refuses the nonce") as refused:
        await client.instances()
    assert "the-nonce" not in str(refused.value)


async def test_a_redirect_is_not_followed(client: Client) -> None:
    """It would carry the token to wherever it points."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    app = web.Application()
    app.router.add_get("/{any:.*}", answer)
    async with TestServer(app) as server:
        assert server.port is not None
        with pytest.raises(Refused):
            await client.process(Instance("mine", server.port, "/w", "running"))
    assert asked == ["/api/v1/status"]


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, "<html>a login page</html>", Unreachable),
        (200, '{"agent_status": 7}', Unreachable),
        (404, '{"error": "x", "recycled_port": true}', Vanished),
        (500, '{"success": false, "error": "agent is already running"}', Refused),
        (500, "x" * 6_000_000, Refused),
        (503, "", Unreachable),
    ],
)
async def test_answers_that_are_none_are_named(
    client: Client, status: int, body: str, error: type[Exception]
) -> None:
    headers: list[str | None] = []

    async def answer(request: web.Request) -> web.Response:
        headers.append(request.headers.get("X-Instance-ID"))
        return web.Response(status=status, text=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/v1/status", answer)
    async with TestServer(app) as instance:
        assert instance.port is not None
        with pytest.raises(error):
            await client.process(Instance("mine", instance.port, "/w", "running"))
    assert headers == ["mine"], "each call says which instance is meant"


async def test_nobody_there(client: Client, server: TestServer) -> None:
    await server.close()
    with pytest.raises(Unreachable, match="cannot be reached"):
        await client.instances()
