"""Messages out of events: the same whoever builds them, and however they were cut."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.store.assembly import Assembler, missing_before
from kandev_operator.gateway.store.rows import Span, event_of, fit, row_of, spans
from stage.speech import Speech


def spoken(seed: int, events: int) -> Speech:
    speech = Speech("s", "j", random.Random(seed))
    speech.go_on(events)
    return speech


def message(seq: int, **data: object) -> Event:
    return Event(
        journal_id="j", seq=seq, kind=EventKind.MESSAGE, at="t", session_id="s", data=dict(data)
    )


@given(st.integers(0, 10_000), st.integers(1, 120))
def test_messages_stand_as_they_were_said(seed: int, events: int) -> None:
    speech = spoken(seed, events)
    found = Assembler()
    found.extend(speech.events)
    assert [(m.message_id, m.text, m.content) for m in found.messages()] == speech.as_it_stands()


@given(st.integers(0, 10_000), st.integers(1, 120))
def test_a_row_gives_the_event_back(seed: int, events: int) -> None:
    for event in spoken(seed, events).events:
        row = row_of(event)
        columns = {
            name: getattr(row, name) for name in ("seq", "kind", "at", "execution_id", "data")
        }
        assert event_of("s", "j", columns) == event
        row.data.encode("ascii")


def joined(rows: list[Span]) -> dict[str, Span]:
    """What the database does with a span that is there already."""
    found: dict[str, Span] = {}
    for new in rows:
        old = found.get(new.message_id, new)
        found[new.message_id] = Span(
            new.message_id,
            min(old.first_seq, new.first_seq),
            max(old.last_seq, new.last_seq),
            max(old.content_seq, new.content_seq),
        )
    return found


@given(st.integers(0, 10_000), st.data())
def test_spans_are_the_same_after_any_cuts_repetitions_and_order(
    seed: int, data: st.DataObject
) -> None:
    rows = [row_of(event) for event in spoken(seed, 60).events]
    whole = joined(spans(rows))
    starts = data.draw(st.lists(st.integers(0, len(rows)), max_size=8))
    parts = [rows[start : start + data.draw(st.integers(1, 30))] for start in starts]
    edges = sorted({0, *data.draw(st.lists(st.integers(0, len(rows)), max_size=6)), len(rows)})
    parts += [rows[a:b] for a, b in pairwise(edges)]
    order = data.draw(st.permutations(range(len(parts))))
    assert joined([span for n in order for span in spans(parts[n])]) == whole


def test_the_first_event_says_whose_it_is_and_the_newest_content_counts() -> None:
    found = Assembler()
    found.extend(
        [
            message(
                1, message_id="m", author="agent", kind="tool_call", content={"a": 1}, turn_id="t"
            ),
            message(2, message_id="m", author="x", kind="y", content={"a": 2}),
        ]
    )
    found.reaches(("j", "m"), 9)
    (shown,) = found.messages()
    assert (shown.author, shown.kind, shown.turn_id) == ("agent", "tool_call", "t")
    assert (shown.content, shown.seq, shown.last_seq) == ({"a": 2}, 1, 9)


def test_what_is_no_message_is_kept_and_not_shown() -> None:
    for data in (
        {},
        {"message_id": 7, "text": "x"},
        {"message_id": "", "text": "x"},
        {"message_id": "m"},
        {"message_id": "m", "text": ["x"], "content": "no object"},
    ):
        event = message(1, **data)
        assert row_of(event).message_id is None
        found = Assembler()
        found.add(event)
        assert found.messages() == []


@given(st.text(alphabet=st.characters(), max_size=400))
def test_what_becomes_a_column_is_fit_for_every_database(text: str) -> None:
    made = fit(text)
    assert len(made) <= 255
    assert "\0" not in made
    made.encode()


def test_a_hole_is_told_unless_agentctl_told_it() -> None:
    event = message(10, message_id="m", text="x")
    told = missing_before(event, 4)
    assert told is not None
    assert (told.seq, told.kind, told.data) == (9, EventKind.GAP, {"from_seq": 5, "to_seq": 9})
    assert missing_before(event, 9) is None
    own = event.model_copy(update={"kind": EventKind.GAP, "data": {"from_seq": 5, "to_seq": 9}})
    assert missing_before(own, 4) is None
    assert missing_before(own, 3) is not None
