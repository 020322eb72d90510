"""Who runs what when pytest has several processes: xdist's own hand-out, with our lanes in it."""

from collections import Counter, deque
from types import SimpleNamespace
from typing import Any

import pytest

import lanes
from lanes import LaneScheduling, lane_of, listed, longest_first

E2E = [f"tests/e2e/test_{file}.py::test_{number}" for file in "ab" for number in range(4)]
LONG = "tests/integration/test_pod_life.py"
OTHERS = [
    *(f"tests/unit/core/test_{file}.py::test_{number}" for file in "abc" for number in range(3)),
    *(f"{LONG}::test_{number}" for number in range(3)),
    *(f"tests/integration/test_new.py::TestIt::test_{number}[a/b]" for number in range(3)),
]


class Process:
    """Plays a pytest process: it takes what it is sent, and holds its last test back until it
    knows that nothing follows."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.ran: list[str] = []
        self.queue: deque[int] = deque()

    def send_runtest_some(self, indices: list[int]) -> None:
        self.queue.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True


class Run:
    """A run of several processes, which take turns."""

    def __init__(self, tests: list[str], count: int = 3) -> None:
        order = longest_first(tests)
        self.tests = sorted(tests, key=lambda test: order.index(lane_of(test)))
        option = SimpleNamespace(loadscopereorder=False)
        config: Any = SimpleNamespace(getvalue=lambda _: ["popen"] * count, option=option)
        self.scheduling = LaneScheduling(config)
        self.processes = [self.joins(f"gw{number}") for number in range(count)]
        self.scheduling.schedule()

    def joins(self, name: str) -> Process:
        process = Process(name)
        self.scheduling.add_node(process)
        self.scheduling.add_node_collection(process, self.tests)
        return process

    def step(self) -> bool:
        """Each process that can runs one test; tells whether any could."""
        ran = False
        for process in self.processes:
            held = 0 if process.shutting_down or self.scheduling.tests_finished else 1
            if len(process.queue) > held:
                index = process.queue.popleft()
                process.ran.append(self.tests[index])
                self.scheduling.mark_test_complete(process, index)
                ran = True
        return ran

    def to_the_end(self) -> None:
        while self.step():
            pass
        assert not self.scheduling.has_pending


def test_a_file_is_a_lane_and_the_ring_with_the_node_is_one() -> None:
    assert {lane_of(test) for test in E2E} == {"tests/e2e"}
    assert lane_of("tests/e2elike/test_a.py::test_b") == "tests/e2elike/test_a.py"
    assert lane_of("tests/unit/test_a.py::TestB::test_c[x::y]") == "tests/unit/test_a.py"


def test_the_longest_are_begun_first_and_the_unit_ring_fills_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lanes, "listed", lambda: {LONG: 90.0, "tests/unit/core/test_b.py": 5.0})
    order = longest_first([*reversed(OTHERS), *E2E])
    assert order[0] == "tests/e2e"
    assert order[1:3] == [LONG, "tests/integration/test_new.py"]
    assert order[3:] == [f"tests/unit/core/test_{file}.py" for file in "bca"]
    assert len(order) == len(set(order)) == 6


def test_each_test_runs_once_and_no_lane_is_divided() -> None:
    run = Run([*OTHERS, *E2E])
    run.to_the_end()
    ran = [test for process in run.processes for test in process.ran]
    assert sorted(ran) == sorted([*OTHERS, *E2E])
    for process in run.processes:
        entered = [
            lane_of(test)
            for before, test in zip([None, *process.ran], process.ran, strict=False)
            if before is None or lane_of(before) != lane_of(test)
        ]
        assert len(entered) == len(set(entered)), "from its first test to its last"
    (on_node,) = [process for process in run.processes if E2E[0] in process.ran]
    assert on_node.ran[: len(E2E)] == E2E


def test_a_test_whose_process_dies_is_not_run_again_and_its_lane_goes_on() -> None:
    run = Run([*OTHERS, *E2E])
    run.step()
    dead = next(process for process in run.processes if E2E[0] in process.ran)
    run.processes.remove(dead)
    assert run.scheduling.remove_node(dead) == E2E[1]
    run.processes.append(run.joins("gw3"))
    run.scheduling.schedule()
    run.to_the_end()
    ran = [test for process in [dead, *run.processes] for test in process.ran]
    assert sorted(ran) == sorted({*OTHERS, *E2E} - {E2E[1]})
    assert len([process for process in run.processes if E2E[-1] in process.ran]) == 1


def test_more_processes_than_lanes_do_no_harm() -> None:
    run = Run(E2E, count=3)
    run.to_the_end()
    assert sorted(test for process in run.processes for test in process.ran) == E2E


def test_what_is_listed_exists_and_is_in_order() -> None:
    root = lanes.LISTED.parents[1]
    assert [lane for lane in listed() if not (root / lane).exists()] == []
    assert list(listed().values()) == sorted(listed().values(), reverse=True)


def test_what_fails_is_named_at_once_and_lanes_are_timed() -> None:
    told: list[str] = []
    took: Counter[str] = Counter()
    teller = lanes.Teller(took, SimpleNamespace(write_line=told.append))

    def report(test: str, outcome: Any, seconds: float = 1.5) -> None:
        where = (test.partition("::")[0], 1, "test")
        teller.pytest_runtest_logreport(
            pytest.TestReport(test, where, {}, outcome, None, "call", duration=seconds)
        )

    for test in E2E:
        report(test, "passed")
    report(f"{LONG}::test_0", "rerun")
    report(f"{LONG}::test_0", "failed", 2)
    assert told == [f" rerun: {LONG}::test_0 (call)", f" failed: {LONG}::test_0 (call)"]
    assert took == {"tests/e2e": 12.0, LONG: 3.5}
