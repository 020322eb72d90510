"""The one place of this room that asks what time it is, for what is written down."""

from datetime import UTC, datetime


def now() -> str:
    """RFC 3339, in UTC, to the millisecond."""
    moment = datetime.now(UTC)  # noqa: TID251 - this is the clock
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
