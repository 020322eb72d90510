"""The lead, case by case, on a loop whose time costs nothing."""

import asyncio
import logging

import pytest

from kandev_operator.controller.lease import Lease, awake_clock
from unit.controller.lease_api import POLL, D, Line, Server, a_lease, now, running, until

pytestmark = [pytest.mark.unit, pytest.mark.looptime]


async def test_an_absent_lease_is_created_and_led_at_once() -> None:
    server = Server()
    lease = a_lease(Line(server), "a")
    assert not lease.valid()
    assert lease.term == 0
    async with running(lease):
        await lease.wait_valid()
        assert now() < 0.1
        assert lease.term == 1
        assert server.spec == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "leaseTransitions": 1,
            "acquireTime": "2023-11-14T22:13:20.000000Z",
            "renewTime": "2023-11-14T22:13:20.000000Z",
        }


async def test_the_holder_renews_every_third_with_one_request_and_keeps_its_term() -> None:
    server = Server()
    line = Line(server)
    lease = a_lease(line, "a")
    async with running(lease):
        await asyncio.sleep(0.01)
        before = line.calls
        for _ in range(100):
            await asyncio.sleep(1)
            assert lease.valid()
        assert line.calls - before == 20
        assert lease.term == 1
        assert server.spec["leaseTransitions"] == 1
        assert server.spec["acquireTime"] == "2023-11-14T22:13:20.000000Z"
        assert server.spec["renewTime"] == "2023-11-14T22:15:00.000000Z"


async def test_a_standby_reads_and_does_not_write() -> None:
    server = Server()
    leader, standby = a_lease(Line(server), "a"), a_lease(Line(server), "b")
    async with running(leader):
        await leader.wait_valid()
        async with running(standby):
            await asyncio.sleep(200)
            assert leader.valid()
            assert not standby.valid()
            assert standby.term == 0
            assert {spec["holderIdentity"] for spec in server.writes} == {"a"}


async def test_a_holder_that_vanished_is_followed_after_the_whole_duration() -> None:
    server = Server()
    leader, standby = a_lease(Line(server), "a"), a_lease(Line(server), "b")
    doomed = asyncio.create_task(leader.run())
    await leader.wait_valid()
    async with running(standby):
        await asyncio.sleep(60)
        doomed.cancel()
        assert not standby.valid()
        took = await until(standby.valid)
        assert D - 5 < took < D + 2 * POLL  # counted from the last renewal, not from the death
        assert standby.term == leader.term + 1 == server.spec["leaseTransitions"]
        assert not leader.valid()


async def test_whoever_comes_late_waits_the_whole_duration_itself() -> None:
    server = Server()
    long_ago = "2001-01-01T00:00:00.000000Z"
    server.put(holderIdentity="x", leaseDurationSeconds=15, leaseTransitions=7, renewTime=long_ago)
    lease = a_lease(Line(server), "a")
    async with running(lease):
        took = await until(lease.valid)
    assert D <= took < D + 2 * POLL
    assert lease.term == 8


async def test_the_duration_that_the_holder_declared_is_the_one_that_counts() -> None:
    server = Server()
    server.put(holderIdentity="x", leaseDurationSeconds=40, leaseTransitions=1)
    lease = a_lease(Line(server), "a", seconds=5)
    async with running(lease):
        took = await until(lease.valid)
    assert 40 <= took < 42


@pytest.mark.parametrize("spec", [{}, {"holderIdentity": ""}, {"leaseTransitions": 4}])
async def test_a_lease_that_nobody_holds_is_taken_at_once(spec: dict[str, object]) -> None:
    server = Server()
    server.put(**spec)
    lease = a_lease(Line(server), "a")
    async with running(lease):
        await lease.wait_valid()
        assert now() < 0.1
        assert lease.term == (5 if "leaseTransitions" in spec else 1)


async def test_what_others_wrote_into_the_object_stays() -> None:
    server = Server()
    server.put(strategy="OldestEmulationVersion")
    assert server.stored is not None
    server.stored["metadata"]["labels"] = {"team": "a"}
    lease = a_lease(Line(server), "a")
    async with running(lease):
        await lease.wait_valid()
    assert server.stored["metadata"]["labels"] == {"team": "a"}
    assert server.spec["strategy"] == "OldestEmulationVersion"


