"""Which tests run beside each other where pytest is given processes (`-n 3`), and in which order.

A lane is what one process runs from its first test to its last. Each file is one, so what a module
shares is made once. The whole of `e2e/` is one too: a machine has one node. A process that is done
takes the next lane: `e2e/` first, since nothing is longer, then the longest files, so that the
short ones are left to fill the end. How long files took is kept in `lanes.txt`; every run of
several processes ends with those lines as it measured them. Without `-n` nothing of this applies.

It refuses to know why a test takes long, and what tests share: a fixture of a run is made once in
each process, and what processes have in common (caches, ports, the machine) guards itself.
"""

import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

CHAINS = ("tests/e2e",)
"""Folders whose files must come one after the other."""
LISTED = Path(__file__).with_name("lanes.txt")
_UNLISTED = {"tests/unit": 1.0}
_UNLISTED_ELSEWHERE = 15.0
_WORTH_LISTING = 20.0
_FAREWELL = 60.0

_took = pytest.StashKey[Counter[str]]()
_processes = pytest.StashKey[list[Any]]()


class LaneScheduling(LoadScopeScheduling):
    """Hands out lanes in the order in which they were collected."""

    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """A test whose process dies has failed; what is left of its lane goes on in another."""
        units = self.assigned_work[node].values()
        left = [(unit, test) for unit in units for test, is_done in unit.items() if not is_done]
        if not left:
            return super().remove_node(node)
        unit, died = left[0]
        unit[died] = True
        super().remove_node(node)
        return died


def lane_of(nodeid: str) -> str:
    """Return the name of a test's lane: a folder or a file, as in the test's own name."""
    file = nodeid.partition("::")[0]
    return next((chain for chain in CHAINS if file.startswith(f"{chain}/")), file)


def listed() -> dict[str, float]:
    """Return how many seconds lanes took, as `lanes.txt` has it."""
    lines = (line.split() for line in LISTED.read_text().splitlines())
    return {lane: float(seconds) for seconds, lane in lines}


def longest_first(nodeids: list[str]) -> list[str]:
    """Return the tests' lanes, each once, in the order in which they are to be begun."""
    known = listed()

    def seconds(lane: str) -> float:
        if lane in CHAINS:
            return float("inf")
        unlisted = (each for ring, each in _UNLISTED.items() if lane.startswith(f"{ring}/"))
        return known.get(lane, next(unlisted, _UNLISTED_ELSEWHERE))

    return sorted(dict.fromkeys(map(lane_of, nodeids)), key=seconds, reverse=True)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        lanes = longest_first([item.nodeid for item in items])
        places = {lane: place for place, lane in enumerate(lanes)}
        items.sort(key=lambda item: places[lane_of(item.nodeid)])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LaneScheduling:
    """Any `--dist`: every other way would have several processes run `e2e/`."""
    config.option.loadscopereorder = False
    config.stash[_processes] = []
    config.stash[_took] = Counter()
    terminal = config.pluginmanager.getplugin("terminalreporter")
    config.pluginmanager.register(Teller(config.stash[_took], terminal), "lanes-teller")
    return LaneScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodeready(node: Any) -> None:
    node.config.stash[_processes].append(node)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """After Ctrl-C, which reached them too, wait until they have cleared up: xdist soon kills."""
    deadline = time.monotonic() + _FAREWELL
    for node in session.config.stash.get(_processes, []):
        with suppress(EOFError, node.channel.TimeoutError, node.channel.RemoteError):
            node.channel.waitclose(max(0.1, deadline - time.monotonic()))


class Teller:
    """In the process that tells: adds up how long each lane took, and names what fails at once.
    Dots of several files in one row do not say where, and a run that is cut off has no summary."""

    def __init__(self, took: Counter[str], terminal: Any) -> None:
        self._took = took
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[lane_of(report.nodeid)] += getattr(report, "duration", 0.0)
        if self._terminal and report.outcome in ("failed", "rerun"):
            self._terminal.write_line(f" {report.outcome}: {report.nodeid} ({report.when})")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    took = config.stash.get(_took, Counter())
    lines = [f"{took[lane]:.0f} {lane}" for lane in took if took[lane] >= _WORTH_LISTING]
    if lines:
        terminalreporter.write_sep("=", "longest lanes, in seconds: the lines of tests/lanes.txt")
        for line in sorted(lines, key=lambda line: -int(line.split()[0])):
            terminalreporter.write_line(line)
