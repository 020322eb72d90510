"""Intents, and what every rule with a reachable agentctl shares.

An intent is what must not happen twice. `begin` makes one: the write that stores it is the
STARTING state anyway, and the deed comes in a later pass. Its operation id is made of the
session's UID and the epoch, so whoever repeats it repeats the same operation.
"""

from datetime import timedelta
from typing import Any

from kandev_operator.api import group
from kandev_operator.api.reasons import AgentReadyReason, ReconcilingReason
from kandev_operator.api.session import Intent, IntentKind, SessionState
from kandev_operator.core.actions import ConfigureAgent, StopAgent
from kandev_operator.core.observed import (
    AgentctlReport,
    AgentPhase,
    Found,
    OperationSeen,
    SessionObserved,
)
from kandev_operator.core.verdict import AT_ONCE, NewIntent, Verdict, underway

GUARD = timedelta(seconds=5)
"""A pass that waits for agentctl looks again after this long, should an event get lost."""

SETTLED = timedelta(seconds=60)
"""An agent that lived this long, or finished a turn, has started well: attempts count anew."""


def epoch_of(o: SessionObserved) -> int:
    """The session's epoch: the highest of status and agentctl's journal."""
    return max(o.session.status.epoch or 0, journal_epoch(o))


def secret_name(o: SessionObserved) -> str:
    """The Secret that keeps the session's token."""
    return token_secret_name(o.session.metadata.name, o.session.metadata.uid)


def token_secret_name(name: str, uid: str) -> str:
    """The name of a session's token Secret: a function of its name and UID."""
    return group.made_name(name, uid, "token")


def report_of(o: SessionObserved) -> AgentctlReport:
    """The report, in rules that come after the executor was found ready."""
    assert o.report is not None, "these rules come after the executor was found ready"
    return o.report


def epoch_of_intent(intent: Intent) -> int:
    """The epoch that an intent was decided in: its operation id ends with it."""
    number = intent.operation_id.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def operation_of(o: SessionObserved) -> OperationSeen | None:
    """The operation of the intent in status, as far as this session's journal lists it."""
    intent, report = o.session.status.intent, o.own_report
    return report.operation(intent.operation_id) if intent and report else None


def same_name(o: SessionObserved) -> bool:
    """The workspace's marker names this very namespace and name."""
    report, meta = report_of(o), o.session.metadata
    return (report.session_namespace, report.session_name) == (meta.namespace, meta.name)


def journal_epoch(o: SessionObserved) -> int:
    """The highest epoch that the workspace remembers for this session; 0 when none."""
    report = o.report
    if report is None or report.session_uid is None:
        return 0
    ours = report.session_uid == o.session.metadata.uid or same_name(o)
    return report.epoch if ours else 0


def must_stop(o: SessionObserved) -> bool:
    """An agent of this session has, or may soon have, its conversation open."""
    report = o.own_report
    return report is not None and (
        report.is_live or report.phase in (AgentPhase.OPENING, AgentPhase.STOPPING)
    )


def stopping(o: SessionObserved, *, for_good: bool = False, **more: Any) -> Verdict:
    """Have the agent ended gently; a turn that runs is cut off after it had time to settle."""
    stop = _stop(o, for_good=for_good)
    return underway(
        AgentReadyReason.STOPPING,
        "The agent is being stopped gently.",
        None,
        actions=(stop,),
        requeue=GUARD,
        agent_running=True,
        progressing=ReconcilingReason.PROGRESSING,
        **more,
    )


def dropping_queue(o: SessionObserved) -> tuple[StopAgent, ...]:
    """For a session that has come to its end: have the prompts that still wait told as dropped."""
    report = o.own_report
    if report is None or all(fate != "queued" for _, fate in report.prompts):
        return ()
    stop = _stop(o, for_good=True)
    return () if report.operation(stop.operation_id) else (stop,)


def _stop(o: SessionObserved, *, for_good: bool) -> StopAgent:
    uid, epoch = o.session.metadata.uid, epoch_of(o)
    why = "finish" if for_good else "stop"
    return StopAgent(stop_id(uid, epoch, why, o.own_report), epoch, uid, for_good)


def stop_id(uid: str, epoch: int, why: str, report: AgentctlReport | None) -> str:
    """The identity of one stop. It names the execution: within one epoch a fresh start stops the
    old agent, and the agent that it then starts must be stoppable too."""
    execution = (report.execution_id if report else None) or "none"
    return f"{uid}-{epoch}-{why}-{execution}"[:128]


def configuring(o: SessionObserved) -> tuple[ConfigureAgent, ...]:
    """PUT the agent where agentctl serves another session or would run something else."""
    report = report_of(o)
    if not isinstance(o.profile, Found):
        return ()
    ours = report.session_uid == o.session.metadata.uid
    if ours and report.profile_hash == o.profile.value.hash:
        return ()
    adopt = report.session_uid if not ours and same_name(o) else None
    return (ConfigureAgent(epoch_of(o), adopt),)


def begin(o: SessionObserved, kind: IntentKind, why: str, attempt: int) -> Verdict:
    """Write a new intent: that write is the STARTING state, and comes before the deed."""
    resuming = kind is IntentKind.RESUME
    reason = AgentReadyReason.RESUMING if resuming else AgentReadyReason.STARTING
    changes = answered(o)
    if kind is IntentKind.FRESH_START:
        changes |= {**handled(o), "resume_token_ref": None}
    return underway(
        reason,
        f"The conversation is being {'resumed' if resuming else 'started'}. {why}".strip(),
        SessionState.STARTING,
        intent=NewIntent(kind, attempt),
        changes=changes,
        requeue=AT_ONCE,
        quiet=False,
    )


def answered(o: SessionObserved) -> dict[str, Any]:
    """The resume wish, where this pass answers it: by starting something, or because nothing is
    to do. A wish whose annotation was taken away stays remembered: the same value is not new."""
    meta, known = o.session.metadata.annotations, o.session.status.last_handled_resume_request
    return {"last_handled_resume_request": meta.get(group.ANNOTATION_RESUME_REQUESTED, known)}


def handled(o: SessionObserved) -> dict[str, Any]:
    """Both wishes. Only a fresh start answers a wish for one: whatever else happens, it waits."""
    meta, known = o.session.metadata.annotations, o.session.status.last_handled_fresh_start_request
    wish = meta.get(group.ANNOTATION_FRESH_START_REQUESTED, known)
    return {**answered(o), "last_handled_fresh_start_request": wish}


def attempts(o: SessionObserved) -> int:
    """How many times in a row the present goal was tried."""
    return o.session.status.attempt or 0
