"""How fast one client may send: a bucket of frames that is filled again with time. Pure.

Whoever sends more, sustained, is answered with `rate_limited` for each frame too many; the socket
stays open, so that a burst costs a client no subscription.
"""

from dataclasses import dataclass
from typing import Final

FRAMES_A_SECOND: Final = 100.0
BURST: Final = 400


@dataclass(slots=True)
class Bucket:
    """Frames that may still come. `at` is in seconds that never go back."""

    at: float
    left: float = BURST

    def take(self, now: float) -> bool:
        """Whether one more may come."""
        self.left = min(BURST, self.left + (now - self.at) * FRAMES_A_SECOND)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True
