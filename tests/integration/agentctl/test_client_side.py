"""What an agent may ask of its client: text files of the workspace alone, and terminals.

What is asked is told by the words of the prompt; what came of it, by the agent's own answer.
"""

import os
from pathlib import Path

import pytest

from integration.agentctl.harness import Sidecar, alive, eventually, kill


@pytest.fixture
def talking(sidecar: Sidecar) -> Sidecar:
    sidecar.put()
    sidecar.succeeded(sidecar.open())
    return sidecar


def said(sidecar: Sidecar, text: str) -> str:
    """The agent's words in one turn."""
    before = len(sidecar.said())
    assert sidecar.say(text)["outcome"] == "completed"
    return sidecar.said()[before:]


def test_files_and_terminals_are_declared(talking: Sidecar) -> None:
    told = talking.heard("initialize")[-1]["params"]["clientCapabilities"]
    assert told == {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


def test_a_text_file_is_written_and_read(talking: Sidecar) -> None:
    assert "Put: done" in said(talking, "put: made/on/the/way.txt")
    path = talking.workspace / "made/on/the/way.txt"
    assert path.read_text() == "put: made/on/the/way.txt"
    path.write_text("one\ntwo\n")
    assert "Read: one\ntwo\n" in said(talking, "read: made/on/the/way.txt")
    assert "Put: done" in said(talking, "put: made/on/the/way.txt")
    assert path.read_text() == "put: made/on/the/way.txt"


@pytest.mark.parametrize(
    "path",
    ["/etc/hostname", "../outside.txt", "a/../../outside.txt", "away/secret.txt", "away.txt"],
)
def test_nothing_outside_the_workspace_is_read_or_written(talking: Sidecar, path: str) -> None:
    outside = talking.folder / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret.txt").write_text("keep me")
    for link, target in (("away", outside), ("away.txt", outside / "secret.txt")):
        if not (talking.workspace / link).is_symlink():
            (talking.workspace / link).symlink_to(target)
    assert "Read: error -32602" in said(talking, f"read: {path}")
    assert "Put: error -32602" in said(talking, f"put: {path}")
    assert (outside / "secret.txt").read_text() == "keep me"
    assert not (talking.folder / "outside.txt").exists()
    assert "keep me" not in talking.said()


def test_agentctls_own_folder_is_nobodys_business(own: Sidecar, tmp_path: Path) -> None:
    # The state folder may lie in the workspace; the agent's client does not see it.
    own.terminate()
    own.workspace = tmp_path
    own.start()
    own.put()
    own.succeeded(own.open())
    assert "Read: error -32002" in said(own, "read: state/instance-id")
    assert "Put: error" in said(own, "put: state/served.json")


def test_a_missing_file_and_one_that_is_no_text(talking: Sidecar) -> None:
    (talking.workspace / "binary").write_bytes(b"\xff\xfe\x00")
    assert "Read: error -32002" in said(talking, "read: nowhere.txt")
    assert "Read: error -32602 it is not a text file" in said(talking, "read: binary")
    os.mkfifo(talking.workspace / "fifo")
    assert "Read: error -32602" in said(talking, "read: fifo"), "it never waits for one"


def test_a_command_runs_and_is_shown(talking: Sidecar) -> None:
    assert "Terminal: 3 héllo" in said(talking, "terminal: printf héllo; exit 3")
    shown = [e["data"] for e in talking.events() if e["kind"] == "message"]
    (ended,) = [m["content"] for m in shown if m["kind"] == "terminal"]
    assert ended == {"terminal_id": "term-1", "output": "héllo", "exit_code": 3, "signal": None}
    call = next(m["content"] for m in shown if m["kind"] == "tool_call")
    assert call["content"] == [{"type": "terminal", "terminalId": "term-1"}]


def test_a_command_sees_the_workspace_and_the_agents_environment(talking: Sidecar) -> None:
    words = said(talking, "terminal: pwd; echo $MODEL_API_KEY | tr a-z A-Z; ps -o pgid= -p $$")
    assert str(talking.workspace) in words
    assert "VERY-SECRET-VALUE" in words


def test_output_is_bounded_from_its_end_at_whole_characters(talking: Sidecar) -> None:
    words = said(talking, "terminal: yes é | head -n 200000; echo the end")
    output = words.split("Terminal: 0 ")[1]
    assert "the end" in output
    assert len(output.encode()) < 2_000, "the agent asked for 1000 bytes"
    assert "\ufffd" not in output


def test_secrets_are_not_shown_in_what_a_command_wrote(talking: Sidecar) -> None:
    said(talking, "terminal: echo $MODEL_API_KEY")
    shown = [e["data"] for e in talking.events() if e["kind"] == "message"]
    (ended,) = [m["content"] for m in shown if m["kind"] == "terminal"]
    assert "very-secret-value" not in ended["output"]


def left_running(sidecar: Sidecar) -> list[int]:
    """Two processes of a terminal that is never released: the shell, and one that left it."""
    pids = sidecar.workspace / "pids"
    line = f"setsid sleep 600 & echo $! > {pids}; echo $$ >> {pids}; sleep 600"
    assert "left running" in said(sidecar, f"background: {line}")
    eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    found = [int(pid) for pid in pids.read_text().split()]
    assert all(alive(pid) for pid in found)
    return found


@pytest.mark.parametrize("how", ["stop", "killed"])
def test_what_a_terminal_runs_ends_with_the_agent(talking: Sidecar, how: str) -> None:
    pids = left_running(talking)
    (talking.workspace / "pids").unlink()
    if how == "stop":
        talking.stop()
    else:
        kill(talking.agent_pid())
        talking.becomes("exited")
    eventually(lambda: not any(alive(pid) for pid in pids), "all of it is gone")


def test_a_command_that_cannot_be_run(talking: Sidecar) -> None:
    talking.stop()
    talking.put(cwd=str(talking.workspace))
    talking.succeeded(talking.open())
    assert "Terminal: 127" in said(talking, "terminal: no-such-command-anywhere 2>/dev/null")


def test_a_cancelled_turn_leaves_no_command_waiting(talking: Sidecar) -> None:
    prompt_id = talking.prompt("terminal: sleep 600")["prompt_id"]
    eventually(lambda: talking.fate(prompt_id) == "delivered")
    talking.call("POST", "/api/v1/cancel")
    assert talking.turn_end(prompt_id)["outcome"] == "cancelled"
    assert talking.say("and on")["outcome"] == "completed"
