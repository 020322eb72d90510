"""May this conversation be resumed, and does it need to be? Asked in one order, here only.

The questions of the resume ladder for a session: is there a conversation at all, may it be
resumed (profile AND agent's capability AND token), and if not, why not. The answers are
three-valued: an unknown capability or an unreadable token is neither yes nor no. What follows
from the answers is decided in `agentrules`.
"""

from dataclasses import dataclass

from kandev_operator.api import conditions
from kandev_operator.api.reasons import ResumableReason
from kandev_operator.api.session import IntentKind, TaskSession
from kandev_operator.core.observed import (
    Found,
    Missing,
    OperationSeen,
    SessionObserved,
    TokenSeen,
    Unreadable,
)
from kandev_operator.core.stored import told_moment


@dataclass(frozen=True, slots=True)
class Resumability:
    """The answer: yes, no or unknown (None), its reason, and one sentence."""

    answer: bool | None
    reason: str
    message: str


def is_retiring(o: SessionObserved) -> bool:
    """A fresh start was decided and is not known to be done: every token is still the old one.

    Once it was done status or the Secret has the new token, and that stays true when the journal
    that knew of the operation is lost: an old intent must not retire a second conversation.
    """
    status, intent = o.session.status, o.session.status.intent
    if intent is None or intent.kind != IntentKind.FRESH_START:
        return False
    if status.resume_token_ref is not None:
        return False
    if isinstance(o.secret, Found) and o.secret.value.epoch >= (status.epoch or 0):
        return False
    operation = o.own_report.operation(intent.operation_id) if o.own_report else None
    return operation is None or operation.state != "succeeded"


def known_token(o: SessionObserved) -> TokenSeen | None:
    """The session's token: agentctl's journal first, then the Secret; the higher epoch wins."""
    if is_retiring(o):
        return None
    journal = _said(o.own_report.token if o.own_report else None)
    kept = _said(o.secret.value if isinstance(o.secret, Found) else None)
    if journal is None or kept is None:
        return journal or kept
    return kept if kept.epoch > journal.epoch else journal


def _said(token: TokenSeen | None) -> TokenSeen | None:
    """A blank token names no conversation: it is as good as none."""
    return token if token is not None and token.value.strip() else None


def token_unreadable(o: SessionObserved) -> bool:
    """No token in the journal, and the Secret could not be read: nothing may be concluded."""
    return known_token(o) is None and isinstance(o.secret, Unreadable)


def had_turn(o: SessionObserved) -> bool:
    """Whether this conversation ever completed a turn: only then has it a history to lose.

    Turns that the journal counts may be of a conversation that a fresh start left behind, so they
    speak only where no token does.
    """
    if is_retiring(o):
        return False
    ref, token, report = o.session.status.resume_token_ref, known_token(o), o.own_report
    if token is None:
        counted = report is not None and report.turns_completed > 0
        return counted or (ref is not None and bool(ref.established))
    same = ref is not None and token.sha256.startswith(ref.sha256_prefix or "-")
    return token.established or (same and ref is not None and bool(ref.established))


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
    if isinstance(o.profile, Missing):
        return Resumability(
            None,
            ResumableReason.CAPABILITY_UNKNOWN,
            "The AgentProfile, which has a say in it, does not exist.",
        )
    if able is None:
        return Resumability(
            None,
            ResumableReason.CAPABILITY_UNKNOWN,
            "The agent could not be asked yet whether it can resume.",
        )
    lost = _history_lost(o)
    if lost is not None:
        return Resumability(True, ResumableReason.HISTORY_LOST, lost)
    return Resumability(True, ResumableReason.RESUMABLE, "Profile, agent and token permit it.")


def _token_elsewhere(o: SessionObserved) -> bool:
    """Status says that a token is kept, and nobody has looked and proven the contrary."""
    return o.session.status.resume_token_ref is not None and o.secret is None


def _history_lost(o: SessionObserved) -> str | None:
    """What this conversation does not know, in words. Told by the start or resume itself, and
    remembered once agentctl lists that no longer."""
    report, intent = o.own_report, o.session.status.intent
    operation = report.operation(intent.operation_id) if report and intent else None
    if operation is None:
        kept = conditions.get(o.session.status.conditions, "Resumable")
        return kept.message if kept and kept.reason == ResumableReason.HISTORY_LOST else None
    if operation.token_replaced:
        return (
            "The agent answered the last resume with another conversation: the earlier history "
            "is lost, the old token is kept as previous."
        )
    if intent is not None and intent.kind == IntentKind.START and _followed_a_cut(o, operation):
        return (
            "The agent was cut off in its first turn and kept nothing of it: this is a new "
            "conversation, which does not know that prompt, and nobody sends it again by itself."
        )
    return None


def _followed_a_cut(o: SessionObserved, start: OperationSeen) -> bool:
    """The newest turn was cut off before this conversation began: it was another one's."""
    turn = o.own_report.last_turn if o.own_report else None
    if turn is None or turn.outcome != "interrupted" or start.ended_at is None:
        return False
    cut = told_moment(turn.at)
    return start.state == "succeeded" and cut is not None and cut <= start.ended_at
