"""A journal that cannot be read, or has no room: what is refused, what goes on, what is told."""

import pytest

from integration.agentctl.harness import SESSION, Refused, Sidecar


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
    own.put("--big-line", "300000")
    own.succeeded(own.open())
    # The answer is more than there is room for; the turn ends all the same.
    ended = own.say("say a lot")
    assert ended["outcome"] == "completed"
    with pytest.raises(Refused) as refused:
        own.prompt("x" * 300_000)
    assert (refused.value.status, refused.value.code) == (507, "journal_full")
    assert own.status()["journal"]["state"] == "full"
    assert own.health()["status"] == "degraded"
    # Something small still has room, and then the loss is told.
    own.say("a little")
    assert own.health()["status"] == "ok"
    gaps = [e for e in own.events() if e["kind"] == "gap"]
    assert gaps
    assert all(g["data"]["from_seq"] <= g["data"]["to_seq"] < g["seq"] for g in gaps)
    assert own.stop()["state"] == "succeeded"
    token = own.token()
    own.kill()
    own.start()
    status = own.status()
    assert status["journal"]["state"] == "ok"
    assert (status["token"]["value"], status["token"]["established"]) == (token, True)
    assert status["turns_completed"] == 2
