"""What the scripted agent offers and takes, seen through the official SDK."""

from __future__ import annotations

import pytest
from acp import RequestError

from fakes.acp_client import Start

pytestmark = pytest.mark.unit


async def test_modes_and_options_are_offered_and_chosen(start: Start) -> None:
    async with start("--modes", "--config") as it:
        await it.initialize()
        opened = await it.agent.new_session(cwd=it.cwd, mcp_servers=[])
        assert opened.modes is not None
        assert opened.modes.current_mode_id == "build"
        assert [option.id for option in opened.config_options or ()] == ["effort", "web"]
        await it.agent.set_session_mode(mode_id="plan", session_id=opened.session_id)
        with pytest.raises(RequestError) as refusal:
            await it.agent.set_session_mode(mode_id="never", session_id=opened.session_id)
        assert refusal.value.code == -32602
        assert await it.ask(opened.session_id, "mode: plan, plan: it") != ""
        kinds = [kind for kind, _ in it.heard()]
        assert kinds.count("plan") == 2
        assert "current_mode_update" in kinds


async def test_nothing_is_offered_or_taken_unless_told(start: Start) -> None:
    async with start() as it:
        able = (await it.initialize()).agent_capabilities
        assert able is not None
        assert able.prompt_capabilities is not None
        assert able.prompt_capabilities.image is False
        opened = await it.agent.new_session(cwd=it.cwd, mcp_servers=[])
        assert (opened.modes, opened.config_options) == (None, None)


async def test_what_it_takes_its_name_and_a_refused_choice(start: Start) -> None:
    told = ("--takes=image,http", "--name=other", "--modes", "--setting-error=-32603:not now")
    async with start(*told) as it:
        answer = await it.initialize()
        assert answer.agent_info is not None
        assert answer.agent_info.name == "other"
        able = answer.agent_capabilities
        assert able is not None
        assert able.prompt_capabilities is not None
        assert able.mcp_capabilities is not None
        assert (able.prompt_capabilities.image, able.mcp_capabilities.http) == (True, True)
        session_id = await it.new()
        with pytest.raises(RequestError, match="not now"):
            await it.agent.set_session_mode(mode_id="plan", session_id=session_id)
