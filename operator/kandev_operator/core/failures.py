"""What each failure of an agent means for its session: a table, and nothing else.

agentctl names failures by stable codes (its contract). Here each becomes the reason that status
shows and the way it is handled. `Handling` has four words and no more:

- RETRY: it may pass; try again with back-off, up to `resume.maxAttempts`
- PERSON: the agent's own "no" or a mistake in the profile; asking again unchanged is pointless
- GONE: the agent definitely has no such conversation
- UNABLE: the agent cannot resume any conversation
"""

from enum import StrEnum
from typing import Final

from kandev_operator.api.reasons import AgentReadyReason, ResumableReason, WorkspaceReadyReason
from kandev_operator.core.observed import FailureSeen


class Handling(StrEnum):
    """How a failure is to be handled."""

    RETRY = "retry"
    PERSON = "person"
    GONE = "gone"
    UNABLE = "unable"


_TABLE: Final[dict[str, tuple[str, Handling]]] = {
    "session_not_found": (ResumableReason.SESSION_NOT_FOUND, Handling.GONE),
    "resume_unsupported": (ResumableReason.NOT_RESUMABLE, Handling.UNABLE),
    "rejected": (AgentReadyReason.RESUME_FAILED, Handling.PERSON),
    "agent_error": (AgentReadyReason.RESUME_FAILED, Handling.RETRY),
    "held_elsewhere": (AgentReadyReason.HELD_ELSEWHERE, Handling.RETRY),
    "authentication_required": (AgentReadyReason.AUTHENTICATION_REQUIRED, Handling.PERSON),
    "timed_out": (AgentReadyReason.RESUME_TIMED_OUT, Handling.RETRY),
    "agent_exited": (AgentReadyReason.AGENT_EXITED, Handling.RETRY),
    "command_not_found": (AgentReadyReason.COMMAND_NOT_FOUND, Handling.PERSON),
    "cwd_missing": (WorkspaceReadyReason.WORKTREE_MISSING, Handling.RETRY),
    "initialize_failed": (AgentReadyReason.INITIALIZE_FAILED, Handling.RETRY),
    "protocol_mismatch": (AgentReadyReason.PROTOCOL_MISMATCH, Handling.PERSON),
    "garbage": (AgentReadyReason.PROTOCOL_MISMATCH, Handling.PERSON),
    "invalid_token": (ResumableReason.INVALID_RESUME_TOKEN, Handling.PERSON),
    "workspace_in_use": (WorkspaceReadyReason.WORKSPACE_IN_USE, Handling.RETRY),
    "journal_unavailable": (WorkspaceReadyReason.JOURNAL_UNREADABLE, Handling.RETRY),
    "interrupted": (AgentReadyReason.INTERRUPTED, Handling.RETRY),
    "superseded": (AgentReadyReason.SUPERSEDED, Handling.RETRY),
    "upstream_unavailable": (AgentReadyReason.RESUME_FAILED, Handling.RETRY),
}

_OF_A_START: Final[dict[str, str]] = {
    AgentReadyReason.RESUME_FAILED: AgentReadyReason.START_FAILED,
    AgentReadyReason.RESUME_TIMED_OUT: AgentReadyReason.START_TIMED_OUT,
}


def judge(failure: FailureSeen | None, *, resuming: bool) -> tuple[str, Handling]:
    """The reason and the handling of a failed start or resume.

    A code that this version does not know may pass: it is retried, and called by the general
    name.
    """
    code = failure.code if failure else ""
    reason, handling = _TABLE.get(code, (AgentReadyReason.RESUME_FAILED, Handling.RETRY))
    if not resuming:
        reason = _OF_A_START.get(reason, reason)
    return str(reason), handling
