"""How often somebody may try: a bucket for each, filled with time, in a bounded number. Pure."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

KEPT: Final = 20_000


@dataclass(frozen=True, slots=True)
class Rate:
    """So many at once, and so many a second after that."""

    burst: float
    a_second: float


class Buckets:
    """One bucket for each name. The bucket that was not used longest is forgotten first."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, now: float) -> float:
        """Take one. 0: it is granted; else seconds until the next one is."""
        left, at = self._buckets.pop(name, (self._rate.burst, now))
        left = min(self._rate.burst, left + max(0.0, now - at) * self._rate.a_second)
        granted = left >= 1
        self._buckets[name] = (left - 1 if granted else left, now)
        while len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (1 - left) / self._rate.a_second
