"""Rules of a session whose agentctl answers, up to the agent that lives.

In this order: what fences us out, whose workspace it is, a wish for a fresh start, the modes
without an agent, and the agent that lives, which is only ever attached to. What follows when no
agent lives stands in `resuming`.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from kandev_operator.api.conditions import FALSE, TRUE
from kandev_operator.api.reasons import (
    AgentReadyReason,
    ReadyReason,
    StalledReason,
    WorkspaceReadyReason,
)
from kandev_operator.api.session import IntentKind, OperatingMode, SessionState
from kandev_operator.core import binding, ladder, lifecycle, workspace
from kandev_operator.core.actions import AdoptTerm, SendFirstPrompt
from kandev_operator.core.intents import (
    GUARD,
    answered,
    begin,
    epoch_of_intent,
    journal_epoch,
    must_stop,
    operation_of,
    report_of,
    same_name,
    stopping,
)
from kandev_operator.core.observed import AgentPhase, Found, Missing, SessionObserved
from kandev_operator.core.verdict import AT_ONCE, Verdict, failed, reached, underway

NO_MORE: Final[Mapping[str, object]] = MappingProxyType({})


def fenced_out(o: SessionObserved, _now: datetime) -> Verdict | None:
    """agentctl has seen a higher term or epoch: a restored API server, or a newer leader."""
    if report_of(o).term > o.term:
        return Verdict(
            ready=FALSE,
            reason="",
            message="",
            hold=True,
            actions=(AdoptTerm(report_of(o).term),),
            requeue=AT_ONCE,
        )
    changes: dict[str, object] = {}
    if journal_epoch(o) > (o.session.status.epoch or 0):
        changes["epoch"] = journal_epoch(o)
    if _is_of_the_past(o):
        changes["intent"] = None
    if not changes:
        return None
    return underway(
        AgentReadyReason.WAITING_FOR_EXECUTOR,
        "Taking over the epoch that the workspace remembers.",
        None,
        changes=changes,
        agent_running=o.own_report.is_live if o.own_report else None,
        requeue=AT_ONCE,
    )


def _is_of_the_past(o: SessionObserved) -> bool:
    """The intent is older than what the workspace has done since, so it had its outcome or its
    successor long ago: carried out now, it would do nothing, or something that is over."""
    intent, report = o.session.status.intent, o.own_report
    if intent is None or report is None or operation_of(o) is not None:
        return False
    return epoch_of_intent(intent) < report.epoch


def workspace_taken(o: SessionObserved, _now: datetime) -> Verdict | None:
    """Another session's agent lives on these files, or the journal cannot be used."""
    report = report_of(o)
    foreign = report.session_uid not in (None, o.session.metadata.uid)
    if foreign and (report.is_live or (report.has_process and not same_name(o))):
        return failed(
            WorkspaceReadyReason.WORKSPACE_IN_USE,
            f"The workspace still holds the agent of session {report.session_name}.",
            retry_at=None,
            requeue=GUARD,
        )
    if report.journal_state == "unreadable" and not report.is_live:
        return failed(
            WorkspaceReadyReason.JOURNAL_UNREADABLE,
            "agentctl cannot read its journal; no agent is started on it. "
            + report.journal_message,
            retry_at=None,
            requeue=timedelta(seconds=30),
        )
    return None


def fresh_start_wanted(o: SessionObserved, now: datetime) -> Verdict | None:
    """A fresh-start wish: a new conversation, whatever the old one does."""
    wanted = lifecycle.fresh_start_wished(o.session)
    if not wanted or o.session.spec.operating_mode is not OperatingMode.RUNNING:
        return None
    if binding.leaving(o, now) is not None:
        return None  # the wish waits for a place where it can be done
    return begin(o, IntentKind.FRESH_START, "A fresh start was asked for.", attempt=1)


def without_agent(o: SessionObserved, now: datetime) -> Verdict | None:
    """Suspended and WorkspaceOnly: the agent is ended gently, the workspace stays."""
    wanted = lifecycle.wanted(o.session, o.task, now)
    if wanted.mode is OperatingMode.WORKSPACE_ONLY:
        return _workspace_only(o)
    if wanted.mode is not OperatingMode.SUSPENDED:
        return None
    if must_stop(o):
        return stopping(o, changes={"falls_asleep": wanted.suspended_reason})
    return resting(o, wanted.suspended_reason)


def resting(o: SessionObserved, reason: str, *, changes: Mapping[str, object] = NO_MORE) -> Verdict:
    """Suspended: no agent, the workspace kept. `changes`: further fields of status."""
    calm = {SessionState.RUNNING, SessionState.STARTING, SessionState.ERROR}
    state = SessionState.WAITING_FOR_INPUT if o.session.status.state in calm else None
    if o.session.status.state in (None, SessionState.CREATED):
        state = SessionState.CREATED
    lost = workspace.lost(o)
    kept = "its workspace and its conversation are kept."
    return reached(
        ReadyReason.SUSPENDED,
        f"The session rests. {lost}" if lost else f"The session rests; {kept}",
        state,
        agent=(FALSE, AgentReadyReason.NO_AGENT_WANTED, "The session is suspended."),
        changes={"suspended": reason, **answered(o), **_let_go_of_the_place(o), **changes},
    )


