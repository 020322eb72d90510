"""Agents that do not start, do not answer, or answer badly: each has a named outcome.

In every case agentctl goes on serving, and the token is kept.
"""

import json
import sys
from pathlib import Path

import pytest

from integration.agentctl.harness import Json, Sidecar, alive, eventually


def probe_failure(sidecar: Sidecar) -> Json:
    def look() -> Json | None:
        failure = sidecar.call("GET", "/api/v1/capabilities")["failure"]
        return dict(failure) if failure else None

    found: Json = eventually(look, "the probe fails")
    return found


def test_command_not_found(sidecar: Sidecar) -> None:
    sidecar.put(command="/nowhere/agent", args=["--key", "very-secret-value"])
    failure = probe_failure(sidecar)
    assert failure["code"] == "command_not_found"
    assert "/nowhere/agent" in failure["message"]
    assert "very-secret" not in failure["message"]
    assert sidecar.agent() == "none"
    sidecar.failed(sidecar.open(), "command_not_found")
    assert sidecar.health()["status"] == "ok"


def test_exits_at_once(sidecar: Sidecar) -> None:
    sidecar.put("--exit-at", "initialize", "--stderr", "bad key very-secret-value here")
    assert probe_failure(sidecar)["code"] == "agent_exited"
    sidecar.becomes("exited")
    told = sidecar.status()["agent"]["exit"]
    assert told["code"] == 3
    assert "bad key [redacted] here" in told["stderr_tail"]
    failure = sidecar.failed(sidecar.open(), "agent_exited")
    assert "very-secret" not in failure["message"]


@pytest.mark.parametrize("noise", ["--garbage", "--garbage-json"])
def test_other_text_between_the_messages_is_no_harm(sidecar: Sidecar, noise: str) -> None:
    sidecar.put(noise)
    sidecar.succeeded(sidecar.open())
    assert sidecar.say("hello")["outcome"] == "completed"
    assert sidecar.said() == "You said 1 things so far; the first was: hello"


def test_nothing_but_garbage(sidecar: Sidecar) -> None:
    sidecar.put(command="/bin/sh", args=["-c", "while read _; do echo '<html>'; done"])
    assert probe_failure(sidecar)["code"] == "garbage"
    sidecar.becomes("none")


def test_never_answers_initialize(sidecar: Sidecar) -> None:
    sidecar.put("--hang-at", "initialize")
    operation = sidecar.begin()
    sidecar.failed(sidecar.outcome(operation["operation_id"]), "timed_out")
    assert probe_failure(sidecar)["code"] == "timed_out"
    sidecar.becomes("none")


def test_speaks_another_protocol_version(sidecar: Sidecar) -> None:
    sidecar.put("--protocol-version", "2")
    assert probe_failure(sidecar)["code"] == "protocol_mismatch"
    sidecar.failed(sidecar.open(), "protocol_mismatch")


def test_closes_its_output_and_lives_on(sidecar: Sidecar) -> None:
    script = "import os, sys; os.close(1); sys.stdin.buffer.read()"
    sidecar.put(command=sys.executable, args=["-c", script])
    assert probe_failure(sidecar)["code"] == "agent_error"
    sidecar.becomes("none")


def test_login_wanted(sidecar: Sidecar) -> None:
    sidecar.put("--auth-required")
    failure = sidecar.failed(sidecar.open(), "authentication_required")
    assert failure["agent_code"] == -32000
    assert sidecar.call("GET", "/api/v1/capabilities")["auth_methods"] == ["scripted"]


def test_the_conversation_does_not_open_in_time(sidecar: Sidecar) -> None:
    sidecar.put("--hang-at", "new")
    sidecar.failed(sidecar.open(timeout_seconds=0.3), "timed_out")
    sidecar.becomes("none")


def test_working_directory_missing(sidecar: Sidecar, tmp_path: Path) -> None:
    sidecar.put(cwd=str(tmp_path / "gone"))
    failure = sidecar.failed(sidecar.open(), "cwd_missing")
    assert "gone" in failure["message"]
    assert probe_failure(sidecar)["code"] == "cwd_missing"


def test_a_line_of_20_mb_is_dropped_and_told(sidecar: Sidecar) -> None:
    sidecar.put("--big-line", str(20 * 1024 * 1024))
    sidecar.succeeded(sidecar.open())
    assert sidecar.say("hello")["outcome"] == "completed"
    faults = [
        e["data"]["text"]
        for e in sidecar.events(kinds="messages")
        if e["kind"] == "message" and e["data"]["kind"] == "fault"
    ]
    assert len(faults) == 1
    assert "over the limit" in faults[0]
    assert sidecar.said().endswith("the first was: hello")


def test_an_answer_of_20_mb_breaks_that_process_only(sidecar: Sidecar) -> None:
    script = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": 0, "result": "x" * 20971520}), flush=True)
"""
    sidecar.put(command=sys.executable, args=["-c", script])
    assert probe_failure(sidecar)["code"] == "garbage"
    sidecar.becomes("none")
    assert sidecar.health()["status"] == "ok"


def test_an_agent_that_ignores_the_end_of_input_and_term_is_killed(sidecar: Sidecar) -> None:
    sidecar.put("--ignore-eof", "--ignore-term")
    sidecar.succeeded(sidecar.open())
    pid = sidecar.agent_pid()
    assert sidecar.stop(grace_seconds=0.4)["state"] == "succeeded"
    assert not alive(pid)


def test_an_idle_agent_that_closes_its_output_is_ended(sidecar: Sidecar) -> None:
    script = """
import json, os, sys
answers = iter([{"protocolVersion": 1}, {"sessionId": "s-1"}])
for line in sys.stdin:
    id = json.loads(line)["id"]
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": next(answers)}), flush=True)
    if id == 1:
        os.close(1)
"""
    sidecar.put(command=sys.executable, args=["-E", "-S", "-c", script])
    operation = sidecar.open()
    pid = sidecar.status()["agent"]["pid"]
    sidecar.becomes("none")
    assert operation["state"] == "succeeded"
    assert pid is None or not alive(pid)


def test_who_clears_its_environment_and_leaves_its_session_is_found(sidecar: Sidecar) -> None:
    note = sidecar.folder / f"{sidecar.session}.pid"
    daemon = f"setsid env -i /bin/sh -c 'echo $$ > {note}; exec sleep 100' >/dev/null 2>&1 &"
    sidecar.put(command="/bin/sh", args=["-c", f"{daemon} exec cat >/dev/null"])
    child = int(eventually(lambda: note.exists() and note.read_text().strip()))
    assert alive(child)
    sidecar.becomes("none")
    eventually(lambda: not alive(child))


@pytest.mark.parametrize("options", [[], ["--child-keeps-stdout"]])
def test_what_escaped_from_the_agent_ends_with_it(sidecar: Sidecar, options: list[str]) -> None:
    sidecar.put("--escape-child", *options)
    sidecar.succeeded(sidecar.open())
    lines = [json.loads(line) for line in sidecar.agent_log.read_text().splitlines()]
    child = next(line["child"] for line in lines if line["event"] == "child")
    assert alive(child)
    sidecar.stop()
    assert not alive(child)
