"""How a verdict becomes the whole of a session's status, its Events, and its next look.

Every field and every condition is computed here on every pass, from the verdict and from what was
observed; a rule cannot forget one. What is not known is absent. A status that differs only in
what may ride on a later write (`RIDING`) is not written, and healthy progress of a start waits
for the next real news, or until nothing has moved for ten seconds.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api import conditions, group
from kandev_operator.api.agent import Capabilities
from kandev_operator.api.conditions import TRUE
from kandev_operator.api.reasons import (
    AgentReadyReason,
    ExecutorReadyReason,
    ReadyReason,
    ReconcilingReason,
    ResumableReason,
    resume_word,
)
from kandev_operator.api.session import (
    FirstPromptStatus,
    Intent,
    InterruptedTurn,
    OperatingMode,
    PinnedProfile,
    ResumeTokenRef,
    SessionState,
    TaskSessionStatus,
    Turn,
    WorkspaceRef,
)
from kandev_operator.api.timestamps import moment, rfc3339
from kandev_operator.core import binding, intents, ladder, lifecycle, sessionconditions, stored
from kandev_operator.core.actions import StoreToken
from kandev_operator.core.ladder import Resumability
from kandev_operator.core.observed import Found, SessionObserved
from kandev_operator.core.verdict import AT_ONCE, Notice, Plan, Verdict

STANDSTILL: Final = timedelta(seconds=10)
SHA_PREFIX: Final = 12

RIDING: Final = frozenset({"last_seen_at", "node_name"})
"""Fields whose change alone is no reason for a write."""

_ON_ITS_WAY: Final = (
    AgentReadyReason.RESUMING,
    AgentReadyReason.STARTING,
    AgentReadyReason.WAITING_FOR_EXECUTOR,
    ExecutorReadyReason.EXECUTOR_STARTING,
)
"""Reasons of a start in which nothing is wrong."""

_MARKS: Final = ("suspended", "falls_asleep", "finished")
"""Keys of a verdict's changes that are no fields of status."""


def plan(o: SessionObserved, verdict: Verdict, now: datetime) -> Plan[TaskSessionStatus]:
    """Render a verdict. Actions are done before the status is written."""
    if verdict.hold:
        return Plan(actions=verdict.actions, requeue=verdict.requeue)
    actions = (*_token_actions(o, verdict), *verdict.actions)
    new = render(o, verdict, now)
    old = o.session.status
    if not differs(old, new):
        return Plan(actions=actions, requeue=verdict.requeue)
    wait = _may_wait(o, new, verdict, now)
    if wait is not None:
        soonest = wait if verdict.requeue is None else min(wait, verdict.requeue)
        return Plan(actions=actions, requeue=soonest)
    return Plan(
        actions=actions,
        status=new,
        requeue=verdict.requeue,
        notices=_notices(old, new, verdict),
    )


def differs(old: TaskSessionStatus, new: TaskSessionStatus) -> bool:
    """Whether the new status is worth a write."""
    return _solid(old) != _solid(new)


def _solid(status: TaskSessionStatus) -> TaskSessionStatus:
    """The status without what rides on other writes."""
    bare: dict[str, Any] = dict.fromkeys(RIDING)
    if status.capabilities is not None:
        bare["capabilities"] = status.capabilities.replacing(probed_at=None)
    prompt = status.first_prompt
    if prompt is not None and prompt.fate == "delivered":
        bare["first_prompt"] = prompt.replacing(fate="accepted")
    return status.replacing(**bare)


def _may_wait(
    o: SessionObserved, new: TaskSessionStatus, verdict: Verdict, now: datetime
) -> timedelta | None:
    """How long this write may still wait for more news; None: it must be done now.

    Each step of the start begins the wait anew: only what then stands still is told by itself.
    """
    old = o.session.status
    healthy = verdict.quiet and verdict.intent is None and not verdict.changes
    healthy = healthy and verdict.reason in _ON_ITS_WAY
    if old.observed_generation != new.observed_generation:
        return None  # whoever changed the spec waits for this number
    same = old.state == new.state == SessionState.STARTING and old.executor_ref is not None
    if not (healthy and same and not verdict.stalled) or old.started_at is None:
        return None
    left = min(_last_progress(o, old.started_at) + STANDSTILL - now, STANDSTILL)
    return left if left > AT_ONCE else None


