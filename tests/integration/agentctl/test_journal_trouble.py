"""A journal that cannot be read, or has no room: what is refused, what goes on, what is told."""

import pytest

from integration.agentctl.harness import SESSION, Refused, Sidecar, eventually


def test_an_unreadable_journal_is_left_alone_and_starts_no_agent(own: Sidecar) -> None:
    own.put()
    own.succeeded(own.open())
    own.say("history")
    assert own.terminate() == 0
    path = own.state / "sessions" / SESSION / "journal.db"
    path.write_bytes(b"this is no database at all" * 1000)
    damaged = path.read_bytes()
    own.start()
    assert own.health()["status"] == "degraded"
    status = own.status()
    assert status["journal"]["state"] == "unreadable"
    assert status["journal"]["message"]
    for method, path_, body in (
        ("PUT", "/api/v1/agent", own.told),
        ("POST", "/api/v1/start", {"session_id": SESSION, "mode": "new", "operation_id": "o"}),
        (
            "POST",
            "/api/v1/prompt",
            {"session_id": SESSION, "prompt_id": "p", "content": [{"type": "text", "text": "t"}]},
        ),
        ("GET", "/api/v1/events", None),
    ):
        with pytest.raises(Refused) as refused:
            own.call(method, path_, body)
        assert refused.value.code in ("journal_unavailable", "no_agent"), (path_, refused.value)
    assert own.agent() == "none"
    assert path.read_bytes() == damaged
    assert own.terminate() == 0


def test_a_full_journal_refuses_prompts_while_the_agent_goes_on(unstarted: Sidecar) -> None:
    own = unstarted.start("--journal-max-pages", "60")
    own.put("--tick", "0.001")
    own.succeeded(own.open())
    # Two turns in the queue; the first alone says more than there is room for.
    first = own.prompt("slow 3000")["prompt_id"]
    eventually(lambda: own.status()["journal"]["state"] == "full", patience=30)
    assert own.health()["status"] == "degraded"
    with pytest.raises(Refused) as refused:
        own.prompt("x" * 100_000)
    assert (refused.value.status, refused.value.code) == (507, "journal_full")
    own.becomes("idle")
    status = own.status()
    assert status["last_turn"]["prompt_id"] == first
    assert status["last_turn"]["outcome"] == "completed"
    assert status["token"]["established"] is True
    assert own.stop()["state"] == "succeeded"
    token = own.token()
    assert own.terminate() == 0
    own.start()  # with room again
    status = own.status()
    assert status["journal"]["state"] == "ok"
    assert status["token"]["value"] == token
