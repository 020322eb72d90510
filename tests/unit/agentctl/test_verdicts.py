"""What an agent's error proves: the answers of seven real agents, and the field case B041."""

from typing import Any

import pytest

from kandev_operator.agentctl.verdicts import Listing, failure_of, is_definitely_gone

UNKNOWN_ID = [
    # (code, message, data, gone where the agent cannot list)
    (-32002, "Resource not found: X", {"uri": "X"}, True),
    (-32002, "Session ID not found", {"sessionId": "X"}, True),
    (-32603, "Internal error", {"details": "no rollout found for thread id X"}, False),
    (-32603, "Internal error", {"details": "Invalid session identifier"}, False),
    (-32603, "Internal error: service failure", {"service": "session"}, False),
    (-32601, "Method not found", None, False),
    (-32602, "Invalid params: session not found: X", {"sessionId": "X"}, False),
    (-32603, "resource not found -32002", None, False),
]


@pytest.mark.parametrize(("code", "message", "data", "gone"), UNKNOWN_ID)
def test_B041_without_a_list_only_one_code_is_definite(
    code: int, message: str, data: Any, gone: bool
) -> None:
    failure = failure_of(code, message, data)
    assert is_definitely_gone(failure, Listing.NONE, marker_verified=True) is gone
    assert is_definitely_gone(failure, Listing.ABSENT, marker_verified=True)
    for listing in Listing:
        assert not is_definitely_gone(failure, listing, marker_verified=False)
    for listing in (Listing.PRESENT, Listing.UNREADABLE):
        assert not is_definitely_gone(failure, listing, marker_verified=True)


@pytest.mark.parametrize(
    ("code", "message", "data", "expected"),
    [
        (-32000, "Authentication required", None, "authentication_required"),
        (-32602, "Session ID is already loaded", None, "rejected"),
        (-32600, "Invalid request", {"reason": "thread_active_writer"}, "held_elsewhere"),
        (-32600, "This session is in use by another client", None, "held_elsewhere"),
        (-32600, "Invalid request", None, "agent_error"),
        (-32603, "Internal error", {"details": "locked by another process"}, "held_elsewhere"),
        (-1, "", "words", "agent_error"),
    ],
)
def test_codes(code: int, message: str, data: Any, expected: str) -> None:
    failure = failure_of(code, message, data)
    assert failure.code == expected
    assert failure.agent_code == code
    if expected in ("authentication_required", "held_elsewhere"):
        assert not is_definitely_gone(failure, Listing.ABSENT, marker_verified=True)


def test_the_agents_words_are_quoted_and_bounded() -> None:
    failure = failure_of(-32603, "Internal error", {"details": "x" * 10_000})
    assert failure.message.startswith("Internal error: xxx")
    assert len(failure.message) == 500
