"""Three real agents under the operator: three turns, and every process killed once.

OpenCode, Codex and Claude run against a scripted model whose answer says what the agent showed it,
so the answer itself proves what the agent remembers. Killed are the operator (between turns and
during one), the agent, and agentctl; after each, the next answer must know the first words.
"""

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fakes.model_server import ModelServer
from fakes.real_agents import RealAgent, install
from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import Talk, talk

pytestmark = [pytest.mark.agents, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(tick=0.1) as server:
        yield server


@pytest.fixture(params=["opencode", "codex", "claude"])
def agent(request: pytest.FixtureRequest) -> RealAgent:
    return install(request.param)


class Survivor:
    """One session with a real agent, and the accidents that happen to it."""

    def __init__(self, place: Namespace, operator: OperatorProcess) -> None:
        self.place = place
        self.operator = operator
        self.word = f"alpha-{uuid.uuid4().hex[:6]}"

    @asynccontextmanager
    async def talk(self) -> AsyncIterator[Talk]:
        """A way to the agentctl that status names now."""
        cluster, name = self.place.cluster.kubeconfig, self.place.name
        async with talk(cluster, name, "s", operator_namespace=name) as found:
            yield found

    async def remembers(self, text: str) -> None:
        """Ask, and find the first words in the answer."""
        async with self.talk() as it:
            said = await it.ask(text, seconds=90)
        assert self.word in said, f"asked {text!r}, it said {said!r}"

    async def agent_pid(self) -> int:
        async with self.talk() as it:
            pid = (await it.status()).agent.pid
        assert pid is not None
        return pid

    def new_execution(self, before: Body) -> Body:
        """Wait until another process of the agent has the conversation."""

        def resumed(status: Body) -> bool:
            known = before.get("agentExecutionId")
            return bool(status.get("isAgentRunning")) and status["agentExecutionId"] != known

        return self.place.wait("s", resumed, "resumed in a new process", seconds=90)


async def test_the_conversation_survives_every_process(
    agent: RealAgent,
    model: ModelServer,
    place: Namespace,
    operator: OperatorProcess,
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = agent.furnish(home, model.url)
    place.apply(profile(command=agent.command, env=env), task(), session("s", place.worktree("s")))
    it = Survivor(place, operator)
    place.wait_idle("s", seconds=90)
    async with it.talk() as first:
        await first.ask(it.word, seconds=90)

    await _operator_killed_between_turns(it)
    await _operator_killed_during_a_turn(it)
    await _agent_killed(it)
    await _agentctl_killed(it)

    async with it.talk() as last:
        users = await last.user_messages()
    assert len(users) == len(set(users)), "no prompt came twice"
    assert users[0] == it.word
    assert len(users) == 6


async def _operator_killed_between_turns(it: Survivor) -> None:
    before = it.place.status("s")
    it.operator.kill()
    it.operator.start()
    after = it.place.wait_idle("s")
    assert after["agentExecutionId"] == before["agentExecutionId"]
    await it.remembers("second")


async def _operator_killed_during_a_turn(it: Survivor) -> None:
    async with it.talk() as during:
        await during.prompt("third: slow 20", "third")
        await during.until(lambda report: report.turn is not None)
        it.operator.kill()
        it.operator.start()
        await asyncio.wait_for(during.turn_ended("third"), 90)
    it.place.wait_idle("s")
    await it.remembers("fourth")


async def _agent_killed(it: Survivor) -> None:
    before = it.place.wait_idle("s")
    await asyncio.sleep(1.0)  # an answered turn is not yet a stored turn: let the agent save it
    os.kill(await it.agent_pid(), signal.SIGKILL)
    it.new_execution(before)
    await it.remembers("fifth")


async def _agentctl_killed(it: Survivor) -> None:
    before = it.place.wait_idle("s")
    await asyncio.sleep(1.0)
    pid = it.place.executor_of("s")["status"]["pid"]
    os.kill(pid, signal.SIGKILL)
    it.new_execution(before)
    it.place.wait_idle("s")
    await it.remembers("sixth")


def test_an_agent_without_its_login_says_so(
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    tmp_path: Path,
) -> None:
    """Codex without a model configuration answers that it wants a login: shown as such."""
    codex = install("codex")
    home = tmp_path / "home"
    home.mkdir()
    make_operator().start()
    env = codex.furnish(home, None)
    place.apply(profile(command=codex.command, env=env), task(), session("s", place.worktree("s")))
    status = place.wait_state("s", "ERROR", seconds=90)
    assert condition(status, "Ready")["reason"] == "AuthenticationRequired"
    assert status["errorMessage"].startswith("authentication_required: ")
    assert condition(status, "Stalled")["status"] == "True"
    assert status["executorStatus"] == "ready"
