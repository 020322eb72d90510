"""The work queue, case by case. `test_queue_machine` is the same promises under random play."""

import asyncio

import pytest

from kandev_operator.controller.queue import Key, QueueClosed, WorkQueue

pytestmark = [pytest.mark.unit, pytest.mark.looptime]


def key(name: str) -> Key:
    return Key("TaskSession", "team", name)


A, B, C = key("a"), key("b"), key("c")


def a_queue(dice: float = 0.999_999) -> WorkQueue:
    return WorkQueue(dice=lambda: dice)


async def taken(queue: WorkQueue) -> Key | None:
    """What `get` has to give at this moment, if anything."""
    taker = asyncio.create_task(queue.get())
    for _ in range(5):
        await asyncio.sleep(0)
    if taker.done():
        return taker.result()
    taker.cancel()
    await asyncio.wait([taker])
    return None


async def all_taken(queue: WorkQueue) -> list[Key]:
    keys = []
    while (one := await taken(queue)) is not None:
        queue.done(one)
        keys.append(one)
    return keys


async def test_a_key_added_often_runs_once() -> None:
    queue = a_queue()
    for _ in range(100):
        queue.add(A)
    assert queue.depth == 1
    assert await all_taken(queue) == [A]


async def test_first_in_is_first_out() -> None:
    queue = a_queue()
    for one in (B, A, C, B):
        queue.add(one)
    assert await all_taken(queue) == [B, A, C]


async def test_a_key_added_while_it_runs_runs_again_after_it_and_not_beside_it() -> None:
    queue = a_queue()
    queue.add(A)
    assert await queue.get() == A
    queue.add(A)
    queue.add(A)
    assert await taken(queue) is None
    queue.done(A)
    assert await all_taken(queue) == [A]


async def test_a_worker_that_waits_is_woken() -> None:
    queue = a_queue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    for one in (A, B, C):
        queue.add(one)
    assert set(await asyncio.gather(*workers)) == {A, B, C}


async def test_the_bell_of_a_worker_that_is_cancelled_goes_to_another() -> None:
    queue = a_queue()
    doomed = asyncio.create_task(queue.get())
    other = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add(A)  # rings the first of the two
    doomed.cancel()
    assert await other == A
    assert doomed.cancelled()


async def test_the_low_lane_waits_for_the_first() -> None:
    queue = a_queue()
    queue.add(A, low=True)
    queue.add(B)
    queue.add(C)
    assert await all_taken(queue) == [B, C, A]


async def test_the_low_lane_does_not_starve() -> None:
    queue = a_queue()
    queue.add(A, low=True)
    for number in range(100):
        queue.add(key(f"busy-{number}"))
    for _ in range(20):
        one = await queue.get()
        queue.done(one)
        if one == A:
            return
        queue.add(one)
    pytest.fail("the key of the low lane was never handed out")


async def test_a_low_key_that_becomes_urgent_moves_up_and_keeps_its_age() -> None:
    queue = a_queue()
    queue.add(A, low=True)
    queue.add(B, low=True)
    await asyncio.sleep(10)
    queue.add(B)
    queue.add(A, low=False)
    queue.add(A, low=True)  # does not move it down again
    assert queue.depth == 2
    assert queue.oldest_seconds() == pytest.approx(10)
    assert await all_taken(queue) == [B, A]


async def test_a_key_wanted_low_and_then_at_once_while_it_runs_comes_back_in_the_first_lane() -> (
    None
):
    queue = a_queue()
    queue.add(A)
    await queue.get()
    queue.add(A, low=True)
    queue.add(A)
    queue.add(A, low=True)
    queue.add(B, low=True)
    queue.done(A)
    assert await all_taken(queue) == [A, B]


async def test_of_two_timers_of_a_key_the_earlier_counts() -> None:
    queue = a_queue()
    queue.add_after(A, 60)
    queue.add_after(A, 5)
    queue.add_after(A, 30)
    assert queue.waiting == 1
    await asyncio.sleep(4.9)
    assert queue.depth == 0
    await asyncio.sleep(0.2)
    assert await all_taken(queue) == [A]
    await asyncio.sleep(100)
    assert queue.depth == 0


async def test_timers_of_many_keys_ring_each_in_its_time() -> None:
    queue = a_queue()
    order = []
    for seconds in (30, 10, 20):
        queue.add_after(key(str(seconds)), seconds)
    for _ in range(3):
        one = await queue.get()
        order.append((one.name, round(asyncio.get_running_loop().time())))
        queue.done(one)
    assert order == [("10", 10), ("20", 20), ("30", 30)]


async def test_no_time_to_wait_means_now() -> None:
    queue = a_queue()
    queue.add_after(A, 0)
    queue.add_after(B, -3)
    assert await all_taken(queue) == [A, B]