async def test_release_lets_a_standby_take_over_at_once() -> None:
    server = Server()
    leader, standby = a_lease(Line(server), "a"), a_lease(Line(server), "b")
    async with running(leader, standby):
        await leader.wait_valid()
        await asyncio.sleep(20)
        releasing = asyncio.create_task(leader.release())
        await asyncio.sleep(0)
        assert not leader.valid()
        await releasing
        assert server.spec["holderIdentity"] == ""
        assert await until(standby.valid) <= POLL + 0.1
        assert standby.term == 2
        await asyncio.sleep(30)
        assert not leader.valid()


async def test_run_ends_with_release() -> None:
    lease = a_lease(Line(Server()), "a")
    task = asyncio.create_task(lease.run())
    await lease.wait_valid()
    await lease.release()
    await task


async def test_a_standby_that_stops_releases_nothing() -> None:
    server = Server()
    leader, standby = a_lease(Line(server), "a"), a_lease(Line(server), "b")
    async with running(leader, standby):
        await leader.wait_valid()
        await asyncio.sleep(3)
        await standby.release()
        assert server.spec["holderIdentity"] == "a"
    await a_lease(Line(server), "c").release()  # one that never ran


@pytest.mark.parametrize("mode", ["fail", "hang", "conflict"])
async def test_a_release_that_fails_is_no_drama(mode: str) -> None:
    server = Server()
    line = Line(server)
    lease = a_lease(line, "a")
    async with running(lease):
        await lease.wait_valid()
        line.mode = mode
        if mode == "conflict":
            server.put(holderIdentity="x")
        await lease.release()
    assert not lease.valid()


async def test_a_release_waits_for_the_write_that_is_under_way() -> None:
    server = Server()
    line = Line(server)
    lease = a_lease(line, "a")
    async with running(lease):
        await lease.wait_valid()
        line.latency = 2
        await asyncio.sleep(6)  # in the middle of a renewal
        await lease.release()
        assert not lease.valid()
        assert server.spec["holderIdentity"] == ""


@pytest.mark.parametrize("mode", ["fail", "hang", "deaf", "late", "forbidden", "broken"])
async def test_a_holder_without_answers_stops_in_time_and_keeps_trying(mode: str) -> None:
    server = Server()
    line = Line(server)
    lease = a_lease(line, "a")
    async with running(lease):
        await asyncio.sleep(5.5)  # renewed at 5
        line.mode = mode
        took = await until(lambda: not lease.valid())
        assert took == pytest.approx(5 + D * 0.8 - 5.5, abs=0.1)
        assert lease.problem
        await asyncio.sleep(100)
        assert not lease.valid()
        line.mode = "ok"
        assert await until(lease.valid) < 6
        assert lease.term == 1  # nobody else led meanwhile
        assert lease.problem is None


async def test_a_slow_answer_is_counted_from_the_question() -> None:
    line = Line(Server(), latency=2.0)
    lease = a_lease(line, "a")
    async with running(lease):
        await lease.wait_valid()
        assert now() == pytest.approx(4)  # read at 0, written at 2
        line.mode = "hang"
        await until(lambda: not lease.valid())
        assert now() == pytest.approx(2 + D * 0.8, abs=0.1)


async def test_one_lost_answer_is_survived() -> None:
    server = Server()
    line = Line(server)
    lease = a_lease(line, "a")
    async with running(lease):
        await lease.wait_valid()
        for mode in ("hang", "deaf", "fail", "late"):
            line.mode = mode
            await asyncio.sleep(5.5)
            line.mode = "ok"
            for _ in range(12):
                await asyncio.sleep(0.5)
                assert lease.valid(), mode
    assert lease.term == 1


async def test_a_lead_that_was_won_without_knowing_is_found_out() -> None:
    server = Server()
    line = Line(server, mode="deaf")
    lease = a_lease(line, "a")
    async with running(lease):
        await asyncio.sleep(3.5)
        assert server.spec["holderIdentity"] == "a"
        assert not lease.valid()
        line.mode = "ok"
        assert await until(lease.valid) < 6
        assert lease.term == 1


