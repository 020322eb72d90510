"""The failure taxonomy: statuses as real kubelets wrote them, and what each of them means."""

from datetime import timedelta

import pytest

from builders import NOW
from kandev_operator.core.observed import Found, Look, Missing, Unreadable
from kandev_operator.core.pods import death, diagnosis
from kandev_operator.core.podseen import NodeSeen, PodSeen
from unit.core.pods.bodies import DONE, a_pod, condition, container, ended, init, running, waiting

HOUR = timedelta(hours=1)
UNKNOWN: Look[NodeSeen] = Unreadable("nobody asked")
CLONE = "kandev-workspace"


def ill(pod: PodSeen, events: str = "", limit: timedelta = HOUR) -> diagnosis.Ailment | None:
    return diagnosis.ailment(pod, events, limit, NOW)


AILMENTS = {
    "no node takes it": (
        a_pod(node=None, inits=(), conditions=(
            condition("PodScheduled", "False", "Unschedulable", "0/1 nodes: Insufficient cpu."),
        )),
        ("Unschedulable", False, False, "Insufficient cpu"),
    ),
    "waits for the scheduler": (a_pod(node=None, inits=()), ("PodPending", False, False, "wait")),
    "bound, and the kubelet says nothing yet": (
        a_pod(inits=()), ("Starting", False, False, "node-1")
    ),
    "first try of a pull (B040)": (
        a_pod(container(waiting("ErrImagePull", "no such host"))),
        ("ImagePullFailed", False, False, "agents.example.com/claude:1"),
    ),
    "a pull that failed again (B040)": (
        a_pod(container(waiting("ImagePullBackOff", "Back-off pulling image"))),
        ("ImagePullFailed", True, False, "agents.example.com/claude:1"),
    ),
    "an image that may not be pulled": (
        a_pod(container(waiting("ErrImageNeverPull"))), ("ImagePullFailed", True, False, "Never"),
    ),
    "a silent pull names the image (B040)": (
        a_pod(container(waiting())), ("Starting", False, False, "agents.example.com/claude:1"),
    ),
    "the agentctl image cannot be had": (
        a_pod(container(waiting("PodInitializing")), inits=(init(waiting("ImagePullBackOff")),)),
        ("ImagePullFailed", True, False, "kandev-install"),
    ),
    "a step failed, and is tried again": (
        a_pod(container(waiting("PodInitializing")), phase="Pending", inits=(
            init(waiting("CrashLoopBackOff"), lastState=ended(7, message="no space left")),
        )),
        ("InitFailed", True, False, "kandev-install ended with exit code 7: no space left"),
    ),
    "a step was killed for its memory (B026)": (
        a_pod(container(waiting("PodInitializing")), inits=(init(ended(137, "OOMKilled")),)),
        ("OOMKilled", True, False, "kandev-install"),
    ),
    "a step whose command is not there (B026)": (
        a_pod(container(waiting("PodInitializing")), inits=(
            DONE, init(waiting("RunContainerError", 'exec: "/setup": no such file'), "setup"),
        )),
        ("InitFailed", True, False, 'exec: "/setup": no such file'),
    ),
    "the clone failed": (
        a_pod(container(waiting("PodInitializing")), inits=(
            DONE, init(ended(1, message="prepare: could not read Username"), CLONE),
        )),
        ("CloneFailed", True, False, "could not read Username"),
    ),
    "a Secret that the template names is missing": (
        a_pod(container(waiting("CreateContainerConfigError", 'secret "x" not found'))),
        ("InvalidTemplate", True, False, 'secret "x" not found'),
    ),
    "an image of another processor": (
        a_pod(container(waiting("RunContainerError", "exec format error"))),
        ("ContainerExited", True, False, "exec format error"),
    ),
    "ended for the first time (B071)": (
        a_pod(container(ended(3))), ("ContainerExited", False, True, "exit code 3"),
    ),
    "killed for its memory (B026)": (
        a_pod(container(ended(137, "OOMKilled")), phase="Pending"),
        ("OOMKilled", False, True, "OOMKilled"),
    ),
    "only a child was killed for memory, and the container ended well": (
        a_pod(container(ended(0, "OOMKilled"))), ("ContainerExited", False, True, "OOMKilled"),
    ),
    "a crash loop says the last exit code (B071)": (
        a_pod(container(waiting("CrashLoopBackOff"), lastState=ended(3), restartCount=4)),
        ("CrashLoopBackOff", True, True, "exit code 3"),
    ),
    "a loop of memory": (
        a_pod(container(waiting("CrashLoopBackOff"), lastState=ended(137, "OOMKilled"))),
        ("OOMKilled", True, True, "OOMKilled"),
    ),
    "another agentctl has the lock of these files": (
        a_pod(container(ended(73))), ("WorkspaceInUse", False, True, "exit code 73"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AILMENTS)
def test_what_keeps_a_pod_from_serving(name: str) -> None:
    pod, (reason, is_error, down, words) = AILMENTS[name]
    found = ill(pod)
    assert found is not None
    assert (found.reason, found.is_error, found.down) == (reason, is_error, down)
    assert words in found.message


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(container(running())),
        a_pod(container(running(), restartCount=3, lastState=ended(1))),
        a_pod(container(running()), container(ended(1), "database")),
        a_pod(container(running()), container(waiting("ImagePullBackOff"), "database")),
    ],
    ids=["well", "restarted in place", "a neighbour ended", "a neighbour has no image"],
)
def test_a_running_agentctl_is_asked_itself(pod: PodSeen) -> None:
    assert ill(pod) is None


