"""A volume set back to an earlier day, and an executor whose object forgot who is in it.

Remote executors, whose agentctl and files belong to the test: it can stop the one and put back
the other, as a restored snapshot of a machine does.
"""

import asyncio
import base64
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stage.operatorprocess import OperatorProcess
from stage.remoteagentctl import RemoteAgentctl
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import talk
from stage.witness import Diary

FAR = {"ref": {"name": "far"}}


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


@pytest.fixture
def operator(make_operator: Callable[..., OperatorProcess]) -> OperatorProcess:
    return make_operator("--probe-seconds=1", "--allow-remote-host=127.0.0.1").start()


@pytest.fixture
def remote(place: Namespace, operator: OperatorProcess, tmp_path: Path) -> Iterator[RemoteAgentctl]:
    remote = RemoteAgentctl(tmp_path / "remote")
    remote.trust(place)
    yield remote.start()
    remote.close()


def token_of(place: Namespace, status: Body) -> str:
    name = status["resumeTokenRef"]["secretName"]
    secret = json.loads(place.kubectl("get", "secret", name, "-o", "json"))
    return base64.b64decode(secret["data"]["token"]).decode()


def set_back(remote: RemoteAgentctl, backup: Path, *, memory: bool) -> None:
    """Put back what agentctl keeps as it was; the agent's own memory too, or not."""
    state = remote.folder / "state"
    homes = {home: home.parent / "kept" for home in state.glob("sessions/*/home")}
    if not memory:
        for home in homes:
            home.rename(remote.folder / f"home-{home.parent.name}")
    shutil.rmtree(state)
    shutil.copytree(backup, state, symlinks=True)
    if not memory:
        for home in homes:
            shutil.rmtree(home)
            (remote.folder / f"home-{home.parent.name}").rename(home)


@pytest.mark.parametrize("memory", [False, True])
async def test_a_volume_from_before_a_fresh_start_does_not_bring_the_retired_token_back(
    place: Namespace, remote: RemoteAgentctl, diary: Diary, memory: bool
) -> None:
    """The Secret is of a higher epoch than the journal: it says which conversation is meant."""
    place.apply(profile(command=diary.agent()), task(), remote.executor())
    place.apply(session("s", executor=FAR))
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.ask("alpha")
    place.wait("s", lambda now: now["resumeTokenRef"].get("established"), "established")
    remote.kill()
    backup = remote.folder / "backup"
    shutil.copytree(remote.folder / "state", backup, symlinks=True)
    remote.start()
    place.wait("s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed")
    old = token_of(place, place.wait_idle("s"))
    place.annotate("s", "fresh-start-requested", "anew")
    place.wait("s", lambda now: now.get("epoch") == 3 and now["isAgentRunning"], "begun anew")
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        assert "the first was: beta" in await s.ask("beta")
    status = place.wait("s", lambda now: now["resumeTokenRef"].get("established"), "established")
    new = token_of(place, status)
    assert new != old

    remote.kill()
    set_back(remote, backup, memory=memory)
    opened = len(diary.openings)
    remote.start()
    if memory:
        status = place.wait_state("s", "ERROR")
        assert status["resumeReason"] == "session_not_found"
        assert status["isResumable"] is False
    else:
        place.wait("s", lambda now: now.get("epoch") == 4 and now["isAgentRunning"], "resumed")
        status = place.wait_idle("s")
        async with talk(
            place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name
        ) as s:
            assert "the first was: beta" in await s.ask("gamma")
    assert diary.openings[opened:] == ["session/resume"]
    assert token_of(place, status) == new
    assert diary.openings.count("session/new") == 2


async def test_the_agent_of_a_session_that_is_gone_does_not_live_on_in_a_new_executor(
    place: Namespace, operator: OperatorProcess, remote: RemoteAgentctl, diary: Diary
) -> None:
    """Both objects went while no operator could act, and the executor was made again."""
    place.apply(profile(command=diary.agent()), task(), remote.executor())
    place.apply(session("s", executor=FAR))
    place.wait_idle("s")
    assert remote.health()["agent_status"] == "idle"
    operator.kill()
    await _forget(place)
    assert remote.health()["agent_status"] == "idle"
    place.apply(remote.executor())
    operator.start()

    def let_in(status: Body) -> bool:
        return condition(status, "AgentctlReady").get("status") == "True"

    place.wait("far", let_in, "ready", kind="executor")
    for _ in range(300):
        if remote.health()["agent_status"] in ("none", "exited"):
            break
        await asyncio.sleep(0.1)
    assert remote.health()["agent_status"] in ("none", "exited")
    place.apply(session("next", executor=FAR))
    place.wait_idle("next")
    assert diary.openings == ["session/new", "session/new"]


async def _forget(place: Namespace) -> None:
    """Delete session and executor at one stroke, without the executor's clean-up."""
    free = '{"metadata":{"finalizers":null}}'
    place.kubectl("delete", "executor", "far", "--wait=false")
    place.kubectl("patch", "executor", "far", "--type=merge", "-p", free)
    place.kubectl("delete", "tasksession", "s", "--timeout=30s")
