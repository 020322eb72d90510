"""Which object is looked at next.

A keyed work queue: it holds names, never objects, so a thousand events about one object are one
entry, and what it can hold is bounded by the objects there are. It promises three things. A key
never runs twice at once. A key added while it runs is run again after it. A key that was added is
handed out, whatever else is busy: the low lane (first lists, sweeps) waits, but does not starve.

A pass looks at everything and says itself when it wants to look again, so handing out a key
drops the timer that was pending for it: what the timer was set for is seen now.

It knows no clock but the loop's and no dice but those it is given, and not what a key stands for.
Everything here belongs to one event loop; nothing may be called from another thread.
"""

import asyncio
import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

RETRY_FIRST_SECONDS: Final = 0.005
RETRY_LONGEST_SECONDS: Final = 300.0

_LOW_TURN = 8  # after so many keys of the first lane in a row, one of the low lane goes first
_STALE_ENTRIES = 64  # superseded timers that the heap may carry before it is made anew


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """The object meant, by name: whether it exists, and as what, the pass finds out."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class QueueClosed(Exception):
    """No key will be handed out any more."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """That a running key is to run again: since when, and in which lane."""

    since: float
    low: bool


class WorkQueue:
    """Keys that wait, keys that run, and keys whose time has not come. Made inside the loop."""

    def __init__(self, dice: Callable[[], float] = random.random) -> None:
        """Take the loop that runs now. `dice` gives numbers in [0, 1), for jitter alone."""
        self._loop = asyncio.get_running_loop()
        self._dice = dice
        # Ordered, as first in is first out; with the time since when each key waits.
        self._first: OrderedDict[Key, float] = OrderedDict()
        self._low: OrderedDict[Key, float] = OrderedDict()
        self._firsts_in_a_row = 0
        self._running: dict[Key, float] = {}
        self._again: dict[Key, _Wish] = {}
        self._failures: dict[Key, int] = {}
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []  # may hold superseded entries; _due is right
        self._order = count()
        self._alarm: asyncio.TimerHandle | None = None
        self._takers: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, key: Key, low: bool = False) -> None:
        """Have the key run once more, beginning after this moment."""
        if self._closed:
            return
        if key in self._running:
            before = self._again.get(key)
            since = before.since if before else self._loop.time()
            self._again[key] = _Wish(since, low and (before is None or before.low))
            return
        self._queue(key, self._loop.time(), low)

    def add_after(self, key: Key, seconds: float) -> None:
        """Have the key run in so many seconds, or earlier if anything else asks for it earlier."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._loop.time() + seconds
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        if len(self._heap) > 2 * len(self._due) + _STALE_ENTRIES:
            self._heap = [(at, next(self._order), one) for one, at in self._due.items()]
            heapq.heapify(self._heap)
        self._set_alarm()

    def retry(self, key: Key) -> float:
        """Have a key that failed run again, each time later; tell in how many seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        longest = RETRY_FIRST_SECONDS * 2.0 ** min(failures, 30)
        # At least half of it is kept: jitter must part the herd, not bring anybody back at once.
        seconds = min(longest, RETRY_LONGEST_SECONDS) * (0.5 + 0.5 * self._dice())
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: Key) -> None:
        """Begin with the shortest back-off at the next failure: the key succeeded, or is gone."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """Wait for a key and take it; it runs until `done`. Raises `QueueClosed` at the end."""
        while True:
            if self._closed:
                raise QueueClosed
            key = self._take()
            if key is not None:
                self._due.pop(key, None)
                self._running[key] = self._loop.time()
                self._idle.clear()
                return key
            taker: asyncio.Future[None] = self._loop.create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # This taker may have been rung already; the bell must not be lost with it.
                if taker in self._takers:
                    self._takers.remove(taker)
                elif self._first or self._low:
                    self._ring()
                raise

    def done(self, key: Key) -> None:
        """End the key's run. Every `get` needs its `done`, whatever the pass came to."""
        if key not in self._running:
            raise ValueError(f"{key} is not running")
        del self._running[key]
        wish = self._again.pop(key, None)
        if wish is not None and not self._closed:
            self._queue(key, wish.since, wish.low)
        if not self._running:
            self._idle.set()

    async def close(self) -> None:
        """Hand out nothing more, drop what waits, and wait until what runs is done.

        What is dropped is no loss: the next start looks at every object anyway.
        """
        self._closed = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        for kept in (self._first, self._low, self._again, self._due, self._failures):
            kept.clear()
        self._heap.clear()
        while self._takers:
            self._ring()
        await self._idle.wait()

    @property
    def depth(self) -> int:
        """How many keys could run now if there were workers enough."""
        return len(self._first) + len(self._low)

    @property
    def waiting(self) -> int:
        """How many keys have a timer."""
        return len(self._due)

    @property
    def running(self) -> int:
        """How many keys run."""
        return len(self._running)

    def oldest_seconds(self) -> float:
        """For how long the longest waiting key has been waiting."""
        since = [*self._first.values(), *self._low.values()]
        since += [wish.since for wish in self._again.values()]
        return self._loop.time() - min(since) if since else 0.0

    def running_longer_than(self, seconds: float) -> list[Key]:
        """Which keys have been running for longer than that: their workers may be stuck."""
        latest = self._loop.time() - seconds
        return [key for key, since in self._running.items() if since < latest]

    def _queue(self, key: Key, since: float, low: bool) -> None:
        """Put a key that does not run into a lane. It never loses the place or lane it has."""
        if key in self._first:
            return
        if low:
            if key in self._low:
                return
            self._low[key] = since
        else:
            waited_since = self._low.pop(key, None)
            self._first[key] = since if waited_since is None else waited_since
            if waited_since is not None:
                return  # promoted: the bell for it was rung when it came
        self._ring()

    def _take(self) -> Key | None:
        """Choose the next key."""
        if self._low and (not self._first or self._firsts_in_a_row >= _LOW_TURN):
            self._firsts_in_a_row = 0
            return self._low.popitem(last=False)[0]
        if self._first:
            self._firsts_in_a_row += 1
            return self._first.popitem(last=False)[0]
        return None

    def _ring(self) -> None:
        """Wake one taker that was not woken yet."""
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    def _set_alarm(self) -> None:
        """Have `_fire` called when the earliest timer is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # superseded, or its key has run meanwhile
        if self._alarm is not None:
            if self._heap and self._alarm.when() == self._heap[0][0]:
                return
            self._alarm.cancel()
            self._alarm = None
        if self._heap:
            self._alarm = self._loop.call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        """Queue every key whose time has come."""
        now = self._loop.time()
        if self._alarm is not None:
            # The loop rings up to its clock's resolution early: for it that time has come.
            now = max(now, self._alarm.when())
            self._alarm = None
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        self._set_alarm()
