"""Coming back: what each answer of an agent means, and what becomes of the token.

The field cases B041 (gone or broken), B043 and B044 (another id), B046 and B047 (replay).
"""

import json
import sys

import pytest

from integration.agentctl.harness import Json, Sidecar, eventually


def with_history(sidecar: Sidecar, *options: str) -> str:
    """A conversation with one completed turn, stopped; gives its token."""
    sidecar.put(*options)
    sidecar.succeeded(sidecar.open())
    assert sidecar.say("the first thing")["outcome"] == "completed"
    token = sidecar.token()
    sidecar.stop()
    return token


def come_back(sidecar: Sidecar, token: str, *options: str, **more: object) -> Json:
    sidecar.put(*options)
    return sidecar.open("resume", token, **more)


@pytest.mark.parametrize("forget", [["--forget"], ["--forget", "--no-list"]])
def test_B041_a_conversation_that_is_gone(sidecar: Sidecar, forget: list[str]) -> None:
    token = with_history(sidecar)
    failure = sidecar.failed(come_back(sidecar, token, *forget), "session_not_found")
    assert failure["agent_code"] == -32002
    assert token not in json.dumps(failure)
    status = sidecar.status()
    assert status["token"]["value"] == token, "only a fresh start retires it"
    assert status["token"]["established"] is True
    sidecar.becomes("none")
    assert len(sidecar.heard("session/new")) == 1, "no new conversation by itself"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("-32603:Internal error:not found, or not", "agent_error"),
        ("-32603", "agent_error"),
        ("-32602:Invalid params", "rejected"),
        ("-32000:Authentication required", "authentication_required"),
        ("-32600:Invalid request: in use by another client", "held_elsewhere"),
        ("-32002:Resource not found", "agent_error"),
    ],
)
def test_B041_a_conversation_that_is_still_listed_is_not_gone(
    sidecar: Sidecar, error: str, code: str
) -> None:
    token = with_history(sidecar)
    failure = sidecar.failed(come_back(sidecar, token, "--load-error", error), code)
    assert failure["agent_code"] == int(error.split(":")[0])
    assert sidecar.status()["token"]["value"] == token
    assert sidecar.succeeded(come_back(sidecar, token))["method"] == "session/resume"
    assert len(sidecar.heard("session/new")) == 1


def test_B041_an_internal_error_of_an_agent_without_a_list_proves_nothing(
    sidecar: Sidecar,
) -> None:
    token = with_history(sidecar)
    options = ("--load-error", "-32603:Internal error:no such session {id}", "--no-list")
    failure = sidecar.failed(come_back(sidecar, token, *options), "agent_error")
    assert "no such session [redacted]" in failure["message"]


def test_B041_foreign_files_prove_nothing(sidecar: Sidecar) -> None:
    token = with_history(sidecar)
    marker = sidecar.state / "sessions" / sidecar.session / "marker.json"
    sidecar.put("--forget")  # writes the marker; somebody else's is put there afterwards
    sidecar.becomes("initialized")
    sidecar.stop()
    marker.write_text('{"session_id": "somebody", "namespace": "x", "name": "y"}')
    assert sidecar.status()["session"]["marker_verified"] is False
    sidecar.failed(sidecar.open("resume", token), "agent_error")


def test_an_agent_that_cannot_resume(sidecar: Sidecar) -> None:
    token = with_history(sidecar)
    operation = come_back(sidecar, token, "--no-resume", "--no-load")
    sidecar.failed(operation, "resume_unsupported")


