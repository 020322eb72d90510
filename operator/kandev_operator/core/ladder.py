"""May this conversation be resumed, and does it need to be? Asked in one order, here only.

The questions of the resume ladder for a session: is there a conversation at all, may it be
resumed (profile AND agent's capability AND token), and if not, why not. The answers are
three-valued: an unknown capability or an unreadable token is neither yes nor no. What follows
from the answers is decided in `agentrules`.
"""

from dataclasses import dataclass

from kandev_operator.api import conditions
from kandev_operator.api.reasons import ResumableReason
from kandev_operator.api.session import TaskSession
from kandev_operator.core.observed import (
    Found,
    SessionObserved,
    TokenSeen,
    Unreadable,
)


@dataclass(frozen=True, slots=True)
class Resumability:
    """The answer: yes, no or unknown (None), its reason, and one sentence."""

    answer: bool | None
    reason: str
    message: str


def known_token(o: SessionObserved) -> TokenSeen | None:
    """The session's token: agentctl's journal first, then the Secret; the higher epoch wins."""
    journal = o.own_report.token if o.own_report else None
    kept = o.secret.value if isinstance(o.secret, Found) else None
    if journal is None or kept is None:
        return journal or kept
    return kept if kept.epoch > journal.epoch else journal


def token_unreadable(o: SessionObserved) -> bool:
    """No token in the journal, and the Secret could not be read: nothing may be concluded."""
    return known_token(o) is None and isinstance(o.secret, Unreadable)


def had_turn(o: SessionObserved) -> bool:
    """Whether a turn was ever completed: only then is there a history that could be lost."""
    ref = o.session.status.resume_token_ref
    token = known_token(o)
    report = o.own_report
    return bool(
        (ref is not None and ref.established)
        or (token is not None and token.established)
        or (report is not None and report.turns_completed > 0)
    )


def has_conversation(o: SessionObserved) -> bool:
    """Whether there is anything to resume, be it only promised."""
    return (
        had_turn(o) or known_token(o) is not None or o.session.status.resume_token_ref is not None
    )


def supports_resume(o: SessionObserved) -> bool | None:
    """Whether the agent can resume: profile AND last known capability. None: not known yet."""
    if isinstance(o.profile, Found) and not o.profile.value.profile.spec.supports_session_resume:
        return False
    live = live_capability(o)
    if live is not None:
        return live
    last = o.session.status.capabilities
    return last.supports_session_resume if last is not None else None


def live_capability(o: SessionObserved) -> bool | None:
    """What the agent answered for the profile as it is now. None: it was not asked yet."""
    report = o.own_report
    if report is None:
        return None
    caps = report.capabilities
    if isinstance(o.profile, Found) and caps.profile_hash != o.profile.value.hash:
        return None
    return caps.supports_session_resume


def was_not_found(session: TaskSession) -> bool:
    """The agent once said for certain that this very token has no conversation."""
    found = conditions.get(session.status.conditions, "Resumable")
    return found is not None and found.reason == ResumableReason.SESSION_NOT_FOUND


def resumability(o: SessionObserved, *, not_found: bool) -> Resumability:
    """Could the conversation be taken up in a new process?

    `not_found`: the newest attempt ended in a definite not-found for exactly this token.
    """
    able = supports_resume(o)
    if able is False:
        return Resumability(
            False, ResumableReason.NOT_RESUMABLE, "This agent cannot resume previous sessions."
        )
    if token_unreadable(o):
        return Resumability(
            None,
            ResumableReason.RESUME_TOKEN_UNKNOWN,
            "The Secret that keeps the resume token cannot be read at present.",
        )
    if not_found:
        return Resumability(
            False,
            ResumableReason.SESSION_NOT_FOUND,
            "The agent definitely has no such conversation any more.",
        )
    if known_token(o) is None and not _token_elsewhere(o):
        if had_turn(o):
            return Resumability(
                False, ResumableReason.MISSING_RESUME_TOKEN, "There is nothing to resume yet."
            )
        return Resumability(
            False, ResumableReason.NO_CONVERSATION, "No conversation has been opened yet."
        )
    if able is None:
        return Resumability(
            None,
            ResumableReason.CAPABILITY_UNKNOWN,
            "The agent could not be asked yet whether it can resume.",
        )
    if _history_lost(o):
        return Resumability(
            True,
            ResumableReason.HISTORY_LOST,
            "The agent answered the last resume with another conversation: the earlier history "
            "is lost, the old token is kept as previous.",
        )
    return Resumability(True, ResumableReason.RESUMABLE, "Profile, agent and token permit it.")


def _token_elsewhere(o: SessionObserved) -> bool:
    """Status says that a token is kept, and nobody has looked and proven the contrary."""
    return o.session.status.resume_token_ref is not None and o.secret is None


def _history_lost(o: SessionObserved) -> bool:
    report, intent = o.own_report, o.session.status.intent
    if report is None or intent is None:
        kept = conditions.get(o.session.status.conditions, "Resumable")
        return kept is not None and kept.reason == ResumableReason.HISTORY_LOST
    operation = report.operation(intent.operation_id)
    return operation is not None and operation.token_replaced
