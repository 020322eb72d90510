"""The event stream: GET `/api/v1/events?after=JOURNAL_ID:SEQ&kinds=state,messages,live`.

Server-sent events: `id:` is the cursor, `event:` the kind, `data:` an `Event`. First everything
after the cursor is replayed from the journal, then the stream goes on live; there may be any
number of readers and none of them slows the agent. A cursor of another journal, or one older than
retention keeps, is answered by a `gap` event first. Comment lines are heartbeats.

The words of a message are gathered before they are kept. A reader that asks for `live`, too, gets
them as they come, in `live` events: they have no `id:` and move no cursor, and each word comes
again in the `message` event that keeps it. What was only seen live is lost with agentctl's crash.
"""

from enum import StrEnum
from typing import Any, Final

from kandev_operator.contract.wire import Wire


class EventKind(StrEnum):
    """What happened."""

    AGENT = "agent"
    """The agent's status changed: {status, exit}."""
    OPERATION = "operation"
    """A start or stop changed its state: {operation}."""
    CAPABILITIES = "capabilities"
    """A probe ended: {capabilities}."""
    TOKEN = "token"
    """The resume token changed or was established: {sha256, established}; never its value."""
    TURN_STARTED = "turn_started"
    TURN_ENDED = "turn_ended"
    PROMPT = "prompt"
    """A prompt's fate changed: {prompt_id, fate, reason}."""
    PERMISSION_REQUESTED = "permission_requested"
    PERMISSION_RESOLVED = "permission_resolved"
    CONVERSATION = "conversation"
    """What the agent offers in the open conversation changed: {conversation}, whole."""
    MESSAGE = "message"
    """{message_id, author, kind, text | content, turn_id}; an event with a known message_id
    appends its `text` to that message."""
    LIVE = "live"
    """Words of a message that are not kept yet: {message_id, author, kind, turn_id, offset, text};
    `offset` counts the message's characters before `text`. Its `seq` is that of the last event."""
    GAP = "gap"
    """The reader missed something that is not kept any more: {from_seq, to_seq}."""


MESSAGE_KINDS: Final = frozenset({EventKind.MESSAGE})
STATE_KINDS: Final = frozenset(EventKind) - MESSAGE_KINDS - {EventKind.LIVE}
KINDS_STATE: Final = "state"
KINDS_MESSAGES: Final = "messages"
KINDS_LIVE: Final = "live"
"""Asked for beside `messages`."""


class Event(Wire):
    """One event of the journal."""

    journal_id: str
    seq: int
    kind: EventKind
    at: str
    session_id: str
    execution_id: str | None = None
    data: dict[str, Any] = {}


def cursor(journal_id: str, seq: int) -> str:
    """Write a cursor."""
    return f"{journal_id}:{seq}"


def parse_cursor(text: str) -> tuple[str, int]:
    """Read a cursor; raises ValueError when it is not one."""
    journal_id, sep, seq = text.rpartition(":")
    if not sep or not journal_id:
        raise ValueError("a cursor is JOURNAL_ID:SEQ")
    return journal_id, int(seq)
