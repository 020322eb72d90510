"""agentctl as a process: how it starts, detaches, dies, and what it never leaves behind."""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from integration.agentctl.harness import Sidecar, alive, eventually, kill
from kandev_operator.agentctl import orphans


def test_health_answers_before_anything_is_configured(own: Sidecar) -> None:
    assert own.health() == {
        "status": "ok",
        "instance_id": own.run["instance_id"],
        "boot_id": own.run["boot_id"],
        "contract_version": "1.0",
        "session_id": None,
        "agent_status": "none",
    }
    assert own.status()["journal"]["state"] == "absent"
    assert own.run["url"] == f"http://127.0.0.1:{own.run['port']}"
    fields = Path(f"/proc/{own.run['pid']}/stat").read_text().rpartition(")")[2].split()
    assert own.run["birth"] == int(fields[19])


def test_identity_survives_a_restart_and_the_boot_id_does_not(own: Sidecar) -> None:
    own.put()
    before = own.health()
    assert own.terminate() == 0
    own.start()
    after = own.health()
    assert after["instance_id"] == before["instance_id"]
    assert after["boot_id"] != before["boot_id"]
    assert after["session_id"] == own.session
    assert own.terminate() == 0
    own.start("--instance-id", "told")
    assert own.health()["instance_id"] == "told"


def test_the_agent_dies_with_agentctl(own: Sidecar) -> None:
    own.put("--escape-child")
    own.succeeded(own.open())
    pid = own.agent_pid()
    lines = [json.loads(line) for line in own.agent_log.read_text().splitlines()]
    child = next(line["child"] for line in lines if line["event"] == "child")
    own.kill()
    eventually(lambda: not alive(pid), "the agent dies")
    own.start()
    assert not alive(child), "what escaped is ended by the next agentctl"
    status = own.status()
    assert status["agent"]["status"] == "exited"
    assert status["agent"]["exit"]["code"] is None


def test_a_graceful_end_ends_the_agent_gently(own: Sidecar) -> None:
    own.put("--save-delay", "30")
    own.succeeded(own.open())
    own.say("kept")
    pid = own.agent_pid()
    assert own.terminate() == 0
    assert not alive(pid)
    assert '"event": "end"' in own.agent_log.read_text(), "it ended by itself, at its end of input"
    own.start()
    assert own.agent() == "none"
    own.put_again()
    own.succeeded(own.resume())
    own.say("back")
    assert "You said 2 things so far" in own.said()


def test_detached_it_is_nobodys_child(unstarted: Sidecar) -> None:
    done = subprocess.run(
        unstarted.command("--detach"), capture_output=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    run = json.loads((unstarted.state / "run.json").read_bytes())
    try:
        assert done.stdout.decode().strip() == run["url"]
        assert unstarted.http.get(run["url"] + "/health").status_code == 200
        stat = Path(f"/proc/{run['pid']}/stat").read_text().rpartition(")")[2].split()
        assert int(stat[1]) != os.getpid()
        assert int(stat[3]) != os.getsid(0), "it has a session of its own"
        assert "serving on" in (unstarted.state / "agentctl.log").read_text()
        again = subprocess.run(
            unstarted.command("--detach"), capture_output=True, timeout=30, check=False
        )
        assert again.returncode == 1
        assert b"another agentctl already runs" in again.stderr
    finally:
        kill(run["pid"], signal.SIGTERM)
    eventually(lambda: not alive(run["pid"]), "it ends")


def test_options_come_from_the_environment(unstarted: Sidecar) -> None:
    env = {
        "KANDEV_STATE": str(unstarted.state),
        "KANDEV_WORKSPACE": str(unstarted.workspace),
        "KANDEV_AUDIENCE": "executor-uid-1",
        "KANDEV_JWKS": str(unstarted.keys.path),
        "KANDEV_INSTANCE_ID": "from-the-environment",
        "PATH": os.environ["PATH"],
    }
    process = subprocess.Popen([sys.executable, "-m", "kandev_operator.agentctl", "run"], env=env)
    try:
        eventually(lambda: unstarted.reads_run(process.pid))
        assert unstarted.health()["instance_id"] == "from-the-environment"
    finally:
        process.terminate()
        assert process.wait(10) == 0


def test_a_process_that_was_probed_and_not_started_is_ended(unstarted: Sidecar) -> None:
    own = unstarted.start("--probe-idle-seconds", "0.2")
    own.put()
    eventually(lambda: own.call("GET", "/api/v1/capabilities")["agent"], "it is probed")
    own.becomes("none")
    assert own.call("GET", "/api/v1/capabilities")["supports_session_resume"] is True
    own.succeeded(own.open())
    assert own.status()["agent"]["status"] == "idle"


LOSES_ITS_RIGHT = """
import subprocess
become_subreaper()
script = "sleep 600 >/dev/null 2>&1 & echo $!"
shell = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE)
print(int(shell.stdout.readline()), flush=True)
shell.wait()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    kill_leftovers("/nowhere", timeout=0.5)
except Lingering as exc:
    print(exc)
"""


def test_a_leftover_of_another_user_is_named_with_what_helps() -> None:
    """As after `sudo` or a setuid program. Root leaves one and then loses its right, in a process
    that runs this one room; whoever is not root may not end the first process of all."""
    if os.geteuid() != 0:
        with pytest.raises(orphans.Lingering, match=r"process 1 \(\S+, uid 0\).* may not end"):
            orphans._kill(lambda: {1}, frozenset(), 0.1)
        return
    code = inspect.getsource(orphans) + LOSES_ITS_RIGHT
    command = [sys.executable, "-I", "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, timeout=60)
    left, _, said = done.stdout.partition("\n")
    try:
        assert alive(int(left)), done.stderr
        assert f"process {left} (sleep, uid 0)" in said
        assert "agentctl (uid 65534) may not end" in said
        assert "as root, or replace the pod" in said
    finally:
        kill(int(left), signal.SIGKILL)


def test_more_than_a_few_are_counted_and_arguments_are_not_shown() -> None:
    program = shutil.which("sleep")
    argv = ["very-secret-value", "600"]
    sleepers = [subprocess.Popen(argv, executable=program) for _ in range(5)]
    try:
        said = str(orphans.Lingering([each.pid for each in sleepers], frozenset()))
        assert f"process {sleepers[0].pid} (sleep, uid {os.geteuid()})" in said
        assert "and 2 more; killed, and not gone" in said
        assert "very-secret-value" not in said
        assert len(said) < 500
    finally:
        for each in sleepers:
            each.kill()
            each.wait()


def test_bodies_are_bounded(own: Sidecar) -> None:
    response = own.raw("PUT", "/api/v1/agent", own.spec(args=["x" * (5 * 1024 * 1024)]))
    assert (response.status_code, response.json()["code"]) == (413, "too_large")
    response = own.raw("PUT", "/api/v1/agent", {"env": {"KEY": "very-secret-value"}})
    assert response.json()["code"] == "invalid_request"
    assert "very-secret-value" not in response.text
    assert own.raw("GET", "/api/v1/nothing").json()["code"] == "not_found"
