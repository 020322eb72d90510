"""The conditions of a session: every one of them, on every pass, from verdict and observation.

A rule names one reason; here it becomes an answer to each question. Which reasons a condition may
give is a promise (`api.reasons`): a verdict's reason that is none of a condition's own is told in
`Ready`, and that condition gives a general one with the same sentence.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kandev_operator.api import conditions
from kandev_operator.api.conditions import FALSE, TRUE, UNKNOWN, Conditions
from kandev_operator.api.reasons import (
    AgentReadyReason,
    ExecutorReadyReason,
    FinishedReason,
    SuspendedReason,
    WorkspaceReadyReason,
    is_documented,
)
from kandev_operator.api.session import SessionState
from kandev_operator.core import binding, ladder, stored, workspace
from kandev_operator.core.ladder import Resumability
from kandev_operator.core.observed import AgentPhase, SessionObserved
from kandev_operator.core.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Told:
    """What the rest of status says already."""

    verdict: Verdict
    resumability: Resumability
    running: bool | None
    state: str


def render(o: SessionObserved, told: Told, now: datetime) -> Conditions:
    """All conditions as they now hold."""
    verdict, answer = told.verdict, told.resumability
    resumable = {True: TRUE, False: FALSE, None: UNKNOWN}[answer.answer]
    rows = [
        ("Ready", verdict.ready, verdict.reason, verdict.message),
        ("AgentReady", *(verdict.agent or _agent_ready(o, told))),
        ("Resumable", resumable, answer.reason, answer.message),
        ("ExecutorReady", *_executor_ready(o, verdict)),
        ("WorkspaceReady", *_workspace_ready(o, verdict)),
        ("Suspended", *_suspended(verdict)),
        ("Finished", *_finished(told)),
    ]
    generation = o.session.metadata.generation
    result = o.session.status.conditions
    for type_, truth, reason, message in rows:
        result = stored.put(result, (type_, truth, reason, message), generation, now)
    for type_, only_while in (
        ("Stalled", verdict.reason if verdict.stalled else None),
        ("Reconciling", verdict.progressing),
    ):
        if only_while is None:
            result = conditions.without(result, type_)
        else:
            row = (type_, TRUE, only_while, verdict.message)
            result = stored.put(result, row, generation, now)
    return result


def _agent_ready(o: SessionObserved, told: Told) -> tuple[str, str, str]:
    """No idle agent, for the verdict's reason where that is one of an agent's."""
    verdict = told.verdict
    if "finished" in verdict.changes:
        return FALSE, AgentReadyReason.NO_AGENT_WANTED, verdict.message
    if told.running is None:
        return UNKNOWN, AgentReadyReason.AGENT_UNKNOWN, verdict.message
    if is_documented("AgentReady", verdict.reason):
        return FALSE, verdict.reason, verdict.message
    live = o.own_report if told.running else None
    if live is not None and live.phase is AgentPhase.IDLE:
        return TRUE, AgentReadyReason.AGENT_READY, "The agent is idle and waits for a prompt."
    if live is not None:
        return FALSE, AgentReadyReason.TURN_RUNNING, "The agent works on a prompt."
    if not _was_started(o):
        return FALSE, AgentReadyReason.NOT_STARTED, verdict.message
    return FALSE, AgentReadyReason.AGENT_NOT_RUNNING, verdict.message


def _was_started(o: SessionObserved) -> bool:
    """Whether an agent of this session ever ran, or was tried to be run."""
    tried = o.own_report is not None and bool(o.own_report.operations)
    return tried or ladder.has_conversation(o) or (o.session.status.attempt or 0) > 1


def _executor_ready(o: SessionObserved, verdict: Verdict) -> tuple[str, str, str]:
    if "finished" in verdict.changes:
        return FALSE, ExecutorReadyReason.NOT_NEEDED, "The session has finished."
    executor = binding.executor_of(o)
    if executor is None:
        if "suspended" in verdict.changes:
            return FALSE, ExecutorReadyReason.NOT_NEEDED, "The session is suspended."
        return _not_bound(verdict, "No executor is bound yet.")
    if not binding.is_bound(o):
        return _not_bound(verdict, "The executor does not point back yet.")
    told = binding.what_it_says(executor)
    if told is None:
        return UNKNOWN, ExecutorReadyReason.EXECUTOR_STARTING, "The executor is on its way."
    if told.is_true:
        return TRUE, ExecutorReadyReason.EXECUTOR_READY, "The executor is bound and answers."
    return told.status, told.reason, told.message


def _not_bound(verdict: Verdict, message: str) -> tuple[str, str, str]:
    """Not bound, for the verdict's reason where that is about the executor."""
    if is_documented("ExecutorReady", verdict.reason):
        return FALSE, verdict.reason, verdict.message
    return FALSE, ExecutorReadyReason.NOT_BOUND, message


_JOURNAL_FAULTS: Final = {
    "unreadable": WorkspaceReadyReason.JOURNAL_UNREADABLE,
    "full": WorkspaceReadyReason.JOURNAL_FULL,
}


def _workspace_ready(o: SessionObserved, verdict: Verdict) -> tuple[str, str, str]:
    known = {str(word) for word in WorkspaceReadyReason}
    if verdict.ready != TRUE and verdict.reason in known:
        return FALSE, verdict.reason, verdict.message
    journal = o.own_report.journal_state if o.own_report else None
    if o.own_report is not None and journal in _JOURNAL_FAULTS:
        return FALSE, _JOURNAL_FAULTS[journal], o.own_report.journal_message
    if o.own_report is not None:
        return TRUE, WorkspaceReadyReason.WORKSPACE_READY, "The files are there and its own."
    if o.report is not None:
        return UNKNOWN, WorkspaceReadyReason.CHECKING, "The workspace is not handed over yet."
    if lost := workspace.lost(o):
        return FALSE, WorkspaceReadyReason.WORKSPACE_MISSING, lost
    return UNKNOWN, WorkspaceReadyReason.WORKSPACE_UNKNOWN, "Nobody can be asked about the files."


def _suspended(verdict: Verdict) -> tuple[str, str, str]:
    if "suspended" in verdict.changes:
        return TRUE, str(verdict.changes["suspended"]), verdict.message
    if "falls_asleep" in verdict.changes:
        # Not yet, and why it will be: a limit of time is remembered nowhere else.
        why = verdict.changes["falls_asleep"]
        asked = why == SuspendedReason.REQUESTED
        return FALSE, SuspendedReason.STOPPING if asked else str(why), verdict.message
    return FALSE, SuspendedReason.NOT_SUSPENDED, ""


def _finished(told: Told) -> tuple[str, str, str]:
    if "finished" not in told.verdict.changes:
        return FALSE, FinishedReason.NOT_FINISHED, ""
    cut_off = told.state == SessionState.CANCELLED
    reason = FinishedReason.CANCELLED if cut_off else FinishedReason.COMPLETED
    return TRUE, reason, told.verdict.message
