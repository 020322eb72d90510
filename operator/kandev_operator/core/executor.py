"""What is to be done for an Executor: its ends first, then who is in it, then its process.

`decide_executor` answers in one order: an executor that is being deleted or whose session is
gone; one that may not run here; its finalizer; who is bound; whether its agentctl process must be
started, stopped or made anew (LocalStandalone); and what the newest look at agentctl means. The
instance id is pinned in status before the process is started, so that a leader that takes over in
between finds the one process and starts no second.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api import conditions, group
from kandev_operator.api.conditions import FALSE, UNKNOWN
from kandev_operator.api.executor import ExecutorState, ExecutorStatus, Runtime
from kandev_operator.api.reasons import AgentctlReadyReason, BoundReason, WorkspaceReadyReason
from kandev_operator.api.timestamps import moment, rfc3339
from kandev_operator.core import backoff, executorstatus, probes
from kandev_operator.core.actions import (
    Action,
    AdoptTerm,
    DeleteExecutor,
    SetFinalizer,
    StartProcess,
    StopAgent,
    StopProcess,
)
from kandev_operator.core.comeback import AT_ONCE_ATTEMPTS, SETTLED
from kandev_operator.core.docker import life as docker_life
from kandev_operator.core.docker import rest as docker_rest
from kandev_operator.core.executorstatus import Life, next_instance_id
from kandev_operator.core.intents import stop_id
from kandev_operator.core.observed import (
    AgentPhase,
    Answer,
    ExecutorObserved,
    Found,
    Missing,
    ProcessSeen,
    RuntimeProblem,
    Unreadable,
)
from kandev_operator.core.occupancy import Occupancy, is_made, occupancy, stowaway
from kandev_operator.core.pods import life as pods_life
from kandev_operator.core.probes import Health
from kandev_operator.core.verdict import AT_ONCE, Plan

LOOK_AGAIN: Final = timedelta(seconds=30)
FOLDER_AGAIN: Final = timedelta(seconds=5)
"""Nobody tells when a folder is made; looking costs nothing."""
REMOTE_RELEASE: Final = timedelta(seconds=30)
"""A remote agentctl that cannot be told to stop does not hold up its executor's deletion longer."""


def decide_executor(o: ExecutorObserved, now: datetime) -> Plan[ExecutorStatus]:
    """The plan for an executor. Pure and total."""
    ended = _ending(o, now)
    if ended is not None:
        return ended
    if o.problem is None:
        o = replace(o, problem=_contested(o))
    if o.problem is not None and o.problem.reason == AgentctlReadyReason.NOT_ALLOWED:
        life = _problem(o)
        return executorstatus.plan(o, _as_they_were(o, o.problem.message), life, now)
    report = o.probe.report if o.probe.answer is Answer.WELL else None
    if report is not None and report.term > o.term:
        return Plan(actions=(AdoptTerm(report.term),), requeue=AT_ONCE)
    held = occupancy(o, now)
    life = _life(o, held, now)
    life = replace(life, actions=(*life.actions, *stowaway(o, held.session_ref)))
    if _lacks_finalizer(o):
        life = replace(life, actions=(SetFinalizer(present=True), *life.actions))
    return executorstatus.plan(o, held, life, now)


def _as_they_were(o: ExecutorObserved, why: str) -> Occupancy:
    """Where nothing may be done, nobody is let in or out."""
    held = o.executor.status.session_ref
    return Occupancy(held, str(BoundReason.BOUND if held else BoundReason.NOT_BOUND), why)


def _contested(o: ExecutorObserved) -> RuntimeProblem | None:
    """Two sessions never share a folder. Whoever's agentctl lives there holds it; where nobody's
    does, the session whose files they are, for a workspace follows its session and not the
    executor; and where they are nobody's, or two say so, the older executor comes first."""
    holder = next((rival for rival in o.rivals if rival.holds), None)
    runs = isinstance(o.process, Found) and _is_ours(o, o.process.value)
    if holder is None and not runs:
        keeper = next((rival for rival in o.rivals if rival.keeps), None)
        mine = (o.executor.metadata.creation_timestamp or "", o.executor.metadata.uid)
        older = (rival for rival in o.rivals if (rival.created, rival.uid) < mine)
        nobody_alone = o.keeps == (keeper is not None)
        holder = next(older, None) if nobody_alone else keeper
    if holder is None:
        return None
    who = "has its files" if holder.is_session else "works"
    kind = "Session" if holder.is_session else "Executor"
    return RuntimeProblem(
        WorkspaceReadyReason.WORKSPACE_IN_USE,
        f"{kind} {holder.name} of namespace {holder.namespace} {who} in the same folder, or in "
        "one that contains it; two sessions never share files.",
    )


def _lacks_finalizer(o: ExecutorObserved) -> bool:
    pod = o.executor.spec.runtime is Runtime.POD
    return not pod and group.FINALIZER not in o.executor.metadata.finalizers


