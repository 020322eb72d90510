"""What is wrong with a pod: the failure taxonomy, over pod status, container statuses and events.

Never from the phase alone: a phase may read Pending or Running long after a container was killed,
and Failed says nothing of why. Two questions: what keeps a pod that is there from serving
(`ailment`), and how a pod that is there no more, or will be no more, came to its end (`end`). The
kubelet's and the scheduler's own words are handed on. What follows is for `life`.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from kandev_operator.api.reasons import (
    AgentctlReadyReason,
    PodScheduledReason,
    WorkspaceReadyReason,
)
from kandev_operator.core.observed import Found, Look, Missing
from kandev_operator.core.pods import layout
from kandev_operator.core.podseen import ContainerSeen, Ended, NodeSeen, PodSeen


@dataclass(frozen=True, slots=True)
class Ailment:
    """Why a pod does not serve. `is_error`: it failed for a named cause; else it is on its way,
    or is being mended, and `down` says that what ran in it does so no more."""

    reason: str
    message: str
    is_error: bool = False
    down: bool = False


_PULL_FAILED: Final = frozenset(
    {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
_PULL_FAILING: Final = frozenset(
    {"ErrImagePull", "RegistryUnavailable", "SignatureValidationFailed"}
)
_CANNOT_BE_MADE: Final = frozenset({"CreateContainerConfigError", "CreateContainerError"})
_CANNOT_RUN: Final = frozenset({"RunContainerError", "StartError", "ContainerCannotRun"})
_ON_ITS_WAY: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
_OOM: Final = "OOMKilled"
HELD: Final = 73
"""agentctl's exit code where another one holds the lock of its state folder."""


def ailment(pod: PodSeen, events: str, limit: timedelta, now: datetime) -> Ailment | None:
    """What keeps a pod that is there from serving; None when its agentctl runs.

    `events`: the newest warning about this pod, which alone decides nothing. `limit`: how long
    the way up may stand still.
    """
    found = _named(pod)
    if found is None:
        return None
    since = pod.latest_step
    stands_still = since is not None and now >= since + limit
    heard = f" {events}" if events and events not in found.message else ""
    message = f"{found.message}{heard}"
    if found.is_error or found.down:
        return Ailment(found.reason, message, found.is_error, found.down)
    if not stands_still:
        return Ailment(found.reason, message)
    reason = found.reason
    if reason == AgentctlReadyReason.STARTING:
        reason = AgentctlReadyReason.START_TIMED_OUT
    seconds = int(limit.total_seconds())
    return Ailment(reason, f"Nothing has moved for {seconds} s. {message}", is_error=True)


def _named(pod: PodSeen) -> Ailment | None:
    if pod.scheduled is False:
        words = pod.schedule_words or "no node takes the pod."
        return Ailment(PodScheduledReason.UNSCHEDULABLE, f"The scheduler says: {words}")
    if not pod.node and not pod.containers:
        return Ailment(PodScheduledReason.POD_PENDING, "The pod waits for the scheduler.")
    for init in pod.inits:
        found = _of_init(init)
        if found is not None:
            return found
    return _of_agent(pod)


def _of_init(init: ContainerSeen) -> Ailment | None:
    if init.ended is not None and init.ended.exit_code == 0:
        return None
    refused = _refused(init)
    if refused is not None and refused.reason == AgentctlReadyReason.CONTAINER_EXITED:
        return replace(refused, reason=AgentctlReadyReason.INIT_FAILED)
    if refused is not None:
        return refused
    end = init.ended or init.last
    if end is not None and end.exit_code != 0:
        words = f"Init container {init.name} {ending(end)}"
        if init.name == layout.PREPARE and end.reason != _OOM:
            return Ailment(WorkspaceReadyReason.CLONE_FAILED, words, is_error=True)
        reason = (
            AgentctlReadyReason.OOM_KILLED
            if end.reason == _OOM
            else AgentctlReadyReason.INIT_FAILED
        )
        return Ailment(reason, words, is_error=True)
    if init.state == "running":
        return Ailment(AgentctlReadyReason.STARTING, f"Init container {init.name} runs.")
    if init.state == "waiting" and init.reason == "ContainerCreating":
        return Ailment(AgentctlReadyReason.STARTING, _pulling(init))
    return None  # its turn has not come: what comes before it, or after it, says more


