"""Containers and volumes that nobody needs: an executor at rest has none, and one that goes leaves
none behind.

Nothing is removed because a look failed. A session's files go with their session, by its policy,
and never with a container or an executor; the volume with agentctl is the executor's.
"""

from datetime import timedelta
from typing import Any, Final

from kandev_operator.api.conditions import FALSE
from kandev_operator.api.executor import ExecutorState, ExecutorStatus
from kandev_operator.api.reasons import AgentctlReadyReason
from kandev_operator.core.actions import Action, DeleteExecutor, RemoveContainer, RemoveVolume
from kandev_operator.core.containerseen import Role, Step
from kandev_operator.core.executorstatus import Life
from kandev_operator.core.observed import ExecutorObserved, Found, Unreadable
from kandev_operator.core.occupancy import is_made
from kandev_operator.core.probes import Health
from kandev_operator.core.verdict import Plan

LOOK_AGAIN: Final = timedelta(seconds=10)
"""Nobody tells of containers, images and volumes."""
ENGINE_AGAIN: Final = timedelta(seconds=5)

NO_ADDRESS: Final[dict[str, Any]] = {"agentctl_url": None}
NO_CONTAINER: Final[dict[str, Any]] = {
    **NO_ADDRESS,
    "boot_id": None,
    "container_id": None,
    "workspace_path": None,
}


def at_rest(o: ExecutorObserved) -> Life:
    """No container without a session. A drained executor that was made for its session has done
    its duty: a new one takes its place."""
    actions: list[Action] = [RemoveContainer(each.id) for each in o.docker.present]
    if not actions:
        actions += volumes(o, programs=True)
    served = isinstance(o.owner, Found) and is_made(o.executor)
    if o.executor.spec.drain and served and not o.docker.present:
        actions.append(DeleteExecutor())
    return Life(
        ExecutorState.STOPPED,
        Health(FALSE, AgentctlReadyReason.IDLE, "Nobody is bound, so there is no container."),
        tuple(actions),
        {**NO_CONTAINER, "node_name": None, "started_at": None, "attempt": None},
        requeue=LOOK_AGAIN if o.docker.present else None,
    )


def ending(o: ExecutorObserved) -> Plan[ExecutorStatus] | None:
    """What must be cleared away before the executor itself may go; None: nothing is left."""
    if isinstance(o.docker.containers, Unreadable):
        never_began = o.executor.status.instance_id is None
        return None if never_began else Plan(requeue=ENGINE_AGAIN)
    if o.docker.present:
        removals = tuple(RemoveContainer(each.id) for each in o.docker.present)
        return Plan(actions=removals, requeue=timedelta(seconds=1))
    return None


def tidy(o: ExecutorObserved, current: str) -> tuple[Action, ...]:
    """Beside an agent's container that runs: steps that are done, earlier instances, and the files
    of sessions that are gone."""
    others = [
        RemoveContainer(each.id)
        for each in o.docker.present
        if (each.instance_id, each.step) != (current, Step.AGENT)
    ]
    return (*others, *volumes(o, programs=False))


def volumes(o: ExecutorObserved, *, programs: bool) -> tuple[RemoveVolume, ...]:
    """Those that may go: files of sessions that are gone, and agentctl's where nothing runs it."""
    return tuple(
        RemoveVolume(each.name)
        for each in o.docker.volumes
        if (programs and each.role == Role.PROGRAM)
        or (each.role == Role.FILES and each.policy == "Delete" and each.is_orphan)
    )
