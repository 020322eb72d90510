"""`kubectl kandev files` and `git`, as a person types them, on a real agentctl and repositories.

The way to the agentctl is given here; how it is found is tried elsewhere.
"""

import io
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from integration.agentctl.harness import AUDIENCE
from integration.agentctl.workbench import Bench, git, repository
from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode, Fault, Misuse, Refusal
from kandev_operator.cli.options import parse
from kandev_operator.cli.program import carry_out
from kandev_operator.cli.reach import Line
from kandev_operator.cli.screen import Screen
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.contract.claims import Scope
from unit.cli.bodies import executor_body, session_body

LARGE = 5_000_000


class Hand:
    """Types commands; holds what was said."""

    def __init__(self, bench: Bench, client: AgentctlClient) -> None:
        self.bench, self._client = bench, client
        self.typed = b""
        self.said, self.noted = b"", ""

    async def line(self, name: str) -> Line:
        session = TaskSession.model_validate(session_body())
        return Line(session, Executor.model_validate(executor_body("http://x")), self._client)

    async def types(self, *words: str) -> int:
        """Carry a command line out."""
        stdin = io.TextIOWrapper(io.BytesIO(self.typed), "utf-8")
        stdout = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")
        stderr = io.StringIO()
        _, command = parse(words, {})
        desk = Desk(None, self, Screen(stdin, stdout, stderr), "kandev-system")  # type: ignore[arg-type]
        try:
            return await carry_out(desk, command)
        finally:
            stdout.flush()
            buffer = stdout.buffer
            assert isinstance(buffer, io.BytesIO)
            self.said, self.noted = buffer.getvalue(), stderr.getvalue()

    async def refused(self, *words: str) -> Fault:
        with pytest.raises(Fault) as fault:
            await self.types(*words)
        return fault.value


@pytest.fixture
async def hand(bench: Bench) -> AsyncIterator[Hand]:
    def mint(*scopes: Scope) -> str:
        return bench.sidecar.keys.token(
            aud=AUDIENCE, scopes=[*scopes], term=None, epoch=None, exp=int(time.time()) + 60
        )

    pinned = bench.sidecar.health()["instance_id"]
    async with open_session() as http:
        yield Hand(bench, AgentctlClient(http, bench.sidecar.run["url"], mint, pinned))


async def test_a_folder_is_listed(hand: Hand) -> None:
    repository(hand.bench.workspace, {".gitignore": "*.log\n", "src/a.py": "x\n"})
    (hand.bench.workspace / "x.log").touch()
    (hand.bench.workspace / "evil\x1b[2J").touch()
    (hand.bench.workspace / "link").symlink_to("src")
    assert await hand.types("files", "ls", "demo") == ExitCode.OK
    lines = hand.said.decode().splitlines()
    assert [line.split("  ")[-1] for line in lines] == [
        ".gitignore",
        "evil\ufffd[2J",
        "link -> src",
        "src/",
    ]
    await hand.types("files", "ls", "demo", "src/", "--depth", "2")
    assert hand.said.decode().endswith("src/a.py\n")
    await hand.types("files", "ls", "demo", "-a", "--json")
    assert '"path":"x.log"' in hand.said.decode()
    assert (await hand.refused("files", "ls", "demo", "nowhere")).code == ExitCode.REFUSED


async def test_more_than_a_page_is_listed(hand: Hand) -> None:
    for number in range(1100):
        (hand.bench.workspace / f"f{number:04}").touch()
    await hand.types("files", "ls", "demo")
    assert len(hand.said.splitlines()) == 1100


async def test_a_file_comes_and_goes_as_it_is(hand: Hand, tmp_path: Path) -> None:
    data = os.urandom(LARGE)
    local, back = tmp_path / "local", tmp_path / "back"
    local.write_bytes(data)
    await hand.types("files", "put", "demo", "./a file", str(local))
    assert (hand.bench.workspace / "a file").read_bytes() == data
    await hand.types("files", "get", "demo", "a file", "-o", str(back))
    assert back.read_bytes() == data
    await hand.types("files", "get", "demo", "a file")
    assert hand.said == data
    assert sorted(os.listdir(tmp_path)) == ["back", "local"]


async def test_a_file_that_is_there_is_replaced_only_if_that_is_said(hand: Hand) -> None:
    hand.typed = b"one"
    await hand.types("files", "put", "demo", "f")
    hand.typed = b"two"
    refused = await hand.refused("files", "put", "demo", "f")
    assert isinstance(refused, Refusal)
    assert "--overwrite" in refused.hints[0]
    await hand.types("files", "put", "demo", "f", "--overwrite")
    assert (hand.bench.workspace / "f").read_bytes() == b"two"
    await hand.types("files", "put", "demo", "new", "--overwrite")
    assert "made: new" in hand.noted


async def test_what_cannot_be_fetched_leaves_nothing_here(hand: Hand, tmp_path: Path) -> None:
    (hand.bench.workspace / "out").symlink_to("/etc/passwd")
    target = str(tmp_path / "target")
    for path in ("none", "out", "../x"):
        refused = await hand.refused("files", "get", "demo", path, "-o", target)
        assert isinstance(refused, Refusal)
        assert refused.message.startswith(f"{path}: ")
    assert os.listdir(tmp_path) == []
    missing = await hand.refused("files", "put", "demo", "f", str(tmp_path / "none"))
    assert isinstance(missing, Misuse)
    (hand.bench.workspace / "empty").touch()
    await hand.types("files", "get", "demo", "empty")
    assert hand.said == b""


async def test_the_repository_is_told(hand: Hand) -> None:
    repository(hand.bench.workspace, {"a.txt": "one\n", "b.txt": "b\n"})
    (hand.bench.workspace / "a.txt").write_text("two\n")
    (hand.bench.workspace / "new").touch()
    git(hand.bench.workspace, "rm", "-q", "b.txt")
    await hand.types("git", "status", "demo")
    head = git(hand.bench.workspace, "rev-parse", "--short=10", "HEAD").decode().strip()
    assert hand.said.decode() == f"main at {head}\n M a.txt\nD  b.txt\n ? new\n"
    await hand.types("git", "diff", "demo")
    assert "-one\n+two\n" in hand.said.decode()
    await hand.types("git", "diff", "demo", "--staged")
    assert "deleted file" in hand.said.decode()
    await hand.types("git", "log", "demo", "-l", "1")
    assert hand.said.decode().startswith(head)
    assert hand.said.decode().endswith("Ann: first\n")


async def test_no_repository_is_a_refusal_with_its_cause(hand: Hand) -> None:
    refused = await hand.refused("git", "status", "demo")
    assert isinstance(refused, Refusal)
    assert "not_a_repository" in refused.message


async def test_another_agentctl_at_the_address_is_told_nothing(hand: Hand, bench: Bench) -> None:
    async with open_session() as http:
        client = AgentctlClient(http, bench.sidecar.run["url"], lambda *_: "x", "another-instance")
        stranger = Hand(bench, client)
        stranger.typed = b"secret"
        fault = await stranger.refused("files", "put", "demo", "f")
    assert "another agentctl" in fault.message
    assert not (bench.workspace / "f").exists()
