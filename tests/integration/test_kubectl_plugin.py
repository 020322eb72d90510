"""`kubectl kandev` as a person types it, on a real session: prompt, logs, why, resume, permissions.

The console script runs as a process of its own, with the kubeconfig of an administrator; what it
prints and its exit code are the whole interface.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace, profile, session, task
from stage.talk import talk

SCRIPT = Path(sys.executable).with_name("kubectl-kandev")


class Shell:
    """A shell in which the plugin works on this test's namespace."""

    def __init__(self, place: Namespace) -> None:
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(place.cluster.kubeconfig),
            "KANDEV_NAMESPACE": place.name,
            "KANDEV_OPERATOR_NAMESPACE": place.name,
            "NO_COLOR": "1",
        }

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run it; what it printed, on both channels."""
        done = subprocess.run(
            [SCRIPT, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, f"exit code {done.returncode}: {said}"
        return said

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it and go on."""
        return subprocess.Popen(
            [SCRIPT, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def shell(place: Namespace, operator: OperatorProcess) -> Shell:
    place.apply(
        profile(), task(), session("s", place.worktree("s"), resume={"policy": "OnRequest"})
    )
    place.wait_idle("s")
    return Shell(place)


async def kill_agent(place: Namespace) -> None:
    name = place.name
    async with talk(place.cluster.kubeconfig, name, "s", operator_namespace=name) as it:
        pid = (await it.status()).agent.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def gone(status: Body) -> bool:
    return status.get("isAgentRunning") is False and status.get("needsResume") is True


def test_a_conversation_is_held_lost_explained_and_resumed(shell: Shell, place: Namespace) -> None:
    assert "the first was: alpha" in shell.run("prompt", "s", "alpha")
    assert "idle and waits for a prompt" in shell.run("why", "s")

    asyncio.run(kill_agent(place))
    place.wait("s", gone, "in need of a resume")
    assert "kubectl kandev resume s" in shell.run("why", "s")
    refused = shell.run("prompt", "s", "beta", code=3)
    assert "agent_not_running" in refused
    assert "kubectl kandev resume s" in refused

    shell.run("resume", "s", "--wait", "--timeout", "60")
    assert "the first was: alpha" in shell.run("prompt", "s", "gamma")
    said = shell.run("logs", "s")
    assert said.count("alpha") >= 2
    assert "beta" not in said, "a refused prompt is not kept"
    assert said.count("the conversation was resumed") == 1
    assert "the turn was cut off" not in said

    # And once more, in the middle of a turn.
    shell.run("prompt", "s", "--no-wait", "slow 60")
    place.wait_state("s", "RUNNING")
    asyncio.run(kill_agent(place))
    place.wait("s", gone, "in need of a resume")
    shell.run("resume", "s", "--timeout", "60")
    said = shell.run("logs", "s")
    assert said.count("the turn was cut off") == 1
    assert said.count("the conversation was resumed") == 2


def test_a_permission_is_listed_and_answered(shell: Shell) -> None:
    prompt = shell.begin("prompt", "s", "permission please")
    try:
        found = None
        for _ in range(100):
            found = re.search(r"\S+-p\d+", shell.run("permissions", "s"))
            if found:
                break
        assert found, "no permission was listed"
        shell.run("allow", "s", found[0])
        said, _ = prompt.communicate(timeout=60)
    finally:
        prompt.kill()
        prompt.communicate()
    assert prompt.returncode == 0, said


def test_logs_follow_over_the_loss_of_agentctl(shell: Shell, place: Namespace) -> None:
    shell.run("prompt", "s", "alpha")
    follower = shell.begin("logs", "-f", "s")
    try:
        os.kill(place.executor_of("s")["status"]["pid"], signal.SIGKILL)
        place.wait("s", gone, "in need of a resume")
        shell.run("resume", "s", "--wait", "--timeout", "60")
        shell.run("prompt", "s", "omega")
        assert follower.stdout is not None
        heard = ""
        while "omega" not in heard:
            line = follower.stdout.readline()
            assert line, f"logs -f ended: {heard}"
            heard += line
    finally:
        follower.kill()
        follower.communicate()
    assert heard.count("the first was: alpha") == 1, "no message twice"


def test_it_says_that_no_operator_runs(
    shell: Shell, place: Namespace, operator: OperatorProcess
) -> None:
    assert "No operator runs" not in shell.run("why", "s")
    operator.kill()
    said = ""
    for _ in range(60):  # a Lease that was renewed a moment ago is believed
        if "No operator runs" in (said := shell.run("why", "s")):
            break
    assert "No operator runs" in said
    assert f"in namespace {place.name} since" in said
    assert "Start the operator again" in said
    assert "No operator runs" in shell.run("resume", "s", code=3), "that it runs is an old word"
    operator.start()
    for _ in range(30):  # it waits until the Lease of the one that vanished has run out
        if "No operator runs" not in (said := shell.run("why", "s")):
            break
    assert "No operator runs" not in said


def test_a_wish_that_nobody_hears_is_heard_by_the_next_operator(
    shell: Shell, place: Namespace, operator: OperatorProcess
) -> None:
    asyncio.run(kill_agent(place))
    place.wait("s", gone, "in need of a resume")
    operator.kill()
    said = shell.run("resume", "s", "--timeout", "20", code=4)
    assert "No operator runs" in said
    operator.start()
    place.wait_idle("s")


def test_keys_and_wrong_usage_are_said_plainly(shell: Shell) -> None:
    assert '"kandev_scopes"' in shell.run("jwks")
    assert "nobody" in shell.run("why", "nobody", code=1)
    assert "usage" in shell.run("prompt", code=2)
