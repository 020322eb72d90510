"""A signing key is replaced in steps, each in its time, and once for each wish."""

from datetime import timedelta

import pytest

from builders import NOW, ago
from kandev_operator.core.rotation import OVER, Rotation, Step, due

SETTLE = timedelta(seconds=180)


def step(wish: str | None, known: Rotation) -> Step | None:
    found = due(wish, known, settle=SETTLE, now=NOW)
    return found.step if found is not None else None


def test_nobody_asked() -> None:
    assert step(None, Rotation()) is None
    assert step("", Rotation()) is None


@pytest.mark.parametrize("known", [Rotation(), Rotation("monday", Step.DONE, ago(9))])
def test_a_wish_lists_the_next_key(known: Rotation) -> None:
    found = due("today", known, settle=SETTLE, now=NOW)
    assert found == Rotation("today", Step.ANNOUNCED, NOW)


def test_a_wish_that_was_granted_is_no_wish() -> None:
    assert step("today", Rotation("today", Step.DONE, ago(99_999))) is None


@pytest.mark.parametrize(
    ("known", "seconds", "expected"),
    [
        (Step.ANNOUNCED, 179, None),
        (Step.ANNOUNCED, 180, Step.REPLACED),
        (Step.REPLACED, 180 + OVER.total_seconds() - 1, None),
        (Step.REPLACED, 180 + OVER.total_seconds(), Step.DONE),
    ],
)
def test_each_step_takes_its_time(known: Step, seconds: float, expected: Step | None) -> None:
    for wish in ("today", "another", None):
        assert step(wish, Rotation("today", known, ago(seconds))) == expected


def test_a_wish_in_the_middle_waits_and_is_then_granted() -> None:
    under_way = Rotation("today", Step.REPLACED, ago(60))
    assert step("another", under_way) is None
    over = due("another", Rotation("today", Step.REPLACED, ago(9999)), settle=SETTLE, now=NOW)
    assert over == Rotation("today", Step.DONE, NOW)
    assert step("another", over) is Step.ANNOUNCED


def test_without_a_time_it_counts_from_now() -> None:
    """A person took the note away: better late than a token that somebody does not know."""
    assert step("today", Rotation("today", Step.ANNOUNCED, None)) is None
