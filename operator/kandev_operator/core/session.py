"""What is to be done for a TaskSession: the ordered list of its rules, and nothing beside it.

`SESSION_RULES` is the table of contents: each rule answers or passes, the first answer wins, and
the order is part of the meaning. A live agent stands before missing references (it is never
touched for them), an executor's readiness stands before the agent's (a lost resume never loses
the workspace), an intent under way stands before the questions of resuming (nothing is begun
twice). The last rule always answers.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from kandev_operator.api.executor import ExecutorState, Runtime
from kandev_operator.api.reasons import ReadyReason
from kandev_operator.api.session import OperatingMode, SessionState
from kandev_operator.api.sessionstatus import TaskSessionStatus
from kandev_operator.core import (
    agentrules,
    binding,
    ladder,
    lifecycle,
    resuming,
    status,
    workspace,
)
from kandev_operator.core.actions import DeleteSession
from kandev_operator.core.binding import executor_of, is_bound
from kandev_operator.core.intents import GUARD, dropping_queue, must_stop, stopping
from kandev_operator.core.observed import Found, Missing, SessionObserved
from kandev_operator.core.verdict import Plan, Rule, Verdict, reached


def deleted(o: SessionObserved, _now: datetime) -> Verdict | None:
    """A session that is being deleted is left alone; its executor's pass stops the agent."""
    if not o.session.metadata.is_deleting:
        return None
    return Verdict(ready="Unknown", reason="", message="", hold=True)


def finished(o: SessionObserved, now: datetime) -> Verdict | None:
    """Asked for by spec or by the task's closing; it cannot be left again."""
    wanted = lifecycle.wanted(o.session, o.task, now)
    if wanted.mode is not OperatingMode.FINISHED:
        return None
    executor = executor_of(o)
    if executor is not None and is_bound(o):
        if must_stop(o):
            return stopping(o, for_good=True)
        silent = o.report is None and executor.status.boot_id is not None
        if silent and executor.status.state in (ExecutorState.READY, ExecutorState.STARTING):
            # Its agent may be in a turn, and may answer again within the grace time.
            return Verdict(ready="Unknown", reason="", message="", hold=True, requeue=GUARD)
    due = lifecycle.deletion_due(o.session)
    over = due is not None and due <= now
    said = "The session has come to its end; its workspace is kept as its policy says."
    ttl = o.session.spec.lifecycle.ttl_seconds_after_finished
    if ttl is not None and lifecycle.is_owned_by_git(o.session):
        said += " ttlSecondsAfterFinished is ignored: Git would make the session again."
    return reached(
        ReadyReason.FINISHED,
        said,
        _end_state(o, cancelled=wanted.cancelled),
        changes={"executor_ref": None, "intent": None, "finished": True},
        actions=(*dropping_queue(o), *((DeleteSession(),) if over else ())),
        requeue=due - now if due is not None and not over else None,
    )


def _end_state(o: SessionObserved, *, cancelled: bool) -> SessionState:
    known = o.session.status.state
    if known in (SessionState.COMPLETED, SessionState.CANCELLED):
        return SessionState.COMPLETED if known == SessionState.COMPLETED else SessionState.CANCELLED
    if cancelled:
        return SessionState.CANCELLED
    turn = o.own_report.last_turn if o.own_report else None
    settled = turn is not None and turn.outcome == "completed"
    cut_off = known == SessionState.RUNNING and not settled
    return SessionState.CANCELLED if cut_off else SessionState.COMPLETED


def asleep(o: SessionObserved, now: datetime) -> Verdict | None:
    """A suspended session needs no executor, and is not given one."""
    wanted = lifecycle.wanted(o.session, o.task, now)
    if wanted.mode is not OperatingMode.SUSPENDED:
        return None
    if o.session.status.executor_ref is None or isinstance(o.executor, Missing):
        return agentrules.resting(o, wanted.suspended_reason)
    if _place_is_empty(o) or _nothing_was_started(o):
        return agentrules.resting(o, wanted.suspended_reason)
    if _waits_outside(o):  # and does not take the place when it becomes free
        return agentrules.resting(o, wanted.suspended_reason, changes={"executor_ref": None})
    return None  # it has one, and its agent may live; one that cannot be read is not gone


def _place_is_empty(o: SessionObserved) -> bool:
    """No agent can be asked to end in this pod or container: it never came up, is gone, or is
    given up."""
    executor = executor_of(o)
    if executor is None or not executor.spec.is_made_at_bind or o.report is not None:
        return False
    given_up = executor.status.state in (ExecutorState.ERROR, ExecutorState.STOPPED)
    return given_up or executor.status.boot_id is None


def _nothing_was_started(o: SessionObserved) -> bool:
    """No agentctl was ever made for this executor, nor any conversation: its folder is another's,
    or it may not run here."""
    executor = executor_of(o)
    if executor is None or executor.spec.runtime is not Runtime.LOCAL_STANDALONE:
        return False
    never = executor.status.instance_id is None and not ladder.has_conversation(o)
    return never and executor.status.state == ExecutorState.ERROR and o.report is None


def _waits_outside(o: SessionObserved) -> bool:
    """Another session is in the executor, and this one is known to have no agent there."""
    executor = executor_of(o)
    if executor is None or is_bound(o) or executor.status.session_ref is None:
        return False
    return binding.last_known(o) is False and not must_stop(o)


def live_agent(o: SessionObserved, now: datetime) -> Verdict | None:
    """Missing references never touch an agent that lives."""
    if not is_bound(o) or o.own_report is None or not o.own_report.is_live:
        return None
    if isinstance(o.task, Found) and isinstance(o.profile, Found):
        return None
    return agentrules.without_agent(o, now) or agentrules.attached(o, now)


SESSION_RULES: Final[tuple[Rule[SessionObserved], ...]] = (
    deleted,
    finished,
    asleep,
    live_agent,  # a live agent is not touched because a reference is missing
    binding.references,  # task, profile and its Secrets are there
    workspace.claim,  # the claim with the files, for pods
    binding.choose_executor,  # named by spec, or made from the template
    binding.waiting_for_binding,  # both sides point at each other
    binding.executor_not_ready,  # starting, unknown or failed: handed on
    agentrules.fenced_out,  # agentctl knows a higher term or epoch
    agentrules.workspace_taken,  # the files are another session's
    agentrules.fresh_start_wanted,
    agentrules.without_agent,  # Suspended, WorkspaceOnly
    agentrules.attached,  # the agent lives: RUNNING or WAITING_FOR_INPUT
    binding.leaving,  # nothing is begun in an executor that is drained or deleted
    resuming.intent_under_way,  # do it, wait for it, judge its failure
    resuming.agent_gone,  # the questions of resuming
)


def decide_session(o: SessionObserved, now: datetime) -> Plan[TaskSessionStatus]:
    """The plan for a session. Pure and total: every observation has an answer."""
    for rule in SESSION_RULES:
        verdict = rule(o, now)
        if verdict is not None:
            plan = status.plan(o, verdict, now)
            return replace(plan, actions=(*binding.following(o), *plan.actions))
    raise AssertionError("the last rule always answers")
