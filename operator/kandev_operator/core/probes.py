"""What an agentctl's answer, or its absence, means for the executor it lives in.

Three-valued: well, not known to be well (within the start time or the grace time), and lost. Not
having tried says nothing, and an answer that names its reason (a foreign instance, a refused
token, a skewed clock, another contract) is an error at once: waiting does not mend it. Pure:
limits and `now` are arguments; since when an agentctl fails is read from the executor's own
condition as well, so that a restarted operator neither forgets failures nor forgives them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kandev_operator.api import conditions
from kandev_operator.api.conditions import FALSE, TRUE, UNKNOWN
from kandev_operator.api.executor import Executor
from kandev_operator.api.reasons import AgentctlReadyReason
from kandev_operator.api.timestamps import moment
from kandev_operator.core.observed import AgentctlReport, Answer, Probe


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an executor may take, from its session's lifecycle or the defaults."""

    start: timedelta
    grace: timedelta


@dataclass(frozen=True, slots=True)
class Health:
    """The condition AgentctlReady, and whether what it says is an error."""

    truth: str
    reason: str
    message: str
    is_error: bool = False
    look_again: timedelta | None = None


_NAMED: Final[dict[Answer, tuple[str, str]]] = {
    Answer.FOREIGN: (
        AgentctlReadyReason.FOREIGN_AGENTCTL,
        "Another agentctl answers at this address than the one that was pinned.",
    ),
    Answer.UNAUTHENTICATED: (
        AgentctlReadyReason.AUTHENTICATION_FAILED,
        "agentctl refuses the operator's token: check its JWKS and its audience.",
    ),
    Answer.CLOCK_SKEW: (
        AgentctlReadyReason.CLOCK_SKEW,
        "agentctl's clock and the operator's differ by more than five minutes.",
    ),
    Answer.INCOMPATIBLE: (
        AgentctlReadyReason.CONTRACT_MISMATCH,
        "agentctl speaks a version of the contract that this operator does not.",
    ),
}


def judge(executor: Executor, probe: Probe, limits: Limits, now: datetime) -> Health | None:
    """What the newest look means; None when it says nothing at all."""
    match probe.answer:
        case Answer.NOT_TRIED:
            return None
        case Answer.WELL:
            return _well(executor, probe.report) if probe.report is not None else None
        case Answer.UNREACHABLE | Answer.UNHEALTHY:
            return _silent(executor, probe, limits, now)
        case named:
            reason, message = _NAMED[named]
            said = f"{message} {probe.message}".strip()
            return Health(FALSE, reason, said, is_error=True)


def _well(executor: Executor, report: AgentctlReport) -> Health:
    pinned = executor.status.instance_id
    if pinned is not None and report.instance_id != pinned:
        reason, message = _NAMED[Answer.FOREIGN]
        return Health(FALSE, reason, message, is_error=True)
    return Health(TRUE, AgentctlReadyReason.AGENTCTL_READY, "Shell, files and git can be used.")


def _silent(executor: Executor, probe: Probe, limits: Limits, now: datetime) -> Health:
    if executor.status.boot_id is None:
        return _never_answered(executor, probe, limits, now)
    since = _failing_since(executor, probe, now)
    unhealthy = probe.answer is Answer.UNHEALTHY
    reason = (
        AgentctlReadyReason.AGENTCTL_UNHEALTHY
        if unhealthy
        else AgentctlReadyReason.AGENTCTL_UNREACHABLE
    )
    left = since + limits.grace - now
    said = f"agentctl at {executor.status.agentctl_url} does not answer."
    if unhealthy:
        said = f"agentctl at {executor.status.agentctl_url} answers that it is not well."
    said = f"{said} {probe.message}".strip()
    if left > timedelta(0):
        return Health(UNKNOWN, reason, said, look_again=left)
    return Health(FALSE, reason, said, is_error=True)


def _never_answered(executor: Executor, probe: Probe, limits: Limits, now: datetime) -> Health:
    began = executor.status.started_at
    left = limits.start if began is None else moment(began) + limits.start - now
    if left > timedelta(0):
        said = f"agentctl has not answered yet. {probe.message}".strip()
        return Health(UNKNOWN, AgentctlReadyReason.STARTING, said, look_again=left)
    where = executor.status.agentctl_url or "its address"
    said = (
        f"agentctl was never reachable at {where} within the start time "
        f"({int(limits.start.total_seconds())} s). {probe.message}"
    )
    return Health(FALSE, AgentctlReadyReason.AGENTCTL_UNREACHABLE, said.strip(), is_error=True)


def _failing_since(executor: Executor, probe: Probe, now: datetime) -> datetime:
    """The earlier of what this operator saw and what an earlier one wrote down."""
    times = [probe.failing_since or now]
    known = conditions.get(executor.status.conditions, "AgentctlReady")
    if known is not None and known.status != TRUE and known.last_transition_time:
        times.append(moment(known.last_transition_time))
    return min(times)
