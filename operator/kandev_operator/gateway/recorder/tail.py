"""The newest part of one conversation, in memory: what is not kept yet, and a little more.

Events come in at one end, in the order of the journal. From the other the writer takes them, and
what it has kept stays for the readers that are near the end, or goes. Both parts are bounded. When
the store takes nothing, the oldest go unkept: the tail is then *torn* from the store, and the
recorder must read again from agentctl, after the place that was kept last.

Pure: no clock, no loop. One tail belongs to one recorder.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store.assembly import Key, at_offset, is_told_to_us, key_of, text_of

_MESSAGES_GROWING: Final = 500


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one session may hold in memory: events, and bytes of them."""

    unkept: int = 4_000
    unkept_bytes: int = 2 * 1024 * 1024
    kept: int = 200
    kept_bytes: int = 256 * 1024


_USUAL: Final = Bounds()


@dataclass(slots=True)
class Load:
    """What all tails together hold unkept, in bytes."""

    size: int = 0


@dataclass(frozen=True, slots=True)
class _Entry:
    event: Event
    place: Place
    size: int
    offset: int | None
    is_kept_nowhere: bool
    """A gap that was told to us alone: the hole itself tells it to those who read the store."""


@dataclass(frozen=True, slots=True)
class After:
    """Events after a place, and the place after them."""

    events: tuple[Event, ...]
    place: Place | None
    more: bool


class Tail:
    """`base`: the place after which it begins; None: at the very beginning of the session."""

    def __init__(
        self,
        base: Place | None,
        lengths: Mapping[str, int] | None = None,
        bounds: Bounds = _USUAL,
        load: Load | None = None,
    ) -> None:
        self._bounds = bounds
        self._load = load or Load()
        self._kept: deque[_Entry] = deque()
        self._unkept: deque[_Entry] = deque()
        self._sizes = [0, 0]
        self._lengths: OrderedDict[Key, int | None] = OrderedDict()
        if base is not None:
            self._lengths.update({(base.journal_id, k): n for k, n in (lengths or {}).items()})
        self.base = base
        self.kept = base
        """All up to here is in the store."""
        self.end = base
        self.newest: Event | None = None
        """The event at the end, where it is known: agentctl must still have the same."""
        self.torn = False
        self.is_blind = False
        """Where it begins, a message may be under way of which it is not known how long it is."""
        self._taken = 0

    # ---- in --------------------------------------------------------------------------------

    def add(self, event: Event, size: int) -> None:
        """The next event; `size` is about what it takes in memory."""
        place = Place(event.journal_id, event.seq)
        key = key_of(event)
        offset = None
        if key is not None:
            offset = self._lengths.pop(key, None if self.is_blind else 0)
            self._lengths[key] = None if offset is None else offset + len(text_of(event))
            self.is_blind = False
            while len(self._lengths) > _MESSAGES_GROWING:
                self._lengths.popitem(last=False)
        told_to_us = is_told_to_us(event)
        self._unkept.append(_Entry(event, place, size, offset, told_to_us))
        self._weigh(size)
        self.end = place
        self.newest = None if told_to_us else event

    def moves_to(self, place: Place) -> None:
        """Nothing is there up to this place: a journal that begins."""
        self.end = place
        self.newest = None

    @property
    def is_full(self) -> bool:
        """Whether the writer must take something before more is read."""
        bounds = self._bounds
        return len(self._unkept) >= bounds.unkept or self._sizes[1] >= bounds.unkept_bytes

    def shed(self) -> int:
        """Let the oldest quarter go unkept; gives how many events that is."""
        shed = (len(self._unkept) + 3) // 4
        self._forget_kept()
        for _ in range(shed):
            entry = self._unkept.popleft()
            self._weigh(-entry.size)
            self._taken = max(0, self._taken - 1)
            self.base, self.torn = entry.place, True
        return shed

    def drop(self) -> None:
        """It is not needed any more."""
        self._forget_kept()
        self._weigh(-self._sizes[1])
        self._unkept.clear()
        self._taken = 0

    # ---- the writer ------------------------------------------------------------------------

    def take(self, events: int, size: int) -> list[Event]:
        """The oldest unkept events, at most so many and about so many bytes; `settle` follows."""
        if self.torn:
            return []
        taken: list[Event] = []
        self._taken = 0
        for entry in self._unkept:
            if taken and (len(taken) >= events or size <= 0):
                break
            size -= entry.size
            self._taken += 1
            if not entry.is_kept_nowhere:
                taken.append(entry.event)
        return taken

    def settle(self, *, kept: bool, readers: bool) -> None:
        """What was taken is in the store now, or it could not be kept and stays here."""
        for _ in range(self._taken if kept else 0):
            entry = self._unkept.popleft()
            self._weigh(-entry.size)
            self._sizes[0] += entry.size
            self._kept.append(entry)
            self.kept = entry.place
        self._taken = 0
        while self._kept and (
            not readers
            or len(self._kept) > self._bounds.kept
            or self._sizes[0] > self._bounds.kept_bytes
        ):
            self._forget_oldest()

    @property
    def unkept(self) -> int:
        """How many events are not in the store yet."""
        return len(self._unkept)

    @property
    def unkept_bytes(self) -> int:
        """About what they take."""
        return self._sizes[1]

    def _weigh(self, size: int) -> None:
        self._sizes[1] += size
        self._load.size += size

    def _forget_kept(self) -> None:
        while self._kept:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        entry = self._kept.popleft()
        self._sizes[0] -= entry.size
        self.base = entry.place

    # ---- the readers -----------------------------------------------------------------------

    def after(
        self, place: Place | None, limit: int, size: int, kinds: frozenset[EventKind]
    ) -> After | None:
        """What follows a place; None where the tail does not reach back so far."""
        start = self._index(place)
        if start is None:
            return None
        events: list[Event] = []
        reached, more = place, False
        for entry in islice(self._entries(), start, None):
            if events and (len(events) >= limit or size <= 0):
                more = True
                break
            reached = entry.place
            if entry.event.kind in kinds:
                size -= entry.size
                events.append(at_offset(entry.event, entry.offset))
        return After(tuple(events), reached, more)

    def everything(self) -> list[Event]:
        """All that is held, oldest first."""
        return [entry.event for entry in self._entries()]

    def _entries(self) -> Iterable[_Entry]:
        yield from self._kept
        yield from self._unkept

    def _index(self, place: Place | None) -> int | None:
        """How many of the entries a reader at this place has; None: it lacks older ones."""
        if place == self.base:
            return 0
        if place is None:
            return None
        count = len(self._kept) + len(self._unkept)
        newest_first = chain(reversed(self._unkept), reversed(self._kept))
        for back, entry in enumerate(newest_first):
            if entry.place.journal_id == place.journal_id and entry.place.seq <= place.seq:
                return count - back
        base = self.base
        if base is not None and base.journal_id == place.journal_id and place.seq >= base.seq:
            return 0
        if self.end == place:
            return count
        return None
