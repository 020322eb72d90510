"""Three real agents in pods of a real node: two turns, and their pods taken away twice.

OpenCode, Codex and Claude run in images of their own against a scripted model on this machine,
whose answer says what the agent showed it: it proves what the agent remembers. What they keep on
the volume is read from there, for an agent that forks its history says nothing of it.
"""

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.images import oci
from cluster.node import Node
from fakes import histories
from fakes.histories import History
from fakes.model_server import ModelServer
from stage import podagents
from stage.nodescene import NodeScene
from stage.onehistory import OneHistory
from stage.podagents import PodAgent
from stage.pods import Pods, restricted

pytestmark = [pytest.mark.agents]
TURN = 120.0
FILES = {"size": "256Mi", "storageClassName": "local"}
# A word of its command line by which each agent's processes are told from all others.
PROGRAMS = {"opencode": "/bin/opencode", "codex": "/codex-acp/", "claude": "/claude-agent-acp/"}


@pytest.fixture
def model(node: Node) -> Iterator[ModelServer]:
    """Where pods reach it."""
    with ModelServer(host=node.host) as server:
        yield server


@pytest.fixture(params=sorted(PROGRAMS, reverse=True))
def agent(request: pytest.FixtureRequest, model: ModelServer) -> PodAgent:
    return podagents.furnished(request.param, model.url)


async def test_a_real_agent_goes_on_in_the_next_pod(
    stage: NodeScene, node: Node, agent: PodAgent
) -> None:
    node.load(agent.archive)
    word = f"alpha-{uuid.uuid4().hex[:6]}"
    asked = [word, "second", "after a deletion", "after a deletion by force"]

    async def turn(number: int) -> None:
        assert word in await stage.ask("s", asked[number], TURN)

    with OneHistory(PROGRAMS[agent.name]) as seen:
        stage.born_as("s", agent, oci.image_name(agent.archive), workspace=FILES)
        status = await asyncio.to_thread(stage.idle, "s")
        await turn(0)
        await turn(1)
        for number, how in enumerate([("--wait=false",), ("--force", "--grace-period=0")], 2):
            pod = stage.executor("s")["podRef"]["name"]
            # An answered turn is not yet a stored turn: so long, nobody can take a pod by hand.
            await asyncio.sleep(1.0)
            stage.place.kubectl("delete", "pod", pod, *how)
            status = await asyncio.to_thread(stage.idle_again, "s", status)
            await turn(number)
    assert len(seen.pods) == 3
    assert seen.crowds == set(), "two pods had the agent at once"
    home = home_of(stage, node)
    kept = await stored(agent.name, home, len(asked))
    assert kept == History(1, tuple(asked), 0)


def test_two_pods_with_one_program_are_seen(pods: Pods, glibc_image: str) -> None:
    """The watch that the test above trusts."""
    program = ["sleep", "7654321"]
    with OneHistory(program[1]) as seen:
        pods.apply(*(restricted(name, glibc_image, program) for name in ("one", "other")))
        found = [pods.wait_ready(name)["metadata"]["uid"] for name in ("one", "other")]
        deadline = time.monotonic() + 60
        while not seen.crowds and time.monotonic() < deadline:
            time.sleep(0.1)
    assert seen.crowds == {frozenset(found)}
    assert sorted(seen.pods) == sorted(found)


def home_of(stage: NodeScene, node: Node) -> Path:
    """The agent's HOME on the session's volume, as this machine sees it."""
    claim = stage.place.get("pvc", stage.place.status("s")["workspaceRef"]["name"])
    volume = node.folder / "volumes" / claim["spec"]["volumeName"]
    (home,) = volume.glob(".kandev/sessions/*/home")
    return home


async def stored(name: str, home: Path, count: int) -> History:
    """The history once so many messages are in it; as it is, if they do not come."""
    kept = histories.read(name, home)
    for _ in range(100):
        if len(kept.said) >= count:
            break
        await asyncio.sleep(0.1)
        kept = histories.read(name, home)
    return kept