def _last_progress(o: SessionObserved, started_at: str) -> datetime:
    """When the start came a step further: as this session's status tells, or its executor's."""
    executor = binding.executor_of(o)
    steps = [moment(started_at), *stored.transitions(o.session.status.conditions)]
    if executor is not None:
        steps += stored.transitions(executor.status.conditions)
        steps += [moment(executor.status.started_at)] if executor.status.started_at else []
    return max(steps)


def _token_actions(o: SessionObserved, verdict: Verdict) -> tuple[StoreToken, ...]:
    """Keep a token that the Secret does not have yet; neither an older one than it has, nor any
    while a fresh start is under way."""
    token = o.own_report.token if o.own_report else None
    if token is None or "resume_token_ref" in verdict.changes:
        return ()
    if token is not ladder.known_token(o):
        return ()
    ref = o.session.status.resume_token_ref
    if ref is not None and ref.sha256_prefix == token.sha256[:SHA_PREFIX]:
        return ()
    return (StoreToken(intents.secret_name(o), token, token.epoch or intents.epoch_of(o)),)


def render(o: SessionObserved, verdict: Verdict, now: datetime) -> TaskSessionStatus:
    """The whole status that this verdict means."""
    old = o.session.status
    running = _running(o, verdict)
    answer = _resumability(o, verdict)
    state = _state(old, verdict)
    fields: dict[str, Any] = {
        "observed_generation": o.session.metadata.generation,
        "state": state,
        "epoch": intents.epoch_of(o) or None,
        "is_agent_running": running,
        "is_resumable": answer.answer,
        "needs_resume": _needs_resume(o, running, now),
        "resume_reason": _resume_reason(verdict, running),
        "error_message": _error_message(verdict, state),
        "next_attempt_at": rfc3339(verdict.retry_at) if verdict.retry_at else None,
        "last_seen_at": rfc3339(o.probe.last_seen) if o.probe.last_seen else old.last_seen_at,
        "first_prompt": _first_prompt(o),
        "last_handled_confirmed_dead": lifecycle.wish(o.session, group.ANNOTATION_CONFIRMED_DEAD)
        or old.last_handled_confirmed_dead,
        **_of_the_executor(o),
        **_of_the_agent(o, running),
        **_first_wishes(o),
    }
    if verdict.intent is not None:
        fields |= _of_an_intent(o, verdict, now)
    fields |= {key: value for key, value in verdict.changes.items() if key not in _MARKS}
    if state in (SessionState.COMPLETED, SessionState.CANCELLED):
        fields |= {"executor_status": None, "turn": None, "agent_execution_id": None}
    new = old.replacing(**fields)
    told = sessionconditions.Told(verdict, answer, running, state)
    return new.replacing(conditions=sessionconditions.render(o, told, now))


def _running(o: SessionObserved, verdict: Verdict) -> bool | None:
    """A rule may speak of other things; what agentctl says of a live agent is true all the same."""
    live = o.own_report is not None and o.own_report.is_live
    return True if live else verdict.agent_running


def _state(old: TaskSessionStatus, verdict: Verdict) -> str:
    if verdict.state is not None:
        return str(verdict.state)
    return old.state or str(SessionState.CREATED)


def _resumability(o: SessionObserved, verdict: Verdict) -> Resumability:
    if "finished" in verdict.changes:
        over = ResumableReason.FINISHED
        return Resumability(False, over, over.doc)
    return ladder.resumability(o, not_found=_not_found(o, verdict))


def _not_found(o: SessionObserved, verdict: Verdict) -> bool:
    """The definite not-found stays true until an agent lives or something new is tried."""
    if verdict.not_found:
        return True
    trying = verdict.intent is not None
    return not _running(o, verdict) and not trying and ladder.was_not_found(o.session)


def _needs_resume(o: SessionObserved, running: bool | None, now: datetime) -> bool:
    """False while unknown, suspended, finished, workspace-only, or with nothing to resume."""
    wanted = lifecycle.wanted(o.session, o.task, now).mode is OperatingMode.RUNNING
    return wanted and running is False and ladder.has_conversation(o)


def _resume_reason(verdict: Verdict, running: bool | None) -> str | None:
    if running or verdict.ready == TRUE:
        return None
    waits = verdict.progressing == ReconcilingReason.WAITING_FOR_EXECUTOR
    if verdict.reason in _ON_ITS_WAY:
        named = ReadyReason.EXECUTOR_NOT_READY if waits else AgentReadyReason.AGENT_NOT_RUNNING
        return resume_word(named)
    return resume_word(verdict.reason)


def _error_message(verdict: Verdict, state: str) -> str | None:
    if state != SessionState.ERROR or verdict.ready == TRUE:
        return None
    return f"{resume_word(verdict.reason)}: {verdict.message}"