def _of_agent(pod: PodSeen) -> Ailment | None:
    agent = pod.agent
    if agent is None:
        return Ailment(AgentctlReadyReason.STARTING, f"Node {pod.node} prepares the pod.")
    if agent.state == "running":
        return None
    refused = _refused(agent)
    if refused is not None:
        return refused
    end = agent.ended or agent.last
    if end is None:
        return Ailment(AgentctlReadyReason.STARTING, _pulling(agent))
    words = f"Container {agent.name} {ending(end)}"
    if end.exit_code == HELD:
        said = f"{words} An agentctl of an earlier pod still holds the workspace."
        return Ailment(WorkspaceReadyReason.WORKSPACE_IN_USE, said, down=True)
    reason = reason_of(end)
    if agent.reason == "CrashLoopBackOff":
        if reason == AgentctlReadyReason.CONTAINER_EXITED:
            reason = AgentctlReadyReason.CRASH_LOOP_BACK_OFF
        said = f"{words} It was started {agent.restarts + 1} times; the kubelet waits."
        return Ailment(reason, said, is_error=True, down=True)
    return Ailment(reason, f"{words} It is started again in place.", down=True)


def restarted(pod: PodSeen, last_seen: datetime | None) -> Ailment | None:
    """Its agentctl was started anew in place since it was last heard; why the run before ended."""
    agent = pod.agent
    if agent is None or agent.last is None or agent.since is None:
        return None
    # The kubelet tells whole seconds.
    if last_seen is not None and agent.since < last_seen.replace(microsecond=0):
        return None
    said = f"Container {agent.name} {ending(agent.last)} It was started again in place."
    return Ailment(reason_of(agent.last), said, down=True)


def _refused(container: ContainerSeen) -> Ailment | None:
    """What the kubelet cannot even begin, whatever was before."""
    if container.state != "waiting" or container.reason in _ON_ITS_WAY:
        return None
    told = f"{container.reason}: {container.message}".rstrip(": ")
    named = f"Container {container.name}, image {container.image}: {told}"
    if container.reason in _PULL_FAILED:
        return Ailment(AgentctlReadyReason.IMAGE_PULL_FAILED, named, is_error=True)
    if container.reason in _PULL_FAILING:
        return Ailment(AgentctlReadyReason.IMAGE_PULL_FAILED, named)
    if container.reason in _CANNOT_BE_MADE:
        return Ailment(PodScheduledReason.INVALID_TEMPLATE, named, is_error=True)
    if container.reason in _CANNOT_RUN:
        return Ailment(AgentctlReadyReason.CONTAINER_EXITED, named, is_error=True)
    return None


def _pulling(container: ContainerSeen) -> str:
    image = f" with image {container.image}" if container.image else ""
    return (
        f"Container {container.name}{image} is being made: its image is pulled, or its volumes are "
        "mounted."
    )


def reason_of(end: Ended) -> AgentctlReadyReason:
    """The reason for the end of the agent's container.

    The word OOMKilled with exit code 0 tells of a child that was killed: the container went on.
    """
    killed = end.reason == _OOM and end.exit_code != 0
    return AgentctlReadyReason.OOM_KILLED if killed else AgentctlReadyReason.CONTAINER_EXITED


def ending(end: Ended) -> str:
    """How a run ended, as the rest of a sentence."""
    how = "ended" if end.exit_code is None else f"ended with exit code {end.exit_code}"
    named = end.reason not in ("", "Error", "Completed")
    why = f" ({end.reason})" if named else ""
    said = f": {end.message}" if end.message else "."
    return f"{how}{why}{said}"


