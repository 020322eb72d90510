"""The legal moves, as data: of the agent's process, of a prompt's fate, of an operation.

What is not listed is a bug and raises; an event that merely comes late is dropped before it gets
here. `diagram` prints the same tables as pictures, so that the drawings cannot drift from what
runs. Why a move happens is decided elsewhere in this room.
"""

from enum import StrEnum
from typing import Final

from kandev_operator.contract.agent import PromptFate as Fate
from kandev_operator.contract.status import AgentStatus as S
from kandev_operator.contract.status import OperationState


class Cause(StrEnum):
    """What moves the process from one status to the next."""

    LAUNCH = "launch"
    INITIALIZED = "initialized"
    OPEN = "open"
    OPENED = "opened"
    PROMPT_SENT = "prompt sent"
    TURN_OVER = "turn over"
    END = "end it"
    ENDED = "ended as asked"
    DIED = "died unasked"
    NEVER_RAN = "could not be launched"
    FORGET = "stop asked, nothing left to end"


MOVES: Final[dict[tuple[S, Cause], S]] = {
    (S.NONE, Cause.LAUNCH): S.INITIALIZING,
    (S.NONE, Cause.FORGET): S.NONE,
    (S.EXITED, Cause.LAUNCH): S.INITIALIZING,
    (S.EXITED, Cause.FORGET): S.NONE,
    (S.INITIALIZING, Cause.INITIALIZED): S.INITIALIZED,
    (S.INITIALIZING, Cause.NEVER_RAN): S.NONE,
    (S.INITIALIZING, Cause.END): S.STOPPING,
    (S.INITIALIZING, Cause.DIED): S.EXITED,
    (S.INITIALIZED, Cause.OPEN): S.OPENING,
    (S.INITIALIZED, Cause.END): S.STOPPING,
    (S.INITIALIZED, Cause.DIED): S.EXITED,
    (S.OPENING, Cause.OPENED): S.IDLE,
    (S.OPENING, Cause.END): S.STOPPING,
    (S.OPENING, Cause.DIED): S.EXITED,
    (S.IDLE, Cause.PROMPT_SENT): S.RUNNING,
    (S.IDLE, Cause.END): S.STOPPING,
    (S.IDLE, Cause.DIED): S.EXITED,
    (S.RUNNING, Cause.TURN_OVER): S.IDLE,
    (S.RUNNING, Cause.END): S.STOPPING,
    (S.RUNNING, Cause.DIED): S.EXITED,
    (S.STOPPING, Cause.ENDED): S.NONE,
    # A stop may find its process not even launched yet (a leftover is still being killed).
    (S.STOPPING, Cause.NEVER_RAN): S.NONE,
}

FATES: Final[dict[tuple[Fate | None, Fate], str]] = {
    (None, Fate.QUEUED): "accepted, and stored",
    (Fate.QUEUED, Fate.SENDING): "its turn begins",
    (Fate.QUEUED, Fate.NOT_DELIVERED): "cancelled while it waited, or content that is not taken",
    (Fate.SENDING, Fate.DELIVERED): "a sign of its turn",
    (Fate.SENDING, Fate.UNKNOWN): "the turn or agentctl ended before any sign",
}
"""(from, to) -> why. What is decided stays decided."""

OUTCOMES: Final[dict[tuple[OperationState | None, OperationState], str]] = {
    (None, OperationState.RUNNING): "accepted, and stored",
    (None, OperationState.FAILED): "hopeless from the start",
    (OperationState.RUNNING, OperationState.RUNNING): "its process is known",
    (OperationState.RUNNING, OperationState.SUCCEEDED): "done",
    (OperationState.RUNNING, OperationState.FAILED): "failed, superseded or interrupted",
}
"""(from, to) -> why. An outcome never changes."""

ALIVE: Final = frozenset({S.INITIALIZING, S.INITIALIZED, S.OPENING, S.IDLE, S.RUNNING, S.STOPPING})
"""A process exists, or is being made."""

OPEN: Final = frozenset({S.IDLE, S.RUNNING})
"""The conversation is open."""


class IllegalMove(Exception):
    """A move that the tables do not allow: a bug of ours."""


def move(status: S, cause: Cause) -> S:
    """Give the next status."""
    try:
        return MOVES[status, cause]
    except KeyError:
        raise IllegalMove(f"{cause} while {status}") from None


def check_fate(before: Fate | None, after: Fate) -> None:
    """Raise unless a prompt's fate may change so."""
    if (before, after) not in FATES:
        raise IllegalMove(f"a prompt that is {before} becomes {after}")


def check_outcome(before: OperationState | None, after: OperationState) -> None:
    """Raise unless an operation's state may change so."""
    if (before, after) not in OUTCOMES:
        raise IllegalMove(f"an operation that is {before} becomes {after}")
