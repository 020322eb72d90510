"""After a calm spell, status is the world as it is: compared with what only the world knows."""

from typing import Any

from invariants import Broken
from kandev_operator.api import conditions, group
from kandev_operator.api.session import OperatingMode, ResumePolicy, TaskSession
from kandev_operator.core.intents import token_secret_name
from kandev_operator.core.observed import AgentPhase
from unit.core.sim.agentctl import Agentctl
from unit.core.sim.world import REMOTE_ID, World

FINAL = {
    "SessionNotFound",
    "NotResumable",
    "MissingResumeToken",
    "MaxAttempts",
    "AuthenticationRequired",
    "ResumeFailed",
    "InvalidResumeToken",
    "StartFailed",
}
"""What keeps an agent away under policy Auto when nothing else is wrong any more."""

LEFT_ALONE = FINAL | {
    "AgentNotRunning",
    "AgentExited",
    "ResumeTimedOut",
    "Interrupted",
    "InitializeFailed",
    "Superseded",
}


def check(world: World) -> None:
    """Every session and executor, after everything has come to rest."""
    for session in world.api.of_kind(group.TASK_SESSION):
        _session(world, session)
    for executor in world.api.of_kind(group.EXECUTOR):
        _executor(world, executor)
    _agents_belong_to_somebody(world)


def nothing_is_written(world: World) -> None:
    """No flapping: a world at rest costs no writes."""
    before = world.operator.writes
    for key in world.keys:
        world.pass_over(key)
    if world.operator.writes != before:
        raise Broken("no_flapping", "a world at rest is written to")


def _untrue(session: TaskSession, why: str) -> Broken:
    return Broken("eventual_truth", f"session {session.metadata.name}: {why}")


def _session(world: World, session: TaskSession) -> None:
    status = session.status
    ready = conditions.get(status.conditions, "Ready")
    if ready is None:
        raise _untrue(session, "was never looked at")
    one = world.serving(session.metadata.uid)
    phase = one.phase if one else AgentPhase.NONE
    live = phase in (AgentPhase.IDLE, AgentPhase.RUNNING)
    if status.is_agent_running is not live:
        raise _untrue(session, f"runs: {status.is_agent_running}, and the agent is {phase}")
    if conditions.is_true(status.conditions, "Finished"):
        _finished(session, live)
    elif conditions.is_true(status.conditions, "Suspended"):
        if live or not ready.is_true or status.needs_resume:
            raise _untrue(session, "suspended, and not at rest")
    elif session.spec.operating_mode is OperatingMode.WORKSPACE_ONLY:
        _workspace_only(session, ready.reason, live)
    elif live:
        if session.metadata.name in world.ledger.owed:
            raise _untrue(session, "a fresh start was wished, and the old conversation goes on")
        _running(session, one, phase)
    else:
        _not_running(world, session, ready.reason)
    bound = status.executor_ref is not None
    if one is not None and bound and not conditions.is_true(status.conditions, "Finished"):
        _memory(world, session, one)


def _finished(session: TaskSession, live: bool) -> None:
    if live or session.status.state not in ("COMPLETED", "CANCELLED"):
        raise _untrue(session, f"finished as {session.status.state}")
    if session.status.executor_ref is not None:
        raise _untrue(session, "finished, and keeps its executor")


def _workspace_only(session: TaskSession, reason: str, live: bool) -> None:
    if live or reason not in ("WorkspaceServed", "ExecutorBusy", "ExecutorDraining"):
        raise _untrue(session, f"workspace-only is {reason}")


def _running(session: TaskSession, one: Agentctl | None, phase: AgentPhase) -> None:
    status = session.status
    assert one is not None
    wanted = "RUNNING" if phase is AgentPhase.RUNNING else "WAITING_FOR_INPUT"
    if status.state != wanted or not conditions.is_true(status.conditions, "Ready"):
        raise _untrue(session, f"{status.state} while the agent is {phase}")
    if status.agent_execution_id != one.served_journal.execution:
        raise _untrue(session, "names another execution")
    prompt = session.spec.prompt
    if prompt is not None and one.served_journal.prompts.get(prompt.id) in (None, "queued"):
        known = status.first_prompt
        if known is None or known.fate is None:
            raise Broken("no_prompt_lost", "the first prompt did not reach the agent")


