"""The lead on a real API server: who gets it, when, and what becomes of it when things break."""

import asyncio
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.controlplane import ControlPlane
from cluster.interface import Cluster
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import LEASES
from kandev_operator.controller.lease import Lease, NotLeading, awake_clock, process_identity

NAME = "kandev-operator"
SECONDS = 3

# Another operator, as far as leading goes. It writes a line whenever its belief changes.
HOLDER = """
import asyncio, sys
from kandev_operator.clients.kube import Kube
from kandev_operator.controller.lease import Lease

async def main(kubeconfig, namespace, name, identity, seconds):
    async with await Kube.connect(kubeconfig) as kube:
        lease = Lease(kube, namespace, name, identity, seconds=float(seconds))
        task = asyncio.create_task(lease.run())
        told = None
        while not task.done():
            if told != lease.valid():
                told = lease.valid()
                print("leads" if told else "waits", lease.term, flush=True)
            await asyncio.sleep(0.01)

asyncio.run(main(*sys.argv[1:]))
"""


class Team:
    """Operators that compete for one Lease, and what the API server says of it."""

    def __init__(self, kube: Kube, kubeconfig: Path, namespace: str) -> None:
        self.kube = kube
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.leases: list[Lease] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def join(self, identity: str) -> Lease:
        lease = Lease(self.kube, self.namespace, NAME, identity, seconds=SECONDS)
        self.leases.append(lease)
        self.tasks[identity] = asyncio.create_task(lease.run())
        return lease

    async def vanish(self, identity: str) -> None:
        """End hard: nothing is given back."""
        task = self.tasks.pop(identity)
        task.cancel()
        await asyncio.wait([task])

    async def spec(self) -> dict[str, Any]:
        stored = await self.kube.get(LEASES, self.namespace, NAME)
        return dict(stored["spec"])

    async def until(self, condition: Callable[[], bool], within: float = 30) -> float:
        """Wait, seeing to it that never two believe they lead; tell how long it took."""
        began = awake_clock()
        while not condition():
            assert sum(lease.valid() for lease in self.leases) <= 1
            assert awake_clock() - began < within, "it never came"
            await asyncio.sleep(0.01)
        return awake_clock() - began

    async def watch(self, seconds: float) -> None:
        end = awake_clock() + seconds
        await self.until(lambda: awake_clock() > end)


@asynccontextmanager
async def a_team(kubeconfig: Path, namespace: str) -> AsyncIterator[Team]:
    async with await Kube.connect(kubeconfig) as kube:
        team = Team(kube, kubeconfig, namespace)
        try:
            yield team
        finally:
            for identity in [*team.tasks]:
                await team.vanish(identity)


@pytest.fixture
async def team(control_plane: Cluster, namespace: str) -> AsyncIterator[Team]:
    async with a_team(control_plane.kubeconfig, namespace) as team:
        yield team


@pytest.fixture
def own_namespace(own_control_plane: ControlPlane) -> Iterator[str]:
    name = f"lease-{uuid.uuid4().hex[:8]}"
    own_control_plane.create_namespace(name)
    yield name
    own_control_plane.delete_namespace(name)


@pytest.fixture
async def own_team(own_control_plane: ControlPlane, own_namespace: str) -> AsyncIterator[Team]:
    async with a_team(own_control_plane.kubeconfig, own_namespace) as team:
        yield team


async def test_of_two_one_leads_and_the_lease_says_so(team: Team) -> None:
    leases = [team.join(process_identity(name)) for name in ("a", "b")]
    await team.until(lambda: any(lease.valid() for lease in leases), within=2)
    await team.watch(2 * SECONDS)
    (leader,) = [lease for lease in leases if lease.valid()]
    spec = await team.spec()
    assert spec["holderIdentity"] == leader.identity
    assert spec["leaseTransitions"] == leader.term == 1
    assert spec["leaseDurationSeconds"] == SECONDS
    assert spec["renewTime"] > spec["acquireTime"]
    assert all(lease.problem is None for lease in leases)


async def test_a_leader_that_stops_gently_is_followed_at_once(team: Team) -> None:
    leader = team.join("a")
    await leader.wait_valid()
    standby = team.join("b")
    await team.watch(0.5)
    await leader.release()
    assert (await team.spec())["holderIdentity"] in ("", "b")
    assert await team.until(standby.valid) < 1.5
    assert standby.term == 2
    await team.tasks["a"]
    await team.watch(SECONDS)
    assert (await team.spec())["leaseTransitions"] == 2


async def test_a_leader_that_vanishes_is_followed_when_its_time_is_over(team: Team) -> None:
    leader = team.join("a")
    await leader.wait_valid()
    standby = team.join("b")
    await team.watch(SECONDS)
    await team.vanish("a")
    took = await team.until(standby.valid)
    assert SECONDS - leader.pace.renew - 0.3 < took < SECONDS + 1.5
    assert not leader.valid()
    assert standby.term == 2


