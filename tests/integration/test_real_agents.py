"""Real agents, offline: they talk, are killed, come back in a new process, and still know.

The model server answers from the request alone, so the second answer proves that the agent, not
the server, kept the talk. First calls bring the agents from npm into the user's cache.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from acp import RequestError

from fakes.acp_client import Start, talk
from fakes.model_server import ModelServer
from fakes.real_agents import RealAgent, install

pytestmark = pytest.mark.agents

# Seen with Claude: a turn is answered up to 0.2 s before it is on disk.
SETTLE = 1.0


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(tick=0.1) as server:
        yield server


@pytest.fixture(params=["opencode", "codex", "claude"])
def agent(request: pytest.FixtureRequest) -> RealAgent:
    return installed(request.param)


def installed(name: str) -> RealAgent:
    return install(name)


@pytest.fixture
def start(agent: RealAgent, model: ModelServer, tmp_path: Path) -> Start:
    """Start the agent; every start in a test has the same HOME and the same folder to work in."""
    home, cwd = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    cwd.mkdir()
    env = agent.furnish(home, model.url)
    return lambda: talk(agent.command, env, cwd)


@pytest.mark.timeout(180)
async def test_a_killed_agent_is_resumed_and_remembers(start: Start) -> None:
    word = f"alpha-{secrets.token_hex(3)}"
    async with start() as it:
        answer = await it.initialize()
        assert answer.agent_capabilities is not None
        assert answer.agent_capabilities.session_capabilities is not None
        assert answer.agent_capabilities.session_capabilities.resume is not None
        session_id = await it.new()
        assert f"I see 1 user messages; the first was: {word}" in await it.ask(session_id, word)
        await asyncio.sleep(SETTLE)
        await it.kill()
    async with start() as it:
        await it.initialize()
        await it.resume(session_id)
        assert "message_chunk" not in str(it.heard())
        assert f"I see 2 user messages; the first was: {word}" in await it.ask(session_id, "beta")


@pytest.mark.timeout(180)
async def test_a_permission_is_asked_before_the_command_runs(start: Start) -> None:
    async with start() as it:
        await it.initialize()
        session_id = await it.new()
        mark = Path(it.cwd) / "mark"
        it.ear.choose = None
        turn = asyncio.create_task(it.prompt(session_id, "run: touch mark"))
        await it.until(lambda: it.ear.permissions)
        assert not mark.exists()
        await it.kill()
        with pytest.raises(ConnectionError):
            await turn
    assert not mark.exists()


@pytest.mark.timeout(180)
async def test_a_slow_answer_can_be_cancelled(start: Start) -> None:
    async with start() as it:
        await it.initialize()
        session_id = await it.new()
        turn = asyncio.create_task(it.prompt(session_id, "slow 1000"))
        await it.until(lambda: "word2" in it.said())
        await it.agent.cancel(session_id=session_id)
        assert (await turn).stop_reason == "cancelled"


@pytest.mark.timeout(180)
async def test_codex_without_a_model_asks_for_a_login(tmp_path: Path) -> None:
    codex = installed("codex")
    async with talk(codex.command, codex.furnish(tmp_path, None), tmp_path) as it:
        answer = await it.initialize()
        assert answer.auth_methods
        with pytest.raises(RequestError) as refusal:
            await it.prompt(await it.new(), "alpha")
    assert refusal.value.code == -32000