_EVICTED: Final = "Evicted: "
_DISRUPTED: Final = {
    "EvictionByEvictionAPI": AgentctlReadyReason.POD_EVICTED,
    "PreemptionByScheduler": AgentctlReadyReason.POD_EVICTED,
    "TerminationByKubelet": AgentctlReadyReason.POD_EVICTED,
    "DeletionByTaintManager": AgentctlReadyReason.NODE_LOST,
    "DeletionByPodGC": AgentctlReadyReason.NODE_LOST,
}


def end(
    pod: PodSeen | None, node: Look[NodeSeen], events: str = ""
) -> tuple[AgentctlReadyReason, str]:
    """How a pod came, or comes, to its end: the reason, and a sentence with the kubelet's words.

    `events`: the newest warning about it. A kubelet that evicts a pod whose containers end in
    peace calls it over before it says why; its warning says so at once.
    """
    if pod is None:
        return AgentctlReadyReason.POD_DELETED, "The pod does not exist any more."
    told = f"{pod.reason}: {pod.message}".strip(": ")
    if pod.is_over and pod.reason == "Evicted":
        return AgentctlReadyReason.POD_EVICTED, f"Pod {pod.name} was evicted: {pod.message}"
    if pod.is_over and not pod.reason and events.startswith(_EVICTED):
        said = events.removeprefix(_EVICTED)
        return AgentctlReadyReason.POD_EVICTED, f"Pod {pod.name} was evicted: {said}"
    if pod.disruption is not None:
        why, words = pod.disruption
        reason = _DISRUPTED.get(why, AgentctlReadyReason.POD_EVICTED)
        return reason, f"Pod {pod.name} is ended by the cluster ({why}): {words}"
    if isinstance(node, Missing) and pod.node:
        return AgentctlReadyReason.NODE_LOST, f"Node {pod.node} of pod {pod.name} is gone."
    killed = _killed(pod)
    if killed is not None:
        return killed
    if pod.is_over and pod.reason:
        return _failed(pod, told)
    if pod.is_deleting or pod.is_gone:
        return AgentctlReadyReason.POD_DELETED, f"Pod {pod.name} was deleted."
    if pod.is_over:
        return AgentctlReadyReason.CONTAINER_EXITED, f"Pod {pod.name} ended in phase {pod.phase}."
    return AgentctlReadyReason.POD_DELETED, f"Pod {pod.name} ends."


def _failed(pod: PodSeen, told: str) -> tuple[AgentctlReadyReason, str]:
    """The kubelet, or a controller, gave the pod up and says why in a word of its own."""
    if pod.reason == "DeadlineExceeded":
        said = f"Pod {pod.name} ran for longer than its deadline allows. {told}"
        return AgentctlReadyReason.DEADLINE_EXCEEDED, said
    if pod.reason in ("NodeLost", "NodeShutdown", "Terminated", "Shutdown"):
        return AgentctlReadyReason.NODE_LOST, f"Pod {pod.name} went down with its node. {told}"
    return AgentctlReadyReason.POD_EVICTED, f"The node refuses pod {pod.name}. {told}"


def _killed(pod: PodSeen) -> tuple[AgentctlReadyReason, str] | None:
    """A pod that is over because of one of its containers."""
    if not pod.is_over:
        return None
    for init in pod.inits:
        last = init.ended or init.last
        if last is not None and last.exit_code not in (0, None):
            oom = last.reason == _OOM
            reason = AgentctlReadyReason.OOM_KILLED if oom else AgentctlReadyReason.INIT_FAILED
            return reason, f"Init container {init.name} {ending(last)}"
    agent = pod.agent
    if agent is not None and agent.ended is not None and not pod.reason:
        return reason_of(agent.ended), f"Container {agent.name} {ending(agent.ended)}"
    return None


def is_silent(node: Look[NodeSeen]) -> bool:
    """The node says that it is not ready, its word has run out, or it is gone."""
    if isinstance(node, Found):
        return node.value.ready is not True
    return isinstance(node, Missing)
