"""Who may act: terms, epochs, sessions, owners. The field case B010 (fresh start) among them."""

import json
import subprocess
import threading
import time
import uuid

import pytest

from integration.agentctl.harness import SESSION, Refused, Sidecar


def refused_as(
    code: str, sidecar: Sidecar, method: str, path: str, body: object = None, **claims: object
) -> dict[str, object]:
    with pytest.raises(Refused) as refused:
        sidecar.call(method, path, body, **claims)
    assert refused.value.code == code, refused.value
    details: dict[str, object] = refused.value.details
    return details


def test_older_terms_and_epochs_are_refused_and_newer_ones_remembered(own: Sidecar) -> None:
    own.put()
    own.term, own.epoch = 5, 7
    own.succeeded(own.open())
    start = {"session_id": SESSION, "mode": "new", "operation_id": uuid.uuid4().hex}
    highest = {"term": 5, "epoch": 7}
    assert refused_as("stale_epoch", own, "POST", "/api/v1/start", start, term=4) == highest
    assert refused_as("stale_epoch", own, "POST", "/api/v1/start", start, epoch=6) == highest
    assert refused_as("stale_epoch", own, "GET", "/api/v1/status", epoch=6) == highest
    own.kill()
    own.start()
    assert refused_as("stale_epoch", own, "GET", "/api/v1/status", term=4) == highest
    own.status(term=6)
    assert own.status(term=None, epoch=None)["term"] == 6


def test_only_the_operator_raises_the_fence(sidecar: Sidecar) -> None:
    sidecar.put()
    before = sidecar.status()
    sidecar.status(term=10**6, epoch=10**6, scopes=["read"])
    after = sidecar.status()
    assert (after["term"], after["epoch"]) == (before["term"], before["epoch"])
    refused_as("stale_epoch", sidecar, "GET", "/api/v1/status", epoch=0, scopes=["read"])
    refused_as("invalid_request", sidecar, "GET", "/api/v1/status", term=2**70)
    refused_as("invalid_request", sidecar, "GET", "/api/v1/status", epoch=-1)


def test_control_needs_a_term_and_an_epoch(sidecar: Sidecar) -> None:
    spec = sidecar.spec()
    refused_as("invalid_request", sidecar, "PUT", "/api/v1/agent", spec, term=None)
    refused_as("invalid_request", sidecar, "PUT", "/api/v1/agent", spec, epoch=None)


def test_a_start_of_a_higher_epoch_supersedes_a_running_one(sidecar: Sidecar) -> None:
    sidecar.put("--hang-at", "new")
    first = sidecar.begin(timeout_seconds=60)
    sidecar.becomes("opening")
    sidecar.put()  # counts from the next start on
    sidecar.epoch = 2
    second = sidecar.begin()
    sidecar.failed(sidecar.outcome(first["operation_id"]), "superseded")
    sidecar.succeeded(sidecar.outcome(second["operation_id"]))


def test_a_stop_supersedes_a_running_start(sidecar: Sidecar) -> None:
    sidecar.put("--hang-at", "new")
    first = sidecar.begin(timeout_seconds=60)
    sidecar.becomes("opening")
    sidecar.stop()
    sidecar.failed(sidecar.outcome(first["operation_id"]), "superseded")
    assert sidecar.agent() == "none"


def test_B010_a_fresh_start_retires_the_token_before_anything_runs(own: Sidecar) -> None:
    own.put()
    own.succeeded(own.open())
    own.say("history")
    token = own.token()
    own.stop()
    own.epoch = 2
    own.put("--hang-at", "new")
    operation = own.begin(timeout_seconds=60)
    report = own.status()["token"]
    assert report is None
    own.kill()
    own.start()
    assert own.status()["token"] is None, "durable before the launch"
    own.failed(own.outcome(operation["operation_id"]), "interrupted")
    own.put()
    own.succeeded(own.open())
    assert own.heard("session/load") == own.heard("session/resume") == []
    report = own.status()["token"]
    assert report["value"] != token
    assert report["previous"] == [token]
    assert report["epoch"] == 2
    assert report["established"] is False


