"""Sessions in the situations where rules begin: an agent lost, an intent under way, a mode."""

from typing import Any

from builders import (
    a_probe,
    a_report,
    a_session,
    a_status,
    a_token_ref,
    ago,
    an_intent,
    an_operation,
    session_observed,
)
from kandev_operator.api.session import OperatingMode
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.observed import SessionObserved
from plans import written


def gone(
    *, phase: str = "exited", report: dict[str, Any] | None = None, **session: Any
) -> SessionObserved:
    """An agent that had lived for an hour, and ended ten seconds ago."""
    status = session.pop("status", {})
    more = {key: session.pop(key) for key in ("secret", "profile") if key in session}
    fields: dict[str, Any] = {
        "operations": (an_operation(ended_at=ago(3600)),),
        "exit_text": "The agent ended with code 1.",
        "exited_at": ago(10),
        **(report or {}),
    }
    kept: dict[str, Any] = {
        "state": "WAITING_FOR_INPUT",
        "intent": an_intent(at=rfc3339(ago(3600))),
        "agent_execution_id": "exec-1",
        "resume_token_ref": a_token_ref(),
    }
    told = a_session(status=a_status(**{**kept, **status}), **session)
    return session_observed(told, report=a_report(phase, **fields), **more)


NOTHING_YET: dict[str, Any] = {
    "report": {"token": None, "turns_completed": 0},
    "status": {"resume_token_ref": None},
}
"""No conversation was ever opened."""


def intends(plan: Any) -> str:
    """The intent that is newly written, and its attempt."""
    status = written(plan)
    assert status.state == "STARTING"
    return f"{status.intent.kind} {status.attempt}"


def under_way(kind: str = "Resume", *, phase: str = "none", **overrides: Any) -> SessionObserved:
    """An intent is written down. Without `operations`, agentctl has not heard of it."""
    report = {"operations": (), **overrides.pop("report", {})}
    status = {"state": "STARTING", "intent": an_intent(kind), **overrides.pop("status", {})}
    return gone(phase=phase, report=report, status=status, **overrides)


def in_mode(mode: str, *, report: Any = "idle", **session: Any) -> SessionObserved:
    """A session in this operating mode, with its agent in this phase (None: agentctl is silent)."""
    status = session.pop("status", {})
    more = {
        key: session.pop(key) for key in ("task", "profile", "executor", "probe") if key in session
    }
    fields = {"state": "WAITING_FOR_INPUT", "resume_token_ref": a_token_ref(), **status}
    spec = {"operating_mode": next(each for each in OperatingMode if each == mode)}
    told = a_session(spec=spec, status=a_status(**fields), **session)
    if isinstance(report, str):
        report = a_report(report)
    if "probe" not in more:
        more["probe"] = a_probe(report)
    return session_observed(told, **more)
