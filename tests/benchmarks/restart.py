"""What do two hundred live sessions notice of an operator that is killed? Nothing, and how soon?

Restarted, or followed by a standby: every session must be verified again (its agentctl was asked,
its pass ran with the answer), with no agent started or resumed and nothing written but the Lease.
Counts are budgets; times are medians of five and say as much about the machine. Agentctls are
light ones: what is asked here is what the operator does, not what an agent does.
"""

import calendar
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.crowd import Sidecars, bodies, is_idle, settle_in, wait_all
from benchmarks.ground import LEASES, Ground
from benchmarks.report import RUNS, Metric, middle
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace
from stage.writes import when_quiet

SESSIONS = 200
_LISTED = re.compile(r"^(\S+)Z .*the first lists are complete", re.MULTILINE)
_PATIENCE = 120.0


@dataclass
class Seen:
    """What several restarts came to."""

    after_list: list[float] = field(default_factory=list)
    after_start: list[float] = field(default_factory=list)
    leads: list[float] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


def run(say: Callable[[str], None]) -> list[Metric]:
    """Restarts, take-overs, and the baseline's restarts."""
    with Ground() as ground, Sidecars() as sidecars:
        ours, theirs = ground.namespace(), ground.namespace()
        say(f"{SESSIONS} sessions come alive")
        operator = ground.operator([ours]).start()
        settle_in(ground, ours, bodies(sidecars, 0, SESSIONS))
        wait_all(ground, ours, SESSIONS, is_idle)
        when_quiet(ground.cluster.audit, ground.cluster.audit.mark(), [ours.name])
        say(f"the operator is killed and started again, {RUNS} times")
        restarts = _restarts(ground, sidecars, ours, operator)
        say(f"a standby takes over, {RUNS} times after a kill and {RUNS} after a farewell")
        hard = _handovers(ground, sidecars, ours, operator, gently=False)
        gentle = _handovers(ground, sidecars, ours, hard[1], gently=True)
        gentle[1].kill()
        say("a plain kopf operator, killed and started again")
        plain = _plain(ground, sidecars, theirs)
    return [*_of_restarts(restarts, plain), *_of_handovers(hard[0], gentle[0])]


def _of_restarts(ours: Seen, plain: Seen) -> list[Metric]:
    return [
        Metric("writes, worst restart", max(ours.writes), "", "count", 0, max(plain.writes)),
        Metric("starts and resumes", max(ours.starts), "", "count", 0, max(plain.starts)),
        Metric("first list to all verified", middle(ours.after_list), "s", "time", 3.0),
        Metric(
            "process start to all looked at",
            middle(ours.after_start),
            "s",
            "time",
            None,
            middle(plain.after_start),
        ),
    ]


def _of_handovers(hard: Seen, gentle: Seen) -> list[Metric]:
    both = [*hard.writes, *gentle.writes]
    starts = [*hard.starts, *gentle.starts]
    return [
        Metric("take-over: writes", max(both), "", "count", 0),
        Metric("take-over: starts and resumes", max(starts), "", "count", 0),
        Metric("killed leader to standby leads", middle(hard.leads), "s", "time", 6.0),
        Metric("killed leader to a pass over each", middle(hard.after_start), "s", "time"),
        Metric("stopped leader to standby leads", middle(gentle.leads), "s", "time", 1.0),
        Metric("stopped leader to a pass over each", middle(gentle.after_start), "s", "time"),
    ]


def _restarts(
    ground: Ground, sidecars: Sidecars, place: Namespace, operator: OperatorProcess
) -> Seen:
    seen = Seen()
    for _ in range(RUNS):
        mark = _forget(ground, sidecars)
        operator.kill()
        began = time.time()
        operator.start(wait_ready=False)
        done = _verified(operator)
        seen.after_start.append(done - began)
        seen.after_list.append(done - _first_list(operator))
        _account(ground, sidecars, place, mark, seen)
    return seen


def _handovers(
    ground: Ground,
    sidecars: Sidecars,
    place: Namespace,
    leader: OperatorProcess,
    *,
    gently: bool,
) -> tuple[Seen, OperatorProcess]:
    """The leader goes, a standby follows, again and again; the last one leads still."""
    seen = Seen()
    for _ in range(RUNS):
        standby = ground.operator([place], name="standby").start()
        _verified(standby)
        mark = _forget(ground, sidecars)
        began = time.time()
        os.kill(leader.pid, signal.SIGTERM if gently else signal.SIGKILL)
        _until(standby, "kandev_operator_lease_valid", 1)
        seen.leads.append(time.time() - began)
        _until(standby, "kandev_operator_reconciles_total", SESSIONS, kind="TaskSession")
        seen.after_start.append(time.time() - began)
        leader.stop()
        _account(ground, sidecars, place, mark, seen)
        leader = standby
    return seen, leader


def _plain(ground: Ground, sidecars: Sidecars, place: Namespace) -> Seen:
    plain, seen = ground.plain(place).start(), Seen()
    place.tail = plain.tail
    settle_in(ground, place, bodies(sidecars, SESSIONS, SESSIONS))
    wait_all(ground, place, SESSIONS, is_idle)
    when_quiet(ground.cluster.audit, ground.cluster.audit.mark(), [place.name])
    for _ in range(RUNS):
        plain.kill()
        mark = _forget(ground, sidecars)
        began = time.time()
        plain.start()
        while (calls := sidecars.calls()).asked < SESSIONS:
            if time.time() - began > _PATIENCE:
                raise AssertionError(f"{calls.asked} sessions were looked at\n{plain.tail()}")
            time.sleep(0.2)
        seen.after_start.append(calls.latest - began)
        _account(ground, sidecars, place, mark, seen)
    plain.kill()
    return seen


def _forget(ground: Ground, sidecars: Sidecars) -> int:
    sidecars.count_anew()
    return ground.cluster.audit.mark()


def _account(ground: Ground, sidecars: Sidecars, place: Namespace, mark: int, seen: Seen) -> None:
    """Note what was written and called, once it is quiet."""
    span = when_quiet(ground.cluster.audit, mark, [LEASES, place.name])
    seen.writes.append(span.count + len(span.events) + len(span.tasks) + len(span.others))
    calls = sidecars.calls()
    seen.starts.append(calls.of("/start") + calls.of("/stop"))


def _verified(operator: OperatorProcess) -> float:
    """When every session was verified by this process."""
    _until(operator, "kandev_operator_sessions_verified", SESSIONS)
    return time.time()


def _until(operator: OperatorProcess, metric: str, least: float, **labels: str) -> None:
    end = time.monotonic() + _PATIENCE
    value = 0.0
    while time.monotonic() < end:
        try:
            value = operator.metric(metric, **labels)
        except (LookupError, OSError):
            value = 0.0
        if value >= least:
            return
        time.sleep(0.05)
    raise AssertionError(f"{metric} is {value:g}, not {least:g}\n{operator.tail()}")


def _first_list(operator: OperatorProcess) -> float:
    """When the newest start of this operator had its first lists, as its log says."""
    found: Sequence[str] = _LISTED.findall(operator.log.read_text(errors="replace"))
    moment, _, fraction = found[-1].partition(".")
    seconds = calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%S"))
    return seconds + float(f"0.{fraction or 0}")
