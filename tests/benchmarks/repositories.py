"""Does a big repository stay responsive? Files and git of a workspace with 100,000 files.

A real repository, made with git itself, behind a real agentctl without any agent. Answers are timed
warm (the first is thrown away); /health is asked all the while; memory is the peak of agentctl's
own process, and git's is told beside it. All of it is told, since it says as much about the machine
as about the product; what must hold everywhere is in the tests.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import RUNS, Metric, middle
from kandev_operator.clients.tokens import Minter, SigningKey, jwks_text
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope

FOLDERS, EACH = 1000, 100
FILES = FOLDERS * EACH
NEW_FOLDERS = 200
NEW = NEW_FOLDERS * EACH
CHANGED = 200
AUDIENCE = "bench"
_MB = 1024.0


def run(say: Callable[[str], None]) -> list[Metric]:
    """Measure; the repository is made first and thrown away afterwards."""
    with TemporaryDirectory(prefix="kandev-bench-") as folder:
        base = Path(folder)
        say(f"a repository of {FILES} files")
        workspace = _repository(base / "workspace")
        with _agentctl(base, workspace) as agentctl:
            return _measure(agentctl, workspace, say)


def _measure(agentctl: "Agentctl", workspace: Path, say: Callable[[str], None]) -> list[Metric]:
    idle = agentctl.memory("VmRSS")
    calls: dict[str, tuple[str, dict[str, str], float | None]] = {
        "git status, clean": (paths.GIT_STATUS, {}, 2.0),
        "tree of the workspace, a page": (paths.FILES_TREE, {"depth": "2"}, None),
        "search by name": (paths.FILES_SEARCH, {"query": "file-7"}, None),
        "search by content, no find": (
            paths.FILES_SEARCH,
            {"query": "nowhere at all", "in": "content"},
            None,
        ),
        "git log, a page": (paths.GIT_LOG, {}, None),
    }
    metrics = []
    with agentctl.healthy() as delays:
        for name, (path, query, goal) in calls.items():
            say(name)
            metrics.append(_timed(agentctl, name, path, query, goal))
        say("patterns that match all of it, though it is tracked")
        patterns = workspace / ".gitignore"
        patterns.write_text("d*\n")
        name = "the same page, tracked, and matched by patterns"
        (began, first) = (time.monotonic(), agentctl.get(paths.FILES_TREE, {"depth": "2"}))
        metrics.append(_time(f"{name}, first", time.monotonic() - began))
        assert len(first["entries"]) > EACH, "what is tracked is shown"
        metrics.append(_timed(agentctl, name, paths.FILES_TREE, {"depth": "2"}, None))
        patterns.unlink()
        say(f"{CHANGED} changed and {NEW} new files")
        for number in range(CHANGED):
            (workspace / f"d{number:04}/file-1").write_text("changed\n")
        name = f"git status, {CHANGED} changed"
        metrics.append(_timed(agentctl, name, paths.GIT_STATUS, {}, 2.0))
        metrics.append(_timed(agentctl, f"git diff, {CHANGED} changed", paths.GIT_DIFF, {}, None))
        _fill(workspace / "new", NEW_FOLDERS)
        name = f"git status, {NEW} untracked"
        metrics.append(_timed(agentctl, name, paths.GIT_STATUS, {}, None))
        began = time.monotonic()
        with agentctl.watching():
            metrics.append(_time("watch, until ready", time.monotonic() - began))
            watched = agentctl.memory("VmRSS")
    slowest = sorted(delays)[int(len(delays) * 0.99)]
    return [
        *metrics,
        _time("/health meanwhile, p99", slowest, 0.05),
        _memory("agentctl, before", idle, 60),
        _memory("agentctl, while it watches", watched),
        _memory("agentctl, peak", agentctl.memory("VmHWM")),
    ]


def _timed(
    agentctl: "Agentctl", name: str, path: str, query: dict[str, str], goal: float | None
) -> Metric:
    agentctl.get(path, query)
    seconds = []
    for _ in range(RUNS):
        began = time.monotonic()
        agentctl.get(path, query)
        seconds.append(time.monotonic() - began)
    return _time(name, middle(seconds), goal)


def _time(name: str, seconds: float, goal: float | None = None) -> Metric:
    return Metric(f"{FILES} files: {name}", round(seconds, 3), "s", "time", goal)


def _memory(name: str, kilobytes: float, goal: float | None = None) -> Metric:
    return Metric(f"{FILES} files: {name}", round(kilobytes / _MB, 1), "MB", "memory", goal)


def _repository(folder: Path) -> Path:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    for name in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{name}_NAME": "Bench", f"GIT_{name}_EMAIL": "bench@example.com"}
    folder.mkdir()
    _fill(folder, FOLDERS)
    for args in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "everything")):
        # Nothing tidies up in the background while we measure.
        quiet = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
        subprocess.run(["git", *quiet, *args], cwd=folder, env=env, check=True)
    return folder


def _fill(folder: Path, folders: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(folders):
        inner = folder / f"d{number:04}"
        inner.mkdir()
        for each in range(EACH):
            (inner / f"file-{each}").write_text(f"{number} {each}\nsome words\n")


@dataclass
class Agentctl:
    """A running agentctl, and a caller of it."""

    process: "subprocess.Popen[bytes]"
    url: str
    key: SigningKey

    def get(self, path: str, query: dict[str, str]) -> Any:
        with self._open(path, query) as answer:
            return json.load(answer)

    def _open(self, path: str, query: dict[str, str]) -> Any:
        token = Minter(self.key, time.time).mint(AUDIENCE, [Scope.FILES])
        request = urllib.request.Request(
            f"{self.url}{path}?{urllib.parse.urlencode(query)}",
            headers={"Authorization": f"Bearer {token}"},
        )
        return urllib.request.urlopen(request, timeout=120)

    @contextmanager
    def watching(self) -> Iterator[None]:
        with self._open(paths.FILES_WATCH, {}) as answer:
            assert answer.readline() == b"event: ready\n"
            yield

    @contextmanager
    def healthy(self) -> Iterator[list[float]]:
        """Ask for /health all the while; gives how long each answer took."""
        delays: list[float] = []
        over = threading.Event()

        def ask() -> None:
            while not over.wait(0.02):
                began = time.monotonic()
                urllib.request.urlopen(self.url + paths.HEALTH, timeout=60).close()
                delays.append(time.monotonic() - began)

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield delays
        finally:
            over.set()
            thread.join()

    def memory(self, field: str) -> float:
        """In KB, from /proc."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return float(line.split()[1])
        raise AssertionError("agentctl has ended")


@contextmanager
def _agentctl(base: Path, workspace: Path) -> Iterator[Agentctl]:
    key = SigningKey.generate()
    jwks, state = base / "jwks.json", base / "state"
    jwks.write_text(jwks_text([key]))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "kandev_operator.agentctl", "run", f"--state={state}"),
            *(f"--workspace={workspace}", f"--audience={AUDIENCE}", f"--jwks={jwks}"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        run_file, end = state / "run.json", time.monotonic() + 30
        while not run_file.exists():
            if time.monotonic() > end or process.poll() is not None:
                raise AssertionError("agentctl did not come up")
            time.sleep(0.01)
        yield Agentctl(process, json.loads(run_file.read_bytes())["url"], key)
    finally:
        process.terminate()
        process.wait(30)
