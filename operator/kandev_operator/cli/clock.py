"""What time it is, and how spans of time are said to a person.

`now` is the room's only clock. The rest is arithmetic on moments that its callers bring: a span
is said with at most two units, because nobody acts differently on the third.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

_UNITS: Final = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


def now() -> datetime:
    """This moment, aware, in UTC."""
    return datetime.now(UTC)  # noqa: TID251 - this is the clock


def span(length: timedelta) -> str:
    """A length of time, as people say it: `2 hours 5 minutes`."""
    left = int(abs(length).total_seconds())
    if left == 0:
        return "less than a second"
    said: list[str] = []
    for name, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            said.append(f"{count} {name}{'' if count == 1 else 's'}")
        elif said:
            break  # "1 day 3 seconds" would be exact and odd
        if len(said) == 2:
            break
    return " ".join(said)


def ago(moment: datetime, at: datetime) -> str:
    """How long a moment is past: `3 minutes ago`. Clocks differ, so the future is `just now`."""
    if at - moment < timedelta(seconds=1):
        return "just now"
    return f"{span(at - moment)} ago"


def ahead(moment: datetime, at: datetime) -> str:
    """How far off a moment is: `in 40 seconds`, or that it is over."""
    if moment > at:
        return f"in {span(moment - at)}"
    if at - moment < timedelta(seconds=1):
        return "now"
    return f"due since {span(at - moment)}"