async def test_a_process_that_was_frozen_knows_at_once_that_it_may_not_act(team: Team) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER,
        str(team.kubeconfig), team.namespace, NAME, "frozen", str(SECONDS),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        lines = [await process.stdout.readline() for _ in range(2)]
        assert lines == [b"waits 0\n", b"leads 1\n"]
        standby = team.join("b")
        await team.watch(1)
        process.send_signal(signal.SIGSTOP)
        await team.until(standby.valid)
        await team.watch(SECONDS)
        process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(2):
            # It was frozen believing that it leads, and says this before anything was sent.
            assert await process.stdout.readline() == b"waits 1\n"
        await team.watch(SECONDS)
        assert standby.valid()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await process.stdout.readline()
    finally:
        process.kill()
        await process.wait()


async def test_a_deleted_lease_is_made_anew_and_its_term_goes_on(team: Team) -> None:
    leader = team.join("a")
    await leader.wait_valid()
    team.join("b")
    await team.watch(1)
    await team.kube.delete(LEASES, team.namespace, NAME)
    await team.watch(2 * SECONDS)
    assert leader.valid()
    spec = await team.spec()
    assert spec["holderIdentity"] == "a"
    assert spec["leaseTransitions"] == leader.term == 2


async def test_a_term_is_adopted_by_a_write_that_the_server_accepted(team: Team) -> None:
    leader = team.join("a")
    await leader.wait_valid()
    assert await leader.adopt_term(40) == 41
    assert (await team.spec())["leaseTransitions"] == 41
    await team.watch(SECONDS)
    assert leader.valid()
    assert leader.term == 41


async def test_a_term_is_not_adopted_over_another_holder(team: Team) -> None:
    leader = team.join("a")
    await leader.wait_valid()
    stored = await team.kube.get(LEASES, team.namespace, NAME)
    stored["spec"] |= {"holderIdentity": "x", "leaseTransitions": 9}
    await team.kube.replace(LEASES, team.namespace, NAME, stored)
    with pytest.raises(NotLeading):
        await leader.adopt_term(40)
    await team.until(lambda: not leader.valid(), within=SECONDS)
    assert (await team.spec())["leaseTransitions"] == 9
    await team.until(leader.valid)
    assert leader.term == 10


async def test_with_the_api_server_frozen_nobody_leads_and_then_the_same(
    own_team: Team, own_control_plane: ControlPlane
) -> None:
    leader = own_team.join("a")
    await leader.wait_valid()
    standby = own_team.join("b")
    await own_team.watch(1)
    await asyncio.to_thread(own_control_plane.pause_apiserver)
    try:
        assert await own_team.until(lambda: not leader.valid()) < SECONDS
        await own_team.watch(2 * SECONDS)
        assert leader.problem
        assert not standby.valid()
    finally:
        await asyncio.to_thread(own_control_plane.resume_apiserver)
    await own_team.until(lambda: leader.valid() or standby.valid())
    await own_team.watch(SECONDS)
    assert [lease.problem for lease in own_team.leases] == [None, None]
    # The leader had its chance: a standby does not count time in which nobody could write.
    assert leader.valid()
    assert (await own_team.spec())["leaseTransitions"] == leader.term == 1


async def test_a_restored_api_server_does_not_bring_old_terms_back(
    own_team: Team, own_control_plane: ControlPlane
) -> None:
    leader = own_team.join("a")
    await leader.wait_valid()
    snapshot = await asyncio.to_thread(own_control_plane.snapshot)
    assert await leader.adopt_term(4) == 5
    await asyncio.to_thread(own_control_plane.restore, snapshot)
    await own_team.until(lambda: leader.term > 5)
    assert leader.valid()
    assert (await own_team.spec())["leaseTransitions"] == leader.term == 6


async def test_without_the_right_to_leases_it_says_so_and_waits_for_it(
    own_team: Team, own_control_plane: ControlPlane, own_namespace: str
) -> None:
    user = f"nobody-{uuid.uuid4().hex[:8]}"
    kubeconfig = await asyncio.to_thread(own_control_plane.kubeconfig_for, user)
    async with a_team(kubeconfig, own_namespace) as powerless:
        lease = powerless.join("a")
        await powerless.until(lambda: lease.problem is not None)
        assert "leases" in (lease.problem or "")
        assert "forbidden" in (lease.problem or "")
        kubectl = own_control_plane.kubectl
        await asyncio.to_thread(
            kubectl, "-n", own_namespace, "create", "role", "leader",
            "--verb=get,create,update", "--resource=leases.coordination.k8s.io",
        )  # fmt: skip
        await asyncio.to_thread(
            kubectl, "-n", own_namespace, "create", "rolebinding", "leader",
            "--role=leader", f"--user={user}",
        )  # fmt: skip
        await powerless.until(lease.valid)
        assert lease.problem is None
