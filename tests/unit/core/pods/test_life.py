"""What follows for an executor in a pod: made, kept, replaced, given up, and cleared away."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import (
    NOW,
    a_condition,
    a_probe,
    a_profile,
    a_report,
    a_session,
    a_status,
    a_task,
    a_token_ref,
    ago,
    an_executor,
    executor_observed,
    ref_to,
    some_conditions,
    uid_of,
)
from kandev_operator.api.executor import ExecutorStatus, PodRef, PodRuntime, Runtime
from kandev_operator.api.podtemplate import PodOverlay
from kandev_operator.api.session import TaskSession
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.actions import CreatePod, DeleteExecutor, DeletePod, StopAgent
from kandev_operator.core.executor import decide_executor
from kandev_operator.core.observed import (
    ExecutorObserved,
    Failed,
    Found,
    Look,
    Missing,
    PodsSeen,
    Unreadable,
)
from kandev_operator.core.podseen import ClaimSeen, NodeSeen, PodSeen
from unit.core.pods.bodies import a_pod, container, ended, init, running, waiting

IMAGE = "agents.example.com/claude:1"
UP = a_pod(container(running()))
CLAIM = Found(ClaimSeen("s-a-files", "uid-claim", "Bound", ("ReadWriteOnce",)))
SHARED = Found(ClaimSeen("s-a-files", "uid-claim", "Bound", ("ReadWriteMany",)))


def instance(number: int) -> str:
    return f"{uid_of('ex-a')}-{number}"


def a_pod_status(number: int = 1, **overrides: Any) -> ExecutorStatus:
    """Of an executor whose pod of this number answered a while ago."""
    fields: dict[str, Any] = {
        "observed_generation": 1,
        "state": "ready",
        "session_ref": ref_to("s-a"),
        "instance_id": instance(number),
        "boot_id": "boot-1",
        "pod_ref": PodRef(name=f"ex-a-{number}", uid=f"uid-pod-{number}"),
        "node_name": "node-1",
        "agentctl_url": "http://10.0.0.7:8700",
        "started_at": rfc3339(ago(600)),
        "attempt": 1,
        "conditions": some_conditions(
            a_condition("AgentctlReady", "True", "AgentctlReady"),
            a_condition("Ready", "True", "AgentctlReady"),
        ),
    }
    return ExecutorStatus(**{**fields, **overrides})


def talked(**more: Any) -> TaskSession:
    """A session with a conversation."""
    return a_session(status=a_status(resume_token_ref=a_token_ref()), **more)


def seen(
    *pods: PodSeen,
    status: ExecutorStatus | None = None,
    session: TaskSession | None = None,
    made: bool = False,
    spec: dict[str, Any] | None = None,
    report: Any = None,
    failed: Failed | None = None,
    **view: Any,
) -> ExecutorObserved:
    session = session or talked()
    fields: dict[str, Any] = {
        "claim": CLAIM,
        "task": Found(a_task()),
        "profile": Found(a_profile(image=IMAGE)),
        "node": Found(NodeSeen(True)),
    }
    probe = a_probe(report) if report is not None else a_probe(None)
    return executor_observed(
        an_executor(
            runtime=Runtime.POD,
            status=status if status is not None else a_pod_status(),
            made_for=session if made else None,
            spec={"pod": PodRuntime(), **(spec or {})},
        ),
        probe=probe,
        process=Missing(),
        problem=None,
        claimant=session,
        owner=Found(session) if made else Unreadable("made by nobody"),
        bound=Found(session),
        pods=PodsSeen(pods=pods, **{**fields, **view}),
        failed=failed,
    )


def of(o: ExecutorObserved, kind: type) -> list[Any]:
    return [each for each in decide_executor(o, NOW).actions if isinstance(each, kind)]


def status_of(o: ExecutorObserved) -> ExecutorStatus:
    plan = decide_executor(o, NOW)
    assert plan.status is not None
    return plan.status


def reason(status: ExecutorStatus, type_: str = "Ready") -> str:
    return next(each.reason for each in status.conditions if each.type == type_)


def test_nobody_in_means_no_pod() -> None:
    o = replace(seen(status=ExecutorStatus()), claimant=None, bound=Unreadable("nobody"))
    status = status_of(o)
    assert (status.state, reason(status)) == ("stopped", "Idle")
    assert of(o, CreatePod) == []


def test_binding_and_the_first_pod_are_one_pass_and_one_write() -> None:
    o = replace(seen(status=ExecutorStatus(), made=True), bound=Unreadable("nobody"))
    (made,) = of(o, CreatePod)
    status = status_of(o)
    assert made.manifest["metadata"]["annotations"]["kandev.dev/instance-id"] == instance(1)
    assert (status.session_ref, status.instance_id) == (ref_to("s-a"), instance(1))


def test_b037_a_pod_that_an_interrupted_pass_made_is_taken_over() -> None:
    o = replace(seen(UP, status=ExecutorStatus(), made=True), bound=Unreadable("nobody"))
    assert of(o, CreatePod) == []
    assert status_of(o).instance_id == instance(1)


def test_a_pod_that_answers_is_ready_and_named() -> None:
    o = seen(UP, status=a_pod_status(boot_id=None, state="starting"), report=a_report())
    status = status_of(o)
    assert (status.state, status.boot_id) == ("ready", "boot-1")
    assert status.pod_ref == PodRef(name="ex-a-1", uid="uid-pod-1")


LOST = {
    "deleted": a_pod(container(ended(143)), deleted=5, gone=True),
    "evicted": a_pod(container(ended(137)), phase="Failed", reason="Evicted", message="disk"),
    "on its way out, and ended": a_pod(container(ended(143)), deleted=-20),
}


@pytest.mark.parametrize("name", LOST)
def test_b020_a_lost_pod_is_replaced_by_the_next_number(name: str) -> None:
    o = seen(LOST[name])
    (made,) = of(o, CreatePod)
    status = status_of(o)
    assert status.instance_id == instance(2)
    assert (status.boot_id, status.agentctl_url) == (None, None)
    assert status.state == "starting"
    env = made.manifest["spec"]["containers"][0]["env"]
    assert {"name": "KANDEV_DEAD_BOOT_ID", "value": "boot-1"} in env, "its death is proven"


def test_without_proof_the_next_pod_is_made_and_the_workspace_decides() -> None:
    (made,) = of(seen(a_pod(container(running()), gone=True)), CreatePod)
    names = {each["name"] for each in made.manifest["spec"]["containers"][0]["env"]}
    assert "KANDEV_DEAD_BOOT_ID" not in names


def test_a_pod_that_is_ending_has_its_time() -> None:
    o = seen(a_pod(container(running()), deleted=-20))
    assert of(o, CreatePod) == []
    status = status_of(o)
    assert (status.state, reason(status), status.agentctl_url) == ("starting", "PodDeleted", None)


def test_b068_one_that_never_ends_is_waited_for_no_longer_than_its_time_and_a_grace() -> None:
    assert of(seen(a_pod(container(running()), deleted=50)), CreatePod) == []
    assert len(of(seen(a_pod(container(running()), deleted=61)), CreatePod)) == 1


def test_what_is_over_or_ending_is_never_dialled() -> None:
    for pod in LOST.values():
        assert not pod.can_be_asked
    assert not a_pod(container(waiting("CrashLoopBackOff"))).can_be_asked
    assert UP.can_be_asked


@pytest.mark.parametrize("policy", ["OnRequest", "Never"])
def test_a_policy_that_waits_leaves_it_stopped(policy: str) -> None:
    o = seen(LOST["deleted"], session=talked(policy=policy))
    status = status_of(o)
    assert (status.state, reason(status)) == ("stopped", "PodDeleted")
    assert of(o, CreatePod) == []


def test_a_wish_brings_it_back() -> None:
    asked = talked(policy="OnRequest", annotations={"kandev.dev/resume-requested": "now"})
    assert len(of(seen(LOST["deleted"], session=asked), CreatePod)) == 1


def test_without_a_conversation_nothing_is_waited_for() -> None:
    fresh = a_session(policy="Never", status=a_status())
    assert len(of(seen(LOST["deleted"], session=fresh), CreatePod)) == 1


def test_a_shared_volume_and_a_silent_node_want_proof() -> None:
    gone = a_pod(container(running()), gone=True)
    o = seen(gone, claim=SHARED, node=Found(NodeSeen(None)))
    status = status_of(o)
    assert (status.state, reason(status)) == ("error", "NodeLost")
    assert "kandev.dev/confirmed-dead=uid-pod-1" in (status.error_message or "")
    assert of(o, CreatePod) == []
    sure = talked(annotations={"kandev.dev/confirmed-dead": "uid-pod-1"})
    assert len(of(seen(gone, claim=SHARED, node=Missing(), session=sure), CreatePod)) == 1
    assert len(of(seen(gone, claim=SHARED, node=Found(NodeSeen(True))), CreatePod)) == 1


def test_a_pod_that_is_called_dead_is_removed_at_once() -> None:
    sure = talked(annotations={"kandev.dev/confirmed-dead": "uid-pod-1"})
    o = seen(UP, session=sure, node=Found(NodeSeen(None)))
    (removed,) = of(o, DeletePod)
    assert (removed.uid, removed.at_once) == ("uid-pod-1", True)
    assert len(of(o, CreatePod)) == 1


def test_pods_that_end_again_and_again_have_to_wait() -> None:
    soon = a_pod_status(3, started_at=rfc3339(ago(5)), attempt=2)
    o = seen(a_pod(phase="Failed", reason="OutOfpods", inits=(), number=3), status=soon)
    status = status_of(o)
    assert (status.state, status.attempt) == ("error", 3)
    assert status.next_attempt_at is not None
    later = decide_executor(replace(o, executor=o.executor.replacing(status=status)), NOW)
    assert [each for each in later.actions if isinstance(each, CreatePod)] == []
    due = NOW + timedelta(hours=1)
    again = decide_executor(replace(o, executor=o.executor.replacing(status=status)), due)
    assert [type(each) for each in again.actions if isinstance(each, CreatePod)] == [CreatePod]


def test_a_pod_that_has_not_started_follows_its_template_and_one_that_runs_does_not() -> None:
    waits = a_pod(container(waiting("ImagePullBackOff")))
    (removed,) = of(seen(waits, status=a_pod_status(boot_id=None, state="error")), DeletePod)
    assert removed.uid == "uid-pod-1"
    assert of(seen(UP, report=a_report()), DeletePod) == []


def test_a_pod_of_another_session_is_removed_first() -> None:
    other = replace(UP, session_uid="uid-other")
    assert [each.uid for each in of(seen(other), DeletePod)] == ["uid-pod-1"]


GOING = Found(ClaimSeen("s-a-files", "uid-claim", "Bound", is_deleting=True))


@pytest.mark.parametrize(
    ("claim", "words"), [(Missing(), "does not exist"), (GOING, "is being deleted")]
)
def test_a_claim_that_is_gone_or_goes_is_an_error_and_no_pod(
    claim: Look[ClaimSeen], words: str
) -> None:
    o = seen(LOST["deleted"], claim=claim)
    status = status_of(o)
    assert (status.state, reason(status)) == ("error", "WorkspaceMissing")
    assert words in (status.error_message or "")
    assert of(o, CreatePod) == []
    waits = seen(a_pod(node=None, inits=()), claim=claim, status=a_pod_status(boot_id=None))
    assert [each.uid for each in of(waits, DeletePod)] == ["uid-pod-1"], "it would wait for ever"


def test_a_template_that_fights_stalls() -> None:
    overlay = PodOverlay.model_validate(
        {"spec": {"containers": [{"name": "agent", "command": ["sh"]}]}}
    )
    pod = {"pod": PodRuntime(template=overlay)}
    o = replace(seen(status=ExecutorStatus(), spec=pod), bound=Unreadable("nobody"))
    status = status_of(o)
    assert (status.state, reason(status)) == ("error", "InvalidTemplate")
    assert reason(status, "Stalled") == "InvalidTemplate"
    assert reason(status, "PodScheduled") == "InvalidTemplate"


def test_a_quota_is_tried_again_and_an_invalid_pod_is_not() -> None:
    quota = Failed("CreatePod", "QuotaExceeded", "exceeded quota: small", fatal=False)
    o = seen(status=a_pod_status(boot_id=None, pod_ref=None, state="starting"), failed=quota)
    status = status_of(o)
    assert (status.state, reason(status, "PodScheduled")) == ("error", "QuotaExceeded")
    assert status.next_attempt_at is not None
    invalid = Failed("CreatePod", "InvalidTemplate", "no such field", fatal=True)
    status = status_of(replace(o, failed=invalid))
    assert reason(status, "Stalled") == "InvalidTemplate"
    assert status.next_attempt_at is None


def test_b025_pods_that_are_over_are_kept_for_a_while_and_then_go() -> None:
    def old(number: int, minutes: float) -> PodSeen:
        made = ago(minutes * 60)
        pod = a_pod(phase="Failed", reason="Evicted", inits=(), number=number)
        return replace(pod, created=made)

    status = a_pod_status(9)
    current = replace(UP, instance_id=instance(9), uid="uid-pod-9")
    o = seen(current, old(1, 61), old(2, 59), status=status, report=a_report())
    assert [each.uid for each in of(o, DeletePod)] == ["uid-pod-1"]
    many = [old(number, number) for number in range(1, 6)]
    o = seen(current, *many, status=status, report=a_report())
    assert {each.uid for each in of(o, DeletePod)} == {"uid-pod-4", "uid-pod-5"}


def test_a_pod_that_runs_beside_the_current_one_goes() -> None:
    current = replace(UP, instance_id=instance(2), uid="uid-pod-2")
    o = seen(UP, current, status=a_pod_status(2), report=a_report())
    assert [each.uid for each in of(o, DeletePod)] == ["uid-pod-1"]


def test_a_session_that_lets_go_takes_agent_then_pod_then_its_place() -> None:
    gone = a_session(status=a_status(executor_ref=None))
    stops = seen(UP, session=gone, report=a_report())
    stops = replace(stops, claimant=None)
    assert len(of(stops, StopAgent)) == 1
    assert of(stops, DeletePod) == []
    removes = replace(stops, probe=a_probe(a_report("none")))
    assert [each.uid for each in of(removes, DeletePod)] == ["uid-pod-1"]
    free = replace(removes, pods=PodsSeen(pods=(LOST["deleted"],)))
    status = status_of(free)
    assert (status.session_ref, status.state) == (None, "stopped")
    assert (status.pod_ref, status.agentctl_url) == (None, None)


def test_a_drained_executor_of_a_template_is_deleted_when_it_is_empty() -> None:
    o = seen(spec={"drain": True}, made=True, status=a_pod_status(session_ref=None))
    assert len(of(o, DeleteExecutor)) == 1
    kept = seen(spec={"drain": True}, status=a_pod_status(session_ref=None))
    assert of(kept, DeleteExecutor) == []


def test_a_drain_whose_agentctl_is_silent_ends_at_its_deadline() -> None:
    spec = {"drain": True, "drain_deadline_seconds": 30}
    rows = (a_condition("Draining", "True", "WaitingForTurn", seconds_ago=31),)
    late = seen(UP, spec=spec, status=a_pod_status(conditions=some_conditions(*rows)))
    assert [each.uid for each in of(late, DeletePod)] == ["uid-pod-1"]
    rows = (a_condition("Draining", "True", "WaitingForTurn", seconds_ago=10),)
    early = seen(UP, spec=spec, status=a_pod_status(conditions=some_conditions(*rows)))
    assert of(early, DeletePod) == []


def test_a_restart_in_place_is_told_from_a_silence() -> None:
    killed = container(running(2), restartCount=1, lastState=ended(137, "OOMKilled"))
    status = status_of(seen(a_pod(killed)))
    assert (status.state, reason(status)) == ("starting", "OOMKilled")
    assert status.instance_id == instance(1)


def test_a_silent_node_is_named_and_its_pod_is_not_replaced() -> None:
    o = seen(UP, node=Found(NodeSeen(None)))
    status = status_of(o)
    assert (status.state, reason(status)) == ("starting", "NodeUnknown")
    assert of(o, CreatePod) == []


def test_init_steps_and_pulls_are_starting_until_they_fail() -> None:
    pulling = a_pod(container(waiting("PodInitializing")), inits=(init(waiting()),))
    fresh = a_pod_status(boot_id=None, state="starting")
    o = seen(pulling, status=fresh, task=Missing())
    plan = decide_executor(o, NOW)
    assert plan.status is None or plan.status.state == "starting"
