"""The work queue's promises under random play, in a loop whose clock moves only when told.

The model is one line long: a key is owed a run from the moment it is added, or its timer rings,
until a run of it begins.
"""

import asyncio

import looptime
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kandev_operator.controller.queue import Key, QueueClosed, WorkQueue

pytestmark = pytest.mark.unit

KEYS = [Key("Executor", "team", name) for name in "abcd"]
A_CLOCK_TICK = 2e-6


async def _made() -> WorkQueue:
    return WorkQueue(dice=lambda: 0.0)


async def _settled() -> None:
    for _ in range(6):
        await asyncio.sleep(0)


class QueueMachine(RuleBasedStateMachine):
    """Objects change, workers come, go, finish and fail, and time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(noop_cycles=3)
        self.queue = self.loop.run_until_complete(_made())
        self.takers: list[asyncio.Task[Key]] = []
        self.running: list[Key] = []
        self.owed: set[Key] = set()
        self.timers: dict[Key, float] = {}

    def settle(self, seconds: float = 0) -> None:
        """Let the loop run, then write down what was handed out meanwhile."""
        if seconds:
            self.loop.run_until_complete(asyncio.sleep(seconds))
        now = self.loop.time() + A_CLOCK_TICK
        rung = {key for key, due in self.timers.items() if due <= now}
        self.owed |= rung
        for key in rung:
            del self.timers[key]
        self.loop.run_until_complete(_settled())
        for taker in [one for one in self.takers if one.done()]:
            self.takers.remove(taker)
            key = taker.result()
            assert key not in self.running, "one key runs twice at once"
            assert key in self.owed, "a run that nobody asked for"
            self.running.append(key)
            self.owed.remove(key)
            self.timers.pop(key, None)

    def remember_timer(self, key: Key, seconds: float) -> None:
        due = self.loop.time() + seconds
        self.timers[key] = min(due, self.timers.get(key, due))

    @rule(key=st.sampled_from(KEYS), low=st.booleans())
    def an_object_changes(self, key: Key, low: bool) -> None:
        self.queue.add(key, low=low)
        self.owed.add(key)
        self.settle()

    @rule(key=st.sampled_from(KEYS), seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def somebody_wants_a_look_later(self, key: Key, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self.remember_timer(key, seconds)
        self.settle()

    @precondition(lambda self: len(self.takers) + len(self.running) < 6)
    @rule()
    def a_worker_asks(self) -> None:
        self.takers.append(self.loop.create_task(self.queue.get()))
        self.settle()

    @precondition(lambda self: self.takers)
    @rule(data=st.data(), key=st.sampled_from(KEYS), before=st.booleans())
    def a_worker_is_cancelled_at_the_very_moment_of_a_change(
        self, data: st.DataObject, key: Key, before: bool
    ) -> None:
        taker = data.draw(st.sampled_from(self.takers))
        if before:
            taker.cancel()
        self.queue.add(key)
        self.owed.add(key)
        taker.cancel()
        self.takers.remove(taker)
        self.settle()
        assert taker.cancelled()

    @precondition(lambda self: self.running)
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["well", "failed", "look again"]),
        changed=st.booleans(),
    )
    def a_pass_ends(self, data: st.DataObject, outcome: str, changed: bool) -> None:
        key = data.draw(st.sampled_from(self.running))
        if changed:
            self.queue.add(key)
            self.owed.add(key)
        if outcome == "well":
            self.queue.forget(key)
        elif outcome == "failed":
            self.remember_timer(key, self.queue.retry(key))
        else:
            self.queue.add_after(key, 2.0)
            self.remember_timer(key, 2.0)
        self.running.remove(key)
        self.queue.done(key)
        self.settle()

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.settle(seconds)

    @invariant()
    def nobody_waits_while_there_is_work(self) -> None:
        startable = self.owed - set(self.running)
        assert self.queue.depth == len(startable)
        assert not (self.takers and startable), "a lost wakeup"

    @invariant()
    def it_holds_no_more_than_there_are_keys(self) -> None:
        assert self.queue.running == len(self.running)
        assert self.queue.waiting == len(self.timers)
        assert len(self.queue._failures) <= len(KEYS)
        assert (self.queue.oldest_seconds() > 0) <= bool(self.owed)

    def calm(self) -> None:
        """Workers enough, and time enough: everything that was owed is done."""
        for _ in range(20 * len(KEYS)):
            while self.running:
                self.queue.done(self.running.pop())
                self.settle()
            if not self.takers:
                self.takers.append(self.loop.create_task(self.queue.get()))
            self.settle(6.0)
            if not self.running and not self.owed and not self.timers:
                return
        raise AssertionError(f"never done: {self.owed}, {self.timers}")

    def teardown(self) -> None:
        try:
            self.calm()
            self.loop.run_until_complete(self.queue.close())
            ends = asyncio.gather(*self.takers, return_exceptions=True)
            assert all(isinstance(end, QueueClosed) for end in self.loop.run_until_complete(ends))
        finally:
            self.loop.close()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
