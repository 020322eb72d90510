"""Doors that stay shut, strangers, rivals and agents that misbehave behind the upstream."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes.kandev_agentctl import KandevAgentctl
from integration.agentctl.harness import AGENT, alive, eventually
from integration.upstream.harness import Fronted

pytestmark = [pytest.mark.integration, pytest.mark.agents]
PATIENCE = 60.0


def refused_status(front: Fronted) -> str:
    """What `/status` says instead of a status; nothing while it says one."""
    answer = front.raw("GET", "/api/v1/status")
    if answer.status_code == 200:
        return ""
    assert (answer.status_code, answer.json()["code"]) == (503, "upstream_unavailable")
    return str(answer.json()["message"])


def words_of_trouble(front: Fronted, wanted: str) -> None:
    eventually(lambda: wanted in refused_status(front), wanted, PATIENCE)
    assert front.health()["status"] == "degraded"


# ---- nonce and token -------------------------------------------------------------------


def test_a_wrong_nonce_is_named_and_can_be_mended(
    kandev: KandevAgentctl, make_front: Callable[..., Fronted]
) -> None:
    right = kandev.nonce_file.read_text()
    kandev.nonce_file.write_text("another nonce\n")
    front = make_front(kandev).start_blind()
    words_of_trouble(front, "refuses the nonce")
    assert not (front.state / "upstream-token.json").exists()
    front.put()
    failure = eventually(lambda: front.call("GET", "/api/v1/capabilities")["failure"], "told")
    assert failure["code"] == "upstream_unavailable"
    kandev.nonce_file.write_text(right)
    eventually(lambda: front.health()["status"] == "ok", "mended", PATIENCE)
    front.succeeded(front.open())
    assert front.say("alpha")["outcome"] == "completed"


def test_a_nonce_that_is_missing_is_named(
    kandev: KandevAgentctl, make_front: Callable[..., Fronted]
) -> None:
    kandev.nonce_file.unlink()
    front = make_front(kandev).start_blind()
    words_of_trouble(front, "no nonce for it is here")


def test_a_lost_token_is_named_and_comes_back_with_a_restart_of_theirs(
    front: Fronted, kandev: KandevAgentctl
) -> None:
    front.kill()
    (front.state / "upstream-token.json").unlink()
    front.start_blind()
    words_of_trouble(front, "only a restart of the upstream makes it good again")
    kandev.kill()
    kandev.start()
    eventually(lambda: front.health()["status"] == "ok", "a new token", PATIENCE)


def test_an_upstream_that_was_started_without_a_nonce_cannot_be_used(
    tmp_path: Path, make_front: Callable[..., Fronted]
) -> None:
    """Its control server is open then, but its instances want a token that nobody can get."""
    kandev = KandevAgentctl(tmp_path / "open", nonce=None).start()
    try:
        front = make_front(kandev).start()
        front.put()
        failure = eventually(lambda: front.status()["capabilities"]["failure"], "told")
        assert failure["code"] == "upstream_unavailable"
        assert "no nonce for it is here" in failure["message"]
    finally:
        kandev.close()


def test_secrets_are_in_one_file_of_ours_and_nowhere_else(
    front: Fronted, kandev: KandevAgentctl
) -> None:
    front.put("--stderr", "very-secret-value")
    front.succeeded(front.open())
    front.say("alpha")
    front.say("crash now")
    front.becomes("exited")
    assert "very-secret-value" not in json.dumps(front.status())
    token = front.upstream_token()
    assert (front.state / "upstream-token.json").stat().st_mode & 0o777 == 0o600
    assert front.process is not None
    argv = Path(f"/proc/{front.process.pid}/cmdline").read_text()
    front.terminate()
    secrets = [s.encode() for s in (token, kandev.nonce or "", "very-secret-value")]
    for path in [front.folder / "agentctl.out", *front.state.rglob("*")]:
        if path.is_file() and path.name != "upstream-token.json":
            found = path.read_bytes()
            assert not [s for s in secrets if s in found], path
    assert token not in argv
    assert (kandev.nonce or "") not in argv


# ---- who else is there -----------------------------------------------------------------


def test_another_upstream_at_the_address_is_left_alone(
    front: Fronted, kandev: KandevAgentctl, tmp_path: Path
) -> None:
    front.put()
    front.succeeded(front.open())
    front.say("alpha")
    kandev.kill()
    stranger = KandevAgentctl(tmp_path / "stranger", port=kandev.port).start()
    try:
        words_of_trouble(front, "it is another upstream, or")
        stranger.handshake()
        assert stranger.instances() == [], "nothing was asked of it"
    finally:
        stranger.close()
    kandev.start()
    eventually(lambda: front.health()["status"] == "ok", "ours again", PATIENCE)
    assert front.becomes("exited")
    front.succeeded(front.resume())
    assert front.say("beta")["outcome"] == "completed"


def test_no_agent_is_started_beside_a_rival_in_the_same_folder(
    kandev: KandevAgentctl, make_front: Callable[..., Fronted]
) -> None:
    theirs = started_by_kandev(kandev)
    front = make_front(kandev)
    give_token(front, kandev)
    front.start()
    front.put()
    failure = eventually(lambda: front.status()["capabilities"]["failure"], "refused")
    assert failure["code"] == "workspace_in_use"
    assert "backend-1" in failure["message"]
    kandev.call("POST", "/api/v1/stop", {}, port=theirs)
    front.succeeded(front.open())


def test_an_agent_that_runs_is_taken_over_without_a_second_initialize(
    kandev: KandevAgentctl, make_front: Callable[..., Fronted]
) -> None:
    front = make_front(kandev, "--upstream-instance", "backend-1")
    port = started_by_kandev(kandev, log=front.agent_log)
    pid = kandev.call("GET", "/api/v1/status", port=port)["process_info"]["pid"]
    give_token(front, kandev)
    front.start()
    front.put()
    eventually(lambda: front.status()["capabilities"]["load_session"], "probed")
    front.succeeded(front.open())
    assert front.say("alpha")["outcome"] == "completed"
    front.kill()
    front.start()
    assert front.say("beta")["outcome"] == "completed"
    assert front.status()["agent"]["pid"] == pid
    assert len(front.heard("initialize")) == 1
    front.stop()
    assert not alive(pid)
    front.put_again()
    front.succeeded(front.resume())
    assert front.say("gamma")["outcome"] == "completed"
    assert "3 things so far; the first was: alpha" in front.said()


def started_by_kandev(kandev: KandevAgentctl, log: Path | None = None) -> int:
    """An instance with a running agent, as Kandev's backend makes one; its port."""
    kandev.handshake()
    body = {"id": "backend-1", "workspace_path": str(kandev.workspace), "protocol": "acp"}
    port: int = kandev.call("POST", "/api/v1/instances", body)["port"]
    log = log or kandev.folder / "theirs.jsonl"
    argv = [sys.executable, "-E", "-S", str(AGENT), "--log", str(log)]
    told = {"command": argv[0], "agent_args": argv}
    kandev.call("POST", "/api/v1/agent/configure", told, port=port)
    kandev.call("POST", "/api/v1/start", {}, port=port)
    eventually(lambda: kandev.call("GET", "/api/v1/status", port=port)["agent_status"] == "running")
    return port


