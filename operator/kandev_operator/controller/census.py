"""How many objects stand how, and which sessions are in trouble: counted from the cache.

Names of sessions are the one thing in metrics that users choose, so they are few: only sessions
in trouble are named, and of those only so many, the longest in trouble first. All others in the
same trouble are told as one, without a name and with the longest time of them, so that an alert
fires whoever is named. A pure function of bodies and of the time.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kandev_operator.api.timestamps import moment
from kandev_operator.api.troubles import Stuck, state_and_reason, stuck

Body = Mapping[str, Any]
Standing = tuple[str, str]
"""State, and the reason that `Ready` gives."""


@dataclass(frozen=True, slots=True)
class Troubled:
    """A session in trouble, or the rest of those in one trouble: then without a name."""

    stuck: Stuck
    seconds: float
    namespace: str = ""
    name: str = ""


def standings(bodies: Iterable[Body]) -> Mapping[Standing, int]:
    """How many objects are in which state, for which reason."""
    return Counter((state or "unknown", reason) for state, reason in map(state_and_reason, bodies))


def troubled(sessions: Iterable[Body], now: datetime) -> tuple[Troubled, ...]:
    """Every session in trouble, the longest first."""
    found = [
        Troubled(
            trouble, _seconds(trouble.since, now), meta.get("namespace", ""), meta.get("name", "")
        )
        for body, meta in ((each, each.get("metadata") or {}) for each in sessions)
        if (trouble := stuck(body)) is not None
    ]
    found.sort(key=lambda each: (-each.seconds, each.namespace, each.name))
    return tuple(found)


def named(troubled: Sequence[Troubled], most: int) -> tuple[Troubled, ...]:
    """The first so many with their names; the rest folded, one for each trouble and reason.

    What is folded has the longest time of them: the first's, as they are sorted.
    """
    longest: dict[tuple[str, str, str], Troubled] = {}
    for each in troubled[most:]:
        told = each.stuck
        key = (str(told.trouble), told.state, told.reason)
        longest.setdefault(key, Troubled(told, each.seconds))
    return (*troubled[:most], *longest.values())


def _seconds(since: str | None, now: datetime) -> float:
    try:
        return max(0.0, (now - moment(since)).total_seconds()) if since else 0.0
    except ValueError:
        return 0.0
