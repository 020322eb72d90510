"""Bodies of pods as the API server gives them, with what a kubelet writes into their status."""

from typing import Any

from builders import ago, uid_of
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.podseen import PodSeen

Body = dict[str, Any]
IMAGE = "agents.example.com/claude:1"


def ended(code: int, reason: str = "Error", message: str = "") -> Body:
    return {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": rfc3339(ago(50)),
            "finishedAt": rfc3339(ago(5)),
        }
    }


def waiting(reason: str = "ContainerCreating", message: str = "") -> Body:
    return {"waiting": {"reason": reason, "message": message}}


def running(seconds_ago: float = 50) -> Body:
    return {"running": {"startedAt": rfc3339(ago(seconds_ago))}}


def container(state: Body, name: str = "agent", **more: Any) -> Body:
    return {"name": name, "image": IMAGE, "state": state, "restartCount": 0, **more}


def init(state: Body, name: str = "kandev-install", **more: Any) -> Body:
    return container(state, name, **more)


DONE = init(ended(0, "Completed"))


def a_body(
    *containers: Body,
    inits: tuple[Body, ...] = (DONE,),
    number: int = 1,
    node: str | None = "node-1",
    phase: str = "Running",
    deleted: float | None = None,
    conditions: tuple[Body, ...] = (),
    made: float = 60,
    **status: Any,
) -> Body:
    """A pod of executor `ex-a` for session `s-a`. `deleted`: its grace was over so long ago."""
    meta: Body = {
        "name": f"ex-a-{number}",
        "namespace": "team",
        "uid": f"uid-pod-{number}",
        "creationTimestamp": rfc3339(ago(made)),
        "labels": {"kandev.dev/executor-uid": uid_of("ex-a"), "kandev.dev/session-uid": "uid-s-a"},
        "annotations": {"kandev.dev/instance-id": f"{uid_of('ex-a')}-{number}"},
    }
    if deleted is not None:
        meta["deletionTimestamp"] = rfc3339(ago(deleted))
    told: Body = {
        "phase": phase,
        "podIP": "10.0.0.7",
        "conditions": list(conditions),
        "containerStatuses": list(containers),
        "initContainerStatuses": list(inits),
        **status,
    }
    return {"metadata": meta, "spec": {"nodeName": node} if node else {}, "status": told}


def a_pod(*containers: Body, gone: bool = False, **more: Any) -> PodSeen:
    seen = PodSeen.from_body(a_body(*containers, **more))
    return seen.gone() if gone else seen


def condition(type_: str, status: str, reason: str = "", message: str = "", at: float = 50) -> Body:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": rfc3339(ago(at)),
    }
