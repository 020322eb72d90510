"""A restart with many live agents, when lists come late (B035) or agentctls answer late (B013).

Eight sessions, not fifty: each has an agentctl and an agent of its own on this machine, and what
is looked for (a judgement from half a picture, a first failure that is never retried) shows with
any number. One stage for both cases.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kandev_operator.clients.processes import birth_of
from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace, profile, session, task
from stage.tcpproxy import TcpProxy
from stage.witness import Diary

NAMES = [f"s{number}" for number in range(8)]
LATE = 1.5


@pytest.fixture
def proxy(place: Namespace) -> Iterator[TcpProxy]:
    with TcpProxy.before(place.cluster.kubeconfig) as proxy:
        yield proxy


def agentctls(place: Namespace) -> list[int]:
    return [json.loads(path.read_bytes())["pid"] for path in place.root.glob(".kandev/*/run.json")]


def settled(status: Body) -> bool:
    return status.get("state") == "WAITING_FOR_INPUT" and status.get("isAgentRunning") is True


def statuses(place: Namespace) -> dict[str, Body]:
    return {
        each["metadata"]["name"]: each.get("status") or {} for each in place.items("tasksessions")
    }


async def all_settled(place: Namespace, seconds: float) -> dict[str, Body]:
    end = time.monotonic() + seconds
    while True:
        found = statuses(place)
        wrong = {name: each.get("state") for name, each in found.items() if not settled(each)}
        if len(found) == len(NAMES) and not wrong:
            return found
        assert time.monotonic() < end, f"{wrong}\n{place.tail()}"
        await asyncio.sleep(0.2)


def verifications(operator: OperatorProcess) -> float:
    return operator.metric("kandev_operator_probes_total", outcome="well")


@pytest.mark.timeout(240)
async def test_b035_b013_many_live_sessions_and_a_restart_that_sees_late(
    place: Namespace,
    proxy: TcpProxy,
    make_operator: Callable[..., OperatorProcess],
    tmp_path: Path,
) -> None:
    # A lease long enough that a late answer does not lose it: the lists are what is tried here.
    config = proxy.kubeconfig(place.cluster.kubeconfig, tmp_path / "through-proxy.json")
    operator = make_operator("--lease-seconds=30", "--probe-seconds=1", kubeconfig=config).start()
    diary = Diary(tmp_path / "agents.jsonl")
    place.apply(task(), profile(command=diary.agent()))
    place.apply(*(session(name, place.worktree(name)) for name in NAMES))
    before = await all_settled(place, 100)
    warned = len(place.items("events"))

    # B035: every answer of the API server is late, so lists come one after another.
    assert operator.stop() == 0
    proxy.delay(LATE)
    operator.start(wait_ready=False)
    while proxy.connections and "the first lists are complete" not in said(operator):
        assert statuses(place) == before, "decided before every list was there"
        await asyncio.sleep(0.2)
    proxy.heal()
    await asyncio.to_thread(operator.wait_ready, 60)
    await verified(operator, len(NAMES))
    assert await all_settled(place, 30) == before

    # B013: a restart while every agentctl is frozen; then each is looked at again.
    pids = agentctls(place)
    assert len(pids) == len(NAMES)
    assert operator.stop() == 0
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        operator.start()
        end = time.monotonic() + 30
        while operator.metric("kandev_operator_probes_total", outcome="unreachable") < len(NAMES):
            assert time.monotonic() < end, operator.get("/metrics")[1]
            await asyncio.sleep(0.2)
        states = {each.get("state") for each in statuses(place).values()}
        assert states == {"WAITING_FOR_INPUT"}, "within the grace nothing is concluded"
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    await verified(operator, len(NAMES))
    after = await all_settled(place, 60)
    for name in NAMES:
        assert after[name]["epoch"] == before[name]["epoch"] == 1
        assert after[name]["agentExecutionId"] == before[name]["agentExecutionId"]
    assert diary.openings == ["session/new"] * len(NAMES), "an agent that lives is attached to"
    events = place.items("events")
    assert [each["message"] for each in events[warned:] if each["type"] == "Warning"] == []

    # Old objects can be deleted, and their agentctls end with them.
    gone = NAMES[:3]
    place.kubectl("delete", "tasksession", *gone, "--timeout=30s")
    end = time.monotonic() + 60
    while len(place.items("executors")) > len(NAMES) - len(gone):
        assert time.monotonic() < end, place.tail()
        await asyncio.sleep(0.2)
    living = [pid for pid in pids if birth_of(pid) is not None]
    assert len(living) == len(NAMES) - len(gone)


async def verified(operator: OperatorProcess, count: int) -> None:
    """Wait until it leads, has heard every agentctl and has nothing left to do."""
    end = time.monotonic() + 60
    while True:
        leads = operator.metric("kandev_operator_lease_valid") == 1
        idle = operator.metric("kandev_operator_queue_depth") == 0
        if leads and idle and verifications(operator) >= count:
            return
        assert time.monotonic() < end, operator.tail()
        await asyncio.sleep(0.2)


def said(operator: OperatorProcess) -> str:
    """What it has logged since its last start."""
    return operator.log.read_text().rpartition("serving /healthz")[2]
