"""The ordinary life of an agent on the upstream: first contact, turns, permissions, the end."""

import json
import uuid

import pytest

from integration.agentctl.harness import Json, eventually
from integration.upstream.harness import Fronted

pytestmark = [pytest.mark.integration, pytest.mark.agents]


def test_first_contact_a_turn_and_memory_after_a_resume(front: Fronted) -> None:
    front.put()
    known = eventually(lambda: front.status()["capabilities"]["load_session"], "probed")
    assert known is True
    told = front.status()["capabilities"]
    assert told["supports_session_resume"] is True
    assert told["supports_workspace_only"] is False, "their shell and files are not served"
    assert told["agent"] == {"name": "acp-agent", "version": "1.0.0"}
    front.succeeded(front.open())
    assert front.say("alpha")["outcome"] == "completed"
    assert "the first was: alpha" in front.said()
    assert front.status()["token"]["established"] is True
    front.stop()
    assert front.agent() == "none"
    back = front.succeeded(front.resume())
    assert back["method"] == "session/load"
    assert front.say("beta")["outcome"] == "completed"
    assert "2 things so far; the first was: alpha" in front.said()
    assert front.prompts_heard() == ["alpha", "beta"]
    assert front.starts() == 2
    assert len(front.heard("initialize")) == 2, "each process is initialized once"


def test_a_permission_is_asked_and_answered(front: Fronted) -> None:
    front.put()
    front.succeeded(front.open())
    prompt_id = front.prompt("permission please")["prompt_id"]
    [asked] = eventually(lambda: front.call("GET", "/api/v1/permissions"), "asked")
    assert asked["title"] == "Write permitted.txt"
    assert asked["tool_kind"] == "edit"
    assert [o["option_id"] for o in asked["options"]] == [
        "allow_once",
        "allow_always",
        "reject_once",
    ]
    path = f"/api/v1/permissions/{asked['permission_id']}"
    front.call("POST", path, {"option_id": "allow_once"})
    assert front.turn_end(prompt_id)["outcome"] == "completed"
    assert (front.workspace / "permitted.txt").read_text() == "permission please\n"
    calls = [e["data"] for e in front.events() if e["data"].get("kind") == "tool_call"]
    assert [c["content"]["status"] for c in calls] == ["pending", "completed"]
    assert calls[0]["content"]["kind"] == "edit"


def test_a_cancel_ends_the_turn_and_closes_its_permission(front: Fronted) -> None:
    front.put()
    front.succeeded(front.open())
    slow = front.prompt("slow 500")["prompt_id"]
    eventually(lambda: "word2" in front.said(), "speaks")
    front.call("POST", "/api/v1/cancel")
    assert front.turn_end(slow)["outcome"] == "cancelled"
    asking = front.prompt("permission again")["prompt_id"]
    eventually(lambda: front.call("GET", "/api/v1/permissions"), "asked")
    front.call("POST", "/api/v1/cancel")
    assert front.turn_end(asking)["outcome"] == "cancelled"
    assert front.call("GET", "/api/v1/permissions") == []
    assert front.say("gamma")["outcome"] == "completed"
    assert not (front.workspace / "permitted.txt").exists()


def test_prompts_wait_for_each_other(front: Fronted) -> None:
    front.put()
    front.succeeded(front.open())
    ids = [front.prompt(text)["prompt_id"] for text in ("slow 5 one", "two", "three")]
    assert [front.turn_end(each)["outcome"] for each in ids[-1:]] == ["completed"]
    assert front.prompts_heard() == ["slow 5 one", "two", "three"]
    assert [front.fate(each) for each in ids] == ["delivered"] * 3


def test_modes_options_commands_and_usage_are_known_and_chosen(front: Fronted) -> None:
    front.put("--modes", "--config", "--models", "--usage", "--takes", "image")
    front.succeeded(front.open())
    assert front.status()["capabilities"]["prompt"]["image"] is True

    def offered() -> Json:
        found: Json = front.status()["conversation"]
        return found

    assert [m["mode_id"] for m in offered()["modes"]] == ["build", "plan"]
    assert [o["config_id"] for o in offered()["config"]] == ["effort", "session/set_model"]
    assert eventually(lambda: offered()["commands"], "commands")[0]["name"] == "slow"
    front.succeeded(choose(front, "mode", mode_id="plan"))
    assert offered()["mode_id"] == "plan"
    front.succeeded(choose(front, "config", config_id="effort", value="high"))
    front.succeeded(choose(front, "config", config_id="session/set_model", value="large"))
    values = {o["config_id"]: o["value"] for o in offered()["config"]}
    assert values == {"effort": "high", "session/set_model": "large"}
    front.say("alpha")
    assert front.status()["last_turn"]["usage"]["total_tokens"] > 0
    front.kill()
    front.start()
    assert offered()["mode_id"] == "plan", "it is remembered with the process that goes on"
    assert {o["config_id"]: o["value"] for o in offered()["config"]} == values


def choose(front: Fronted, kind: str, **wanted: str) -> Json:
    body = {"session_id": front.session, "operation_id": uuid.uuid4().hex, **wanted}
    answer = front.call("POST", f"/api/v1/{kind}", body)
    return front.outcome(answer["operation_id"])


def test_variables_of_an_earlier_configuration_are_gone(front: Fronted) -> None:
    front.put(env={"FIRST_ONLY": "x"})
    front.succeeded(front.open())
    front.stop()
    front.put(env={"SECOND_ONLY": "x"})
    front.succeeded(front.open())
    started = [json.loads(line) for line in front.agent_log.read_text().splitlines()]
    names = [set(entry["env"]) for entry in started if entry["event"] == "start"]
    assert [("FIRST_ONLY" in n, "SECOND_ONLY" in n) for n in names] == [
        (True, False),
        (False, True),
    ]


def test_an_image_reaches_the_agent(front: Fronted) -> None:
    front.put("--takes", "image")
    front.succeeded(front.open())
    picture = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    body = {
        "session_id": front.session,
        "prompt_id": "with-picture",
        "content": [{"type": "text", "text": "look"}, picture],
    }
    front.call("POST", "/api/v1/prompt", body)
    assert front.turn_end("with-picture")["outcome"] == "completed"
    [heard] = front.heard("session/prompt")
    assert heard["params"]["prompt"] == [{"type": "text", "text": "look"}, picture]


def test_a_crash_in_a_turn_is_told_with_its_code_and_last_words(front: Fronted) -> None:
    front.put()
    front.succeeded(front.open())
    assert front.say("alpha")["outcome"] == "completed"
    assert front.say("crash now")["outcome"] == "interrupted"
    assert front.becomes("exited")
    exit_ = front.status()["agent"]["exit"]
    assert exit_["code"] == 3
    assert "ends at prompt, as it was told" in exit_["stderr_tail"]
    front.succeeded(front.resume())
    assert "Half an " in front.said(), "what it said before is kept"
    assert front.say("beta")["outcome"] == "completed"
