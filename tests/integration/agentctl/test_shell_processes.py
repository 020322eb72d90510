"""What a shell starts ends with it, and neither agent nor shell takes the other along."""

import json
import os
import signal
import time
from pathlib import Path

from integration.agentctl.harness import Sidecar, alive, eventually, kill
from integration.agentctl.shellclient import close, make, shells, show, viewing

LEAVES = """
sleep 1001 &
nohup sleep 1002 >/dev/null 2>&1 &
setsid sleep 1003 >/dev/null 2>&1 &
(setsid sh -c 'trap "" HUP TERM; sleep 1004' >/dev/null 2>&1 &)
echo left-"behind"
"""
"""A job, one that ignores hang-ups, one in a session of its own, and one that lost its parent."""


def sleepers(shell_id: str) -> list[int]:
    """Living processes that carry the mark of a shell."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and alive(int(name)):
            try:
                environ = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if f"KANDEV_SHELL_ID={shell_id}\0".encode() in environ:
                found.append(int(name))
    return found


def leave_behind(sidecar: Sidecar, name: str = "main") -> str:
    """A shell that started processes of each kind; gives its id."""
    shell = make(sidecar, name)
    shell_id = str(shell["shell_id"])
    with viewing(sidecar, shell_id) as viewer:
        viewer.types(LEAVES)
        viewer.sees("left-behind")
    eventually(lambda: len(sleepers(shell_id)) >= 6, "all of them live")
    return shell_id


def test_closing_a_shell_ends_whatever_it_started(own: Sidecar) -> None:
    other = leave_behind(own, "other")
    shell_id = leave_behind(own)
    close(own, shell_id)
    assert sleepers(shell_id) == [], "when the call returns, nothing lives"
    assert len(sleepers(other)) >= 6, "another shell's are not touched"
    assert shells(own)[0]["exit"] is None


def test_a_shell_that_is_left_ends_whatever_it_started(own: Sidecar) -> None:
    shell_id = leave_behind(own)
    with viewing(own, shell_id) as viewer:
        viewer.types("exit\n")
        viewer.hears("exit")
    assert sleepers(shell_id) == [], "when its end is told, nothing lives"


def test_a_shell_that_ignores_hang_ups_is_killed(own: Sidecar) -> None:
    shell = make(
        own, command=["sh", "-c", 'trap "" HUP TERM; echo deaf; while :; do sleep 1; done']
    )
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.sees("deaf")
        assert close(own, shell["shell_id"])["exit"]["signal"] == "SIGKILL"
        assert viewer.hears("exit")["exit"]["reason"] == "closed"
    assert sleepers(shell["shell_id"]) == []


def test_agentctl_ends_its_shells_and_says_so(own: Sidecar) -> None:
    shell_id = leave_behind(own)
    with viewing(own, shell_id) as viewer:
        viewer.hears("attached")
        assert own.process is not None
        own.process.terminate()
        assert viewer.hears("exit", patience=30)["exit"]["reason"] == "stopped"
        viewer.rest()
        assert viewer.close_code == 1001
    assert own.process.wait(30) == 0
    assert sleepers(shell_id) == []


def test_agentctl_killed_leaves_no_shell_and_its_successor_ends_the_rest(own: Sidecar) -> None:
    shell = make(own)
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.types("sleep 1001\n")
        eventually(lambda: len(sleepers(shell["shell_id"])) == 2, "the shell and its job live")
        own.kill()
        eventually(
            lambda: sleepers(shell["shell_id"]) == [], "both die with agentctl, by themselves"
        )
    own.start()
    shell_id = leave_behind(own)
    own.kill()
    own.start()
    assert sleepers(shell_id) == [], "what escaped is ended before anything is served"
    assert shells(own) == []


def test_the_end_of_an_agent_is_not_the_end_of_a_shell(own: Sidecar) -> None:
    own.put("--escape-child")
    own.succeeded(own.open())
    shell_id = leave_behind(own)
    before = sleepers(shell_id)
    agent = own.agent_pid()
    children = [json.loads(line) for line in own.agent_log.read_text().splitlines()]
    escaped = next(line["child"] for line in children if line["event"] == "child")
    kill(agent)
    own.becomes("exited")
    eventually(lambda: not alive(escaped), "what the agent left is ended")
    assert sleepers(shell_id) == before
    own.put_again()
    own.succeeded(own.open())
    own.stop(grace_seconds=0)
    assert sleepers(shell_id) == before
    with viewing(own, shell_id) as viewer:
        viewer.runs("echo still", "mark-one")


def test_the_end_of_a_shell_is_not_the_end_of_an_agent(own: Sidecar) -> None:
    own.put()
    own.succeeded(own.open())
    agent = own.agent_pid()
    close(own, leave_behind(own))
    assert alive(agent)
    own.say("still there")
    assert "still there" in own.said()


def test_keys_reach_whoever_is_in_the_foreground(own: Sidecar) -> None:
    shell = make(own)
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.types("sleep 1001; echo code-$?-\n")
        eventually(lambda: len(sleepers(shell["shell_id"])) == 2, "it sleeps")
        viewer.types("\x03")
        viewer.runs("true", "mark-one")
        viewer.types("sleep 1002\n")
        eventually(lambda: len(sleepers(shell["shell_id"])) == 2, "it sleeps")
        viewer.types("\x1a")
        viewer.sees("Stopped")
        viewer.types("kill %1\n")
        eventually(lambda: len(sleepers(shell["shell_id"])) == 1, "only the shell is left")


def test_shells_work_where_agentctl_was_started_deaf_to_the_keyboard(unstarted: Sidecar) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        own = unstarted.start()
    finally:
        signal.signal(signal.SIGINT, before)
    shell = make(own, command=["sh", "-c", "echo ready; sleep 1001"])
    with viewing(own, shell["shell_id"]) as viewer:
        viewer.sees("ready")
        viewer.types("\x03")
        assert viewer.hears("exit")["exit"]["signal"] == "SIGINT"


def test_health_answers_while_a_shell_writes_without_end(own: Sidecar) -> None:
    shell = make(own, command=["yes"])
    slowest = 0.0
    for _ in range(100):
        began = time.monotonic()
        assert own.health()["status"] == "ok"
        slowest = max(slowest, time.monotonic() - began)
    assert show(own, shell["shell_id"])["cursor"] > 1_000_000
    assert slowest < 5.0
    close(own, shell["shell_id"])