async def test_a_pass_that_begins_replaces_the_timer_that_was_pending() -> None:
    queue = a_queue()
    queue.add_after(A, 60)
    queue.add(A)
    assert await queue.get() == A
    queue.add_after(A, 300)  # what this pass itself asks for
    queue.done(A)
    await asyncio.sleep(100)
    assert queue.depth == 0
    await asyncio.sleep(201)
    assert await all_taken(queue) == [A]


async def test_a_timer_that_rings_while_its_key_runs_is_not_lost() -> None:
    queue = a_queue()
    queue.add(A)
    await queue.get()
    queue.add_after(A, 1)
    await asyncio.sleep(5)
    assert await taken(queue) is None
    queue.done(A)
    assert await all_taken(queue) == [A]


async def test_superseded_timers_do_not_pile_up() -> None:
    queue = a_queue()
    for seconds in range(5_000, 0, -1):
        queue.add_after(A, seconds)
    assert queue.waiting == 1
    assert len(queue._heap) < 100
    queue.add_after(B, 0.5)
    await asyncio.sleep(1.1)
    assert await all_taken(queue) == [B, A]


async def test_back_off_doubles_up_to_five_minutes() -> None:
    queue = a_queue()
    pauses = [queue.retry(A) for _ in range(60)]
    assert pauses[:3] == pytest.approx([0.005, 0.01, 0.02], rel=1e-3)
    assert pauses[-1] == pytest.approx(300, rel=1e-3)
    assert pauses == sorted(pauses)


async def test_back_off_is_each_keys_own_and_ends_with_success() -> None:
    queue = a_queue()
    for _ in range(5):
        queue.retry(A)
    assert queue.retry(B) == pytest.approx(0.005, rel=1e-3)
    queue.forget(A)
    queue.forget(C)
    assert queue.retry(A) == pytest.approx(0.005, rel=1e-3)


@pytest.mark.parametrize("dice", [0.0, 0.5, 0.999])
async def test_jitter_takes_at_most_half_and_adds_nothing(dice: float) -> None:
    queue = a_queue(dice)
    for failures in range(20):
        longest = min(0.005 * 2**failures, 300)
        assert longest / 2 <= queue.retry(A) <= longest


async def test_a_failed_key_comes_back() -> None:
    queue = a_queue()
    queue.add(A)
    await queue.get()
    pause = queue.retry(A)
    queue.done(A)
    assert await taken(queue) is None
    await asyncio.sleep(pause)
    assert await all_taken(queue) == [A]


async def test_age_is_that_of_the_longest_waiting_key_running_ones_included() -> None:
    queue = a_queue()
    assert queue.oldest_seconds() == 0
    queue.add(A)
    await queue.get()
    queue.add(A)
    await asyncio.sleep(7)
    queue.add(B, low=True)
    assert queue.oldest_seconds() == pytest.approx(7)
    queue.done(A)
    assert queue.oldest_seconds() == pytest.approx(7)
    assert await taken(queue) == A
    assert queue.oldest_seconds() == pytest.approx(0)


async def test_runs_that_take_long_are_named() -> None:
    queue = a_queue()
    queue.add(A)
    await queue.get()
    await asyncio.sleep(30)
    queue.add(B)
    await queue.get()
    await asyncio.sleep(5)
    assert queue.running == 2
    assert queue.running_longer_than(20) == [A]


async def test_done_without_get_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="TaskSession team/a is not running"):
        a_queue().done(A)


async def test_close_lets_what_runs_finish_and_hands_out_nothing_more() -> None:
    queue = a_queue()
    queue.add(A)
    await queue.get()
    idle_worker = asyncio.create_task(queue.get())
    queue.add(A)
    queue.add_after(B, 1)
    await asyncio.sleep(0)
    closing = asyncio.create_task(queue.close())
    with pytest.raises(QueueClosed):
        await idle_worker
    await asyncio.sleep(3)
    assert not closing.done()
    queue.add(C)
    queue.add_after(C, 1)
    queue.done(A)
    await closing
    assert queue.depth == queue.waiting == queue.running == 0
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_many_keys_through_many_workers_run_once_each_and_never_twice_at_once() -> None:
    queue = a_queue()
    at_once: set[Key] = set()
    runs: dict[Key, int] = {}

    async def worker() -> None:
        while True:
            one = await queue.get()
            assert one not in at_once
            at_once.add(one)
            await asyncio.sleep(0.01)
            at_once.remove(one)
            runs[one] = runs.get(one, 0) + 1
            queue.done(one)

    keys = [key(str(number)) for number in range(500)]
    for one in keys:
        queue.add(one, low=True)
    workers = [asyncio.create_task(worker()) for _ in range(16)]
    await asyncio.sleep(0.005)
    for one in keys[:16]:
        queue.add(one)
    await asyncio.sleep(5)
    await queue.close()
    done, _ = await asyncio.wait(workers)
    assert all(isinstance(task.exception(), QueueClosed) for task in done)
    assert runs == {one: 2 if one in keys[:16] else 1 for one in keys}
