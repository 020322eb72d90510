"""When a signing key is to be replaced: a person's wish, carried out in steps that take their time.

A new key is listed first and signs nothing, until every agentctl has surely read the list; then it
signs and the old one is listed beside it, until the last token of the old one is surely over. So
at no moment is a token in use that somebody does not know. Where the keys are, and what they are,
is not known here.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

OVER: Final = timedelta(seconds=600)
"""A token's life, and the leeway that agentctl grants it."""


class Step(StrEnum):
    """What was done last."""

    ANNOUNCED = "announced"
    """The next key is listed."""
    REPLACED = "replaced"
    """It signs; the one before is listed still."""
    DONE = "done"
    """The one before is forgotten."""


@dataclass(frozen=True, slots=True)
class Rotation:
    """How far the newest rotation has come."""

    wish: str | None = None
    """The wish that it answers: one that differs is a new one."""
    step: Step | None = None
    at: datetime | None = None


def due(wish: str | None, known: Rotation, *, settle: timedelta, now: datetime) -> Rotation | None:
    """The next step, where its time has come. `settle` is how long a list takes to be read by all.

    A wish that comes while a rotation is under way waits for its end.
    """
    since = known.at or now
    if known.step is Step.ANNOUNCED:
        return Rotation(known.wish, Step.REPLACED, now) if now >= since + settle else None
    if known.step is Step.REPLACED:
        over = now >= since + settle + OVER
        return Rotation(known.wish, Step.DONE, now) if over else None
    return Rotation(wish, Step.ANNOUNCED, now) if wish and wish != known.wish else None
