"""Two operators at once: one leads, the other takes over, and a leader that froze acts no more."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.controlplane import ControlPlane
from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_line import open_session
from kandev_operator.clients.errors import Refused
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import read_signing_key
from kandev_operator.clients.tokens import Minter
from kandev_operator.contract.agent import StopRequest
from kandev_operator.contract.claims import Scope
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, profile, session, task
from stage.talk import Talk, talk
from stage.witness import Diary, agreed

LEASE_SECONDS = 5


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


def leads(operator: OperatorProcess) -> bool:
    return operator.metric("kandev_operator_lease_valid") == 1


async def until_leads(operator: OperatorProcess, seconds: float) -> float:
    """How long it took until this operator led."""
    began = time.monotonic()
    while not leads(operator):
        waited = time.monotonic() - began
        assert waited < seconds, f"it does not lead after {waited:.1f} s\n{operator.tail()}"
        await asyncio.sleep(0.05)
    return time.monotonic() - began


async def test_one_leads_and_the_other_takes_over(
    place: Namespace, make_operator: Callable[..., OperatorProcess], diary: Diary
) -> None:
    first, second = make_operator().start(), make_operator().start()
    place.tail = lambda: f"{first.tail()}\n--- the other ---\n{second.tail()}"
    await until_leads(first, 10)
    assert not leads(second)
    assert second.get("/readyz")[0] == 200, "a standby is ready"
    place.apply(profile(command=diary.agent("--tick", "0.2")), task())
    place.apply(session("s", place.worktree("s")))
    before = place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.prompt("slow 5", "held")
        first.kill()
        took = await until_leads(second, LEASE_SECONDS * 3)
        assert took <= LEASE_SECONDS + 2.5
        await agreed(place, "s", s)
        first.start()
        assert leads(second)
        assert not leads(first)
        # A graceful end gives the Lease back.
        began = time.monotonic()
        assert second.stop() == 0
        await until_leads(first, LEASE_SECONDS)
        assert time.monotonic() - began < LEASE_SECONDS - 1, "it had to wait for the Lease"
        assert "the first was: slow 5" in await s.ask("beta")
        after = await agreed(place, "s", s)
        assert await s.user_messages() == ["slow 5", "beta"]
    assert after["epoch"] == before["epoch"]
    assert after["agentExecutionId"] == before["agentExecutionId"]
    assert diary.openings == ["session/new"]
    assert len(place.items("executors")) == 1


async def test_a_leader_that_froze_in_the_middle_of_an_act_does_nothing_more(
    own_control_plane: ControlPlane,
    place: Namespace,
    make_operator: Callable[..., OperatorProcess],
    diary: Diary,
) -> None:
    if place.cluster is not own_control_plane:
        pytest.skip("writes are counted in the audit log, which this cluster does not give away")
    audit = own_control_plane.audit
    users = [f"{name}-{place.name}" for name in ("frozen", "other")]
    frozen, other = (
        make_operator(kubeconfig=own_control_plane.kubeconfig_for(user, ["system:masters"]))
        for user in users
    )
    place.tail = lambda: f"{frozen.tail()}\n--- the other ---\n{other.tail()}"
    frozen.start()
    place.apply(profile(command=diary.agent()), task())
    place.apply(session("s", place.worktree("s"), resume={"policy": "OnRequest"}))
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.ask("alpha")
        report = await s.status()
        other.start()
        assert report.agent.pid is not None
        os.kill(report.agent.pid, signal.SIGKILL)
        place.wait("s", lambda now: now.get("needsResume"), "in need of a resume")
        agentctl = report.pid
        assert agentctl is not None
        os.kill(agentctl, signal.SIGSTOP)
        try:
            place.annotate("s", "resume-requested", "now")
            meant = place.wait("s", resuming, "about to resume")
            # Now it waits for agentctl's answer to its call.
            frozen.freeze()
            await until_leads(other, LEASE_SECONDS * 3)
        finally:
            os.kill(agentctl, signal.SIGCONT)
        status = await agreed(place, "s", s)
        assert status["epoch"] == meant["epoch"], "the intent is done, not made anew"
        assert other.metric("kandev_operator_term") == 2

        since = audit.mark()
        frozen.thaw()
        await asyncio.to_thread(frozen.wait_ready)
        assert not leads(frozen)
        assert "the first was: alpha" in await s.ask("beta")
        await agreed(place, "s", s)
        place.patch("tasksession", "s", {"spec": {"operatingMode": "Suspended"}})
        place.wait("s", lambda now: now.get("isAgentRunning") is False, "suspended")
        # The one that thawed saw all that too, and wrote none of it.
        assert audit.writes(since=since, user=users[0]) == []
        assert audit.writes(since=since, user=users[1], resource="tasksessions")
        assert diary.openings == ["session/new", "session/resume"]
        assert await s.user_messages() == ["alpha", "beta"]
        assert (await s.status()).term == 2
        await refused_in_an_old_term(place, s)


def resuming(now: dict[str, Any]) -> bool:
    return bool(now.get("intent")) and now["intent"]["kind"] == "Resume"


async def refused_in_an_old_term(place: Namespace, s: Talk) -> None:
    """What the frozen leader would have sent is refused by agentctl itself."""
    executor = place.executor_of("s")
    async with await Kube.connect(place.cluster.kubeconfig) as kube, open_session() as http:
        minter = Minter(await read_signing_key(kube, place.name), time.time)

        def mint(*scopes: Scope) -> str:
            return minter.mint(executor["metadata"]["uid"], scopes, s.session_uid, 1, 9)

        client = AgentctlClient(http, executor["status"]["agentctlURL"], mint)
        stop = StopRequest(session_id=s.session_uid, operation_id="of-the-past", grace_seconds=1.0)
        with pytest.raises(Refused) as refused:
            await client.stop(stop)
    assert (refused.value.status, refused.value.code) == (409, "stale_epoch")