def _not_running(world: World, session: TaskSession, reason: str) -> None:
    status = session.status
    executor: Any = world.api.stored(group.EXECUTOR, "ex-a")
    if executor and executor.spec.drain and session.metadata.name != "c":
        return
    if reason == "ExecutorBusy":
        held = executor.status.session_ref if executor else None
        if held is None or held.uid == session.metadata.uid:
            raise _untrue(session, "waits for an executor that is free")
        return
    auto = session.spec.resume.policy is ResumePolicy.AUTO
    if reason not in (FINAL if auto else LEFT_ALONE):
        raise _untrue(session, f"no agent, because of {reason}")
    disk = world.host.disk("/trees/c" if session.metadata.name == "c" else world.shared_path)
    tried = disk.failures[session.metadata.name]
    if reason == "MaxAttempts" and tried < session.spec.resume.max_attempts - 1:
        # One may be an answer that an older attempt was given in the same second.
        raise _untrue(session, f"gave up after {tried} failures")
    if status.executor_status != "ready":
        raise Broken("workspace_is_never_lost", f"{reason}, and the executor is not ready")
    if reason != "AgentNotRunning" and status.state != "ERROR":
        raise _untrue(session, f"{status.state} because of {reason}")
    if reason in ("SessionNotFound", "NotResumable", "MissingResumeToken") and status.is_resumable:
        raise _untrue(session, f"resumable in spite of {reason}")


def _memory(world: World, session: TaskSession, one: Agentctl) -> None:
    """Epoch and token of status are those of the workspace, and the Secret has the same."""
    journal, status = one.served_journal, session.status
    if (status.epoch or 0) < journal.epoch:
        raise _untrue(session, f"epoch {status.epoch}, the workspace knows {journal.epoch}")
    retiring = status.intent is not None and status.intent.kind == "FreshStart"
    if journal.token is None or (retiring and status.resume_token_ref is None):
        return
    ref = status.resume_token_ref
    if ref is None or not journal.token.sha256.startswith(ref.sha256_prefix or "-"):
        raise _untrue(session, "the token in status is not the workspace's")
    if bool(ref.established) is not journal.token.established:
        raise _untrue(session, "status is wrong about whether the token is established")
    secret = token_secret_name(session.metadata.name, session.metadata.uid)
    kept = world.api.secrets.get(secret)
    if kept is None or kept.token is None or kept.token.value != journal.token.value:
        raise Broken("token_is_never_replaced", "the Secret lacks the token")


def _executor(world: World, executor: Any) -> None:
    status = executor.status
    agentctl = conditions.get(status.conditions, "AgentctlReady")
    ctl = world.host.by_url(status.agentctl_url or "")
    if (agentctl is not None and agentctl.is_true) is not (ctl is not None):
        raise Broken("eventual_truth", f"executor {executor.metadata.name}: agentctl")
    if ctl is not None and status.boot_id != ctl.boot_id:
        raise Broken("eventual_truth", f"executor {executor.metadata.name}: another boot")
    held = status.session_ref
    if held is None:
        return
    session = world.session(held.name)
    if session is None or session.metadata.uid != held.uid:
        raise Broken("eventual_truth", f"executor {executor.metadata.name} holds nobody")
    ref = session.status.executor_ref
    made = executor.metadata.controller is not None
    if ref is None and made:
        return  # bound by its ownerReference; its session rests and needs none
    if ref is None or ref.uid != executor.metadata.uid:
        raise Broken("one_executor_per_session", "held by one that it does not point at")


def _agents_belong_to_somebody(world: World) -> None:
    uids = {each.metadata.uid for each in world.api.of_kind(group.EXECUTOR)}
    for one in world.agentctls:
        uid = one.live_session
        if one.instance_id != REMOTE_ID and one.instance_id.rpartition("-")[0] not in uids:
            continue  # its executor was lost with a restored API server; nobody can know of it
        bound = [
            each.metadata.name
            for each in world.api.of_kind(group.EXECUTOR)
            if each.status.session_ref is not None and each.status.session_ref.uid == uid
        ]
        if uid is not None and not bound:
            raise Broken("eventual_truth", f"the agent of {uid} lives, and nobody holds it")


def wishes_are_granted(world: World) -> None:
    """No dead ends: whoever asks for an agent gets it, or is told that nothing can be resumed."""
    for session in world.api.of_kind(group.TASK_SESSION):
        if session.spec.operating_mode is not OperatingMode.RUNNING:
            continue
        ready = conditions.get(session.status.conditions, "Ready")
        finished = conditions.is_true(session.status.conditions, "Finished")
        never = session.spec.resume.policy is ResumePolicy.NEVER
        assert ready is not None
        if finished or session.status.is_agent_running or never:
            continue
        told = {"SessionNotFound", "NotResumable", "MissingResumeToken"}
        waits = {"ExecutorBusy", "ExecutorDraining", "Suspended"}
        if ready.reason not in told | waits:
            raise _untrue(session, f"a wish changes nothing: {ready.reason}")
