"""One leader at most, whatever breaks: the lead under random play.

Three processes and one API server. Lines break in every way a line can, processes vanish, stop
and come again under new identities, the Lease is deleted, terms are adopted. At every tenth
of a second at most one process may believe that it leads, and no term ever has two leaders. At
the end everything is healed, and then one of them must lead.

Only what a single history can show is played here: a restored API server forgets who leads, so
two may believe it for a moment, and only the term tells them apart. That has cases of its own.
"""

import asyncio
import contextlib
import itertools

import looptime
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kandev_operator.controller.lease import Lease, NotLeading
from unit.controller.lease_api import Line, Server

pytestmark = pytest.mark.unit

SECONDS = 5
STEP = 0.1
PROCESSES = st.integers(0, 2)


class Process:
    """An operator, as far as leading goes."""

    def __init__(self, server: Server, identity: str, loop: asyncio.AbstractEventLoop) -> None:
        self.line = Line(server)
        self.lease = Lease(
            self.line, "system", "kandev-operator", identity, seconds=SECONDS, clock=loop.time
        )
        self.task = asyncio.create_task(self.lease.run())

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


class LeaseMachine(RuleBasedStateMachine):
    """What the world does to three operators."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(noop_cycles=8)
        self.server = Server()
        self.names = itertools.count()
        self.processes: list[Process] = []
        self.leader_of_term: dict[int, str] = {}
        self.leads = 0

    @initialize()
    def three_operators_start(self) -> None:
        self.loop.run_until_complete(self._start(3))

    async def _start(self, count: int) -> None:
        for _ in range(count):
            identity = f"operator-{next(self.names)}"
            self.processes.append(Process(self.server, identity, self.loop))
        await self._pass(0.5)

    async def _pass(self, seconds: float) -> None:
        """Let time pass and look, again and again."""
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            await asyncio.sleep(STEP)
            self.look()

    def look(self) -> None:
        leaders = [one.lease for one in self.processes if one.lease.valid()]
        assert len(leaders) <= 1, [lease.identity for lease in leaders]
        for lease in leaders:
            first = self.leader_of_term.setdefault(lease.term, lease.identity)
            assert first == lease.identity, f"term {lease.term} has two leaders"
            assert lease.term == max(self.leader_of_term)
            self.leads += 1

    @rule(seconds=st.sampled_from([0.2, 1.0, 3.0, 4.5, 5.5, 9.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(self._pass(seconds))

    @rule(
        which=PROCESSES,
        mode=st.sampled_from(["ok", "ok", "hang", "deaf", "late", "fail", "forbidden"]),
        latency=st.sampled_from([0.0, 0.0, 0.3, 0.9]),
        seconds=st.sampled_from([0.5, 2.0, 5.5, 12.0]),
    )
    def a_line_breaks_or_heals(self, which: int, mode: str, latency: float, seconds: float) -> None:
        line = self.processes[which].line
        line.mode, line.latency = mode, latency
        self.loop.run_until_complete(self._pass(seconds))

    @rule(mode=st.sampled_from(["hang", "fail", "deaf"]), seconds=st.sampled_from([2.0, 8.0]))
    def the_api_server_is_away_for_a_while(self, mode: str, seconds: float) -> None:
        for process in self.processes:
            process.line.mode = mode
        self.loop.run_until_complete(self._pass(seconds))
        for process in self.processes:
            process.line.mode = "ok"

    @rule(which=PROCESSES, gently=st.booleans())
    def a_process_is_replaced(self, which: int, gently: bool) -> None:
        async def replace() -> None:
            process = self.processes.pop(which)
            if gently:
                releasing = asyncio.create_task(process.lease.release())
                await self._pass(0.2)
                assert not process.lease.valid()
                await releasing
            await process.end()
            await process.line.end()
            # Gone, and so is its belief: a dead process acts no more.
            await self._start(1)

        self.loop.run_until_complete(replace())

    @rule(holder_cut_off=st.booleans())
    def somebody_deletes_the_lease(self, holder_cut_off: bool) -> None:
        """And everybody who is there had read it: one that starts into the absence cannot know."""
        for process in self.processes:
            process.line.mode, process.line.latency = "ok", 0.0
        self.loop.run_until_complete(self._pass(3.0))
        stored = self.server.spec["leaseTransitions"] if self.server.stored else 0
        if any(process.lease._highest != stored for process in self.processes):
            return  # somebody has just won it, and not everybody has heard of that
        if holder_cut_off:
            for process in self.processes:
                process.line.mode = "hang" if process.lease.valid() else "ok"
        self.server.stored = None
        self.loop.run_until_complete(self._pass(2 * SECONDS))

    @precondition(lambda self: self.leader_of_term)
    @rule(which=PROCESSES, above=st.integers(0, 3))
    def a_term_is_seen_elsewhere(self, which: int, above: int) -> None:
        async def adopt() -> None:
            lease = self.processes[which].lease
            minimum = max(self.leader_of_term) + above
            with contextlib.suppress(NotLeading):
                assert await lease.adopt_term(minimum) > minimum
                self.look()

        self.loop.run_until_complete(adopt())

    def teardown(self) -> None:
        async def heal_and_end() -> None:
            for process in self.processes:
                process.line.mode, process.line.latency = "ok", 0.0
            await self._pass(4 * SECONDS)
            before = self.leads
            await self._pass(1.0)
            assert not self.processes or self.leads > before, "nobody leads"

        async def end() -> None:
            for process in self.processes:
                await process.end()
                await process.line.end()

        try:
            self.loop.run_until_complete(heal_and_end())
        finally:
            self.loop.run_until_complete(end())
            self.loop.close()


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
