"""AgentctlClient over the wire, against a peer that keeps the contract and one that does not."""

import asyncio
import gzip
import json
import re
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kandev_operator.clients import errors
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import Limits, Route
from kandev_operator.contract.agent import (
    AgentSpec,
    PermissionAnswer,
    PromptRequest,
    StartRequest,
    StopRequest,
)
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.conversation import ConfigRequest, ModeRequest
from unit.clients.wire import TOKEN, unsigned

HEALTH = {
    "status": "ok",
    "instance_id": "i-1",
    "boot_id": "b",
    "contract_version": "1.0",
    "agent_status": "none",
}
STATUS = {
    **{key: HEALTH[key] for key in ("instance_id", "boot_id", "contract_version")},
    "workspace_path": "/w",
    "agent": {"status": "idle"},
    "capabilities": {},
    "journal": {"state": "ok"},
}
OPERATION = {"operation_id": "o", "kind": "start", "state": "running", "started_at": "t"}


async def test_health_needs_no_token(client: AgentctlClient, peer: Any, minted: list[Any]) -> None:
    peer.json(HEALTH)
    assert (await client.health()).instance_id == "i-1"
    assert "Authorization" not in peer.asked[0].headers
    assert minted == []


async def test_every_call_has_its_path_body_and_least_scope(
    client: AgentctlClient, peer: Any, minted: list[tuple[Scope, ...]], json_answer: Any
) -> None:
    permission = {"permission_id": "p", "title": "t", "options": [], "requested_at": "t"}
    peer.answer(
        json_answer(STATUS),
        json_answer(STATUS),
        json_answer({"supports_session_resume": True, "later_field": 1}),
        json_answer({"session_id": "s", "journal_id": "j", "profile_hash": "h", "changed": True}),
        json_answer(OPERATION, 202),
        json_answer({**OPERATION, "kind": "stop"}, 202),
        json_answer({"prompt_id": "p", "fate": "queued"}, 202),
        json_answer({}),
        json_answer({"permissions": [permission]}),
        json_answer([permission]),
        json_answer({}),
    )
    await client.status()
    await client.status(with_token=False)
    assert (await client.capabilities()).supports_session_resume is True
    spec = AgentSpec(
        session_id="s",
        session_namespace="n",
        session_name="m",
        command="c",
        profile_hash="h",
        env={"K": "v"},
    )
    assert (await client.put_agent(spec)).changed
    start = StartRequest(session_id="s", operation_id="o", mode="resume", resume_token=ODD)
    assert (await client.start(start)).operation_id == "o"
    await client.stop(StopRequest(session_id="s", operation_id="o"))
    prompt = PromptRequest(session_id="s", prompt_id="p", content=({"type": "text"},))
    assert (await client.prompt(prompt)).fate == "queued"
    await client.cancel("s")
    assert [each.permission_id for each in await client.permissions()] == ["p"]
    assert [each.permission_id for each in await client.permissions()] == ["p"]
    await client.answer_permission("a/b", PermissionAnswer(option_id="yes"))

    assert [(asked.method, asked.path) for asked in peer.asked] == [
        ("GET", "/api/v1/status"),
        ("GET", "/api/v1/status"),
        ("GET", "/api/v1/capabilities"),
        ("PUT", "/api/v1/agent"),
        ("POST", "/api/v1/start"),
        ("POST", "/api/v1/stop"),
        ("POST", "/api/v1/prompt"),
        ("POST", "/api/v1/cancel"),
        ("GET", "/api/v1/permissions"),
        ("GET", "/api/v1/permissions"),
        ("POST", "/api/v1/permissions/a%2Fb"),
    ]
    assert {asked.headers["Authorization"] for asked in peer.asked} == {f"Bearer {TOKEN}"}
    assert peer.asked[4].body["resume_token"] == ODD
    assert peer.asked[7].body == {"session_id": "s"}
    read, control, prompting = (Scope.READ,), (Scope.CONTROL,), (Scope.PROMPT,)
    assert minted == [
        (*read, *control),
        read,
        read,
        control,
        control,
        control,
        prompting,
        prompting,
        read,
        read,
        prompting,
    ]


ODD = "line\r\nfeed \0 🗝 ../%2F {}"


async def test_choices_and_one_prompts_cancel_go_out_as_a_persons_calls(
    client: AgentctlClient, peer: Any, minted: list[tuple[Scope, ...]], json_answer: Any
) -> None:
    peer.answer(
        json_answer({**OPERATION, "kind": "mode"}, 202),
        json_answer({**OPERATION, "kind": "config"}, 202),
        json_answer({"turn_id": None, "fate": "not_delivered"}, 202),
    )
    mode = ModeRequest(session_id="s", operation_id="o", mode_id="plan")
    assert (await client.choose_mode(mode)).kind == "mode"
    config = ConfigRequest(session_id="s", operation_id="o", config_id="web", value=True)
    assert (await client.choose_config(config)).kind == "config"
    assert (await client.cancel_prompt("p")).fate == "not_delivered"
    assert [(asked.path, asked.body) for asked in peer.asked] == [
        ("/api/v1/mode", {"session_id": "s", "operation_id": "o", "mode_id": "plan"}),
        (
            "/api/v1/config",
            {"session_id": "s", "operation_id": "o", "config_id": "web", "value": True},
        ),
        ("/api/v1/cancel", {"prompt_id": "p"}),
    ]
    assert minted == [(Scope.PROMPT,)] * 3


async def test_another_instance_is_foreign(client: AgentctlClient, peer: Any) -> None:
    peer.json({**HEALTH, "instance_id": "i-2"})
    with pytest.raises(errors.Foreign) as caught:
        await client.health()
    assert (caught.value.expected, caught.value.found) == ("i-1", "i-2")
    peer.json({**STATUS, "instance_id": "i-2"})
    with pytest.raises(errors.Foreign):
        await client.status()