def _of_the_executor(o: SessionObserved) -> dict[str, Any]:
    executor = binding.executor_of(o)
    if executor is None:
        return {"executor_status": None, "node_name": None, "workspace_ref": _workspace_ref(o)}
    kept = {"node_name": executor.status.node_name, "workspace_ref": _workspace_ref(o)}
    if not binding.is_bound(o):
        return {**kept, "executor_status": None}
    ref = WorkspaceRef(kind="Executor", name=executor.metadata.name, uid=executor.metadata.uid)
    return {
        **kept,
        "executor_status": executor.status.state,
        "worktree": executor.status.worktree or o.session.status.worktree,
        "workspace_ref": ref if executor.spec.pod is None else _workspace_ref(o),
    }


def _workspace_ref(o: SessionObserved) -> WorkspaceRef | None:
    """The claim, once it is there; what was known of it stays."""
    if not isinstance(o.claim, Found):
        return o.session.status.workspace_ref
    seen = o.claim.value
    return WorkspaceRef(kind="PersistentVolumeClaim", name=seen.name, uid=seen.uid)


def _of_the_agent(o: SessionObserved, running: bool | None) -> dict[str, Any]:
    report, old = o.own_report, o.session.status
    if report is None:
        if running is None:
            return {}
        return {"agent_execution_id": None, "turn": None}
    turn, last = report.turn, report.last_turn
    caps = stored.capabilities(report.capabilities)
    fields: dict[str, Any] = {
        "agent_execution_id": report.execution_id if running else None,
        "turn": Turn(
            prompt_id=turn.prompt_id,
            started_at=stored.stamp(turn.at),
            awaiting_permission=turn.awaiting_permission,
        )
        if running and turn
        else None,
        "interrupted_turn": InterruptedTurn(prompt_id=last.prompt_id, at=stored.stamp(last.at))
        if last and last.outcome == "interrupted"
        else None,
        "capabilities": Capabilities(**caps) if caps else old.capabilities,
    }
    token = ladder.known_token(o)
    if token is not None:
        fields["resume_token_ref"] = ResumeTokenRef(
            secret_name=intents.secret_name(o),
            established=token.established,
            sha256_prefix=token.sha256[:SHA_PREFIX],
        )
    return fields


_FATES: Final = {"queued": "accepted", "sending": "accepted"}


def _first_prompt(o: SessionObserved) -> FirstPromptStatus | None:
    """What is known of the first prompt's fate; agentctl's journal knows best."""
    prompt, old = o.session.spec.prompt, o.session.status.first_prompt
    if prompt is None:
        return old
    fate = o.own_report.fate(prompt.id) if o.own_report else None
    if fate is None:
        return old
    return FirstPromptStatus(id=prompt.id, fate=_FATES.get(fate, fate))


def _first_wishes(o: SessionObserved) -> dict[str, Any]:
    """Wishes that came with an object without status are recorded, not done."""
    if o.session.status.conditions:
        return {}
    return intents.handled(o)


def _of_an_intent(o: SessionObserved, verdict: Verdict, now: datetime) -> dict[str, Any]:
    assert verdict.intent is not None
    epoch = intents.epoch_of(o) + 1
    seen = o.profile.value if isinstance(o.profile, Found) else None
    return {
        "epoch": epoch,
        "intent": Intent(
            operation_id=f"{o.session.metadata.uid}-{epoch}",
            kind=str(verdict.intent.kind),
            at=rfc3339(now),
        ),
        "attempt": verdict.intent.attempt,
        "started_at": rfc3339(now),
        "profile": PinnedProfile(
            uid=seen.profile.metadata.uid,
            generation=seen.profile.metadata.generation,
            hash=seen.hash,
        )
        if seen
        else o.session.status.profile,
    }


def _notices(
    old: TaskSessionStatus, new: TaskSessionStatus, verdict: Verdict
) -> tuple[Notice, ...]:
    """Events for edges that a person would want in the history; healthy turns are none."""
    before = conditions.get(old.conditions, "Ready")
    edge = before is None or before.reason != verdict.reason
    if new.state == SessionState.ERROR:
        if not edge:
            return ()
        return (Notice(verdict.reason, new.error_message or verdict.message, warning=True),)
    if verdict.ready == TRUE and old.state == SessionState.STARTING:
        return (Notice(verdict.reason, verdict.message),)
    if verdict.ready == TRUE and edge and "finished" in verdict.changes:
        return (Notice(verdict.reason, verdict.message),)
    return ()