async def test_after_an_outage_the_leader_stays_leader() -> None:
    server = Server()
    lines = [Line(server), Line(server)]
    leader, standby = (a_lease(line, name) for line, name in zip(lines, "ab", strict=True))
    async with running(leader):
        await leader.wait_valid()
        async with running(standby):
            await asyncio.sleep(21)
            for line in lines:
                line.mode = "hang"
            await asyncio.sleep(300)
            assert not leader.valid()
            for line in lines:
                line.mode = "ok"
            await until(leader.valid)
            await asyncio.sleep(60)
            assert leader.valid()
            assert not standby.valid()
            assert leader.term == 1


async def test_a_holder_cut_off_is_replaced_and_becomes_a_standby() -> None:
    server = Server()
    line = Line(server)
    leader, standby = a_lease(line, "a"), a_lease(Line(server), "b")
    async with running(leader):
        await leader.wait_valid()
        async with running(standby):
            await asyncio.sleep(20)
            line.mode = "hang"
            while not standby.valid():
                assert leader.valid() + standby.valid() <= 1
                await asyncio.sleep(0.05)
            line.mode = "ok"
            await asyncio.sleep(100)
            assert not leader.valid()
            assert standby.valid()
            assert (leader.term, standby.term) == (1, 2)


async def test_of_two_that_start_together_one_leads() -> None:
    server = Server()
    leases = [a_lease(Line(server, latency=0.3), name) for name in "abc"]
    async with running(*leases):
        await asyncio.sleep(60)
        assert [lease.valid() for lease in leases].count(True) == 1
        assert server.spec["leaseTransitions"] == 1


async def test_an_expired_holder_that_thaws_knows_it_at_once() -> None:
    """The clock goes on while the process does not; nothing has to run for `valid` to be False."""
    frozen_for = 0.0
    server = Server()
    loop = asyncio.get_running_loop()
    lease = Lease(
        Line(server), "system", "kandev-operator", "a", clock=lambda: loop.time() + frozen_for
    )
    async with running(lease):
        await lease.wait_valid()
        frozen_for = 60
        assert not lease.valid()


async def test_a_standby_that_thaws_does_not_count_the_time_it_slept() -> None:
    frozen_for = 0.0
    server = Server()
    loop = asyncio.get_running_loop()
    server.put(holderIdentity="x", leaseDurationSeconds=15, leaseTransitions=3)
    lease = Lease(
        Line(server), "system", "kandev-operator", "a", clock=lambda: loop.time() + frozen_for
    )
    async with running(lease):
        await asyncio.sleep(5)
        frozen_for = 60
        assert await until(lease.valid) > 9


async def test_gains_losses_and_faults_are_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    line = Line(Server())
    lease = a_lease(line, "a")
    async with running(lease):
        await asyncio.sleep(20)
        line.mode = "fail"
        await asyncio.sleep(60)
        line.mode = "ok"
        await asyncio.sleep(20)
        await lease.release()
    lease_name = "the lease system/kandev-operator"
    assert [record.getMessage() for record in caplog.records] == [
        "a leads, term 1",
        f"{lease_name}: leases: the server is not there",
        "a does not lead any more, term 1",
        f"{lease_name} can be read and written again",
        "a leads, term 1",
        "a released the lease",
    ]


async def test_a_bug_is_logged_once_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    lease = a_lease(Line(Server(), mode="broken"), "a")
    async with running(lease):
        await asyncio.sleep(60)
    assert [bool(record.exc_info) for record in caplog.records] == [True, False]
    assert lease.problem == "TypeError in the lease loop: a bug"


def test_the_clock_goes_forward() -> None:
    assert awake_clock() <= awake_clock()


async def test_the_age_of_the_last_write_is_known_to_the_holder_alone() -> None:
    server = Server()
    leader, standby = a_lease(Line(server), "a"), a_lease(Line(server), "b")
    assert leader.renewed_seconds is None
    async with running(leader):
        await leader.wait_valid()
        async with running(standby):
            await asyncio.sleep(D / 3 * 10 + 2)
            assert leader.renewed_seconds is not None
            assert 0 <= leader.renewed_seconds <= D / 3
            assert standby.renewed_seconds is None
    await leader.release()
    assert leader.renewed_seconds is None
