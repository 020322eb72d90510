"""The journal and its stream: how long an event takes from the agent to a reader, and how many fit.

The agent writes the moment into each update; a reader notes the moment at which it has it. Words
are read live, as a person would see them, and kept ones are counted, so what is lost shows. A
replay is timed from the request to the first event and to the last, with agentctl's memory beside
it. Loss is a budget; times and memory are told.
"""

import asyncio
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.ground import TESTS
from benchmarks.report import RUNS, Metric, middle
from integration.agentctl.harness import SESSION, Keys, Sidecar
from kandev_operator.agentctl.clock import now
from kandev_operator.agentctl.journal import Journal
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.statedir import StateDir
from kandev_operator.contract.events import EventKind

CHATTER = TESTS / "benchmarks" / "chatter.py"
STAMP = re.compile(rb"<(\d+):(\d+)>")
RATE, SECONDS = 500, 6
FAST, FAST_SECONDS = 5_000, 10
READERS = 50
KEPT = 100_000
_MS = 1e6


def run(say: Callable[[str], None]) -> list[Metric]:
    """Measure everything."""
    metrics: list[Metric] = []
    with sidecar() as agentctl:
        for kind, name in (("words", "live words"), ("calls", "kept events")):
            say(f"{name}: {RATE} a second, one reader")
            metrics += _latency(agentctl, kind, f"{name}, {RATE}/s", RATE, RATE * SECONDS, 1)
        say(f"{READERS} readers of one session")
        name = f"kept events, {RATE}/s, {READERS} readers"
        metrics += _latency(agentctl, "calls", name, RATE, RATE * SECONDS, READERS)
        for kind, name in (("words", "words"), ("calls", "kept events")):
            say(f"{name}: {FAST} a second for {FAST_SECONDS} s")
            metrics += _sustained(agentctl, kind, name)
    say(f"replay of {KEPT} events")
    metrics += _replay()
    return metrics


@contextmanager
def sidecar(prepare: Callable[[Path], None] = lambda _: None) -> Iterator[Sidecar]:
    """An agentctl with the talkative agent."""
    with tempfile.TemporaryDirectory(prefix="kandev-bench-") as folder:
        path = Path(folder)
        found = Sidecar(path, Keys(path / "jwks.json"))
        prepare(found.state)
        found.start()
        try:
            found.put(command=sys.executable, args=["-E", "-S", str(CHATTER)])
            yield found
        finally:
            found.close()


@dataclass
class Heard:
    """What one reader got: by number, when it was written and when it was here."""

    first: dict[int, tuple[int, int]] = field(default_factory=dict)
    kept: set[int] = field(default_factory=set)

    def take(self, data: bytes, now: int) -> None:
        for block in data.split(b"\n\n"):
            live = b"event: live" in block
            for number, written in STAMP.findall(block):
                n = int(number)
                self.first.setdefault(n, (int(written), now))
                if not live:
                    self.kept.add(n)

    def delays(self) -> list[float]:
        return sorted((here - written) / _MS for written, here in self.first.values())


async def _read(agentctl: Sidecar, after: str, kinds: str, total: int, ready: "Ready") -> Heard:
    heard = Heard()
    host, port = agentctl.run["host"], agentctl.run["port"]
    reader, writer = await asyncio.open_connection(host, port, limit=2**24)
    token = agentctl.keys.token()
    writer.write(
        f"GET /api/v1/events?after={after}&kinds={kinds} HTTP/1.1\r\nHost: x\r\n"
        f"X-Kandev-Token: {token}\r\n\r\n".encode()
    )
    rest = await reader.readuntil(b": welcome\n\n")
    rest = b""
    ready.one()
    async with asyncio.timeout(120):
        while len(heard.kept) < total:
            data = await reader.read(2**20)
            moment = time.monotonic_ns()
            if not data:
                break
            whole, cut, rest = (rest + data).rpartition(b"\n\n")
            heard.take(whole + cut, moment)
    writer.transport.abort()
    return heard


class Ready:
    """Counts readers that are attached, and then lets the prompt go."""

    def __init__(self, readers: int) -> None:
        self._left, self.all = readers, threading.Event()

    def one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self.all.set()


def _talk(agentctl: Sidecar, kind: str, rate: float, total: int, readers: int) -> list[Heard]:
    """Readers in this process, the prompt from a thread; gives what each heard."""
    if agentctl.agent() != "idle":
        agentctl.succeeded(agentctl.open())
    journal = agentctl.status()["journal"]
    after = f"{journal['journal_id']}:{journal['last_seq']}"
    kinds = "state,messages,live" if kind == "words" else "state,messages"
    ready = Ready(readers)

    def prompt() -> None:
        ready.all.wait(60)
        agentctl.prompt(f"{kind} {total} {rate}")

    asker = threading.Thread(target=prompt)
    asker.start()

    async def everybody() -> list[Heard]:
        work = [_read(agentctl, after, kinds, total, ready) for _ in range(readers)]
        return await asyncio.gather(*work)

    try:
        return asyncio.run(everybody())
    finally:
        asker.join()
        agentctl.becomes("idle")


