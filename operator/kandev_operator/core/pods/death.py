"""Is the agent of an earlier pod surely dead? One writer at a time, and what is enough to know it.

A vanished pod object proves nothing: a force-deleted pod's container lives on. Proof is a
container that the kubelet reported terminated where none can be started again, a node that an
administrator declared out of service, or a person's word, naming the pod's UID. Without proof the
next pod is made all the same, and the fence on the workspace decides; only where that fence
cannot be trusted (a volume that other machines write too) and nobody hears of the old node must
the next pod wait.
"""

from kandev_operator.api import group
from kandev_operator.api.session import TaskSession
from kandev_operator.core.observed import Found, Look
from kandev_operator.core.podseen import ClaimSeen, NodeSeen, PodSeen


def is_proven(pod: PodSeen | None, uid: str | None, node: Look[NodeSeen], by: TaskSession) -> bool:
    """Whether the agent that ran in this pod is dead beyond doubt."""
    if is_confirmed(by, uid):
        return True
    if isinstance(node, Found) and node.value.out_of_service:
        return True
    return pod is not None and has_ended(pod)


def is_confirmed(by: TaskSession, uid: str | None) -> bool:
    """A person said that this very pod is dead."""
    said = by.metadata.annotations.get(group.ANNOTATION_CONFIRMED_DEAD)
    return uid is not None and said == uid


def has_ended(pod: PodSeen) -> bool:
    """The kubelet reported the end of the agent's container, and will not start it again."""
    agent = pod.agent
    over = pod.is_over or pod.is_deleting or pod.is_gone
    return over and agent is not None and agent.state == "terminated"


def must_wait(claim: Look[ClaimSeen] | None, node: Look[NodeSeen]) -> bool:
    """No agent may start without proof: the workspace is shared, and the node is silent."""
    shared = isinstance(claim, Found) and claim.value.is_shared
    reachable = isinstance(node, Found) and node.value.ready is True
    return shared and not reachable
