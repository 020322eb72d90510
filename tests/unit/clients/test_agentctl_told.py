"""Each call to an agentctl is told once, in one word, with its outcome and how long it took."""

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kandev_operator.clients import errors
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import Limits, call_word
from kandev_operator.contract.routes import ROUTES
from unit.clients.wire import TOKEN


@pytest.fixture
def told() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def client(
    session: aiohttp.ClientSession, peer: Any, told: list[tuple[str, str]]
) -> AgentctlClient:
    def on_call(call: str, outcome: str, seconds: float) -> None:
        assert 0 <= seconds < 60
        told.append((call, outcome))

    limits = Limits(total=1, silence=0.2)
    return AgentctlClient(
        session, peer.url, lambda *_: TOKEN, "i-1", limits=limits, on_call=on_call
    )


async def test_an_answer_is_told(
    client: AgentctlClient, peer: Any, told: list[tuple[str, str]]
) -> None:
    peer.json({"supports_session_resume": True})
    await client.capabilities()
    await client.cancel("s")
    assert told == [("capabilities", "ok"), ("cancel", "ok")]


async def test_a_refusal_is_told_by_its_sort(
    client: AgentctlClient, peer: Any, told: list[tuple[str, str]]
) -> None:
    for status, kind in ((409, errors.Refused), (401, errors.Unauthenticated)):
        peer.json({"code": "unauthorized" if status == 401 else "busy", "message": "no"}, status)
        with pytest.raises(kind):
            await client.capabilities()
    assert told == [("capabilities", "refused"), ("capabilities", "unauthenticated")]


async def test_silence_and_absence_are_told_apart(
    client: AgentctlClient, peer: Any, told: list[tuple[str, str]]
) -> None:
    async def never(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError("the caller is gone")

    peer.answer(never)
    with pytest.raises(errors.TimedOut):
        await client.health()
    await peer.server.close()
    with pytest.raises(errors.Unreachable):
        await client.health()
    assert told == [("health", "timed_out"), ("health", "unreachable")]


async def test_a_call_that_is_not_waited_for_is_told(
    client: AgentctlClient, peer: Any, told: list[tuple[str, str]]
) -> None:
    asked = asyncio.Event()

    async def slow(_request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.sleep(30)
        raise AssertionError("the caller is gone")

    peer.answer(slow)
    call = asyncio.create_task(client.health())
    await asked.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert told == [("health", "cancelled")]


async def test_a_stream_is_told_when_it_opens_and_not_again(
    client: AgentctlClient, peer: Any, told: list[tuple[str, str]]
) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(30)
        return response

    peer.answer(silent)
    with pytest.raises(errors.TimedOut):
        await anext(client.events())
    assert told == [("events", "ok")]


def test_no_path_of_the_contract_tells_more_than_a_word() -> None:
    words = {call_word(route.path) for route in ROUTES}
    assert "status" in words
    assert all(word.isalpha() for word in words), words
    assert call_word("/api/v1/permissions/p%2F1") == "permissions"
