"""Conditions: the part of status that programs may rely on.

A condition answers one question about an object with True, False or Unknown, a reason for
programs and a message for people. The functions here are pure: they take a list and give a new
one, sorted by type, so that equal knowledge always makes an equal status and no write happens
without news. `lastTransitionTime` moves only when the answer itself changes.

`Reconciling` and `Stalled` are there only while true (kstatus reads them so); all others are
written on every pass, with Unknown where nothing is known. Which reasons exist is said in
`reasons`.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pydantic import Field

from kandev_operator.api.markers import MOMENT
from kandev_operator.api.meta import Model
from kandev_operator.api.timestamps import rfc3339

TRUE: Final = "True"
FALSE: Final = "False"
UNKNOWN: Final = "Unknown"


class Condition(Model):
    """One question about an object, answered."""

    type: str = Field(description="The question. At most one condition of each type exists.")
    status: str = Field(description="The answer: `True`, `False` or `Unknown`.")
    reason: str = Field(
        description="Why, as one CamelCase word that programs may match. The words of each type "
        "are listed in crds/README.md."
    )
    message: str = Field(default="", description="Why, as one sentence for people.")
    observed_generation: int | None = Field(
        default=None,
        description="The `metadata.generation` that this answer was given for. A smaller number "
        "than the object's generation means that the answer may be out of date.",
    )
    last_transition_time: str | None = Field(
        default=None,
        description="When the answer last changed (not when its reason or message did).",
        json_schema_extra=MOMENT,
    )

    @property
    def is_true(self) -> bool:
        """The answer is a plain yes; Unknown is not."""
        return self.status == TRUE


Conditions = tuple[Condition, ...]


def get(conditions: Iterable[Condition], type_: str) -> Condition | None:
    """The condition of this type, if there is one."""
    return next((each for each in conditions if each.type == type_), None)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Whether there is a condition of this type and its answer is True."""
    found = get(conditions, type_)
    return found is not None and found.is_true


def without(conditions: Iterable[Condition], type_: str) -> Conditions:
    """All conditions but the one of this type, sorted by type."""
    return _sorted(each for each in conditions if each.type != type_)


def set_condition(conditions: Iterable[Condition], new: Condition, now: datetime) -> Conditions:
    """The conditions with this answer in place of the earlier one of its type.

    Whatever `new` says about lastTransitionTime is ignored: it is the earlier condition's while
    the answer is the same, and `now` when it changed.
    """
    kept = tuple(conditions)
    old = get(kept, new.type)
    same = old is not None and old.status == new.status and old.last_transition_time
    since = old.last_transition_time if old is not None and same else rfc3339(now)
    return _sorted([*without(kept, new.type), new.replacing(last_transition_time=since)])


def _sorted(conditions: Iterable[Condition]) -> Conditions:
    return tuple(sorted(conditions, key=lambda each: each.type))
