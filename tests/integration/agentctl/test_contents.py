"""What a prompt may hold, what a turn may tell beside words, and cancelling one prompt of many."""

from pathlib import Path

import pytest

from integration.agentctl.harness import Json, Refused, Sidecar, eventually

TEXT = {"type": "text", "text": "look at this"}
IMAGE = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "name": "notes", "uri": "file:///workspace/notes.txt"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}}


def opened(sidecar: Sidecar, *options: str, **more: object) -> None:
    sidecar.put(*options, **more)
    sidecar.succeeded(sidecar.open())


def send(sidecar: Sidecar, *content: Json, prompt_id: str) -> Json:
    body = {"session_id": sidecar.session, "prompt_id": prompt_id, "content": content}
    answer: Json = sidecar.call("POST", "/api/v1/prompt", body)
    return answer


def test_every_kind_of_content_reaches_an_agent_that_takes_it(sidecar: Sidecar) -> None:
    opened(sidecar, "--takes=image,audio,embeddedContext")
    told = sidecar.call("GET", "/api/v1/capabilities")["prompt"]
    assert told == {"image": True, "audio": True, "embedded_context": True}
    content = [TEXT, IMAGE, AUDIO, LINK, RESOURCE]
    send(sidecar, *content, prompt_id="p-all")
    assert sidecar.turn_end("p-all")["outcome"] == "completed"
    assert sidecar.heard("session/prompt")[-1]["params"]["prompt"] == content
    shown = [e["data"] for e in sidecar.events() if e["kind"] == "message"]
    attached = next(m["content"]["blocks"] for m in shown if m["kind"] == "attachments")
    assert [b["type"] for b in attached] == ["image", "audio", "resource_link", "resource"]
    assert "iVBOR" not in str(attached), "the bytes are the agent's, not the stream's"


@pytest.mark.parametrize("block", [IMAGE, AUDIO, RESOURCE])
def test_content_that_the_agent_does_not_take_is_refused(sidecar: Sidecar, block: Json) -> None:
    opened(sidecar)
    with pytest.raises(Refused) as refused:
        send(sidecar, TEXT, block, prompt_id="p-untaken")
    assert refused.value.code == "not_offered"
    assert refused.value.details == {"offers": ["text", "resource_link"]}
    assert not sidecar.heard("session/prompt")
    send(sidecar, TEXT, LINK, prompt_id="p-taken")
    assert sidecar.turn_end("p-taken")["outcome"] == "completed"


@pytest.mark.parametrize(
    "block",
    [
        {"type": "video", "data": "x"},
        {"text": "no type"},
        {"type": "text"},
        {"type": "text", "text": 7},
        {"type": "image", "data": "x"},
        {"type": "resource_link", "uri": "file:///x"},
        {"type": "resource", "resource": {"uri": "file:///x"}},
    ],
)
def test_what_is_no_content_block_is_refused(sidecar: Sidecar, block: Json) -> None:
    opened(sidecar, "--takes=image,audio,embeddedContext")
    with pytest.raises(Refused) as refused:
        send(sidecar, TEXT, block, prompt_id="p-malformed")
    assert refused.value.code == "invalid_request"
    assert refused.value.details["errors"][0]["at"].startswith("content.1.")


def test_a_queued_prompt_meets_an_agent_that_does_not_take_it(own: Sidecar) -> None:
    opened(own, "--takes=image", "--save-new")
    own.say("first")
    own.prompt("crash now")
    own.becomes("exited")
    send(own, TEXT, IMAGE, prompt_id="p-queued")
    send(own, TEXT, prompt_id="p-after")
    own.put()  # the same session, an agent that takes no images
    own.succeeded(own.resume())
    assert own.turn_end("p-after")["outcome"] == "completed"
    record = next(p for p in own.status()["prompts"] if p["prompt_id"] == "p-queued")
    assert record["fate"] == "not_delivered"
    assert record["reason"] == "the agent takes no image in a prompt"


