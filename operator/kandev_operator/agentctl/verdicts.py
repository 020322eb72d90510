"""What an agent's error says about the conversation, and what it does not say.

Agents have no common answer for "gone" (see the field cases): an error text alone proves nothing.
Definite are: a token absent from the agent's own complete list, -32002 from an agent that cannot
list, a lock named as such, a login wanted, invalid params. All else is worth another try. And a
not-found only counts where the workspace's marker says that these are this session's files.
"""

from enum import Enum
from typing import Any, Final

from kandev_operator.contract.status import Failure, FailureCode

MESSAGE_CHARS: Final = 500
NOT_FOUND: Final = -32002
METHOD_NOT_FOUND: Final = -32601

LOCK_REASONS: Final = frozenset({"thread_active_writer", "session_locked", "session_in_use"})
LOCK_WORDS: Final = ("in use by another", "is already in use", "locked by another")


class Fault(Exception):
    """The agent could not do what was asked."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.code)
        self.failure = failure


class Listing(Enum):
    """What the agent's own list of conversations says about one of them."""

    NONE = "the agent cannot list"
    UNREADABLE = "the list could not be read to its end"
    PRESENT = "it is on the list"
    ABSENT = "it is not on the whole list"


def failure_of(code: int, message: str, data: Any) -> Failure:
    """The plain reading of one JSON-RPC error, before anything else is known."""
    return Failure(
        code=_code_of(code, message, data), message=quote(message, data), agent_code=code
    )


def _code_of(code: int, message: str, data: Any) -> FailureCode:
    if is_lock(message, data):
        return FailureCode.HELD_ELSEWHERE
    match code:
        case -32000:
            return FailureCode.AUTHENTICATION_REQUIRED
        case -32602:
            return FailureCode.REJECTED
        case _:
            return FailureCode.AGENT_ERROR


def is_lock(message: str, data: Any) -> bool:
    """The agent says that another process holds the conversation."""
    if isinstance(data, dict) and data.get("reason") in LOCK_REASONS:
        return True
    text = f"{message} {details_of(data)}".lower()
    return any(words in text for words in LOCK_WORDS)


def details_of(data: Any) -> str:
    """The words that agents put into an error's data."""
    if isinstance(data, str):
        return data
    if isinstance(data, dict):
        for name in ("details", "message", "error", "reason"):
            if isinstance(found := data.get(name), str):
                return found
    return ""


def quote(message: str, data: Any) -> str:
    """The agent's own words, bounded."""
    details = details_of(data)
    whole = f"{message}: {details}" if details and details not in message else message
    return whole[:MESSAGE_CHARS]


def is_definitely_gone(failure: Failure, listing: Listing, *, marker_verified: bool) -> bool:
    """Decide after a failed load or resume whether the conversation exists no more."""
    if not marker_verified or failure.code in (
        FailureCode.HELD_ELSEWHERE,
        FailureCode.AUTHENTICATION_REQUIRED,
    ):
        return False
    match listing:
        case Listing.NONE:
            return failure.agent_code == NOT_FOUND
        case Listing.ABSENT:
            return True
        case Listing.PRESENT | Listing.UNREADABLE:
            return False
