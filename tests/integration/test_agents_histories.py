"""What real agents keep on disk is read right: one line of descent, and a fork where one is."""

import asyncio
from pathlib import Path

import pytest

from fakes import histories
from fakes.acp_client import talk
from fakes.histories import History
from fakes.model_server import ModelServer
from fakes.real_agents import install

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]
STORED = 1.0


@pytest.mark.parametrize("name", ["opencode", "codex", "claude"])
async def test_a_conversation_in_two_processes_is_one_line(name: str, tmp_path: Path) -> None:
    agent = install(name)
    with ModelServer() as model:
        env = agent.furnish(tmp_path, model.url)
        async with talk(agent.command, env, tmp_path) as first:
            await first.initialize()
            session = await first.new()
            await first.ask(session, "alpha")
            await asyncio.sleep(STORED)
        async with talk(agent.command, env, tmp_path) as second:
            await second.initialize()
            await second.resume(session)
            await second.ask(session, "beta")
            await asyncio.sleep(STORED)
    assert histories.read(name, tmp_path) == History(1, ("alpha", "beta"), 0)


async def test_two_processes_of_claude_fork_its_history_and_that_is_seen(
    tmp_path: Path,
) -> None:
    agent = install("claude")
    with ModelServer() as model:
        env = agent.furnish(tmp_path, model.url)
        async with (
            talk(agent.command, env, tmp_path) as one,
            talk(agent.command, env, tmp_path) as other,
        ):
            for each in (one, other):
                await each.initialize()
            session = await one.new()
            await one.ask(session, "alpha")
            await asyncio.sleep(STORED)
            await other.resume(session)
            await other.ask(session, "beta")
            await one.ask(session, "gamma")
            await asyncio.sleep(STORED)
    assert histories.read("claude", tmp_path).forks == 1
