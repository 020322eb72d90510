"""The scripted agent for the tests of this folder: one HOME and one diary in each test."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from fakes import scripted_agent
from fakes.acp_client import OneTurn, Start, Talk, talk


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start the agent with these options; every start in a test shares one HOME."""

    def one(*options: str) -> AbstractAsyncContextManager[Talk]:
        command = scripted_agent.command("--tick=0.01", f"--log={tmp_path / 'log'}", *options)
        return talk(command, {"HOME": str(tmp_path)}, tmp_path)

    return one


@pytest.fixture
def one_turn(start: Start) -> OneTurn:
    """Make a session with one turn in it, whose process is dead; gives its id."""

    async def make(*options: str) -> str:
        async with start(*options) as it:
            await it.initialize()
            session_id = await it.new()
            await it.ask(session_id, "alpha")
        return session_id

    return make