def test_another_session_is_refused_while_an_agent_lives(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.becomes("initialized")
    served = sidecar.session
    other = sidecar.spec(session_id="another", session_name="s-b")
    details = refused_as("session_conflict", sidecar, "PUT", "/api/v1/agent", other)
    assert details == {"session_id": served}
    body = {"session_id": "another", "prompt_id": "x", "content": [{"type": "text", "text": "x"}]}
    refused_as("session_conflict", sidecar, "POST", "/api/v1/prompt", body)
    refused_as(
        "session_conflict", sidecar, "GET", "/api/v1/status", session="another", scopes=["read"]
    )
    sidecar.succeeded(sidecar.open())
    sidecar.say("mine")
    first = sidecar.status()["journal"]["journal_id"]
    sidecar.stop()
    sidecar.session = "another"
    sidecar.put(session_name="s-b")
    assert sidecar.status()["journal"]["journal_id"] != first
    assert sidecar.status()["prompts"] == []
    sidecar.becomes("initialized")
    sidecar.stop()
    sidecar.session = served
    sidecar.put()
    assert sidecar.status()["journal"]["journal_id"] == first
    assert len(sidecar.status()["prompts"]) == 1


def test_a_session_made_again_under_the_same_name_adopts_its_journal(sidecar: Sidecar) -> None:
    name = f"s-{uuid.uuid4().hex[:6]}"
    sidecar.put(session_name=name)
    sidecar.succeeded(sidecar.open())
    sidecar.say("before it was made again")
    token, journal = sidecar.token(), sidecar.status()["journal"]["journal_id"]
    sidecar.stop()
    old, sidecar.session = sidecar.session, f"again-{uuid.uuid4().hex[:6]}"
    sidecar.put(session_name=name, adopt_from=old)
    status = sidecar.status()
    assert status["journal"]["journal_id"] == journal
    assert status["token"]["value"] == token
    assert status["session"] == {
        "session_id": sidecar.session,
        "namespace": "team-a",
        "name": name,
        "marker_verified": True,
    }
    sidecar.succeeded(sidecar.resume())
    sidecar.say("after")
    assert "the first was: before it was made again" in sidecar.said()


def test_nobody_adopts_the_journal_of_another_name(sidecar: Sidecar) -> None:
    sidecar.put(session_name="mine")
    journal = sidecar.status()["journal"]["journal_id"]
    old = sidecar.session
    sidecar.fresh_session().put(session_name="yours", adopt_from=old)
    assert sidecar.status()["journal"]["journal_id"] != journal


def test_scopes_are_those_of_token_and_key_together(sidecar: Sidecar) -> None:
    sidecar.put()
    if "gateway" not in sidecar.keys.known:
        sidecar.keys.add("gateway", ["read", "prompt"])
    spec = sidecar.spec()
    response = sidecar.raw("PUT", "/api/v1/agent", spec, kid="gateway")
    assert response.status_code == 403
    assert response.json()["details"] == {"needs": "control"}
    sidecar.succeeded(sidecar.open())
    seen = sidecar.call("GET", "/api/v1/status", kid="gateway", term=None, epoch=None)
    assert seen["token"]["value"] is None
    assert seen["token"]["sha256"]
    assert seen["token"]["previous"] == []
    refused_as("forbidden_scope", sidecar, "GET", "/api/v1/status", scopes=["prompt"])


def test_who_has_no_genuine_token_is_refused(sidecar: Sidecar) -> None:
    url = sidecar.run["url"] + "/api/v1/status"
    assert sidecar.http.get(url).json()["code"] == "unauthorized"
    for value in ("Bearer x", "Bearer a.b.c", "Basic abc", "Bearer \x7f", "Bearer " + "a." * 9000):
        answer = sidecar.http.get(url, headers={"Authorization": value})
        assert answer.status_code in (400, 401), value
    assert refused_as("unauthorized", sidecar, "GET", "/api/v1/status", aud="another") == {}
    now = int(time.time())
    details = refused_as(
        "clock_skew", sidecar, "GET", "/api/v1/status", iat=now + 3600, exp=now + 4000
    )
    assert abs(int(str(details["skew_seconds"])) - 3600) < 30
    assert sidecar.http.get(sidecar.run["url"] + "/health").status_code == 200
    text = sidecar.http.get(sidecar.run["url"] + "/metrics").text
    assert 'kandev_agentctl_agent_status{status="none"}' in text


def test_a_second_agentctl_on_the_same_state_is_refused(own: Sidecar) -> None:
    second = subprocess.run(own.command(), capture_output=True, timeout=20, check=False)
    assert second.returncode == 73
    assert b"another agentctl already runs on the state folder" in second.stderr
    assert own.health()["status"] == "ok"
    assert own.reads_run(own.run["pid"])


def test_nothing_is_opened_while_a_stranger_keeps_the_owner_file_moving(unstarted: Sidecar) -> None:
    period = ("--owner-period-seconds", "0.2")
    unstarted.start(*period)
    unstarted.put()
    unstarted.succeeded(unstarted.open())
    unstarted.say("alpha")
    unstarted.terminate()
    path = unstarted.state / "owner.json"
    stranger = {"boot_id": "stranger", "pid": 1, "term": 0, "heartbeat": 0, "kernel": "another"}
    path.write_text(json.dumps(stranger))
    over = threading.Event()

    def beat() -> None:
        n = 0
        while not over.wait(0.1):
            n += 1
            part = path.with_suffix(".stranger")
            part.write_text(json.dumps(stranger | {"heartbeat": n}))
            part.replace(path)

    journal = {each: each.read_bytes() for each in unstarted.state.rglob("journal.db*")}
    thread = threading.Thread(target=beat)
    thread.start()
    try:
        second = subprocess.run(
            unstarted.command(*period), capture_output=True, timeout=20, check=False
        )
    finally:
        over.set()
        thread.join()
    assert second.returncode == 73
    assert b"another agentctl still owns the state folder" in second.stderr
    assert journal
    now = {each: each.read_bytes() for each in unstarted.state.rglob("journal.db*")}
    assert now == journal, "what the other one writes is not touched"
    unstarted.start(*period)
    assert unstarted.health()["status"] == "ok"
    unstarted.put()
    unstarted.succeeded(unstarted.resume())
    unstarted.say("what was the first?")
    assert "the first was: alpha" in unstarted.said()


def test_who_loses_the_workspace_ends_its_agent(unstarted: Sidecar) -> None:
    own = unstarted.start("--owner-period-seconds", "0.2")
    own.put()
    own.succeeded(own.open())
    part = own.state / "owner.part"
    part.write_text(json.dumps({"boot_id": "stranger", "heartbeat": 1}))
    part.replace(own.state / "owner.json")
    own.becomes("none")
    assert own.health()["status"] == "degraded"
    refused_as(
        "workspace_in_use",
        own,
        "POST",
        "/api/v1/start",
        {"session_id": SESSION, "mode": "new", "operation_id": "late"},
    )
