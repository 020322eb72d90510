"""Moments as the cluster writes them: RFC 3339, UTC, whole seconds, a trailing Z.

Status holds moments as strings, so that an object read and written back is the same text, and
this is the only place that turns one form into the other. It does not know what time it is:
every caller brings its own `now`.
"""

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Write an aware moment; fractions of a second are dropped, as Kubernetes does."""
    if moment.tzinfo is None:
        raise ValueError("a moment needs a time zone")
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def moment(text: str) -> datetime:
    """Read a moment back. Offsets and fractions that other writers use are understood."""
    read = datetime.fromisoformat(text)
    if read.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return read.astimezone(UTC)