def give_token(front: Fronted, kandev: KandevAgentctl) -> None:
    """The token that Kandev's backend had, handed over by a person with the nonce burned."""
    front.state.mkdir(parents=True)
    path = front.state / "upstream-token.json"
    path.write_text(json.dumps({"url": kandev.url, "token": kandev.token}))
    os.chmod(path, 0o600)


# ---- what the agent cannot, or will not ------------------------------------------------


def test_an_agent_that_cannot_load_is_known_as_such(front: Fronted) -> None:
    front.put("--no-load", "--no-resume")
    told = eventually(
        lambda: front.status()["capabilities"]["probed_at"] and front.status()["capabilities"]
    )
    assert (told["load_session"], told["supports_session_resume"]) == (False, False)
    front.succeeded(front.open())
    front.say("alpha")
    token = front.token()
    front.stop()
    front.failed(front.open("resume", token), "resume_unsupported")
    assert front.token() == token


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--load-error=-32002:Resource not found",), "session_not_found"),
        (("--load-error=-32603:Internal error",), "agent_error"),
        (("--load-error=-32602:Invalid params",), "rejected"),
        (("--exit-at=load",), "agent_exited"),
        (("--exit-at=initialize",), "initialize_failed"),
    ],
)
def test_a_resume_that_fails_keeps_the_token(
    front: Fronted, options: tuple[str, ...], code: str
) -> None:
    front.put()
    front.succeeded(front.open())
    front.say("alpha")
    token = front.token()
    front.stop()
    front.put(*options)
    operation = front.open("resume", token)
    assert operation["state"] == "failed"
    assert operation["failure"]["code"] in (code, "agent_exited"), operation
    assert front.token() == token
    front.becomes("none", "exited")
    front.put()
    front.succeeded(front.open("resume", token))


def test_a_login_that_is_missing_is_named(front: Fronted) -> None:
    front.put("--auth-required")
    failure = front.open()["failure"]
    assert failure["code"] == "authentication_required"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"command": "/no/such/agent"}, "command_not_found"),
        ({"cwd": "/no/such/folder"}, "cwd_missing"),
    ],
)
def test_what_cannot_be_launched_is_named(
    front: Fronted, changes: dict[str, Any], code: str
) -> None:
    front.put(**changes)
    failure = eventually(lambda: front.status()["capabilities"]["failure"], "told")
    assert failure["code"] == code
    assert front.agent() == "none"
    front.put()
    front.succeeded(front.open())


def test_an_agent_that_never_initializes_is_ended(
    kandev: KandevAgentctl, make_front: Callable[..., Fronted]
) -> None:
    front = make_front(kandev, "--initialize-seconds", "2").start()
    front.put("--hang-at=initialize")
    failure = eventually(lambda: front.status()["capabilities"]["failure"], "told")
    assert failure["code"] == "timed_out"
    front.becomes("none")
    assert front.kandev_instances()
    front.put()
    front.succeeded(front.open())


def test_files_git_and_shell_are_refused_by_name(front: Fronted) -> None:
    rooms = front.raw("GET", "/api/v1/capabilities").json()["rooms"]
    assert (rooms["files"], rooms["git"], rooms["shell"]) == (False, False, False)
    for path in ("/api/v1/files/tree", "/api/v1/git/status", "/api/v1/shell"):
        answer = front.raw("GET", path, scopes=["files", "shell"])
        assert (answer.status_code, answer.json()["code"]) == (501, "not_served")
        assert rooms["reason"] in answer.json()["message"]
        assert path.split("/")[3] == answer.json()["details"]["room"]
        stranger = front.http.get(front.run["url"] + path)
        assert stranger.status_code == 401, "who calls is asked first"
