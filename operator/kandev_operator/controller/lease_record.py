"""What a Lease object says, how fast its loop goes, and what watching another holder proves.

All of it is arithmetic on what was read and on times that the caller brings; the loop that reads
and writes is `lease`. The times inside the object (`renewTime`, `acquireTime`) are written for
people and never read: only that they changed counts.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pace:
    """All intervals of a Lease of this duration, in seconds."""

    duration: float

    @property
    def valid(self) -> float:
        """For how long a write is good, counted from when it was sent.

        The last fifth is left unused: an act begun in the last instant must be over in time.
        """
        return self.duration * 4 / 5

    @property
    def renew(self) -> float:
        """A holder writes this often."""
        return self.duration / 3

    @property
    def timeout(self) -> float:
        """Longest request: after one that failed there is time for another."""
        return self.duration / 5

    @property
    def unbroken(self) -> float:
        """A holder who writes again, or follows another, within this time leaves no gap.

        After a longer one somebody may have counted the Lease as deserted, which he does after
        twice its duration; what is left of that is for the two clocks.
        """
        return self.duration * 9 / 5

    @property
    def poll(self) -> float:
        """A standby reads this often, and a holder that could not write tries again after it."""
        return min(1.0, self.duration / 10)


@dataclass(frozen=True, slots=True)
class Record:
    """A Lease object, as far as it matters here."""

    stored: Object
    holder: str
    transitions: int
    duration: float

    @classmethod
    def of(cls, stored: Object, default_duration: float) -> "Record":
        """Read an object. Whoever made it may have left anything out."""
        spec = stored.get("spec") or {}
        return cls(
            stored=stored,
            holder=spec.get("holderIdentity") or "",
            transitions=spec.get("leaseTransitions") or 0,
            duration=spec.get("leaseDurationSeconds") or default_duration,
        )

    @property
    def spec(self) -> Mapping[str, Any]:
        """Everything a holder writes; changed is alive."""
        return self.stored.get("spec") or {}

    def with_spec(self, spec: Mapping[str, Any]) -> Object:
        """The object to send in its place: the same one (uid) in the same state (version)."""
        metadata = {k: v for k, v in self.stored["metadata"].items() if k != "managedFields"}
        return {**self.stored, "metadata": metadata, "spec": {**spec}}


def held_spec(
    before: Mapping[str, Any], holder: str, term: int, duration: float, wall_seconds: float
) -> Object:
    """The spec that says: this holder, in this term, from now on for this long."""
    moment = datetime.fromtimestamp(wall_seconds, tz=UTC).replace(tzinfo=None)
    now = moment.isoformat(timespec="microseconds") + "Z"
    renewing = before.get("holderIdentity") == holder
    return {
        **before,
        "holderIdentity": holder,
        "leaseDurationSeconds": math.ceil(duration),
        "leaseTransitions": term,
        "acquireTime": (before.get("acquireTime") if renewing else None) or now,
        "renewTime": now,
    }


class Watch:
    """For how long another holder was seen not to write.

    Time counts only between two readings that follow each other closely and say the same. After
    a gap the API server may have been away, and with it the holder's chance to write; or this
    process did not run. The holder then gets what is left of its time once more.
    """

    def __init__(self, longest_gap: float) -> None:
        self._longest_gap = longest_gap
        self._last: Record | None = None
        self._ever: Record | None = None
        self._at = 0.0
        self._quiet = 0.0
        self._looked = False
        self.changed_at: float | None = None
        """When two readings in a row said different things: somebody writes there."""

    def hold(self, ours: Record) -> None:
        """Begin anew: it is ours, and others may have held it when it is next seen otherwise."""
        self._last, self._ever = None, ours
        self._quiet = 0.0
        self._looked, self.changed_at = False, None

    def see(self, record: Record | None, now: float) -> None:
        """Take in a reading; None is an absent Lease."""
        gap = now - self._at
        same = (record.spec if record else None) == (self._last.spec if self._last else None)
        if not same:
            self._quiet = 0.0
            self.changed_at = now if self._looked else None
        elif gap <= self._longest_gap:
            self._quiet += gap
        self._last, self._at, self._looked = record, now, True
        if record is not None:
            self._ever = record

    def is_free(self) -> bool:
        """Whether the Lease may be taken.

        An absent one that was there before was deleted by somebody, and its holder, whoever that
        was at last, may not know of it yet: it is waited for. Only a process that starts into
        the absence cannot tell it from a new cluster; what it then does is fenced by the term.
        """
        holder = self._last or self._ever
        if holder is None or not holder.holder:
            return True
        return self._quiet >= holder.duration

    def is_deserted(self) -> bool:
        """Whether nobody has written for twice its duration, not even that it is free.

        Longer than whoever follows a holder takes: see `Pace.unbroken`.
        """
        known = self._last or self._ever
        return known is None or self._quiet >= 2 * known.duration
