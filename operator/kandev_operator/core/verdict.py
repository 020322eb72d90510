"""The shapes of an answer: what one rule says of an object, and the plan that comes of it.

A rule answers with a `Verdict` or passes (None). A verdict says what holds (Ready, the state, the
reason, one sentence) and what to do; it never builds status by hand: `status` renders the whole
of it from the verdict and the observation, so that no rule can forget a field.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from kandev_operator.api.conditions import FALSE, TRUE, UNKNOWN
from kandev_operator.api.session import IntentKind, SessionState
from kandev_operator.core.actions import Action

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Notice:
    """A Kubernetes Event to be posted when the status of the same plan is written."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Plan(Generic[S]):
    """What to do, what to write, when to look again."""

    actions: tuple[Action, ...] = ()
    status: S | None = None
    """The whole status to be stored; None: leave it as it is."""
    requeue: timedelta | None = None
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class NewIntent:
    """What must not happen twice, about to be written down."""

    kind: IntentKind
    attempt: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule's answer for a session."""

    ready: str
    """True, False or Unknown: has the mode that was asked for been reached?"""
    reason: str
    message: str
    state: SessionState | None = None
    """None: the session keeps its state."""
    agent: tuple[str, str, str] | None = None
    """AgentReady: status, reason, message. None: not ready, for the same reason."""
    stalled: bool = False
    progressing: str | None = None
    """The reason of condition Reconciling; None: nothing is under way."""
    retry_at: datetime | None = None
    actions: tuple[Action, ...] = ()
    intent: NewIntent | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Status fields, by their Python names, that differ from what would be rendered."""
    requeue: timedelta | None = None
    hold: bool = False
    """Nothing is known that would change anything: do not touch status."""
    agent_running: bool | None = False
    not_found: bool = False
    quiet: bool = False
    """No Event for this edge: healthy progress."""


Rule = Callable[[S, datetime], "Verdict | None"]

AT_ONCE = timedelta(0)


def hold(after: timedelta | None = None) -> Verdict:
    """Nothing new is known: status stays as it stands."""
    return Verdict(ready=UNKNOWN, reason="", message="", hold=True, requeue=after)


def reached(reason: str, message: str, state: SessionState | None, **more: Any) -> Verdict:
    """The mode that was asked for is reached."""
    return Verdict(ready=TRUE, reason=reason, message=message, state=state, **more)


def underway(reason: str, message: str, state: SessionState | None, **more: Any) -> Verdict:
    """Not there yet, and the operator works on it."""
    more.setdefault("progressing", reason)
    more.setdefault("quiet", True)
    return Verdict(ready=FALSE, reason=reason, message=message, state=state, **more)


def failed(reason: str, message: str, *, retry_at: datetime | None, **more: Any) -> Verdict:
    """ERROR: with a retry that is due at a known time, or stalled until a person acts."""
    return Verdict(
        ready=FALSE,
        reason=reason,
        message=message,
        state=SessionState.ERROR,
        stalled=retry_at is None,
        progressing=None if retry_at is None else "Retrying",
        retry_at=retry_at,
        **more,
    )
