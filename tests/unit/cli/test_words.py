"""Spans of time as people say them, and text that a terminal would obey."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.cli.clock import ago, ahead, now, span
from kandev_operator.cli.plain import one_line, plain
from unit.cli.bodies import NOON

SPANS = [
    (0, "less than a second"),
    (1, "1 second"),
    (59, "59 seconds"),
    (60, "1 minute"),
    (61, "1 minute 1 second"),
    (3600, "1 hour"),
    (3605, "1 hour"),
    (7500, "2 hours 5 minutes"),
    (90000, "1 day 1 hour"),
    (-120, "2 minutes"),
]


@pytest.mark.parametrize(("seconds", "said"), SPANS)
def test_spans(seconds: int, said: str) -> None:
    assert span(timedelta(seconds=seconds)) == said


def test_moments_past_and_to_come() -> None:
    assert ago(NOON - timedelta(minutes=3), NOON) == "3 minutes ago"
    assert ago(NOON + timedelta(minutes=3), NOON) == "just now"
    assert ahead(NOON + timedelta(seconds=40), NOON) == "in 40 seconds"
    assert ahead(NOON, NOON) == "now"
    assert ahead(NOON - timedelta(seconds=40), NOON) == "due since 40 seconds"
    assert now().tzinfo is not None


@given(st.text())
def test_plain_text_moves_no_cursor_and_hides_nothing(text: str) -> None:
    safe = plain(text)
    assert all(char.isprintable() or char in "\n\t" or ord(char) >= 0xA0 for char in safe)
    assert not set(safe) & set("\x1b\x9b\r\x07\x08\u202e\u2066\u200f")
    assert plain(safe) == safe
    safe.encode()


def test_plain_text_keeps_what_is_harmless() -> None:
    assert plain("Zażółć\tgęślą\r\njaźń ✓ 🎉") == "Zażółć\tgęślą\njaźń ✓ 🎉"
    assert plain("\x1b[31mred\x1b[0m") == "�[31mred�[0m"


@given(st.text(), st.integers(2, 50))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