def _ending(o: ExecutorObserved, now: datetime) -> Plan[ExecutorStatus] | None:
    """Being deleted, or made for a session that is positively gone."""
    meta = o.executor.metadata
    if not meta.is_deleting:
        orphan = is_made(o.executor) and isinstance(o.owner, Missing)
        return Plan(actions=(DeleteExecutor(),), requeue=LOOK_AGAIN) if orphan else None
    if group.FINALIZER not in meta.finalizers:
        return Plan()
    free: Plan[ExecutorStatus] = Plan(actions=(SetFinalizer(present=False),))
    if o.executor.spec.runtime is Runtime.LOCAL_DOCKER and o.executor.spec.is_made_at_bind:
        gone = docker_rest.volumes(o, programs=True)
        return docker_rest.ending(o) or replace(free, actions=(*gone, *free.actions))
    if o.executor.spec.runtime is Runtime.LOCAL_STANDALONE:
        if isinstance(o.process, Unreadable):
            return Plan(requeue=LOOK_AGAIN)
        if isinstance(o.process, Found) and _is_ours(o, o.process.value):
            return Plan(actions=(StopProcess(),), requeue=timedelta(seconds=1))
        # What its run.json does not name, or lives below a root that is not ours any more, is
        # found by the executor's UID.
        return replace(free, actions=(StopProcess(), *free.actions))
    return _end_remote(o, now) or free


def _end_remote(o: ExecutorObserved, now: datetime) -> Plan[ExecutorStatus] | None:
    """Have a remote agent stopped before its executor goes; None when nothing holds it up.

    Only one that cannot be asked is given up after a while: an operator that was away for long
    still looks first.
    """
    since = moment(o.executor.metadata.deletion_timestamp or rfc3339(now))
    held, report = o.executor.status.session_ref, o.probe.report
    if held is None:
        return None
    if o.probe.answer is Answer.NOT_TRIED and o.executor.status.agentctl_url is not None:
        return Plan(requeue=timedelta(seconds=2))
    over = now >= since + REMOTE_RELEASE
    if o.probe.answer is not Answer.WELL or report is None:
        return None if over else Plan(requeue=since + REMOTE_RELEASE - now)
    if report.session_uid != held.uid or not report.has_process:
        return None
    if over and report.phase is AgentPhase.STOPPING:
        return None
    if report.term > o.term:
        return Plan(actions=(AdoptTerm(report.term),), requeue=AT_ONCE)
    stop = StopAgent(stop_id(held.uid, report.epoch, "deleted", report), report.epoch, held.uid)
    return Plan(actions=(stop,), requeue=timedelta(seconds=2))


def _life(o: ExecutorObserved, held: Occupancy, now: datetime) -> Life:
    if o.problem is not None:
        return _problem(o)
    if o.executor.spec.runtime is Runtime.POD:
        return pods_life.life(o, held, now)
    if o.executor.spec.runtime is Runtime.LOCAL_DOCKER:
        return docker_life.life(o, held, now)
    if o.executor.spec.runtime is Runtime.LOCAL_STANDALONE:
        wanted = held.session_ref is not None or not is_made(o.executor)
        if not wanted:
            return _put_to_rest(o)
        process = _process(o, now)
        if process is not None:
            return process
    return _asked(o, now)


def _problem(o: ExecutorObserved) -> Life:
    assert o.problem is not None
    final = o.problem.reason == AgentctlReadyReason.NOT_ALLOWED
    return Life(
        ExecutorState.ERROR,
        Health(FALSE, o.problem.reason, o.problem.message, is_error=True),
        stalled=final,
        requeue=None if final else FOLDER_AGAIN,
    )


def _put_to_rest(o: ExecutorObserved) -> Life:
    """Nobody is in, and nobody will be: no process."""
    ours = isinstance(o.process, Found) and _is_ours(o, o.process.value)
    actions: tuple[Action, ...] = (StopProcess(),) if ours else ()
    said = "Nobody is bound, so no agentctl runs."
    return Life(
        ExecutorState.STOPPED,
        Health(FALSE, AgentctlReadyReason.STOPPED, said),
        actions,
        _NO_PROCESS | {"instance_id": None},
        requeue=timedelta(seconds=2) if actions else None,
    )


_NO_PROCESS: Final[dict[str, Any]] = {"agentctl_url": None, "boot_id": None, "pid": None}


def _process(o: ExecutorObserved, now: datetime) -> Life | None:
    """The local agentctl process; None when it is there and can be asked."""
    match o.process:
        case Unreadable():
            return Life(
                ExecutorState.STARTING, executorstatus.unknown("The process cannot be looked up.")
            )
        case Found(value=seen):
            return None if _is_ours(o, seen) else _stranger(o)
        case Missing():
            return _make(o, now)


def _is_ours(o: ExecutorObserved, seen: ProcessSeen) -> bool:
    return seen.instance_id.startswith(f"{o.executor.metadata.uid}-")


def _stranger(o: ExecutorObserved) -> Life:
    """An agentctl of an executor that is gone: end it, then start our own on the same files."""
    return Life(
        ExecutorState.STARTING,
        executorstatus.unknown("An agentctl of an earlier executor is being ended first."),
        (StopProcess(strangers=True),),
        {"started_at": o.executor.status.started_at},
        requeue=timedelta(seconds=1),
    )


