"""The plain road: configure, probe, start, prompt, stop, come back."""

import json
import uuid

import pytest

from integration.agentctl.harness import Refused, Sidecar, alive, eventually


def test_a_conversation_survives_stop_and_resume(sidecar: Sidecar) -> None:
    answer = sidecar.put()
    assert answer["changed"]
    sidecar.becomes("initialized")
    told = sidecar.call("GET", "/api/v1/capabilities")
    assert told["supports_session_resume"] is True
    assert told["supports_workspace_only"] is True
    assert told["agent"] == {"name": "acp-agent", "version": "1.0.0"}
    probed = sidecar.agent_pid()
    operation = sidecar.succeeded(sidecar.open())
    assert operation["method"] == "session/new"
    assert sidecar.agent_pid() == probed, "the probed process is the one that is used"
    assert sidecar.status()["token"]["established"] is False
    assert sidecar.say("hello there")["outcome"] == "completed"
    status = sidecar.status()
    assert status["agent"]["status"] == "idle"
    assert status["token"]["established"] is True
    assert status["turns_completed"] == 1
    assert status["session"]["marker_verified"] is True
    assert "You said 1 things so far; the first was: hello there" in sidecar.said()
    assert sidecar.said("user") == "hello there"
    assert sidecar.stop()["state"] == "succeeded"
    assert sidecar.agent() == "none"
    operation = sidecar.succeeded(sidecar.resume())
    assert operation["method"] == "session/resume"
    assert operation["token_replaced"] is False
    sidecar.say("and now")
    assert "You said 2 things so far; the first was: hello there" in sidecar.said()


def test_the_agent_sees_a_scrubbed_environment_and_its_own_home(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.becomes("initialized")
    line = json.loads(sidecar.agent_log.read_text().splitlines()[0])
    assert line["event"] == "start"
    assert line["home"] == str(sidecar.state / "sessions" / sidecar.session / "home")
    assert line["cwd"] == str(sidecar.workspace)
    allowed = {"PATH", "HOME", "LANG", "TERM", "TZ", "TMPDIR", "MODEL_API_KEY", "LC_CTYPE"}
    allowed |= {"KANDEV_STATE", "KANDEV_EXECUTION_ID", "LC_ALL", "SSL_CERT_FILE"}
    allowed |= {"SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}
    assert set(line["env"]) <= allowed


def test_the_same_configuration_again_has_no_effect(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.becomes("initialized")
    pid = sidecar.agent_pid()
    assert sidecar.put_again()["changed"] is False
    sidecar.succeeded(sidecar.open())
    sidecar.told["profile_hash"] = "another"
    assert sidecar.put_again()["changed"] is True
    assert sidecar.agent_pid() == pid, "a live agent is never restarted by it"
    assert sidecar.agent() == "idle"


def test_a_new_configuration_is_probed_in_place_of_an_unused_process(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.becomes("initialized")
    pid = sidecar.agent_pid()
    sidecar.put("--no-resume", "--no-load")
    eventually(lambda: not alive(pid), "the old probe ends")
    told = eventually(
        lambda: (
            (c := sidecar.call("GET", "/api/v1/capabilities"))["profile_hash"]
            == sidecar.told["profile_hash"]
            and c
        )
    )
    assert told["supports_session_resume"] is False


def test_the_same_operation_id_gives_the_same_outcome(sidecar: Sidecar) -> None:
    sidecar.put()
    operation_id = uuid.uuid4().hex
    first = sidecar.begin(operation_id=operation_id)
    again = sidecar.begin(operation_id=operation_id)
    assert first["operation_id"] == again["operation_id"]
    done = sidecar.succeeded(sidecar.outcome(operation_id))
    assert sidecar.begin(operation_id=operation_id) == done
    assert len(sidecar.heard("session/new")) == 1


def test_two_starts_at_once_are_one_start_and_one_conflict(sidecar: Sidecar) -> None:
    sidecar.put("--slow-start", "0.3")
    first = sidecar.begin()
    with pytest.raises(Refused) as refused:
        sidecar.begin()
    assert refused.value.code == "operation_conflict"
    assert refused.value.details == {"operation_id": first["operation_id"]}
    sidecar.succeeded(sidecar.outcome(first["operation_id"]))
    assert len(sidecar.heard("session/new")) == 1


def test_a_start_for_the_conversation_that_is_open_changes_nothing(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.succeeded(sidecar.open())
    sidecar.say("one")
    pid = sidecar.agent_pid()
    sidecar.succeeded(sidecar.resume())
    assert sidecar.agent_pid() == pid


def test_a_fresh_start_replaces_a_living_agent_by_another_process(sidecar: Sidecar) -> None:
    sidecar.put()
    sidecar.succeeded(sidecar.open())
    sidecar.say("one")
    pid, token = sidecar.agent_pid(), sidecar.token()
    sidecar.succeeded(sidecar.open())
    assert sidecar.agent_pid() != pid
    assert not alive(pid)
    report = sidecar.status()["token"]
    assert report["value"] != token
    assert report["previous"] == [token]