def _let_go_of_the_place(o: SessionObserved) -> dict[str, object]:
    """A pod or container goes while its session rests; the workspace stays."""
    executor = binding.executor_of(o)
    goes = executor is not None and executor.spec.is_made_at_bind
    return {"executor_ref": None} if goes else {}


def _workspace_only(o: SessionObserved) -> Verdict:
    profile = o.profile.value.profile if isinstance(o.profile, Found) else None
    able = report_of(o).capabilities.supports_workspace_only
    if able is False or (profile is not None and not profile.spec.supports_workspace_only):
        return failed(
            StalledReason.MODE_NOT_SUPPORTED,
            "This agent or its profile does not support operatingMode WorkspaceOnly.",
            retry_at=None,
        )
    if must_stop(o):
        return stopping(o)
    calm = o.session.status.state in (SessionState.RUNNING, SessionState.ERROR, "STARTING")
    return reached(
        ReadyReason.WORKSPACE_SERVED,
        "Shell, files and git can be used; no agent runs.",
        SessionState.WAITING_FOR_INPUT if calm else None,
        agent=(FALSE, AgentReadyReason.NO_AGENT_WANTED, "The session is workspace-only."),
        changes=answered(o),
    )


def attached(o: SessionObserved, now: datetime) -> Verdict | None:
    """A live agent is only ever attached to, whatever else is true of it."""
    report = o.own_report
    if report is None or not report.is_live:
        return None
    if ladder.is_retiring(o) and operation_of(o) is None:
        return None  # a fresh start is to be done: this is still the old conversation
    more: dict[str, object] = {"agent_running": True, "changes": answered(o)}
    if (prompt := _first_prompt(o)) is not None:
        more["actions"] = (prompt,)
        more["requeue"] = GUARD
    elif _prompt_is_owed(o):
        more["requeue"] = timedelta(seconds=30)  # its text cannot be read just now
    left = lifecycle.wanted(o.session, o.task, now).look_again
    if left is not None:
        more.setdefault("requeue", left)
    if report.phase is AgentPhase.RUNNING:
        waits = report.turn is not None and report.turn.awaiting_permission
        reason = AgentReadyReason.AWAITING_PERMISSION if waits else AgentReadyReason.TURN_RUNNING
        said = "The agent waits for a permission." if waits else "The agent works on a prompt."
        return reached(
            reason,
            said,
            SessionState.RUNNING,
            agent=(FALSE, reason, said),
            **more,
        )
    said = "The agent is idle and waits for a prompt."
    if _prompt_is_owed(o) and isinstance(o.first_prompt, Missing):
        return Verdict(
            ready=FALSE,
            reason=StalledReason.PROMPT_MISSING,
            message=f"{_prompt_source(o)}, which spec.prompt.from names, does not exist; the agent "
            "waits, and the prompt is sent when it appears.",
            state=SessionState.WAITING_FOR_INPUT,
            agent=(TRUE, AgentReadyReason.AGENT_READY, said),
            stalled=True,
            agent_running=True,
            changes=answered(o),
            requeue=binding.UNWATCHED,
        )
    return reached(
        ReadyReason.AGENT_READY,
        said,
        SessionState.WAITING_FOR_INPUT,
        agent=(TRUE, AgentReadyReason.AGENT_READY, said),
        **more,
    )


def _first_prompt(o: SessionObserved) -> SendFirstPrompt | None:
    """The first prompt, where it is owed and could be read."""
    prompt = o.session.spec.prompt
    if prompt is None or not _prompt_is_owed(o) or not isinstance(o.first_prompt, Found):
        return None
    return SendFirstPrompt(prompt.id, o.first_prompt.value)


def _prompt_source(o: SessionObserved) -> str:
    """Where the first prompt is kept, in words."""
    prompt = o.session.spec.prompt
    source = prompt.from_ if prompt is not None else None
    kept = {
        "ConfigMap": source.config_map_key_ref if source else None,
        "Secret": source.secret_key_ref if source else None,
    }
    named = [f"Key {ref.key} of {kind} {ref.name}" for kind, ref in kept.items() if ref]
    return named[0] if named else "The ConfigMap or Secret key"


def _prompt_is_owed(o: SessionObserved) -> bool:
    """Neither status nor the journal knows of its having been accepted."""
    prompt, known = o.session.spec.prompt, o.session.status.first_prompt
    if prompt is None or report_of(o).fate(prompt.id) is not None:
        return False
    return known is None or known.id != prompt.id or known.fate is None
