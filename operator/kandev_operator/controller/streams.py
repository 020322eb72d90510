"""Does the watch really watch? Answered by its own requests, stream by stream.

kopf tells nobody when a stream opens, ends or is refused: it tries again in silence, and a watch
that is forbidden looks from outside like one where nothing happens. So its requests are looked
at as they pass: a stream is open from the 200 to its watch request on. One that ended is being
opened anew, which is normal every few minutes, and counts as open for a short while more.

Pure bookkeeping, written by the watch's thread and read by the operator's; each value is replaced
whole.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kandev_operator.api import group

GRACE_SECONDS: Final = 5.0
"""A stream may be without a connection for so long before the watch counts as down."""
_FORBIDDEN: Final = 403
_PODS: Final = "pods"
_PATH: Final = re.compile(
    rf"/apis/{re.escape(group.GROUP)}/{group.VERSION}/(?:namespaces/([^/]+)/)?([a-z]+)"
    r"|/api/v1/(?:namespaces/([^/]+)/)?(pods)"
)


@dataclass(frozen=True, slots=True)
class Place:
    """What one stream is about: a kind in a namespace, or everywhere."""

    plural: str
    namespace: str | None

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        full = self.plural if self.plural == _PODS else f"{self.plural}.{group.GROUP}"
        return f"{full}{where}"


@dataclass(frozen=True, slots=True)
class _Stream:
    is_open: bool = False
    lost_at: float | None = None
    """Since when it has no connection; None while it has one, and before it had its first."""
    problem: str = ""
    is_refused: bool = False
    touched_at: float = 0.0


def place_of(path: str) -> Place | None:
    """The stream that a request's path belongs to; None for any other request."""
    found = _PATH.fullmatch(path)
    if not found:
        return None
    return Place(found[2], found[1]) if found[2] else Place(found[4], found[3])


class Streams:
    """The streams of one run of the watch."""

    def __init__(self, places: Iterable[Place], clock: Callable[[], float]) -> None:
        self._clock = clock
        self.was_up = False
        """Every stream has been open in this run."""
        self._streams = {place: _Stream(touched_at=clock()) for place in places}

    def asked(self, place: Place, verb: str) -> None:
        """A list or watch request was sent: what was open before has ended."""
        self._lose(place, "")

    def answered(self, place: Place, verb: str, status: int, words: str = "") -> bool:
        """The API server's answer; tells whether a stream is open again after trouble."""
        stream = self._streams.get(place)
        if stream is None:
            return False
        if status >= 400:
            refused = status == _FORBIDDEN
            asked = f"the operator may not {verb} {place}" if refused else f"{verb} {place}"
            said = f"{asked}: the API server answers {status} {words}".rstrip()
            self._lose(place, said, refused=refused)
            return False
        if verb != "watch":
            return False
        self._streams[place] = _Stream(is_open=True, touched_at=self._clock())
        self.was_up = self.was_up or all(each.is_open for each in self._streams.values())
        return bool(stream.problem)

    def failed(self, place: Place, verb: str, words: str) -> None:
        """No answer at all."""
        self._lose(place, f"{verb} {place}: {words}")

    @property
    def problem(self) -> str:
        """Why the watch is not up, in one sentence; empty while it is."""
        now = self._clock()
        for place, stream in list(self._streams.items()):
            if stream.is_open:
                continue
            if stream.is_refused:
                return stream.problem
            if stream.lost_at is None or now - stream.lost_at > GRACE_SECONDS:
                return stream.problem or f"watch {place}: not open yet"
        return ""

    @property
    def silent_seconds(self) -> float:
        """For how long a stream that is not open has not even been tried to open."""
        closed = [each.touched_at for each in self._streams.values() if not each.is_open]
        return self._clock() - min(closed) if closed else 0.0

    @property
    def refusal(self) -> str:
        """Which right is missing; empty while none is known to be."""
        refused = (each.problem for each in self._streams.values() if each.is_refused)
        return next(refused, "")

    def _lose(self, place: Place, problem: str, *, refused: bool = False) -> None:
        stream = self._streams.get(place)
        if stream is None:
            return
        lost_at = self._clock() if stream.is_open else stream.lost_at
        # Asking again proves nothing yet: what was wrong stands until it is answered well.
        self._streams[place] = _Stream(
            lost_at=lost_at,
            problem=problem or stream.problem,
            is_refused=refused or (stream.is_refused and not problem),
            touched_at=self._clock(),
        )
