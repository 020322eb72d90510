"""Terms go up only: restarts, a deleted Lease, a restored API server, terms seen elsewhere."""

import asyncio

import pytest

from kandev_operator.controller.lease import MAX_TERM_LEAP, NotLeading, process_identity
from unit.controller.lease_api import POLL, D, Line, Server, a_lease, now, running, until

pytestmark = [pytest.mark.unit, pytest.mark.looptime]


async def test_a_restarted_process_is_a_new_holder() -> None:
    server = Server()
    name = "operator-0"
    first, second = (a_lease(Line(server), process_identity(name)) for _ in range(2))
    assert first.identity != second.identity
    async with running(first):
        await first.wait_valid()
    async with running(second):
        await until(second.valid)
        assert second.term == 2


async def test_the_same_name_without_the_same_past_is_somebody_else() -> None:
    server = Server()
    first, second = a_lease(Line(server), "twin"), a_lease(Line(server), "twin")
    async with running(first):
        await first.wait_valid()
        async with running(second):
            await asyncio.sleep(100)
            assert first.valid()
            assert not second.valid()


async def test_a_deleted_lease_is_made_anew_by_its_holder() -> None:
    server = Server()
    leader, standby = a_lease(Line(server), "a"), a_lease(Line(server), "b")
    async with running(leader):
        await leader.wait_valid()
        async with running(standby):
            await asyncio.sleep(11)
            server.stored = None
            for _ in range(600):
                assert leader.valid() + standby.valid() <= 1
                await asyncio.sleep(0.1)
            assert leader.valid()
            assert leader.term == 2 == server.spec["leaseTransitions"]


async def test_a_deleted_lease_of_a_dead_holder_is_taken_over_above_its_term() -> None:
    server = Server()
    server.put(holderIdentity="x", leaseDurationSeconds=15, leaseTransitions=9)
    lease = a_lease(Line(server), "a")
    async with running(lease):
        await asyncio.sleep(3)
        server.stored = None
        assert await until(lease.valid) >= D
        assert lease.term == 10


async def test_a_former_holder_does_not_take_a_deleted_lease_from_a_successor_it_missed() -> None:
    server = Server()
    lines = [Line(server), Line(server)]
    former, successor = (a_lease(line, name) for line, name in zip(lines, "ab", strict=True))
    async with running(former):
        await former.wait_valid()
        async with running(successor):
            await asyncio.sleep(1)
            lines[0].mode = "hang"
            await until(successor.valid)
            await asyncio.sleep(5.1)  # it has just renewed
            lines[0].mode, lines[1].mode = "ok", "hang"
            server.stored = None
            while not former.valid():
                assert former.valid() + successor.valid() <= 1
                await asyncio.sleep(0.05)
            assert not successor.valid()


async def test_a_restored_api_server_does_not_make_a_former_holder_the_holder() -> None:
    server = Server()
    line = Line(server)
    former, leader = a_lease(line, "a"), a_lease(Line(server), "b")
    async with running(former):
        await former.wait_valid()
        old = server.snapshot()
        async with running(leader):
            await asyncio.sleep(1)
            line.mode = "hang"
            await until(leader.valid)
            line.mode = "ok"
            await asyncio.sleep(10)
            server.restore(old)
            began = now()
            while not (former.valid() or leader.valid()) or now() - began < 6:
                assert former.valid() + leader.valid() <= 1
                await asyncio.sleep(0.05)
            assert now() - began > D - 2 * POLL
            assert server.spec["leaseTransitions"] == 3


async def test_a_restored_api_server_never_lowers_the_term() -> None:
    server = Server()
    server.put(holderIdentity="x", leaseDurationSeconds=15, leaseTransitions=2)
    old = server.snapshot()
    server.put(holderIdentity="", leaseTransitions=6)
    lease = a_lease(Line(server), "a")
    async with running(lease):
        await lease.wait_valid()
        assert lease.term == 7
        server.restore(old)
        await until(lambda: not lease.valid())
        await until(lease.valid)
        assert lease.term == 8 == server.spec["leaseTransitions"]


async def test_a_holder_in_an_older_state_of_the_server_goes_on_above_what_it_had() -> None:
    server = Server()
    lease = a_lease(Line(server), "a")
    async with running(lease):
        await lease.wait_valid()
        old = server.snapshot()
        await lease.adopt_term(20)
        assert lease.term == 21
        server.restore(old)
        await asyncio.sleep(6)
        assert lease.valid()
        assert lease.term == 22 == server.spec["leaseTransitions"]


async def test_a_term_seen_elsewhere_is_adopted_by_a_write() -> None:
    server = Server()
    lease = a_lease(Line(server), "a")
    async with running(lease):
        await lease.wait_valid()
        assert await lease.adopt_term(5) == 6
        assert lease.term == 6 == server.spec["leaseTransitions"]
        writes = len(server.writes)
        assert await lease.adopt_term(5) == 6  # again, and nothing to do
        assert len(server.writes) == writes
        await asyncio.sleep(60)
        assert lease.valid()
        assert lease.term == 6 == server.spec["leaseTransitions"]


@pytest.mark.parametrize("mode", ["fail", "hang", "deaf", "conflict"])
async def test_no_term_is_adopted_without_the_write(mode: str) -> None:
    server = Server()
    line = Line(server)
    lease = a_lease(line, "a")
    async with running(lease):
        await lease.wait_valid()
        if mode == "conflict":
            server.put(holderIdentity="x", leaseDurationSeconds=15, leaseTransitions=3)
        else:
            line.mode = mode
        with pytest.raises(NotLeading):
            await lease.adopt_term(5)
        assert lease.term == 1
        line.mode = "ok"
        await asyncio.sleep(6)
        if mode == "conflict":
            assert not lease.valid()
        else:
            assert lease.valid()
            assert lease.term == (6 if mode == "deaf" else 1) == server.spec["leaseTransitions"]


async def test_who_does_not_hold_the_lease_adopts_nothing() -> None:
    server = Server()
    server.put(holderIdentity="x", leaseDurationSeconds=15, leaseTransitions=3)
    lease = a_lease(Line(server), "a")
    with pytest.raises(NotLeading):
        await lease.adopt_term(5)
    async with running(lease):
        await asyncio.sleep(2)
        with pytest.raises(NotLeading):
            await lease.adopt_term(5)
    assert server.spec["leaseTransitions"] == 3


async def test_a_term_out_of_all_reason_is_refused() -> None:
    server = Server()
    lease = a_lease(Line(server), "a")
    async with running(lease):
        await lease.wait_valid()
        with pytest.raises(ValueError, match="too far above 1"):
            await lease.adopt_term(2 + MAX_TERM_LEAP)
        assert await lease.adopt_term(1 + MAX_TERM_LEAP) == 2 + MAX_TERM_LEAP
