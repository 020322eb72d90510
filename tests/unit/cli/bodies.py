"""Objects as the plugin reads them: a session that is bound, its executor, and their conditions."""

from datetime import UTC, datetime, timedelta
from typing import Any

from kandev_operator.api.executor import Executor
from kandev_operator.api.session import TaskSession

NS, NAME = "team-a", "demo"
SESSION_UID, EXECUTOR_UID = "session-uid", "executor-uid"
AT = "2026-11-30T14:00:00Z"
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
Json = dict[str, Any]


def condition(type_: str, status: str, reason: str, message: str = "", since: str = AT) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since,
        "observedGeneration": 1,
    }


def session_body(
    conditions: list[Json] | None = None, spec: Json | None = None, **status: Any
) -> Json:
    """A session that is bound and whose agent is idle, unless told otherwise."""
    idle = [
        condition("Ready", "True", "AgentReady"),
        condition("AgentReady", "True", "AgentReady"),
        condition("Resumable", "True", "Resumable"),
    ]
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "TaskSession",
        "metadata": {"name": NAME, "namespace": NS, "uid": SESSION_UID, "generation": 1},
        "spec": {
            "taskRef": {"name": "work"},
            "agentProfileRef": {"name": "claude"},
            "executor": {"ref": {"name": "place"}},
            **(spec or {}),
        },
        "status": {
            "observedGeneration": 1,
            "state": "WAITING_FOR_INPUT",
            "isAgentRunning": True,
            "isResumable": True,
            "needsResume": False,
            "executorRef": {"name": "place", "uid": EXECUTOR_UID},
            "executorStatus": "ready",
            "conditions": idle if conditions is None else conditions,
            **status,
        },
    }


def executor_body(url: str | None, spec: Json | None = None, **status: Any) -> Json:
    return {
        "apiVersion": "kandev.dev/v1alpha1",
        "kind": "Executor",
        "metadata": {"name": "place", "namespace": NS, "uid": EXECUTOR_UID, "generation": 1},
        "spec": spec
        or {"runtime": "LocalStandalone", "localStandalone": {"worktreePath": "/srv/demo"}},
        "status": {
            "state": "ready",
            "sessionRef": {"name": NAME, "uid": SESSION_UID},
            "agentctlURL": url,
            "instanceId": "instance-1",
            "conditions": [condition("AgentctlReady", "True", "AgentctlReady")],
            **status,
        },
    }


def a_session(*args: Any, **kwargs: Any) -> TaskSession:
    return TaskSession.from_body(session_body(*args, **kwargs))


def an_executor(url: str | None = "http://10.0.0.7:8700", **kwargs: Any) -> Executor:
    return Executor.from_body(executor_body(url, **kwargs))


def lease(age: timedelta, holder: str = "operator_1", seconds: int = 1) -> Json:
    """An operator's Lease that was renewed so long ago."""
    renewed = datetime.now(UTC) - age
    return {
        "metadata": {"name": "kandev-operator", "resourceVersion": "1"},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "leaseTransitions": 3,
            "renewTime": renewed.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z",
        },
    }