def test_b038_a_mount_that_fails_is_told_and_is_no_error_until_the_start_time_is_over() -> None:
    pod = a_pod(container(waiting()))
    early = ill(pod, "FailedMount: not attached yet")
    assert early is not None
    assert not early.is_error
    assert "FailedMount: not attached yet" in early.message
    late = ill(pod, "FailedMount: not attached yet", timedelta(seconds=30))
    assert late is not None
    assert (late.reason, late.is_error) == ("StartTimedOut", True)
    assert "FailedMount" in late.message


def test_each_step_gives_the_start_time_anew() -> None:
    limit = timedelta(seconds=30)
    just_scheduled = a_pod(inits=(), conditions=(condition("PodScheduled", "True", at=10),))
    found = ill(just_scheduled, limit=limit)
    assert found is not None
    assert not found.is_error


def test_an_unschedulable_pod_becomes_an_error_with_its_own_reason() -> None:
    row = condition("PodScheduled", "False", "Unschedulable", "Insufficient cpu", at=50)
    found = ill(a_pod(node=None, inits=(), conditions=(row,)), limit=timedelta(seconds=30))
    assert found is not None
    assert (found.reason, found.is_error) == ("Unschedulable", True)


EVICTED = 'Usage of EmptyDir volume "v" exceeds the limit "10Mi".'
ENDS = {
    "gone without a word": (None, UNKNOWN, ("PodDeleted", "does not exist")),
    "deleted (B019)": (a_pod(container(running()), deleted=-30), UNKNOWN, ("PodDeleted", "ex-a-1")),
    "evicted by the kubelet, without DisruptionTarget (B020)": (
        a_pod(container(ended(137)), phase="Failed", reason="Evicted", message=EVICTED),
        UNKNOWN,
        ("PodEvicted", EVICTED),
    ),
    "evicted by the Eviction API": (
        a_pod(container(running()), deleted=-30, conditions=(
            condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "API: evicting"),
        )),
        UNKNOWN,
        ("PodEvicted", "API: evicting"),
    ),
    "the taint manager, after its node was lost (B068)": (
        a_pod(container(running()), deleted=-30, conditions=(
            condition("DisruptionTarget", "True", "DeletionByTaintManager", "Taint manager"),
        )),
        UNKNOWN,
        ("NodeLost", "Taint manager"),
    ),
    "a condition that says no": (
        a_pod(container(running()), deleted=-30, conditions=(
            condition("DisruptionTarget", "False", "EvictionByEvictionAPI"),
        )),
        UNKNOWN,
        ("PodDeleted", "deleted"),
    ),
    "its Node object is gone": (
        a_pod(container(running()), deleted=-30), Missing(), ("NodeLost", "node-1"),
    ),
    "the deadline": (
        a_pod(container(ended(137)), phase="Failed", reason="DeadlineExceeded", message="too long"),
        UNKNOWN,
        ("DeadlineExceeded", "too long"),
    ),
    "rejected by the kubelet (B025)": (
        a_pod(phase="Failed", reason="OutOfpods", message="Node is full", inits=()),
        UNKNOWN,
        ("PodEvicted", "Node is full"),
    ),
    "the machine was shut down": (
        a_pod(container(ended(143)), phase="Failed", reason="Terminated", message="node shutdown"),
        UNKNOWN,
        ("NodeLost", "node shutdown"),
    ),
    "a step failed where nothing is restarted (B026)": (
        a_pod(container(waiting("PodInitializing")), phase="Failed", inits=(init(ended(7)),)),
        UNKNOWN,
        ("InitFailed", "exit code 7"),
    ),
    "killed for memory where nothing is restarted": (
        a_pod(container(ended(137, "OOMKilled")), phase="Failed"), UNKNOWN, ("OOMKilled", "137"),
    ),
    "ended in peace where nothing is restarted (B020)": (
        a_pod(container(ended(0, "Completed")), phase="Succeeded"),
        UNKNOWN,
        ("ContainerExited", "exit code 0"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_how_a_pod_came_to_its_end(name: str) -> None:
    pod, node, (reason, words) = ENDS[name]
    found, message = diagnosis.end(pod, node)
    assert found == reason
    assert words in message


def test_b020_an_eviction_whose_containers_ended_in_peace_is_told_by_its_event() -> None:
    pod = a_pod(container(ended(0, "Completed")), phase="Succeeded")
    reason, message = diagnosis.end(pod, UNKNOWN, f"Evicted: {EVICTED}")
    assert reason == "PodEvicted"
    assert EVICTED in message
    assert diagnosis.end(pod, UNKNOWN, "Unhealthy: probe failed")[0] == "ContainerExited"


HEALTHY = Found(NodeSeen(ready=True))
PROOFS = {
    "the object is gone and nobody saw the end": (None, HEALTHY, False),
    "force-deleted while it ran": (a_pod(container(running()), gone=True), HEALTHY, False),
    "the kubelet told its end before the object went": (
        a_pod(container(ended(143)), deleted=0, gone=True), HEALTHY, True,
    ),
    "evicted, and its container ended": (
        a_pod(container(ended(137)), phase="Failed", reason="Evicted"), HEALTHY, True,
    ),
    "called failed from afar, its container still running": (
        a_pod(container(running()), phase="Failed"), Missing(), False,
    ),
    "ended, and will be started again": (a_pod(container(ended(1))), HEALTHY, False),
    "out of service by an administrator's word": (
        a_pod(container(running()), deleted=0), Found(NodeSeen(None, out_of_service=True)), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROOFS)
def test_what_proves_that_an_agent_is_dead(name: str) -> None:
    from builders import a_session

    pod, node, proven = PROOFS[name]
    assert death.is_proven(pod, "uid-pod-1", node, a_session()) is proven


def test_a_person_may_say_so_of_this_very_pod() -> None:
    from builders import a_session

    said = a_session(annotations={"kandev.dev/confirmed-dead": "uid-pod-1"})
    assert death.is_proven(None, "uid-pod-1", UNKNOWN, said)
    assert not death.is_proven(None, "uid-pod-2", UNKNOWN, said)
    assert not death.is_proven(None, None, UNKNOWN, said)
