"""The event stream: replay, live, cursors, gaps, filters, many readers."""

import json

import pytest

from integration.agentctl.harness import Refused, Sidecar


def test_two_readers_get_everything_once_whenever_they_come(sidecar: Sidecar) -> None:
    sidecar.put("--tick", "0.005")
    with sidecar.stream() as early:
        sidecar.succeeded(sidecar.open())
        sidecar.say("slow 50")
        prompt_id = sidecar.prompt("slow 50")["prompt_id"]
        with sidecar.stream() as late:

            def is_end(e: dict[str, object]) -> bool:
                data = e["data"]
                assert isinstance(data, dict)
                return e["kind"] == "turn_ended" and data["turn"]["prompt_id"] == prompt_id

            seen = early.until(is_end)
            assert seen == late.until(is_end)
    assert [e["seq"] for e in seen] == list(range(1, len(seen) + 1))
    middle = seen[len(seen) // 2]
    cursor = f"{middle['journal_id']}:{middle['seq']}"
    with sidecar.stream(after=cursor) as again:
        assert again.until(is_end) == seen[len(seen) // 2 + 1 :]
    assert {e["session_id"] for e in seen} == {sidecar.session}


def test_kinds_are_filtered(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.succeeded(sidecar.open())
    sidecar.say("hello")
    with sidecar.stream(kinds="messages") as reader:
        events = reader.until(
            lambda e: e["data"].get("text", "").endswith("hello") and e["seq"] > 9
        )
    assert {e["kind"] for e in events} == {"message"}
    with sidecar.stream(kinds="state") as reader:
        events = reader.until(lambda e: e["kind"] == "agent" and e["data"]["status"] == "idle")
        events += reader.until(lambda e: e["kind"] == "turn_ended")
    assert "message" not in {e["kind"] for e in events}
    assert "token" in {e["kind"] for e in events}


def test_a_cursor_of_another_journal_gets_a_gap_and_then_everything(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.becomes("initialized")
    with sidecar.stream(after="another-journal:3") as reader:
        first = reader.until(lambda e: True)[0]
        second = reader.until(lambda e: True)[0]
    assert first["kind"] == "gap"
    assert second["seq"] == 1


def test_a_cursor_that_is_none_is_refused(sidecar: Sidecar) -> None:
    sidecar.put()
    for query in ("after=nonsense", "after=a:b", "after=a:-1", "kinds=everything"):
        with pytest.raises(Refused) as refused:
            sidecar.call("GET", f"/api/v1/events?{query}")
        assert refused.value.code == "invalid_request"


def test_tokens_and_secrets_are_in_no_event(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.succeeded(sidecar.open())
    sidecar.say("hello")
    token = sidecar.token()
    whole = json.dumps(sidecar.events())
    assert token not in whole
    assert "very-secret-value" not in whole
    assert token not in sidecar.output()
    assert "hello" not in sidecar.output()
