"""What does it cost when nothing happens? Writes in a minute, and memory for each object.

A thousand live sessions on light agentctls that do nothing; thousands of suspended ones, which
are objects and nothing more; agentctl itself, with nobody there and with an idle agent. Memory is
read from /proc of an operator that was started with these objects already there. The minute's
writes are a budget; memory and times are told.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.crowd import Sidecars, bodies, is_idle, settle_in, wait_all
from benchmarks.ground import LEASES, Ground
from benchmarks.report import RUNS, Metric, middle
from kandev_operator.clients.tokens import SigningKey, jwks_text
from stage.operatorprocess import OperatorProcess
from stage.sessions import Body, Namespace, profile, session, task
from stage.writes import Written, when_quiet, written

LIVE = 1_000
FEW, MANY = 1_000, 5_000
MINUTE = 60.0
_REST = 5.0
_ALL_THERE = "kandev_operator_sessions_verified"
_LEADS = "kandev_operator_lease_valid"
_KB = 1024.0


def run(say: Callable[[str], None]) -> list[Metric]:
    """Measure everything, the smallest first."""
    with Ground() as ground, Sidecars() as sidecars:
        say("agentctl alone, and with an idle agent")
        starts, alone = _agentctl(ground.folder / "alone")
        agent = _with_agent(ground)
        say("an operator with nothing to do")
        with ground.operator([ground.namespace()]) as operator:
            bare = _rested(operator, 0)
        say(f"{FEW} and {MANY} suspended sessions")
        few, many = _asleep(ground, sidecars)
        say(f"{LIVE} live sessions, and a minute in which nothing happens")
        live, minute = _alive(ground, sidecars)
    each = (many - few) / (MANY - FEW)
    followed = (live - bare - each * 2 * LIVE) / LIVE
    writes = minute.count + len(minute.events) + len(minute.tasks) + len(minute.others)
    return [
        Metric(f"{LIVE} idle sessions: writes a minute", writes, "", "count", 0),
        _memory("operator, no objects", bare / _KB, "MB", 70),
        _memory(f"operator, {FEW} objects", few / _KB, "MB"),
        _memory(f"operator, {MANY} objects", many / _KB, "MB"),
        _memory("operator, each further object", each, "KB", 16),
        _memory(f"operator, {LIVE} live sessions", live / _KB, "MB"),
        _memory("operator, each followed executor", followed, "KB", 16),
        _memory("agentctl alone", alone / _KB, "MB", 60),
        _memory("agentctl with an idle agent", agent / _KB, "MB", 60),
        Metric("agentctl: start to /health", middle(starts), "s", "time", 0.4),
    ]


def _memory(name: str, value: float, unit: str, goal: float | None = None) -> Metric:
    return Metric(name, round(value, 1), unit, "memory", goal)


def _asleep(ground: Ground, sidecars: Sidecars) -> tuple[float, float]:
    """RSS with a few objects, and with many."""
    place = ground.namespace()
    operator = ground.operator([place]).start()
    found = []
    for first, last in ((0, FEW), (FEW, MANY)):
        sleeping = bodies(sidecars, first, last - first, operatingMode="Suspended")
        settle_in(ground, place, _of_one_task(sleeping), anew=first == 0)
        wait_all(ground, place, last, lambda status: bool(status.get("conditions")))
        when_quiet(ground.cluster.audit, ground.cluster.audit.mark(), [place.name])
        found.append(_rested(operator, last))
    operator.kill()
    return found[0], found[1]


def _of_one_task(sessions: Sequence[Body]) -> Sequence[Body]:
    """Nothing but sessions is to be weighed."""
    for each in sessions:
        each["spec"]["taskRef"]["name"] = "t0"
    return sessions


def _alive(ground: Ground, sidecars: Sidecars) -> tuple[float, Written]:
    """RSS with live sessions, each of them followed; and what is written in a minute."""
    place, audit = ground.namespace(), ground.cluster.audit
    operator = ground.operator([place]).start()
    settle_in(ground, place, bodies(sidecars, 0, LIVE))
    wait_all(ground, place, LIVE, is_idle)
    when_quiet(audit, audit.mark(), [place.name])
    rss = _rested(operator, LIVE)
    mark = audit.mark()
    time.sleep(MINUTE)
    seen = written(audit, mark, [LEASES, place.name])
    operator.kill()
    return rss, seen


def _rested(operator: OperatorProcess, sessions: int) -> float:
    """RSS in KB of an operator that was started anew, has seen everything, and has rested."""
    operator.kill()
    operator.start()
    end = time.monotonic() + 180
    while operator.metric(_ALL_THERE) < sessions or not operator.metric(_LEADS):
        if time.monotonic() > end:
            raise AssertionError(f"the operator does not get through:\n{operator.tail()}")
        time.sleep(0.5)
    time.sleep(_REST)
    return _rss(operator.pid)


def _rss(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    raise AssertionError(f"process {pid} has ended")


def _with_agent(ground: Ground) -> float:
    """RSS in KB of a real agentctl whose agent is idle."""
    place: Namespace = ground.namespace()
    with ground.operator([place]):
        place.apply(profile(), task(), session("s", place.worktree("s")))
        place.wait_idle("s")
        time.sleep(_REST)
        return _rss(place.executor_of("s")["status"]["pid"])


def _agentctl(folder: Path) -> tuple[list[float], float]:
    """Seconds until it answers, of several starts; and RSS in KB with nobody there."""
    folder.mkdir()
    jwks = folder / "jwks.json"
    jwks.write_text(jwks_text([SigningKey.generate()]))
    seconds, rss = [], 0.0
    for number in range(RUNS):
        state, workspace = folder / f"state-{number}", folder / f"files-{number}"
        state.mkdir(mode=0o700)
        workspace.mkdir()
        port = _free_port()
        began = time.monotonic()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "kandev_operator.agentctl",
                "run",
                f"--state={state}",
                f"--workspace={workspace}",
                "--audience=nobody",
                f"--jwks={jwks}",
                f"--port={port}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ},
        )
        try:
            _wait_healthy(port, process)
            seconds.append(time.monotonic() - began)
            time.sleep(1.0)
            rss = max(rss, _rss(process.pid))
        finally:
            process.kill()
            process.wait(10)
    return seconds, rss


def _wait_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if json.load(answer)["status"]:
                    return
        except OSError:
            time.sleep(0.005)
    raise AssertionError("agentctl did not answer")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
