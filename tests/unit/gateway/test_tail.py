"""The tail against a model: readers and the writer see each event once, in order, within bounds."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.recorder.tail import Bounds, Load, Tail
from stage.speech import Speech

ALL = frozenset(EventKind)
SOME = frozenset({EventKind.MESSAGE, EventKind.GAP})
BOUNDS = Bounds(unkept=30, unkept_bytes=10_000, kept=10, kept_bytes=2_000)
SIZE = 100


def plain(events: tuple[Event, ...]) -> list[Event]:
    return [
        e.model_copy(update={"data": {k: v for k, v in e.data.items() if k != "offset"}})
        for e in events
    ]


class TailMachine(RuleBasedStateMachine):
    """The journal grows, the writer takes and fails, memory sheds, readers read where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.speech = Speech("s", "j", random.Random(1))
        self.load = Load()
        self.tail = Tail(None, None, BOUNDS, self.load)
        self.arrived = 0
        self.store: list[Event] = []
        self.taken: list[Event] = []
        self.lengths: dict[str, int] = {}

    @property
    def journal(self) -> list[Event]:
        return self.speech.events

    @rule(events=st.integers(1, 12))
    def arrives(self, events: int) -> None:
        while len(self.journal) < self.arrived + events:
            self.speech.go_on(events)
        for event in self.journal[self.arrived : self.arrived + events]:
            while self.tail.is_full:
                assert self.tail.shed() > 0
            self.tail.add(event, SIZE)
        self.arrived += events

    @precondition(lambda self: not self.taken)
    @rule(events=st.integers(1, 20))
    def takes(self, events: int) -> None:
        self.taken = self.tail.take(events, 10**6)
        assert not (self.taken and self.tail.torn)
        expected = self.journal[len(self.store) : len(self.store) + len(self.taken)]
        assert self.taken == expected, "what follows what is kept, and nothing else"

    @precondition(lambda self: self.taken)
    @rule(kept=st.booleans(), readers=st.booleans())
    def settles(self, kept: bool, readers: bool) -> None:
        if kept:
            self.store += self.taken
        self.taken = []
        self.tail.settle(kept=kept, readers=readers)

    @precondition(lambda self: self.tail.torn and not self.taken)
    @rule()
    def is_read_again(self) -> None:
        """From where the store ends, as the follower does."""
        self.tail.drop()
        lengths: dict[str, int] = {}
        for event in self.store:
            if event.kind is EventKind.MESSAGE:
                named = event.data["message_id"]
                lengths[named] = lengths.get(named, 0) + len(event.data.get("text", ""))
        place = Place("j", len(self.store)) if self.store else None
        self.tail = Tail(place, lengths, BOUNDS, self.load)
        self.arrived = len(self.store)

    @rule(seq=st.integers(0, 400), limit=st.integers(1, 15), some=st.booleans())
    def is_read(self, seq: int, limit: int, some: bool) -> None:
        seq = min(seq, self.arrived)
        found = self.tail.after(
            Place("j", seq) if seq else None, limit, 10**6, SOME if some else ALL
        )
        if found is None:
            base = self.tail.base
            assert base is not None
            assert seq < base.seq, "only what memory has no more is refused"
            return
        assert len(found.events) <= limit
        reached = found.place.seq if found.place else 0
        wanted = [e for e in self.journal[seq:reached] if not some or e.kind in SOME]
        assert plain(found.events) == wanted
        assert found.more == (reached < self.arrived)
        for event in found.events:
            if "text" in event.data:
                assert event.data["offset"] == self.offset_of(event)

    def offset_of(self, event: Event) -> int:
        return sum(
            len(each.data.get("text", ""))
            for each in self.journal[: event.seq - 1]
            if each.data.get("message_id") == event.data["message_id"]
        )

    @invariant()
    def is_bounded(self) -> None:
        held = self.tail.everything()
        assert len(held) <= BOUNDS.unkept + BOUNDS.kept + 1
        assert self.tail.unkept * SIZE == self.tail.unkept_bytes == self.load.size

    @invariant()
    def is_whole(self) -> None:
        held = [event.seq for event in self.tail.everything()]
        base = self.tail.base.seq if self.tail.base else 0
        assert held == list(range(base + 1, base + 1 + len(held)))
        if not self.tail.torn:
            assert base <= len(self.store), "between the store and memory nothing is missing"


TestTail = TailMachine.TestCase
TestTail.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_gap_that_was_told_to_us_alone_is_read_and_not_stored() -> None:
    tail = Tail(Place("j", 4))
    gap = Event(
        journal_id="j",
        seq=9,
        kind=EventKind.GAP,
        at="t",
        session_id="s",
        data={"from_seq": 5, "to_seq": 9},
    )
    own = gap.model_copy(update={"seq": 15, "data": {"from_seq": 10, "to_seq": 14}})
    tail.add(gap, 1)
    tail.add(own, 1)
    found = tail.after(Place("j", 4), 10, 100, SOME)
    assert found is not None
    assert found.events == (gap, own)
    assert tail.take(10, 100) == [own]
    tail.settle(kept=True, readers=False)
    assert (tail.kept, tail.unkept) == (Place("j", 15), 0)


def test_a_message_under_way_where_memory_begins_has_no_offset() -> None:
    tail = Tail(Place("j", 4))
    tail.is_blind = True
    for seq, message_id in ((5, "m1"), (6, "m1"), (7, "m2")):
        event = Event(
            journal_id="j",
            seq=seq,
            kind=EventKind.MESSAGE,
            at="t",
            session_id="s",
            data={"message_id": message_id, "text": "ab"},
        )
        tail.add(event, 1)
    found = tail.after(Place("j", 4), 10, 100, SOME)
    assert found is not None
    assert [e.data.get("offset") for e in found.events] == [None, None, 0]
