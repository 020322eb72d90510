"""How long to wait before the next attempt: exponential, bounded, spread by the object's UID.

The spread comes from a hash and not from dice, so that deciding twice gives the same answer and a
restarted operator keeps the promise its predecessor wrote into status.
"""

import hashlib
from datetime import datetime, timedelta

FIRST_SECONDS = 2.0
LIMIT_SECONDS = 300.0
SPREAD = 0.2


def delay(attempt: int, key: str) -> timedelta:
    """Time between the end of failed attempt number `attempt` (from 1) and the next one."""
    base = min(LIMIT_SECONDS, FIRST_SECONDS * 2.0 ** max(0, min(attempt - 1, 20)))
    digest = hashlib.sha256(f"{key}/{attempt}".encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return timedelta(seconds=base * (1 - SPREAD + 2 * SPREAD * share))


def next_attempt_at(failed_at: datetime, attempt: int, key: str) -> datetime:
    """When attempt number `attempt` + 1 is due."""
    return failed_at + delay(attempt, key)