def test_tool_calls_with_places_and_diffs_plans_and_thoughts(sidecar: Sidecar) -> None:
    opened(sidecar)
    sidecar.say("think, plan: write notes.txt")
    shown = [e["data"] for e in sidecar.events() if e["kind"] == "message"]
    call = [m["content"] for m in shown if m["kind"] == "tool_call"][-1]
    path = str(sidecar.workspace / "notes.txt")
    assert call["locations"] == [{"path": path, "line": 1}]
    assert call["status"] == "completed"
    assert call["content"][0]["type"] == "diff"
    assert call["content"][0]["path"] == path
    assert call["content"][0]["newText"] == Path(path).read_text()
    plans = [m for m in shown if m["kind"] == "plan"]
    assert [p["content"]["entries"][0]["status"] for p in plans] == ["in_progress", "completed"]
    assert len({p["message_id"] for p in plans}) == 1
    assert "Let me think." in "".join(m["text"] for m in shown if m["kind"] == "thought")


def test_a_queued_prompt_is_cancelled_by_its_id(sidecar: Sidecar) -> None:
    opened(sidecar, "--tick", "0.05")
    first = sidecar.prompt("slow 400")["prompt_id"]
    second, third = sidecar.prompt("second")["prompt_id"], sidecar.prompt("third")["prompt_id"]
    eventually(lambda: sidecar.fate(first) == "delivered")
    answer = sidecar.call("POST", "/api/v1/cancel", {"prompt_id": second})
    assert answer == {"turn_id": None, "fate": "not_delivered"}
    assert sidecar.call("POST", "/api/v1/cancel", {"prompt_id": second}) == answer
    answer = sidecar.call("POST", "/api/v1/cancel", {"prompt_id": first})
    assert answer["turn_id"] == sidecar.status()["turn"]["turn_id"]
    assert sidecar.turn_end(third)["outcome"] == "completed"
    assert sidecar.fate(second) == "not_delivered"
    assert sidecar.prompts_heard() == ["slow 400", "third"]
    assert sidecar.call("POST", "/api/v1/cancel", {"prompt_id": third})["fate"] == "delivered"
    with pytest.raises(Refused) as refused:
        sidecar.call("POST", "/api/v1/cancel", {"prompt_id": "never asked"})
    assert refused.value.code == "unknown_prompt"


def test_a_cancelled_prompt_stays_so_over_a_crash(own: Sidecar) -> None:
    opened(own, "--tick", "0.05", "--save-new")
    own.prompt("slow 400")
    queued = own.prompt("second")["prompt_id"]
    own.call("POST", "/api/v1/cancel", {"prompt_id": queued})
    token = own.token()
    own.kill()
    own.start()
    assert own.fate(queued) == "not_delivered"
    own.put_again()
    own.succeeded(own.open("resume", token))
    assert own.say("third")["outcome"] == "completed"
    assert "second" not in own.prompts_heard()


def test_a_login_that_is_wanted_is_shown_with_its_ways(sidecar: Sidecar) -> None:
    sidecar.put("--auth-required")
    failure = sidecar.failed(sidecar.open(), "authentication_required")
    assert "ways to log in: Scripted login [scripted]" in failure["message"]
    logins = sidecar.call("GET", "/api/v1/capabilities")["logins"]
    assert logins == [
        {"id": "scripted", "name": "Scripted login", "description": "Lets everybody in"}
    ]


STDIO = {"name": "local", "command": "/bin/mcp", "args": ["-x"], "env": []}
HTTP = {"type": "http", "name": "far", "url": "http://127.0.0.1:9/mcp", "headers": []}


def test_mcp_servers_are_named_at_new_and_at_every_way_back(sidecar: Sidecar) -> None:
    sidecar.put("--takes=http")
    sidecar.succeeded(sidecar.open(mcp_servers=[STDIO, HTTP]))
    sidecar.say("one")
    sidecar.stop()
    sidecar.succeeded(sidecar.resume(mcp_servers=[STDIO]))
    sidecar.stop()
    sidecar.put("--takes=http", "--no-resume")
    sidecar.succeeded(sidecar.resume(mcp_servers=[HTTP]))
    named = [
        sidecar.heard(f"session/{method}")[-1]["params"]["mcpServers"]
        for method in ("new", "resume", "load")
    ]
    assert named == [[STDIO, HTTP], [STDIO], [HTTP]]


def test_an_mcp_server_that_the_agent_cannot_reach_is_told(sidecar: Sidecar) -> None:
    sidecar.put()
    failure = sidecar.failed(sidecar.open(mcp_servers=[STDIO, HTTP]), "rejected")
    assert failure["message"] == "the agent does not connect to MCP servers by http"
    assert not sidecar.heard("session/new")
    sidecar.succeeded(sidecar.open(mcp_servers=[STDIO]))
