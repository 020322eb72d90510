"""The legal moves of the agent's process, as data: (status, cause) -> status.

A cause that is not listed for a status is a bug and raises; an event that merely comes late is
dropped before it gets here. `diagram()` writes the same table as a picture, so that the drawing
cannot drift from what runs. Why a move happens is decided elsewhere in this room.
"""

from enum import StrEnum
from typing import Final

from kandev_operator.contract.status import AgentStatus as S


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

ALIVE: Final = frozenset({S.INITIALIZING, S.INITIALIZED, S.OPENING, S.IDLE, S.RUNNING, S.STOPPING})
"""A process exists, or is being made."""

OPEN: Final = frozenset({S.IDLE, S.RUNNING})
"""The conversation is open."""


class IllegalMove(Exception):
    """A cause that the table does not allow in this status: a bug of ours."""


def move(status: S, cause: Cause) -> S:
    """Give the next status."""
    try:
        return MOVES[status, cause]
    except KeyError:
        raise IllegalMove(f"{cause} while {status}") from None


def diagram() -> str:
    """Draw the table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {S.NONE}"]
    lines += [f"    {before} --> {after}: {cause}" for (before, cause), after in MOVES.items()]
    return "\n".join(lines) + "\n"
