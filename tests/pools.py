"""Small pools of values that Hypothesis draws from, and lists of conditions made of them.

Few values, so that by chance they agree often enough. Times lie around `NOW`.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from builders import (
    HASH,
    ago,
)
from kandev_operator.api.conditions import Condition, Conditions
from kandev_operator.api.reasons import (
    BY_CONDITION,
    EXECUTOR_CONDITIONS,
    SESSION_CONDITIONS,
    SPEAKS,
)
from kandev_operator.api.timestamps import rfc3339
from kandev_operator.core.observed import (
    Found,
    Missing,
    Unreadable,
)

T = TypeVar("T")

maybe = st.booleans()
unknown_or = st.sampled_from([None, True, False])
epochs = st.integers(0, 4)
LONG_AGO = (0, 1, 5, 30, 59, 60, 61, 200, 700, 10_000)
moments = st.sampled_from([ago(seconds) for seconds in LONG_AGO])
stamps = moments.map(rfc3339)
wishes = st.sampled_from([None] * 8 + ["1", "2"])
hashes = st.sampled_from([HASH, HASH, HASH, "hash-2"])
nowhere = st.sampled_from([Missing(), Unreadable("away"), Unreadable("broken", lasting=True)])


def one_of(values: Sequence[T]) -> st.SearchStrategy[T]:
    """One of many large values. By number: `sampled_from` would spell out all of them."""
    return st.integers(0, len(values) - 1).map(values.__getitem__)


def mostly(common: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The rare one once in ten times: `one_of` gives equal chances, however often it is told."""
    return st.integers(0, 9).flatmap(lambda dice: rare if dice == 5 else common)


def looks(found: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly found: there is more to see then. Else missing or unreadable."""
    return mostly(found.map(Found), nowhere)


def some_conditions_of(kind: str) -> st.SearchStrategy[Conditions]:
    """Conditions as any pass may have left them: those that are there say what they may.

    A few hundred lists are made beforehand: building one costs more than a whole decision.
    """
    dice = Random(kind)
    types = {"TaskSession": SESSION_CONDITIONS, "Executor": EXECUTOR_CONDITIONS}[kind]
    return one_of([_a_list_of(types, dice) for _ in range(300)])


def _a_list_of(types: tuple[str, ...], dice: Random) -> Conditions:
    chosen = [each for each in types if dice.random() < LIKELY.get(each, 0.7)]
    return tuple(_a_condition(each, dice) for each in sorted(chosen))


LIKELY = {"Stalled": 0.2, "Reconciling": 0.4, "AgentctlReady": 0.95}
"""How often a condition is there at all."""

TOLD = {
    "Stalled": ("True",),
    "Reconciling": ("True",),
    "Finished": ("False",) * 15 + ("True", "Unknown"),
    "Suspended": ("False",) * 9 + ("True", "Unknown"),
    "AgentctlReady": ("True",) * 6 + ("False", "Unknown"),
}
"""What they mostly say."""


def _a_condition(type_: str, dice: Random) -> Condition:
    words = BY_CONDITION[dice.choice(SPEAKS[type_])]
    told = TOLD.get(type_, ("True", "False", "Unknown"))
    return Condition(
        type=type_,
        status=dice.choice(told),
        message="It was so.",
        reason=str(dice.choice([*words])),
        observed_generation=1,
        last_transition_time=rfc3339(ago(dice.choice(LONG_AGO))),
    )