async def test_another_major_version_is_named_before_it_is_misread(
    client: AgentctlClient, peer: Any
) -> None:
    peer.json({"contract_version": "2.0", "identity": "elsewhere now"})
    with pytest.raises(errors.ContractMismatch) as caught:
        await client.health()
    assert type(caught.value) is errors.ContractMismatch
    assert caught.value.version == "2.0"
    peer.json({**HEALTH, "contract_version": "1.7", "new": True})
    assert (await client.health()).contract_version == "1.7"


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (401, "unauthorized", errors.Unauthenticated),
        (401, "clock_skew", errors.Unauthenticated),
        (403, "forbidden_scope", errors.Refused),
        (409, "stale_epoch", errors.Refused),
        (503, "journal_unavailable", errors.Refused),
        (507, "journal_full", errors.Refused),
    ],
)
async def test_a_refusal_keeps_code_and_details(
    client: AgentctlClient, peer: Any, status: int, code: str, expected: type[errors.AgentctlError]
) -> None:
    peer.json({"code": code, "message": "m" * 5000, "details": {"skew_seconds": 400}}, status)
    with pytest.raises(errors.AgentctlError) as caught:
        await client.capabilities()
    error = caught.value
    assert type(error) is expected
    assert isinstance(error, errors.Refused | errors.Unauthenticated)
    assert (error.status, error.code) == (status, code)
    assert len(error.message) <= errors.MAX_MESSAGE_CHARS
    if isinstance(error, errors.Unauthenticated):
        assert error.skew_seconds == 400


@pytest.mark.parametrize("details", [{}, {"skew_seconds": "x"}, {"skew_seconds": True}])
async def test_a_skew_that_is_no_number_is_unknown(
    client: AgentctlClient, peer: Any, details: dict[str, Any]
) -> None:
    peer.json({"code": "clock_skew", "message": "", "details": details}, 401)
    with pytest.raises(errors.Unauthenticated) as caught:
        await client.capabilities()
    assert caught.value.skew_seconds is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (502, errors.Unreachable),
        (503, errors.Unreachable),
        (504, errors.Unreachable),
        (302, errors.Refused),
        (404, errors.Refused),
        (500, errors.Refused),
    ],
)
async def test_what_stands_in_between_is_told_apart(
    client: AgentctlClient, peer: Any, status: int, expected: type[errors.AgentctlError]
) -> None:
    peer.json({"kind": "Status", "message": "no endpoints"}, status, Location="http://elsewhere/")
    with pytest.raises(expected):
        await client.capabilities()
    assert len(peer.asked) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b"null",
        b'{"status": "ok"}',
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps({**HEALTH, "agent_status": "sesame"}).encode(),
    ],
)
async def test_nonsense_is_malformed_and_not_quoted(
    client: AgentctlClient, peer: Any, body: bytes
) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    peer.answer(answer)
    with pytest.raises(errors.Malformed) as caught:
        await client.health()
    assert "sesame" not in str(caught.value)
    with pytest.raises(errors.Malformed):
        await client.permissions()


async def test_an_answer_without_end_is_cut_off(session: aiohttp.ClientSession, peer: Any) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" " * 4096)

    async def packed(_request: web.Request) -> web.StreamResponse:
        body = gzip.compress(b" " * 10_000_000)
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    client = AgentctlClient(session, peer.url, unsigned, limits=Limits(body=10_000))
    for answer in (endless, packed):
        peer.answer(answer)
        with pytest.raises(errors.Malformed, match="more than 10000 bytes"):
            await client.status()
    assert peer.asked[0].headers["Accept-Encoding"] == "identity"


async def test_silence_and_absence_are_different(session: aiohttp.ClientSession, peer: Any) -> None:
    released = asyncio.Event()

    async def silent(_request: web.Request) -> web.StreamResponse:
        await released.wait()
        return web.Response()

    client = AgentctlClient(session, peer.url, unsigned, limits=Limits(total=0.05))
    peer.answer(silent)
    with pytest.raises(errors.TimedOut):
        await client.health()
    released.set()

    async def hangs_up(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    peer.answer(hangs_up)
    with pytest.raises(errors.Unreachable):
        await client.stop(StopRequest(session_id="s", operation_id="o"))
    await peer.server.close()
    with pytest.raises(errors.Unreachable) as caught:
        await client.status()
    assert caught.value.__context__ is None
    assert re.search(r"cannot connect to 127.0.0.1:\d+: Connection refused", str(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "ftp://host",
        "http://",
        "http://user:pw@host",
        "http://[::1",
        "http://h:x",
        "file:///etc/passwd",
    ],
)
async def test_an_odd_address_is_unreachable(session: aiohttp.ClientSession, url: str) -> None:
    with pytest.raises(errors.Unreachable, match="not a plain http"):
        await AgentctlClient(session, url, unsigned).health()


async def test_through_the_pod_proxy_the_token_has_a_header_of_its_own(
    session: aiohttp.ClientSession, peer: Any
) -> None:
    async def outer() -> dict[str, str]:
        return {"Authorization": "Bearer api-server"}

    route = Route(outer_headers=outer, token_header="X-Kandev-Token")
    client = AgentctlClient(session, f"{peer.url}/api/v1/x/proxy/", unsigned, route=route)
    peer.json(STATUS)
    await client.status()
    (asked,) = peer.asked
    assert asked.path == "/api/v1/x/proxy/api/v1/status"
    assert asked.headers["Authorization"] == "Bearer api-server"
    assert asked.headers["X-Kandev-Token"] == TOKEN
