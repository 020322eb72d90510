"""Executors of runtime Remote whose agentctl stands in front of Kandev's own, from npm."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.kandev_agentctl import KandevAgentctl
from stage.operatorprocess import OperatorProcess
from stage.remoteagentctl import RemoteAgentctl
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import talk
from stage.witness import Diary, agreed

pytestmark = [pytest.mark.integration, pytest.mark.agents]
FAR = {"ref": {"name": "far"}}


@pytest.fixture
def kandev(tmp_path: Path) -> Iterator[KandevAgentctl]:
    it = KandevAgentctl(tmp_path / "kandev")
    try:
        yield it.start()
    finally:
        it.close()


@pytest.fixture
def operator(make_operator: Callable[..., OperatorProcess]) -> OperatorProcess:
    return make_operator("--probe-seconds=1", "--allow-remote-host=127.0.0.1").start()


@pytest.fixture
def front(
    place: Namespace, operator: OperatorProcess, kandev: KandevAgentctl, tmp_path: Path
) -> Iterator[RemoteAgentctl]:
    """Ours in front of it, trusted by the operator."""
    options = ("--upstream", kandev.url, "--upstream-nonce-file", str(kandev.nonce_file))
    workspace = ("--workspace", str(kandev.workspace))
    front = RemoteAgentctl(tmp_path / "front", options=(*options, *workspace))
    front.trust(place)
    yield front.start()
    front.close()


def agentctl_ready(reason: str) -> Callable[[Body], bool]:
    return lambda status: condition(status, "AgentctlReady").get("reason") == reason


@pytest.mark.timeout(300)
async def test_a_session_lives_on_an_upstream_through_every_restart(
    place: Namespace,
    operator: OperatorProcess,
    front: RemoteAgentctl,
    kandev: KandevAgentctl,
    tmp_path: Path,
) -> None:
    diary = Diary(tmp_path / "agent.jsonl")
    place.apply(profile(command=diary.agent("--tick", "0.3")), task(), front.executor())
    place.apply(session("s", executor=FAR))
    first = place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        assert "the first was: alpha" in await s.ask("alpha")
        # Ours dies in a turn: theirs goes on with it, and nothing has to be resumed.
        await s.prompt("slow 15", "through-a-kill")
        place.wait_state("s", "RUNNING")
        front.kill()
        front.start()
        await s.turn_ended("through-a-kill")
        status = await agreed(place, "s", s)
        assert status["agentExecutionId"] == first["agentExecutionId"]
        assert "interruptedTurn" not in status
        # Theirs dies in a turn: its agent is gone, and comes back with its memory.
        await s.prompt("slow 500", "cut-off")
        place.wait_state("s", "RUNNING")
        kandev.kill()
        kandev.start()
        status = place.wait(
            "s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed", seconds=90
        )
        assert status["interruptedTurn"]["promptId"] == "cut-off"
        assert "the first was: alpha" in await s.ask("beta")
        assert await s.user_messages() == ["alpha", "slow 15", "slow 500", "beta"]
    assert diary.prompts == ["alpha", "slow 15", "slow 500", "beta"]
    # Whether it can load is learned by asking for a conversation that nobody has.
    assert diary.openings == ["session/load", "session/new", "session/load", "session/load"]


@pytest.mark.timeout(300)
async def test_an_upstream_that_is_away_is_unknown_first_and_an_error_later(
    place: Namespace,
    operator: OperatorProcess,
    front: RemoteAgentctl,
    kandev: KandevAgentctl,
    tmp_path: Path,
) -> None:
    diary = Diary(tmp_path / "agent.jsonl")
    place.apply(profile(command=diary.agent()), task(), front.executor())
    lifecycle = {"unreachableGraceSeconds": 5}
    place.apply(session("s", executor=FAR, lifecycle=lifecycle))
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.ask("alpha")
        await agreed(place, "s", s)
        kandev.kill()
        status = place.wait(
            "far", agentctl_ready("AgentctlUnhealthy"), "unhealthy", kind="executor", seconds=90
        )
        status = place.wait_state("s", "ERROR")
        assert "upstream" in status["errorMessage"]
        assert status["resumeTokenRef"]["established"] is True
        kandev.start()
        place.wait(
            "s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed", seconds=90
        )
        assert "the first was: alpha" in await s.ask("beta")
    assert diary.prompts == ["alpha", "beta"]
