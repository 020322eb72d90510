"""Permission requests: by policy, asked and answered, refused, cancelled, gone with the agent."""

import pytest

from integration.agentctl.harness import Json, Refused, Sidecar, eventually, kill


def asked(sidecar: Sidecar, policy: str = "Ask", *options: str) -> str:
    sidecar.put(*options, permission_policy=policy)
    sidecar.succeeded(sidecar.open())
    return str(sidecar.prompt("permission to write kept.txt")["prompt_id"])


def open_request(sidecar: Sidecar) -> Json:
    found: list[Json] = eventually(lambda: sidecar.call("GET", "/api/v1/permissions"))
    assert len(found) == 1
    return found[0]


def test_allowed_by_a_caller(sidecar: Sidecar) -> None:
    prompt_id = asked(sidecar)
    request = open_request(sidecar)
    assert request["title"] == "Write kept.txt"
    assert request["tool_kind"] == "edit"
    assert sidecar.status()["turn"]["awaiting_permission"] is True
    path = f"/api/v1/permissions/{request['permission_id']}"
    with pytest.raises(Refused) as refused:
        sidecar.call("POST", path, {"option_id": "never offered"})
    assert refused.value.code == "invalid_request"
    sidecar.call("POST", path, {"option_id": "allow_once"})
    assert sidecar.turn_end(prompt_id)["outcome"] == "completed"
    assert "I wrote kept.txt" in sidecar.said()
    with pytest.raises(Refused) as refused:
        sidecar.call("POST", path, {"option_id": "allow_once"})
    assert refused.value.code == "unknown_permission"
    kinds = [e["kind"] for e in sidecar.events(kinds="state")]
    assert kinds.index("permission_requested") < kinds.index("permission_resolved")


def test_refused_by_leaving_the_option_out(sidecar: Sidecar) -> None:
    prompt_id = asked(sidecar)
    request = open_request(sidecar)
    sidecar.call("POST", f"/api/v1/permissions/{request['permission_id']}", {})
    sidecar.turn_end(prompt_id)
    assert "I was not allowed to write kept.txt" in sidecar.said()


@pytest.mark.parametrize(
    ("policy", "words"), [("AllowAll", "I wrote kept.txt"), ("DenyAll", "I was not allowed")]
)
def test_answered_by_policy(sidecar: Sidecar, policy: str, words: str) -> None:
    prompt_id = asked(sidecar, policy)
    sidecar.turn_end(prompt_id)
    assert words in sidecar.said()
    resolved = [e for e in sidecar.events() if e["kind"] == "permission_resolved"]
    assert [e["data"]["by"] for e in resolved] == ["policy"]


def test_a_cancel_closes_the_request(sidecar: Sidecar) -> None:
    prompt_id = asked(sidecar)
    open_request(sidecar)
    sidecar.call("POST", "/api/v1/cancel")
    assert sidecar.turn_end(prompt_id)["outcome"] == "cancelled"
    assert sidecar.call("GET", "/api/v1/permissions") == []


def test_it_dies_with_the_agent(sidecar: Sidecar) -> None:
    asked(sidecar, "Ask", "--save-prompt", "--save-new")
    request = open_request(sidecar)
    kill(sidecar.agent_pid())
    sidecar.becomes("exited")
    assert sidecar.call("GET", "/api/v1/permissions") == []
    resolved = [e for e in sidecar.events() if e["kind"] == "permission_resolved"]
    assert resolved[0]["data"]["by"] == "agent_gone"
    assert resolved[0]["data"]["permission_id"] == request["permission_id"]
    sidecar.succeeded(sidecar.resume())
    assert sidecar.say("next")["outcome"] == "completed"


def test_a_request_that_nobody_answers_in_time_is_refused(sidecar: Sidecar) -> None:
    sidecar.put(permission_timeout_seconds=0.3)
    sidecar.succeeded(sidecar.open())
    prompt_id = sidecar.prompt("permission to write kept.txt")["prompt_id"]
    request = open_request(sidecar)
    assert sidecar.turn_end(prompt_id)["outcome"] == "completed"
    assert "I was not allowed to write kept.txt" in sidecar.said()
    resolved = [e["data"] for e in sidecar.events() if e["kind"] == "permission_resolved"]
    assert [(e["by"], e["option_id"]) for e in resolved] == [("timeout", "reject_once")]
    assert resolved[0]["permission_id"] == request["permission_id"]
    assert sidecar.call("GET", "/api/v1/permissions") == []
