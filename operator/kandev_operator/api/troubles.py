"""In which way is a session stuck, and since when? Read off the object as it is stored.

A trouble is what an alert is about: there is one alert and one runbook page for each. Reasons are
many and say what exactly is wrong; a trouble says what kind of help is needed. Both speak in the
sentences that document them, here and in `reasons`, so that alerts, the dashboard and
`kubectl kandev why` use the same words.

Nothing here decides anything: the operator has written down all that is read. What rests (asked
to, finished, being deleted) is not stuck. How long is too long, the alerts say.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.api.executor import ExecutorState
from kandev_operator.api.reasons import (
    AgentctlReadyReason,
    AgentReadyReason,
    ExecutorReadyReason,
    ResumableReason,
    meaning,
    resume_word,
)
from kandev_operator.api.session import SessionState
from kandev_operator.api.words import Word


class Trouble(Word):
    """How a session can be stuck. The first that holds is told."""

    UNSEEN = "Unseen", "No operator has looked at the session yet."
    CLOCK_SKEW = (
        "ClockSkew",
        "The clocks of agentctl and operator differ by more than tokens allow.",
    )
    TOKEN_REFUSED = "TokenRefused", "The executor's agentctl refuses the operator's token."
    AGENTCTL_UNREACHABLE = "AgentctlUnreachable", "The executor's agentctl does not answer well."
    CAPABILITY_UNKNOWN = "CapabilityUnknown", "It is not known yet what the agent can do."
    EXECUTOR_BUSY = "ExecutorBusy", "The session waits for an executor that another one is in."
    EXECUTOR_FAILED = "ExecutorFailed", "The session's executor cannot be used."
    FAILED = "Failed", "The session is in error, and its executor is not why."
    NEEDS_RESUME = "NeedsResume", "The agent is gone and has not been asked back."
    STARTING = "Starting", "The session is on its way and has not arrived."
    AWAITING_PERMISSION = "AwaitingPermission", "A turn waits for somebody's permission."

    @property
    def alert(self) -> str:
        """What the alert about it is called."""
        return f"Kandev{self}"

    @property
    def runbook(self) -> str:
        """Where the repository says what to do."""
        return f"operator/runbooks/{resume_word(self).replace('_', '-')}.md"


class Problem(Word):
    """What keeps an operator from being ready. `/readyz` tells the details."""

    SCHEMA = "Schema", "The cluster's CRDs are missing, or older than this operator."
    KEY = "Key", "The signing key's Secret cannot be read, made or used."
    RIGHTS = "Rights", "The operator may not do all that it will have to."
    LISTS = "Lists", "Not everything could be listed: the operator does not know all objects."
    WATCH = "Watch", "The watch is not up: changes are seen late, by sweeps alone."
    LEASE = "Lease", "The Lease cannot be read or written: nobody can be sure to lead."


_BY_REASON: Final[Mapping[str, Trouble]] = {
    str(AgentctlReadyReason.CLOCK_SKEW): Trouble.CLOCK_SKEW,
    str(AgentctlReadyReason.AUTHENTICATION_FAILED): Trouble.TOKEN_REFUSED,
    str(AgentctlReadyReason.AGENTCTL_UNREACHABLE): Trouble.AGENTCTL_UNREACHABLE,
    str(AgentctlReadyReason.AGENTCTL_UNHEALTHY): Trouble.AGENTCTL_UNREACHABLE,
    str(ResumableReason.CAPABILITY_UNKNOWN): Trouble.CAPABILITY_UNKNOWN,
    str(ExecutorReadyReason.EXECUTOR_BUSY): Trouble.EXECUTOR_BUSY,
}
"""Reasons that are a trouble of their own, whatever state the session is in."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """One session's trouble, in the words of its status."""

    trouble: Trouble
    state: str
    reason: str
    meaning: str
    """The sentence that documents the reason; the trouble's own where the reason is none."""
    since: str | None
    """Since when the session is not ready (RFC 3339); for a permission, since the turn began."""


Stored = Mapping[str, Any]


def state_and_reason(body: Stored) -> tuple[str, str]:
    """Where an object stands: its state and the reason that `Ready` gives; empty where unsaid."""
    status = body.get("status") or {}
    ready = _condition(status, "Ready") or {}
    return status.get("state") or "", ready.get("reason") or ""


def stuck(body: Stored) -> Stuck | None:
    """The trouble of a TaskSession as the cluster stores it; None where there is none."""
    meta, status = body.get("metadata") or {}, body.get("status") or {}
    if meta.get("deletionTimestamp"):
        return None
    ready = _condition(status, "Ready")
    if ready is None:
        return _told(Trouble.UNSEEN, status, "", meta.get("creationTimestamp"))
    if ready.get("status") == "True":
        turn = status.get("turn") or {}
        if not turn.get("awaitingPermission"):
            return None
        reason = str(AgentReadyReason.AWAITING_PERMISSION)
        return _told(Trouble.AWAITING_PERMISSION, status, reason, turn.get("startedAt"))
    reason = ready.get("reason") or ""
    trouble = _BY_REASON.get(reason) or _by_state(status, reason)
    return _told(trouble, status, reason, ready.get("lastTransitionTime"))


def _by_state(status: Stored, reason: str) -> Trouble:
    """What a session is in that is not ready, for a reason that is no trouble of its own."""
    if status.get("state") == SessionState.ERROR:
        executor = _condition(status, "ExecutorReady") or {}
        explains = executor.get("status") == "False" and executor.get("reason") == reason
        broken = explains or status.get("executorStatus") == ExecutorState.ERROR
        return Trouble.EXECUTOR_FAILED if broken else Trouble.FAILED
    if status.get("needsResume"):
        return Trouble.NEEDS_RESUME
    stalled = _condition(status, "Stalled") or {}
    return Trouble.FAILED if stalled.get("status") == "True" else Trouble.STARTING


def _told(trouble: Trouble, status: Stored, reason: str, since: str | None) -> Stuck:
    conditions = status.get("conditions") or ()
    spoken = [(each.get("type") or "", each.get("reason") or "") for each in conditions]
    home = "AgentReady" if trouble is Trouble.AWAITING_PERMISSION else "Ready"
    said = meaning(home, reason, spoken) if reason else ""
    return Stuck(trouble, status.get("state") or "", reason, said or trouble.doc, since)


def _condition(status: Stored, type_: str) -> Stored | None:
    for each in status.get("conditions") or ():
        if each.get("type") == type_:
            found: Stored = each
            return found
    return None