def _latency(
    agentctl: Sidecar, kind: str, name: str, rate: int, total: int, readers: int
) -> list[Metric]:
    p50s, p99s, lost = [], [], 0
    for _ in range(RUNS if readers == 1 else 1):
        found = _talk(agentctl, kind, rate, total, readers)
        lost += sum(total - len(h.kept) for h in found)
        delays = sorted(d for h in found for d in h.delays())
        p50s.append(statistics.median(delays))
        p99s.append(delays[int(len(delays) * 0.99)])
    return [
        Metric(f"{name}: agent to reader, p50", middle(p50s), "ms", "time", 2),
        Metric(f"{name}: agent to reader, p99", middle(p99s), "ms", "time", 10),
        Metric(f"{name}: events lost", lost, "", "count", 0),
    ]


def _sustained(agentctl: Sidecar, kind: str, name: str) -> list[Metric]:
    total = FAST * FAST_SECONDS
    before = _cpu(agentctl)
    heard = _talk(agentctl, kind, FAST, total, 1)[0]
    used = _cpu(agentctl) - before
    written = [w for w, _ in heard.first.values()]
    here = [h for _, h in heard.first.values()]
    asked = (max(written) - min(written)) / 1e9
    behind = (max(here) - max(written)) / _MS
    name = f"{name}, {FAST}/s for {FAST_SECONDS} s"
    return [
        Metric(f"{name}: events lost", total - len(heard.kept), "", "count", 0),
        Metric(f"{name}: the agent needed", round(asked, 2), "s", "time", FAST_SECONDS * 1.1),
        Metric(f"{name}: the reader ends later by", round(behind, 1), "ms", "time", 200),
        Metric(f"{name}: agentctl's processor time", round(used, 2), "s", "time", FAST_SECONDS),
    ]


def _cpu(agentctl: Sidecar) -> float:
    assert agentctl.process is not None
    fields = Path(f"/proc/{agentctl.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _rss(agentctl: Sidecar, name: str = "VmRSS") -> float:
    assert agentctl.process is not None
    for line in Path(f"/proc/{agentctl.process.pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return float(line.split()[1]) / 1024
    raise AssertionError("agentctl has ended")


def _fill(state: Path) -> None:
    """A session's journal with many events in it, as an agentctl would have left it."""
    states = StateDir(state)
    states.prepare(SESSION, "team-a", "s-a", None)
    states.serve(SESSION, 1)
    journal = Journal(states.folder(SESSION).journal, SESSION)
    text = "a few words as an agent says them, not many and not few " * 2
    for start in range(0, KEPT, 500):
        journal.commit(
            [
                fx.Append(
                    EventKind.MESSAGE,
                    now(),
                    "x1",
                    {"message_id": f"m{start}", "author": "agent", "kind": "text", "text": text},
                )
                for _ in range(500)
            ]
        )
    journal.close()


def _replay() -> list[Metric]:
    firsts, totals, grown = [], [], []
    with sidecar(_fill) as agentctl:
        last = agentctl.status()["journal"]["last_seq"]
        for _ in range(RUNS):
            before = _rss(agentctl)
            first, total, peak = asyncio.run(_replay_once(agentctl, last))
            firsts.append(first)
            totals.append(total)
            grown.append(peak - before)
    return [
        Metric(f"replay of {KEPT} events: first one", middle(firsts), "ms", "time", 50),
        Metric(f"replay of {KEPT} events: all", middle(totals), "s", "time", 3),
        Metric("replay: memory of agentctl grows by", middle(grown, 1), "MB", "memory", 10),
    ]


async def _replay_once(agentctl: Sidecar, last: int) -> tuple[float, float, float]:
    reader, writer = await asyncio.open_connection(agentctl.run["host"], agentctl.run["port"])
    began = time.monotonic()
    writer.write(
        b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nX-Kandev-Token: "
        + agentctl.keys.token().encode()
        + b"\r\n\r\n"
    )
    count, first, peak, rest = 0, 0.0, 0.0, b""
    looked = began
    while count < last:
        data = await asyncio.wait_for(reader.read(2**20), 60)
        assert data, "the stream ended early"
        if not count and b"\nid: " in data:
            first = (time.monotonic() - began) * 1000
        count += (rest[-5:] + data).count(b"\nid: ") - rest[-5:].count(b"\nid: ")
        rest = data
        if time.monotonic() - looked > 0.05:
            looked, peak = time.monotonic(), max(peak, _rss(agentctl))
    total = time.monotonic() - began
    writer.transport.abort()
    return first, total, max(peak, _rss(agentctl))
