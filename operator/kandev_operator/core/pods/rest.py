"""Pods that nobody needs: an executor at rest has none, and earlier ones are cleared away in time.

A pod that is over is kept for a while, so that its logs can be read; it counts for nothing
meanwhile. One that runs beside the current one is there by mistake, and goes at once.
"""

from datetime import datetime, timedelta
from typing import Any, Final

from kandev_operator.api.conditions import FALSE
from kandev_operator.api.executor import ExecutorState
from kandev_operator.api.reasons import AgentctlReadyReason
from kandev_operator.core.actions import Action, DeleteExecutor, DeletePod
from kandev_operator.core.executorstatus import Life, next_instance_id
from kandev_operator.core.observed import ExecutorObserved, Found
from kandev_operator.core.occupancy import PATIENCE, is_made
from kandev_operator.core.podseen import PodSeen
from kandev_operator.core.probes import Health

KEPT: Final = timedelta(hours=1)
"""How long a pod that is over stays, so that its logs can be read."""
KEPT_AT_MOST: Final = 3
OVERDUE: Final = PATIENCE
LOOK_AGAIN: Final = timedelta(seconds=10)
"""Nobody tells of claims, nodes and events."""

NO_ADDRESS: Final[dict[str, Any]] = {"agentctl_url": None}
NO_POD: Final[dict[str, Any]] = {
    **NO_ADDRESS,
    "boot_id": None,
    "pod_ref": None,
    "node_name": None,
    "workspace_path": None,
}


def next_instance(o: ExecutorObserved) -> str:
    """The instance to go on with: one that an interrupted pass made and did not write down, while
    it is good; else a number that no pod has had, as far as anybody remembers."""
    pinned = next_instance_id(o)
    stem, _, number = pinned.rpartition("-")
    newest = max((_number(pod, stem) for pod in o.pods.pods), default=0)
    if newest < int(number):
        return pinned
    known = o.pods.of(f"{stem}-{newest}")
    return f"{stem}-{newest if known is not None and known.is_live else newest + 1}"


def _number(pod: PodSeen, stem: str) -> int:
    owner, _, number = pod.instance_id.rpartition("-")
    return int(number) if owner == stem and number.isdigit() else 0


def at_rest(o: ExecutorObserved, now: datetime) -> Life:
    """No pod without a session. A drained executor that was made for its session has done its
    duty: a new one takes its place."""
    actions: list[Action] = [removal(pod) for pod in o.pods.pods if pod.is_live]
    lingering = any(pod.lingers(now, OVERDUE) for pod in o.pods.pods)
    served = isinstance(o.owner, Found) and is_made(o.executor)
    if o.executor.spec.drain and served and not lingering:
        actions.append(DeleteExecutor())
    return Life(
        ExecutorState.STOPPED,
        Health(FALSE, AgentctlReadyReason.IDLE, "Nobody is bound, so there is no pod."),
        tuple(actions),
        {**NO_POD, "started_at": None, "attempt": None},
        requeue=LOOK_AGAIN if lingering else None,
    )


def removal(pod: PodSeen, *, at_once: bool = False) -> DeletePod:
    return DeletePod(pod.name, pod.uid, at_once)


def tidy(
    o: ExecutorObserved, current: str | None, now: datetime
) -> tuple[tuple[DeletePod, ...], timedelta | None]:
    """Pods of earlier instances: those that run by mistake go, those that are over go in time."""
    others = [pod for pod in o.pods.pods if pod.instance_id != current and not pod.is_gone]
    actions: list[DeletePod] = []
    if o.executor.status.session_ref is not None:
        actions += [removal(pod) for pod in others if pod.is_live]
    over = sorted(
        ((pod.ended_at or now, pod) for pod in others if pod.is_over and not pod.is_deleting),
        key=lambda each: each[0],
        reverse=True,
    )
    due: timedelta | None = None
    for number, (at, pod) in enumerate(over):
        left = at + KEPT - now
        if number >= KEPT_AT_MOST or left <= timedelta(0):
            actions.append(removal(pod))
        else:
            due = left if due is None else min(due, left)
    return tuple(actions), due
