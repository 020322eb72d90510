"""How things are stored, in a session's status and in an executor's alike.

agentctl is not trusted: a moment that is none would have the API server refuse the whole status.
"""

from datetime import datetime
from typing import Any

from kandev_operator.api import conditions
from kandev_operator.api.agent import AgentIdentity
from kandev_operator.api.conditions import Condition, Conditions
from kandev_operator.api.timestamps import moment
from kandev_operator.core.observed import CapabilitiesSeen


def told_moment(text: str | None) -> datetime | None:
    """A moment that agentctl told; None where it is none."""
    try:
        return moment(text) if text else None
    except ValueError:
        return None


def stamp(text: str | None) -> str | None:
    """The same as text, fit to be stored."""
    return text if told_moment(text) else None


def capabilities(seen: CapabilitiesSeen) -> dict[str, Any] | None:
    """Fields of the stored capabilities; None while the agent has not answered."""
    if seen.probed_at is None or seen.supports_session_resume is None:
        return None
    named = AgentIdentity(name=seen.agent_name, version=seen.agent_version)
    return {
        "supports_session_resume": seen.supports_session_resume,
        "supports_workspace_only": seen.supports_workspace_only,
        "agent": named if seen.agent_name else None,
        "load_session": seen.load_session,
        "resume_session": seen.resume_session,
        "list_sessions": seen.list_sessions,
        "probed_at": stamp(seen.probed_at),
    }


def transitions(known: Conditions) -> list[datetime]:
    """When these conditions came to say what they say."""
    return [moment(each.last_transition_time) for each in known if each.last_transition_time]


Row = tuple[str, str, str, str]
"""A condition before it is dated: type, status, reason, message."""


def put(known: Conditions, row: Row, generation: int | None, now: datetime) -> Conditions:
    """The conditions with this row in place of the earlier one of its type."""
    type_, truth, reason, message = row
    new = Condition(
        type=type_,
        status=truth,
        reason=str(reason),
        message=message,
        observed_generation=generation,
    )
    return conditions.set_condition(known, new, now)