def _make(o: ExecutorObserved, now: datetime) -> Life:
    status = o.executor.status
    starting = executorstatus.unknown("agentctl is being started.")
    if o.failed is not None and o.failed.action == StartProcess.__name__:
        reason = o.failed.reason or AgentctlReadyReason.PROCESS_EXITED
        failed = _NO_PROCESS | {"attempt": (status.attempt or 1) + 1}
        return _waits(Health(FALSE, reason, o.failed.message), o, failed, now)
    if status.next_attempt_at is not None and now < moment(status.next_attempt_at):
        left = moment(status.next_attempt_at) - now
        known = conditions.get(status.conditions, "AgentctlReady")
        why = known.reason if known else str(AgentctlReadyReason.PROCESS_EXITED)
        said = known.message if known else "The local agentctl process ended."
        return Life(
            ExecutorState.ERROR,
            Health(FALSE, why, said, is_error=True),
            fields=_NO_PROCESS,
            retry_at=moment(status.next_attempt_at),
            requeue=left,
        )
    if status.instance_id is not None and status.boot_id is None:
        waited = status.next_attempt_at is not None
        begins = {"started_at": rfc3339(now)} if waited else {}
        return Life(ExecutorState.STARTING, starting, (StartProcess(status.instance_id),), begins)
    fresh = status.instance_id is None
    fields = _NO_PROCESS | {"instance_id": next_instance_id(o), "started_at": rfc3339(now)}
    if fresh:
        return Life(ExecutorState.STARTING, starting, fields=fields, requeue=AT_ONCE)
    attempt = _attempt_after_exit(o, now)
    fields |= {"attempt": attempt}
    if attempt <= AT_ONCE_ATTEMPTS:
        return Life(ExecutorState.STARTING, starting, fields=fields, requeue=AT_ONCE)
    said = f"The local agentctl process ended {attempt - 1} times soon after it had started."
    return _waits(Health(FALSE, AgentctlReadyReason.CRASH_LOOP_BACK_OFF, said), o, fields, now)


def _waits(why: Health, o: ExecutorObserved, fields: dict[str, Any], now: datetime) -> Life:
    """In error, until the back-off of the attempts so far is over."""
    retry = backoff.next_attempt_at(now, fields["attempt"] - 1, o.executor.metadata.uid)
    return Life(
        ExecutorState.ERROR,
        replace(why, is_error=True),
        fields=fields,
        retry_at=retry,
        requeue=retry - now,
    )


def _attempt_after_exit(o: ExecutorObserved, now: datetime) -> int:
    """A process that lived for a while counts anew."""
    began = o.executor.status.started_at
    lived = began is not None and now - moment(began) >= SETTLED
    return 1 if lived else (o.executor.status.attempt or 1) + 1


def _asked(o: ExecutorObserved, now: datetime) -> Life:
    """What the newest look at agentctl means."""
    fields = _address(o, now)
    if _has_moved(o):
        said = "agentctl has not answered at its new address yet."
        return Life(
            ExecutorState.STARTING, executorstatus.unknown(said), (), fields, requeue=AT_ONCE
        )
    executor = o.executor.replacing(status=o.executor.status.replacing(**fields))
    health = probes.judge(executor, o.probe, executorstatus.limits_of(o), now)
    if health is None:
        return executorstatus.as_it_was(o, fields)
    if health.is_error:
        return Life(ExecutorState.ERROR, health, (), fields)
    if health.truth == UNKNOWN:
        return Life(ExecutorState.STARTING, health, (), fields, requeue=health.look_again)
    report = o.probe.report
    assert report is not None, "a good answer has a report"
    fields |= {"boot_id": report.boot_id, "workspace_path": report.workspace_path or None}
    if o.executor.spec.runtime is Runtime.REMOTE:
        fields |= {"pid": report.pid}
        if o.executor.status.instance_id is None:
            fields |= {"instance_id": report.instance_id}
    local = o.executor.spec.runtime is Runtime.LOCAL_STANDALONE
    # A folder that vanishes under a healthy agentctl rings no bell.
    return Life(ExecutorState.READY, health, (), fields, requeue=LOOK_AGAIN if local else None)


def _address(o: ExecutorObserved, now: datetime) -> dict[str, Any]:
    """Where agentctl is to be asked, and under which identity."""
    status = o.executor.status
    if isinstance(o.process, Found):
        seen = o.process.value
        return {
            "agentctl_url": seen.url,
            "instance_id": seen.instance_id,
            "pid": seen.pid,
            "started_at": status.started_at or rfc3339(now),
        }
    remote = o.executor.spec.remote
    if remote is None:
        return {}
    moved = _has_moved(o)
    pin = {"instance_id": None, "boot_id": None} if moved else {}
    began = rfc3339(now) if moved or status.started_at is None else status.started_at
    return {"agentctl_url": remote.url, "started_at": began, **pin}


def _has_moved(o: ExecutorObserved) -> bool:
    """A remote one has another address than was asked: whatever was heard came from elsewhere."""
    remote = o.executor.spec.remote
    return remote is not None and o.executor.status.agentctl_url not in (None, remote.url)
