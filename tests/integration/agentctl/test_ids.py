"""Ids that come again: with the same request, and with another one under the same name."""

import uuid
from typing import Any

import pytest

from integration.agentctl.harness import Json, Refused, Sidecar, eventually


def refused(sidecar: Sidecar, path: str, body: Json) -> None:
    with pytest.raises(Refused) as seen:
        sidecar.call("POST", path, body)
    assert (seen.value.status, seen.value.code) == (409, "id_reused")


def prompt(sidecar: Sidecar, prompt_id: str, text: str) -> Json:
    content = [{"type": "text", "text": text}]
    return {"session_id": sidecar.session, "prompt_id": prompt_id, "content": content}


def start(sidecar: Sidecar, operation_id: str, **more: Any) -> Json:
    body = {"session_id": sidecar.session, "operation_id": operation_id, "mode": "new"}
    return body | more


def test_a_prompt_id_stands_for_one_prompt_and_that_survives_a_crash(own: Sidecar) -> None:
    own.put()
    own.succeeded(own.open())
    prompt_id = own.say("first")["prompt_id"]
    for _ in range(2):
        refused(own, "/api/v1/prompt", prompt(own, prompt_id, "second"))
        again = own.call("POST", "/api/v1/prompt", prompt(own, prompt_id, "first"))
        assert again["fate"] == "delivered"
        own.kill()
        own.start()
    assert own.prompts_heard() == ["first"]


def test_an_operation_id_stands_for_one_operation(own: Sidecar) -> None:
    own.put()
    operation_id = uuid.uuid4().hex
    own.call("POST", "/api/v1/start", start(own, operation_id, timeout_seconds=60))
    first = own.succeeded(own.outcome(operation_id))
    for _ in range(2):
        servers = [{"name": "another", "command": "x", "args": [], "env": []}]
        refused(own, "/api/v1/start", start(own, operation_id, mcp_servers=servers))
        refused(own, "/api/v1/start", start(own, operation_id, mode="resume", resume_token="t"))
        stop = {"session_id": own.session, "operation_id": operation_id}
        refused(own, "/api/v1/stop", stop)
        # How long it may take is no part of what is asked.
        again = own.call("POST", "/api/v1/start", start(own, operation_id, timeout_seconds=9))
        assert again == first
        own.kill()
        own.start()
    assert len(own.heard("session/new")) == 1


def test_what_waits_when_the_end_is_for_good_is_told_as_not_delivered(sidecar: Sidecar) -> None:
    sidecar.put("--tick", "0.05")
    sidecar.succeeded(sidecar.open())
    first = sidecar.prompt("slow 100")["prompt_id"]
    waiting = [sidecar.prompt(f"p{n}")["prompt_id"] for n in (2, 3)]
    eventually(lambda: sidecar.fate(first) == "delivered")
    assert sidecar.stop(drop_queue=True)["state"] == "succeeded"
    assert [sidecar.fate(i) for i in (first, *waiting)] == [
        "delivered",
        "not_delivered",
        "not_delivered",
    ]
    sidecar.succeeded(sidecar.resume())
    sidecar.say("afterwards")
    assert sidecar.prompts_heard() == ["slow 100", "afterwards"], "and they are never sent"
    told = [e["data"] for e in sidecar.events() if e["kind"] == "prompt"]
    assert [d["reason"] for d in told if d["fate"] == "not_delivered"] == [
        "a stop dropped the prompts that waited"
    ] * 2
