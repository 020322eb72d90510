"""The list of MUSTs, and what may come of each: what a check is, not what any of them does.

A check is a coroutine that takes the target and returns what it saw, in a few words; it raises
`Broken` where the MUST is not kept and `NotApplicable` where it cannot be asked. Ids are for ever:
one is never given to another sentence.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kandev_operator.conformance.target import Target
from kandev_operator.contract.status import Room


class Broken(Exception):
    """The MUST is not kept; the text is what was seen instead."""


class NotApplicable(Exception):
    """The MUST cannot be asked of this target; the text says why."""


class Result(StrEnum):
    """What came of one MUST."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not-applicable"


Check = Callable[[Target], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Must:
    """One promise of the contract, and how it is tried."""

    id: str
    area: str
    sentence: str
    check: Check
    room: Room | None = None
    """The room that it is about: it applies where that is not declared as left out."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of it."""

    must: Must
    result: Result
    seen: str
    seconds: float


REGISTRY: Final[dict[str, Must]] = {}


def must(id: str, area: str, sentence: str, room: Room | None = None) -> Callable[[Check], Check]:
    """Register a check under its id."""

    def register(check: Check) -> Check:
        if id in REGISTRY:
            raise ValueError(f"{id} is taken")
        REGISTRY[id] = Must(id, area, sentence, check, room)
        return check

    return register


def need(holds: object, seen: str) -> None:
    """Raise Broken with what was seen unless it holds."""
    if not holds:
        raise Broken(seen)
