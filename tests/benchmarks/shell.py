"""What does a terminal through agentctl cost, and what does its output cost everybody else?

One agentctl and no agent. Beside each number stands what a bare pseudo-terminal of this machine
takes for the same. Health is asked by a process of its own, so that only agentctl is measured.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from websockets.exceptions import ConnectionClosed

from benchmarks.ground import environment
from benchmarks.report import RUNS, Metric, middle
from integration.agentctl.harness import Keys, Sidecar
from integration.agentctl.shellclient import close, make, viewing

ECHOES = 500
OUTPUT = 100_000_000
CAT = ["sh", "-c", "stty raw -echo; printf ready; exec cat"]
POUR = [
    "sh",
    "-c",
    f"stty raw -echo; printf ready; head -c 1 >/dev/null; head -c {OUTPUT} /dev/zero",
]


def run(say: Callable[[str], None]) -> list[Metric]:
    """Measure everything."""
    with tempfile.TemporaryDirectory(prefix="kandev-bench-") as folder:
        say("starts, and what an idle agentctl holds")
        starts, idle = zip(*(_start(Path(folder) / f"start-{n}") for n in range(RUNS)), strict=True)
        place = Path(folder) / "place"
        sidecar = _sidecar(place).start()
        try:
            say(f"{ECHOES} keystrokes and their echo, {RUNS} times")
            echoes = [_echo(sidecar) for _ in range(RUNS)]
            bare = [_bare_echo() for _ in range(RUNS)]
            say(
                f"{OUTPUT // 1_000_000} MB of output to one viewer, {RUNS} times, asking for health"
            )
            pours = [_pour(sidecar) for _ in range(RUNS)]
            bare_pours = [_bare_pour() for _ in range(RUNS)]
            after = _resident(sidecar)
        finally:
            sidecar.close()
    return [
        Metric("start to /health", middle(starts), "ms", "time", 400),
        Metric("idle agentctl, no shell", middle(idle, 1), "MB", "memory", 60),
        Metric("agentctl after all of this", round(after, 1), "MB", "memory"),
        _beside("echo p50", [each[0] for each in echoes], [each[0] for each in bare], "ms", 3),
        _beside("echo p99", [each[1] for each in echoes], [each[1] for each in bare], "ms", None),
        _beside("100 MB to a viewer", [each.seconds for each in pours], bare_pours, "s", 5),
        Metric("CPU for that", middle([each.cpu for each in pours]), "s", "time", 5),
        Metric("of it, the viewer missed", middle([p.missed for p in pours], 1), "MB", "memory"),
        Metric("/health p99 meanwhile", middle([p.p99 for p in pours]), "ms", "time", 50),
        Metric("/health p50 meanwhile", middle([p.p50 for p in pours]), "ms", "time"),
    ]


@dataclass(frozen=True)
class Poured:
    """Output to one viewer: how long, at what cost, and what others noticed of it."""

    seconds: float
    cpu: float
    """Seconds that agentctl worked."""
    missed: float
    """Megabytes that were a gap to the viewer."""
    p50: float
    p99: float
    """Milliseconds of /health."""


def _beside(
    name: str, values: list[float], bare: list[float], unit: str, goal: float | None
) -> Metric:
    return Metric(name, middle(values), unit, "time", goal, middle(bare))


def _sidecar(folder: Path) -> Sidecar:
    folder.mkdir()
    return Sidecar(folder, Keys(folder / "jwks.json"))


def _start(folder: Path) -> tuple[float, float]:
    """Milliseconds from the start of the process to its first answer; megabytes a second later."""
    sidecar = _sidecar(folder)
    began = time.monotonic()
    try:
        sidecar.start()
        sidecar.health()
        took = (time.monotonic() - began) * 1000
        time.sleep(1)
        return took, _resident(sidecar)
    finally:
        sidecar.close()


def _resident(sidecar: Sidecar) -> float:
    pages = int(Path(f"/proc/{sidecar.run['pid']}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu(sidecar: Sidecar) -> float:
    """Seconds that agentctl has worked."""
    stat = Path(f"/proc/{sidecar.run['pid']}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def _percentiles(times: list[float]) -> tuple[float, float]:
    """p50 and p99 of seconds, in milliseconds."""
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[98] * 1000


def _echo(sidecar: Sidecar) -> tuple[float, float]:
    shell = make(sidecar, "echo", command=CAT)
    times = []
    with viewing(sidecar, shell["shell_id"]) as viewer:
        viewer.sees("ready")
        for _ in range(ECHOES):
            began = time.perf_counter()
            viewer.types("x")
            while not isinstance(viewer.step(), bytes):
                pass
            times.append(time.perf_counter() - began)
    close(sidecar, shell["shell_id"])
    return _percentiles(times)


def _bare_echo() -> tuple[float, float]:
    process, master = _bare(CAT)
    times = []
    for _ in range(ECHOES):
        began = time.perf_counter()
        os.write(master, b"x")
        os.read(master, 10)
        times.append(time.perf_counter() - began)
    _end(process, master)
    return _percentiles(times)


def _pour(sidecar: Sidecar) -> Poured:
    worked = _cpu(sidecar)
    shell = make(sidecar, "pour", command=POUR)
    with viewing(sidecar, shell["shell_id"]) as viewer:
        viewer.sees("ready")
        with _Asking(f"{sidecar.run['url']}/health") as asking:
            began = time.perf_counter()
            viewer.types("\n")
            seen = 0
            while True:
                try:
                    frame = viewer.socket.recv()
                except ConnectionClosed:
                    break
                seen += len(frame) if isinstance(frame, bytes) else 0
            took = time.perf_counter() - began
    p50, p99 = _percentiles(asking.times)
    return Poured(took, _cpu(sidecar) - worked, max(OUTPUT - seen, 0) / 1e6, p50, p99)


def _bare_pour() -> float:
    process, master = _bare(POUR)
    began = time.perf_counter()
    os.write(master, b"\n")
    seen = 0
    while seen < OUTPUT:
        seen += len(os.read(master, 65536))
    took = time.perf_counter() - began
    _end(process, master)
    return took


def _bare(command: list[str]) -> "tuple[subprocess.Popen[bytes], int]":
    master, slave = os.openpty()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)
    assert os.read(master, 10) == b"ready"
    return process, master


def _end(process: "subprocess.Popen[bytes]", master: int) -> None:
    process.kill()
    process.wait()
    os.close(master)


class _Asking:
    """Another process that asks for an URL again and again; `times` are seconds, afterwards."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.asking", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(),
        )
        self.times: list[float] = []

    def __enter__(self) -> "_Asking":
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"asking\n"
        return self

    def __exit__(self, *_: object) -> None:
        out, _err = self._process.communicate(b"", timeout=60)
        self.times = json.loads(out)
