"""The event stream as AgentctlClient reads it: order, silence, breaks and nonsense."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kandev_operator.clients import errors
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import Limits
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.events import EventKind
from unit.clients.wire import unsigned


def event(seq: int, kind: str = "agent", **more: Any) -> bytes:
    body = {"journal_id": "j", "seq": seq, "kind": kind, "at": "t", "session_id": "s", **more}
    return f"id: j:{seq}\nevent: {kind}\ndata: {json.dumps(body)}\n\n".encode()


def stream(*chunks: bytes, then: str = "end") -> Any:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then == "hang":
            await asyncio.sleep(5)
        if then == "drop":
            assert request.transport is not None
            request.transport.abort()
        return response

    return handler


async def test_events_are_read_in_order_and_later_kinds_are_skipped(
    client: AgentctlClient, peer: Any, minted: list[Any]
) -> None:
    peer.answer(stream(b": hi\n\n", event(1), event(2, "of_a_later_version"), event(3, "gap")))
    seen = [each async for each in client.events("j:0", ("state",))]
    assert [(each.seq, each.kind) for each in seen] == [(1, EventKind.AGENT), (3, EventKind.GAP)]
    assert peer.asked[0].query == {"after": "j:0", "kinds": "state"}
    assert minted == [(Scope.READ,)]


async def test_three_missed_heartbeats_end_the_stream(client: AgentctlClient, peer: Any) -> None:
    peer.answer(stream(event(1), then="hang"))
    events = client.events()
    assert (await anext(events)).seq == 1
    with pytest.raises(errors.TimedOut, match="silent"):
        await anext(events)


async def test_a_stream_that_breaks_is_unreachable(client: AgentctlClient, peer: Any) -> None:
    peer.answer(stream(event(1), then="drop"))
    with pytest.raises(errors.Unreachable):
        assert [each.seq async for each in client.events()] == [1]


async def test_a_refused_stream_says_why(client: AgentctlClient, peer: Any) -> None:
    peer.json({"code": "forbidden_scope", "message": "no"}, 403)
    with pytest.raises(errors.Refused):
        assert [each async for each in client.events()] == []


@pytest.mark.parametrize("chunk", [b"data: {}\n\n", b"data: [\n\n", b"data: 1\n\n", b"x" * 5_000])
async def test_nonsense_on_a_stream_is_malformed(
    session: aiohttp.ClientSession, peer: Any, chunk: bytes
) -> None:
    peer.answer(stream(chunk))
    client = AgentctlClient(session, peer.url, unsigned, limits=Limits(body=4_000))
    with pytest.raises(errors.Malformed):
        assert [each async for each in client.events()] == []


async def test_leaving_a_stream_closes_its_connection(
    client: AgentctlClient, peer: Any, session: aiohttp.ClientSession
) -> None:
    peer.answer(stream(event(1), then="hang"))
    async with aclosing(client.events()) as events:
        async for _ in events:
            break
    connector = session.connector
    assert connector is not None
    assert not connector._acquired
