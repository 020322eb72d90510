"""What is to be done about an executor's container: the rules of runtime LocalDocker.

A container is there only while a session is in. Each has an instance id with a number that grows,
and its name is made of that: whoever repeats an interrupted pass meets the same container. One that
stopped is started again, in place. One that the engine says is gone is made anew on the same files,
where the session's policy, or a person, wants the conversation back; its agent is surely dead. An
engine that does not answer says nothing: whatever was known stays, and nothing is made or removed.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api.conditions import FALSE, UNKNOWN
from kandev_operator.api.executor import ExecutorState, WorktreeStatus
from kandev_operator.api.reasons import AgentctlReadyReason
from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core import comeback, executorstatus, probes
from kandev_operator.core.actions import RemoveContainer, StartContainer
from kandev_operator.core.containerseen import DockerContainer, Step
from kandev_operator.core.docker import making, rest
from kandev_operator.core.docker.desired import port_of, runtime_of
from kandev_operator.core.executorstatus import Life, next_instance_id
from kandev_operator.core.observed import Answer, ExecutorObserved, Found, Missing
from kandev_operator.core.occupancy import Occupancy
from kandev_operator.core.pods import layout
from kandev_operator.core.pods.claim import branch_of
from kandev_operator.core.probes import Health

STEADY: Final = timedelta(seconds=30)
SOON: Final = timedelta(seconds=1)


def life(o: ExecutorObserved, held: Occupancy, now: datetime) -> Life:
    """How the executor is, and what to do about its containers."""
    if not isinstance(o.docker.containers, Found | Missing):
        return _engine_silent(o, o.docker.containers.why, now)
    if not _is_same_engine(o):
        said = "Another Docker engine answers than the one that has this executor's container."
        return _engine_silent(o, said, now)
    if runtime_of(o.executor).container_id is not None:
        return _given(o, now)
    if held.session_ref is None:
        return rest.at_rest(o)
    if not held.is_bound:
        said = "The session has let go, and the container is being removed."
        gone = Health(FALSE, AgentctlReadyReason.STOPPED, said)
        return Life(ExecutorState.STOPPED, gone, fields=rest.NO_ADDRESS, requeue=rest.LOOK_AGAIN)
    session = comeback.session_in(o)
    if session is None:
        return executorstatus.as_it_was(o, {})
    return _of_the_occupied(o, session, now)


def url_of(o: ExecutorObserved, container: DockerContainer) -> str | None:
    """Where agentctl in this container is to be asked: at a port of the loopback where one leads
    there, else at its own address."""
    return address(container, port_of(o.executor), by_address=o.docker.platform.docker_by_address)


def address(container: DockerContainer, port: int, *, by_address: bool) -> str | None:
    """The same, of a container that listens on this port; None while it does not run."""
    if not container.is_up:
        return None
    outside = dict(container.published).get(port)
    if outside is not None and not by_address:
        return f"http://127.0.0.1:{outside}"
    if not container.address:
        return None
    host = container.address
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _is_same_engine(o: ExecutorObserved) -> bool:
    status = o.executor.status
    known, answers = status.node_name, o.docker.engine_id
    return status.container_id is None or not known or not answers or known == answers


def _engine_silent(o: ExecutorObserved, why: str, now: datetime) -> Life:
    """Unknown is not dead. An agentctl that answers by itself is well all the same."""
    if o.probe.answer not in (Answer.UNREACHABLE, Answer.UNHEALTHY, Answer.NOT_TRIED):
        health = probes.judge(o.executor, o.probe, executorstatus.limits_of(o), now)
        assert health is not None, "somebody answered"
        if health.is_error:
            return Life(ExecutorState.ERROR, health, requeue=rest.ENGINE_AGAIN)
        return replace(_well(o, health, {}), requeue=rest.ENGINE_AGAIN)
    state = {str(word): word for word in ExecutorState}.get(o.executor.status.state or "")
    said = f"The Docker engine cannot be asked, so nothing is concluded. {why}".strip()
    unknown = Health(UNKNOWN, AgentctlReadyReason.DOCKER_UNAVAILABLE, said)
    keeps = ExecutorState.STARTING if state in (None, ExecutorState.ERROR) else state
    return Life(keeps or ExecutorState.STARTING, unknown, requeue=rest.ENGINE_AGAIN)


# ---- a container of somebody else's -------------------------------------------------------


def _given(o: ExecutorObserved, now: datetime) -> Life:
    """Started where it is stopped; never made, never removed."""
    name = runtime_of(o.executor).container_id
    container = next(iter(o.docker.present), None)
    if container is None:
        said = f"The Docker engine says there is no container {name}."
        gone = Health(FALSE, AgentctlReadyReason.CONTAINER_MISSING, said, is_error=True)
        fields = {**rest.NO_CONTAINER, "instance_id": None}
        return Life(ExecutorState.ERROR, gone, fields=fields, requeue=rest.LOOK_AGAIN)
    fields = {"container_id": container.id, "node_name": o.docker.engine_id or None}
    if container.id != (o.executor.status.container_id or container.id):
        # The name leads to another container now: its agentctl is pinned anew.
        fields |= {"instance_id": None, "boot_id": None}
    if not container.is_up:
        return _stopped(o, container, fields, now)
    return _asked(o, container, fields, now)


# ---- a container of ours ------------------------------------------------------------------


def _of_the_occupied(o: ExecutorObserved, session: TaskSession, now: datetime) -> Life:
    status = o.executor.status
    instance = status.instance_id or next_instance_id(o)
    agent = o.docker.of(instance, Step.AGENT)
    if agent is None:
        if status.container_id is not None or status.boot_id is not None:
            return _lost(o, session, now)
        return making.make(o, session, instance, now)
    fields = {
        "instance_id": instance,
        "container_id": agent.id,
        "node_name": o.docker.engine_id or None,
        "worktree": _worktree(o, session),
    }
    if agent.state == "removing":  # somebody removed it, and it is on its way
        said = f"Container {agent.name} is being removed."
        return Life(ExecutorState.STARTING, executorstatus.unknown(said), requeue=SOON)
    if agent.session_uid != session.metadata.uid:
        said = "The container is another session's; it is removed first."
        return _removed_first(o, agent, said)
    if agent.is_up:
        asked = _asked(o, agent, fields, now)
        return replace(asked, actions=(*asked.actions, *rest.tidy(o, instance)))
    if status.boot_id is None and making.is_of_another_shape(o, session, agent):
        said = "The container has not run and its template has changed: it is made anew."
        return _removed_first(o, agent, said)
    if agent.state == "created":
        return making.make(o, session, instance, now)  # begun, and not yet what it is to be
    return _stopped(o, agent, fields, now)


def _removed_first(o: ExecutorObserved, agent: DockerContainer, said: str) -> Life:
    """The next one is another instance, and its attempts are counted anew."""
    fields = {**rest.NO_CONTAINER, "instance_id": next_instance_id(o), "attempt": 1}
    remove = (RemoveContainer(agent.id),)
    return Life(ExecutorState.STARTING, executorstatus.unknown(said), remove, fields, requeue=SOON)


def _worktree(o: ExecutorObserved, session: TaskSession) -> WorktreeStatus:
    has_code = isinstance(o.docker.task, Found) and bool(o.docker.task.value.spec.repositories)
    return WorktreeStatus(path=layout.WORKTREE, branch=branch_of(session) if has_code else None)


def _asked(
    o: ExecutorObserved, container: DockerContainer, fields: dict[str, Any], now: datetime
) -> Life:
    """What the newest look at its agentctl means."""
    status = o.executor.status
    fields = {
        **fields,
        "agentctl_url": url_of(o, container),
        "started_at": status.started_at or rfc3339(now),
    }
    if fields["agentctl_url"] is None:
        said = f"Container {container.name} has no address that the operator could ask."
        return Life(ExecutorState.STARTING, executorstatus.unknown(said), (), fields, requeue=SOON)
    executor = o.executor.replacing(status=status.replacing(**fields))
    health = probes.judge(executor, o.probe, executorstatus.limits_of(o), now)
    if health is None:
        return replace(executorstatus.as_it_was(o, fields), requeue=rest.LOOK_AGAIN)
    if health.is_error:
        return Life(ExecutorState.ERROR, health, (), fields, requeue=rest.LOOK_AGAIN)
    if health.truth == UNKNOWN:
        again = min(health.look_again or rest.LOOK_AGAIN, rest.LOOK_AGAIN)
        return Life(ExecutorState.STARTING, health, (), fields, requeue=again)
    return _well(o, health, fields)


def _well(o: ExecutorObserved, health: Health, fields: dict[str, Any]) -> Life:
    report = o.probe.report
    assert report is not None, "a good answer has a report"
    fields = {
        **fields,
        "boot_id": report.boot_id,
        "workspace_path": report.workspace_path or None,
    }
    if o.executor.status.instance_id is None:
        fields.setdefault("instance_id", report.instance_id)
    if fields.get("instance_id", "") is None:  # one of somebody else's tells its own
        fields["instance_id"] = report.instance_id
    return Life(ExecutorState.READY, health, (), fields, requeue=STEADY)


def _stopped(
    o: ExecutorObserved, container: DockerContainer, fields: dict[str, Any], now: datetime
) -> Life:
    """It is there and does not run: it is started, at once or after a wait."""
    why = _end_of(container)
    fields = {**fields, **rest.NO_ADDRESS}
    if o.failed is not None and o.failed.action == StartContainer.__name__:
        number = (o.executor.status.attempt or 1) + 1
        refused = Health(FALSE, o.failed.reason, o.failed.message)
        waits = comeback.wait(o, refused, number, now)
        return replace(waits, fields={**fields, **waits.fields})
    attempt = comeback.attempt(o, why, now)
    if isinstance(attempt, Life):
        return replace(attempt, fields={**fields, **attempt.fields})
    said = replace(why, message=f"{why.message} It is started again.")
    fields |= {"attempt": attempt, "boot_id": None, "started_at": rfc3339(now)}
    start = (StartContainer(container.id),)
    return Life(ExecutorState.STARTING, said, start, fields, requeue=SOON)


def _end_of(container: DockerContainer) -> Health:
    if container.oom_killed:
        said = f"Container {container.name} took more memory than its limit and was killed."
        return Health(FALSE, AgentctlReadyReason.OOM_KILLED, said)
    how = f"ended with code {container.exit_code}" if container.is_over else "does not run"
    said = f"Container {container.name} {how}."
    words = f"{said} {container.words}".strip() if container.words else said
    return Health(FALSE, AgentctlReadyReason.CONTAINER_EXITED, words)


def _lost(o: ExecutorObserved, session: TaskSession, now: datetime) -> Life:
    """The engine itself says that the container is gone: so is whatever ran in it."""
    status = o.executor.status
    short = (status.container_id or "")[:12]
    said = f"The Docker engine says there is no container {short} any more."
    why = Health(FALSE, AgentctlReadyReason.CONTAINER_MISSING, said)
    started = status.boot_id is not None
    if started and not comeback.is_wanted(session, o.docker.task, now):
        return Life(ExecutorState.STOPPED, why, fields=rest.NO_ADDRESS, requeue=rest.LOOK_AGAIN)
    attempt = comeback.attempt(o, why, now)
    if isinstance(attempt, Life):
        return replace(attempt, fields={**rest.NO_ADDRESS, **attempt.fields})
    made = making.make(o, session, next_instance_id(o), now)
    if made.state is not ExecutorState.STARTING:
        return made
    said = f"{said} A new one is made on the same workspace."
    fields = {**made.fields, "attempt": attempt}
    return replace(made, agentctl=replace(why, message=said), fields=fields)
