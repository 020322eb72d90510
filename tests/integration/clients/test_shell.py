"""The client's end of a shell, against a real agentctl: made, seen, typed into, renewed, closed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from urllib.parse import urlsplit

import pytest

from integration.agentctl.harness import Keys, Sidecar
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.clients.errors import Refused, Unauthenticated, Unreachable
from kandev_operator.clients.shell import ShellConnection
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.shell import Ended, InputPolicy, Resized, ShellRequest
from stage.tcpproxy import TcpProxy

CAT = ("sh", "-c", "stty raw -echo; printf ready; exec cat")


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("agentctl")
    sidecar = Sidecar(folder, Keys(folder / "jwks.json")).start()
    yield sidecar
    sidecar.close()


class Minting:
    """Mints as the operator does, and counts."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar, self.minted = sidecar, 0

    def __call__(self, *scopes: Scope) -> str:
        self.minted += 1
        return self.sidecar.keys.token(scopes=[*scopes], term=None, epoch=None)


@pytest.fixture
async def client(sidecar: Sidecar) -> AsyncIterator[AgentctlClient]:
    async with open_session() as http:
        yield AgentctlClient(http, sidecar.run["url"], Minting(sidecar))


async def shown(connection: ShellConnection, wanted: bytes) -> bytes:
    """What is shown, up to this."""
    seen = b""
    async with asyncio.timeout(60), aclosing(connection.frames()) as frames:
        async for frame in frames:
            seen += frame if isinstance(frame, bytes) else b""
            if wanted in seen:
                return seen
    raise AssertionError(seen)


async def test_a_shell_from_its_making_to_its_end(client: AgentctlClient) -> None:
    request = ShellRequest(name="life", command=CAT, cols=90, rows=20, input=InputPolicy.ONE)
    made = await client.make_shell(request)
    assert (made.created, made.cols, made.exit) == (True, 90, None)
    assert made.shell_id in [each.shell_id for each in (await client.shells()).shells]
    async with client.attach_shell(made.shell_id) as connection:
        await connection.type(b"hello")
        assert await shown(connection, b"readyhello") == b"readyhello"
        assert connection.attached is not None
        assert connection.cursor == len(b"readyhello")
    async with client.attach_shell(made.shell_id, connection.cursor) as again:
        await again.type(b" again")
        assert await shown(again, b"again") == b" again"
        await again.resize(70, 10)
        async with asyncio.timeout(60), aclosing(again.frames()) as frames:
            async for frame in frames:
                if isinstance(frame, Resized):
                    break
    assert (await client.shell(made.shell_id)).cols == 70
    closed = await client.close_shell(made.shell_id)
    assert closed.exit is not None
    with pytest.raises(Refused) as refused:
        await client.shell(made.shell_id)
    assert refused.value.code == "unknown_shell"


async def test_a_newer_token_is_taken_and_the_end_is_told(client: AgentctlClient) -> None:
    made = await client.make_shell(ShellRequest(name="renewed", command=CAT))
    async with client.attach_shell(made.shell_id) as connection:
        assert await shown(connection, b"ready")
        await connection.renew()
        await connection.type(b"still")
        assert await shown(connection, b"still") == b"still", "no complaint, and it goes on"
        await client.close_shell(made.shell_id)
        async with asyncio.timeout(60), aclosing(connection.frames()) as frames:
            last = [frame async for frame in frames][-1]
        assert isinstance(last, Ended)
        assert connection.close_code == 1000


async def test_a_large_paste_arrives_whole(client: AgentctlClient) -> None:
    made = await client.make_shell(ShellRequest(name="paste", command=CAT))
    paste = bytes(range(256)) * 2000
    async with client.attach_shell(made.shell_id) as connection:
        assert await shown(connection, b"ready")
        typing = asyncio.create_task(connection.type(paste + b"<end>"))
        assert await shown(connection, b"<end>") == paste + b"<end>"
        await typing
    await client.close_shell(made.shell_id)


async def test_refusals_before_the_upgrade(client: AgentctlClient, sidecar: Sidecar) -> None:
    with pytest.raises(Refused) as refused:
        async with client.attach_shell("0" * 32):
            pass
    assert refused.value.status == 404
    async with open_session() as http:
        stranger = AgentctlClient(http, sidecar.run["url"], lambda *_: "no.to.ken")
        with pytest.raises(Unauthenticated):
            async with stranger.attach_shell("0" * 32):
                pass


async def test_a_line_that_is_cut_ends_the_frames(sidecar: Sidecar) -> None:
    port = urlsplit(sidecar.run["url"]).port
    assert port is not None
    with TcpProxy(port) as line:
        async with open_session() as http:
            client = AgentctlClient(http, f"http://127.0.0.1:{line.port}", Minting(sidecar))
            made = await client.make_shell(ShellRequest(name="cut", command=CAT))
            async with client.attach_shell(made.shell_id) as connection:
                assert await shown(connection, b"ready")
                line.reset()
                try:
                    async with asyncio.timeout(60), aclosing(connection.frames()) as frames:
                        assert [frame async for frame in frames] == []
                except Unreachable:
                    pass  # a reset may be told as an error, too
                await connection.type(b"nobody hears this")  # and is not an error
                line.heal()
            await client.close_shell(made.shell_id)
