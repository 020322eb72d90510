"""A session as a client of the gateway sees it: state first, then every word, and each once."""

import asyncio
import time
import uuid
from collections.abc import Callable

import pytest

from stage.gatewayprocess import GatewayProcess
from stage.onlooker import Onlooker, RefusedError, onlooker
from stage.scene import Scene


def running(view: dict[str, object]) -> bool:
    return view["state"] == "WAITING_FOR_INPUT" and view.get("is_agent_running") is True


async def kept(
    it: Onlooker, uid: str, holds: Callable[[dict[str, str]], bool], seconds: float = 30
) -> bool:
    """Whether the list of messages comes to hold: what is new is heard before it is stored."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        page = await it.ask("message.list", session_id=uid)
        texts = {each["message_id"]: each["text"] for each in page["messages"] if each["text"]}
        if holds(texts):
            return True
        await asyncio.sleep(0.05)
    return False


async def test_a_session_is_followed_prompted_and_read_again(
    scene: Scene, gateway: GatewayProcess
) -> None:
    part = await scene.begin("window")
    await part.idle()
    async with onlooker(gateway.url) as it:
        listed = await it.ask("task.list")
        view = next(each for each in listed["sessions"] if each["name"] == "window")
        uid = view["session_id"]
        assert uid == part.uid
        first = await it.ask("session.subscribe", session_id=uid)
        assert first["state"] == "WAITING_FOR_INPUT"
        await it.until(lambda a, _: a == "session.agentctl_ready", "agentctl is ready")
        assert it.notices[0][0] == "session.state", "the state comes first"
        answer = await it.ask("session.prompt", session_id=uid, prompt_id="p-1", text="alpha")
        assert answer["prompt_id"] == "p-1"
        await it.until(
            lambda a, b: a == "session.turn" and b["what"] == "ended", "the turn has ended"
        )
        again = await it.ask("session.prompt", session_id=uid, prompt_id="p-1", text="alpha")
        assert again["fate"] == "delivered"
        assert "alpha" in it.words(uid, "user")
        assert it.words(uid)
        assert await kept(it, uid, lambda texts: texts == it.heard[uid].texts)
    assert part.prompts() == ["alpha"]


async def test_the_agent_dies_and_is_resumed_from_the_window(
    scene: Scene, gateway: GatewayProcess
) -> None:
    part = await scene.begin("dies", resume={"policy": "OnRequest"})
    await part.with_history()
    async with onlooker(gateway.url) as it:
        uid = part.uid
        await it.ask("session.subscribe", session_id=uid)
        await it.state(running, "an agent that waits")
        part.kill()
        gone = await it.state(lambda v: v.get("needs_resume") is True, "an agent that is gone")
        assert (gone["is_agent_running"], gone["is_resumable"]) == (False, True)
        with pytest.raises(RefusedError) as refused:
            await it.ask("session.prompt", session_id=uid, prompt_id="p-2", text="lost?")
        assert refused.value.code == "agent_not_running"
        assert refused.value.details["needs_resume"] is True
        so_far = len(it.notices)
        await it.ask("session.resume", session_id=uid, request_id=str(uuid.uuid4()))
        await it.until(lambda a, b: a == "session.state" and running(b), "resumed", so_far)
        await it.ask("session.prompt", session_id=uid, prompt_id="p-3", text="what was the first?")
        await it.until(
            lambda a, b: a == "session.turn" and b["what"] == "ended" and b["prompt_id"] == "p-3",
            "answered",
        )
        assert "the first was: alpha" in it.words(uid)
    assert part.prompts().count("lost?") == 0


async def test_a_suspended_session_keeps_its_words_and_wakes(
    scene: Scene, gateway: GatewayProcess
) -> None:
    part = await scene.begin("rests")
    await part.with_history("beta")
    async with onlooker(gateway.url) as it:
        uid = part.uid
        await it.ask("session.subscribe", session_id=uid)
        await it.state(running, "an agent that waits")
        await it.ask("session.stop", session_id=uid)
        rests = await it.state(lambda v: v.get("suspended") == "Requested", "at rest")
        assert rests["needs_resume"] is False
        assert await kept(it, uid, lambda texts: any("beta" in each for each in texts.values()))
        so_far = len(it.notices)
        await it.ask("session.resume", session_id=uid, request_id="wake")
        await it.until(lambda a, b: a == "session.state" and running(b), "awake", so_far)
    await part.remembers("beta")