def test_an_agent_that_declares_what_it_cannot_do_is_asked_to_load(sidecar: Sidecar) -> None:
    script = """
import json, sys
can = {"loadSession": True, "sessionCapabilities": {"resume": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"result": {"protocolVersion": 1, "agentCapabilities": can}}
    if asked["method"] == "session/resume":
        answer = {"error": {"code": -32601, "message": "Method not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
    sidecar.put(command=sys.executable, args=["-E", "-S", "-c", script])
    assert sidecar.succeeded(sidecar.open("resume", "t-1"))["method"] == "session/load"


def test_B041_the_process_exits_or_hangs_while_it_resumes(sidecar: Sidecar) -> None:
    token = with_history(sidecar)
    sidecar.failed(come_back(sidecar, token, "--exit-at", "resume"), "agent_exited")
    hanging = come_back(sidecar, token, "--hang-at", "resume", timeout_seconds=0.3)
    sidecar.failed(hanging, "timed_out")
    assert sidecar.status()["token"]["value"] == token
    sidecar.succeeded(come_back(sidecar, token))


def test_B043_another_id_is_current_and_history_is_known_to_be_lost(sidecar: Sidecar) -> None:
    token = with_history(sidecar)
    operation = sidecar.succeeded(come_back(sidecar, token, "--resume-id", "tok-9"))
    assert operation["token_replaced"] is True
    report = sidecar.status()["token"]
    assert (report["value"], report["established"], report["previous"]) == ("tok-9", False, [token])
    sidecar.say("again")
    assert sidecar.heard("session/prompt")[-1]["sessionId"] == "tok-9"
    assert sidecar.status()["token"]["established"] is True


def test_B044_an_id_that_the_agent_changes_later_is_kept(sidecar: Sidecar) -> None:
    sidecar.put("--change-id", "kept-under-this")
    sidecar.succeeded(sidecar.open())
    promised = sidecar.token()
    sidecar.say("hello")
    report = eventually(
        lambda: (r := sidecar.status()["token"])["value"] == "kept-under-this" and r
    )
    assert report["established"] is True
    assert report["previous"] == [promised]
    sidecar.say("more")
    assert sidecar.heard("session/prompt")[-1]["sessionId"] == "kept-under-this"
    sidecar.stop()
    sidecar.succeeded(sidecar.resume())
    sidecar.say("third")
    assert "You said 3 things so far" in sidecar.said()


@pytest.mark.parametrize(
    "options",
    [["--no-resume"], ["--no-resume", "--replay-after-answer"], ["--replay-on-resume"]],
    ids=["load", "load answered first", "resume that replays"],
)
def test_B046_replayed_history_is_never_shown_again(sidecar: Sidecar, options: list[str]) -> None:
    token = with_history(sidecar)
    replay = ["--replay-count", "40"] if options != ["--replay-on-resume"] else []
    before = sidecar.status()["journal"]["last_seq"]
    operation = sidecar.succeeded(come_back(sidecar, token, *options, *replay))
    assert operation["method"] == ("session/load" if "--no-resume" in options else "session/resume")
    status = sidecar.status()
    assert status["details"]["updates_replayed"] >= (40 if replay else 2)
    sidecar.say("afterwards")
    journal = status["journal"]["journal_id"]
    later = sidecar.events(after=f"{journal}:{before}")
    assert not [e for e in later if "old message" in json.dumps(e)]
    texts = [e["data"]["text"] for e in later if e["kind"] == "message"]
    assert "".join(texts).startswith("afterwards")
    statuses = [e["data"]["status"] for e in later if e["kind"] == "agent"]
    assert statuses.count("running") == 1


def test_B047_a_replay_of_50000_updates(sidecar: Sidecar) -> None:
    token = with_history(sidecar)
    options = ("--no-resume", "--replay-count", "50000", "--replay-size", "500")
    sidecar.put(*options)
    operation = sidecar.begin("resume", token)
    with sidecar.stream() as slow:  # a reader that never reads
        assert slow is not None
        worst = 0.0
        while sidecar.agent() != "idle":
            worst = max(
                worst, sidecar.http.get(sidecar.run["url"] + "/health").elapsed.total_seconds()
            )
    sidecar.succeeded(sidecar.outcome(operation["operation_id"]))
    assert sidecar.status()["details"]["updates_replayed"] >= 50000
    assert worst < 2.0
    assert sidecar.say("hello")["outcome"] == "completed"
    assert not [e for e in sidecar.events() if "old message" in json.dumps(e)]


@pytest.mark.parametrize(
    "token", ["tok\n", "a\r\nb", "\0", "\U0001f600", "../../etc", "%2F..", '{"a": 1}', "x" * 10240]
)
def test_B061_odd_tokens_reach_the_agent_byte_for_byte(sidecar: Sidecar, token: str) -> None:
    sidecar.put("--no-list")
    failure = sidecar.failed(sidecar.open("resume", token), "session_not_found")
    assert sidecar.heard("session/resume")[-1]["sessionId"] == token
    if len(token) >= 6:
        assert token not in json.dumps(failure)
        assert token not in sidecar.output()


@pytest.mark.parametrize("token", ["", "   ", "\n", "y" * (1024 * 1024)])
def test_B061_tokens_that_are_refused_are_never_quoted(sidecar: Sidecar, token: str) -> None:
    sidecar.put()
    sidecar.becomes("initialized")
    body = {
        "session_id": sidecar.session,
        "mode": "resume",
        "operation_id": "o",
        "resume_token": token,
    }
    response = sidecar.raw("POST", "/api/v1/start", body)
    if response.status_code == 202:
        assert response.json()["failure"]["code"] == "invalid_token"
    else:
        assert response.json()["code"] == "invalid_request"
    assert "yyyyyy" not in response.text
    assert not sidecar.heard("session/resume")


def test_a_token_of_another_agent_and_profile_is_not_even_asked_for(own: Sidecar) -> None:
    own.put(profile_uid="profile-1")
    own.succeeded(own.open())
    own.say("the first thing")
    token = own.token()
    own.kill()  # what is known of the token outlives every process
    own.start()
    own.put("--name", "somebody-else", profile_uid="profile-2")
    failure = own.failed(own.open("resume", token), "invalid_token")
    assert failure["message"] == (
        "the conversation was made with acp-agent, and somebody-else is another agent"
    )
    assert not own.heard("session/resume")
    assert own.status()["token"]["agent"] == "acp-agent"
    own.put(profile_uid="profile-3")  # its own agent again, under a profile that was made anew
    own.succeeded(own.open("resume", token))
    own.say("and now")
    assert "You said 2 things so far" in own.said()


def test_B041_a_not_found_from_another_agent_keeps_the_token(sidecar: Sidecar) -> None:
    token = with_history(sidecar)
    operation = come_back(sidecar, token, "--forget", "--name", "somebody-else")
    failure = sidecar.failed(operation, "invalid_token")
    assert failure["agent_code"] == -32002
    assert sidecar.status()["token"]["value"] == token
