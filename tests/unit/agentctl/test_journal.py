"""The journal: what is kept is kept whole, through crashes, full disks and damaged files."""

import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kandev_operator.agentctl.journal import Journal, JournalFull, JournalUnreadable
from kandev_operator.agentctl.machine import effects as fx
from kandev_operator.agentctl.machine.reopen import Kept
from kandev_operator.agentctl.machine.state import Prompt, Token
from kandev_operator.agentctl.settings import Retention
from kandev_operator.contract.agent import PromptFate
from kandev_operator.contract.events import EventKind
from kandev_operator.contract.status import (
    Capabilities,
    EndedTurn,
    JournalState,
    Operation,
    OperationState,
    Turn,
)

AT = "2026-01-01T00:00:00.000Z"
TURN = Turn(turn_id="t1", prompt_id="p1", execution_id="x1", started_at=AT)
ENDED = EndedTurn(turn_id="t1", prompt_id="p1", execution_id="x1", ended_at=AT, outcome="completed")


def event(n: int = 0, kind: EventKind = EventKind.MESSAGE, size: int = 0) -> fx.Append:
    return fx.Append(kind, AT, "x1", {"n": n, "text": "y" * size})


def prompt(prompt_id: str, fate: PromptFate = PromptFate.QUEUED) -> fx.StorePrompt:
    return fx.StorePrompt(Prompt(prompt_id, fate, AT, ({"type": "text", "text": "words"},)))


def operation(operation_id: str, state: OperationState = OperationState.RUNNING) -> Operation:
    return Operation(operation_id=operation_id, kind="start", state=state, started_at=AT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


STEPS: list[tuple[fx.Store, ...]] = [
    (fx.StoreFence(1, 1),),
    (fx.StoreExecution("x1", None), event(1, EventKind.AGENT)),
    (fx.StoreOperation(operation("o1")), event(2, EventKind.OPERATION)),
    (fx.StoreCapabilities(Capabilities(load_session=True)), event(3)),
    (fx.StoreToken(Token("tok\n\U0001f600", False, 1), ("older",), 1, AT), event(4)),
    (fx.StoreOperation(operation("o1", OperationState.SUCCEEDED)), event(5)),
    (prompt("p1"),),
    (prompt("p2"),),
    (prompt("p1", PromptFate.SENDING), fx.StoreTurn(TURN, None, 0), event(6)),
    (prompt("p1", PromptFate.DELIVERED),),
    (
        fx.StoreTurn(None, ENDED, 1),
        fx.StoreToken(Token("tok", True, 1, "agent", "profile"), (), 1, AT),
        event(7),
    ),
    (fx.StoreFence(2, 3), fx.StoreToken(None, ("tok",), 3, AT)),
    (fx.StoreExecution("x1", "asked"), event(8)),
]


def after(kept: Kept, stores: tuple[fx.Store, ...]) -> Kept:
    """What must be found again: the plain meaning of each store."""
    for store in stores:
        match store:
            case fx.StoreFence(term=term, epoch=epoch):
                kept = replace(kept, term=term, epoch=epoch)
            case fx.StoreOperation(operation=one):
                others = tuple(o for o in kept.operations if o.operation_id != one.operation_id)
                kept = replace(kept, operations=(*others, one))
            case fx.StorePrompt(prompt=one):
                known = {p.prompt_id: p for p in kept.prompts} | {one.prompt_id: one}
                kept = replace(kept, prompts=tuple(known.values()))
            case fx.StoreToken(token=token, previous=previous):
                kept = replace(kept, token=token, previous_tokens=previous)
            case fx.StoreExecution(execution_id=x, ended=ended):
                kept = replace(kept, execution_id=x, execution_ended=ended)
            case fx.StoreTurn(turn=turn, ended=ended_turn, completed=completed):
                last = ended_turn or kept.last_turn
                kept = replace(kept, turn=turn, last_turn=last, turns_completed=completed)
            case fx.StoreCapabilities(capabilities=capabilities):
                kept = replace(kept, capabilities=capabilities)
            case fx.Append():
                pass
    return kept


def test_a_crash_between_any_two_steps_loses_nothing(path: Path, tmp_path: Path) -> None:
    journal = Journal(path, "s")
    kept = Kept("s")
    events = 0
    for number, stores in enumerate(STEPS):
        journal.commit(stores)
        kept = after(kept, stores)
        events += sum(isinstance(s, fx.Append) for s in stores)
        # A killed process leaves the files as they are now, write-ahead log and all.
        copy = tmp_path / f"crash{number}"
        copy.mkdir()
        for file in path.parent.glob("journal.db*"):
            shutil.copy(file, copy / file.name)
        again = Journal(copy / "journal.db", "s")
        assert again.load() == kept
        assert again.journal_id == journal.journal_id
        assert again.last_seq == events
        again.close()
    journal.close()


def test_a_step_is_kept_whole_or_not_at_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kandev_operator.agentctl import journal_rows

    journal = Journal(path, "s")
    journal.commit(STEPS[0])
    real = journal_rows.write

    def write(db: sqlite3.Connection, store: journal_rows.Row) -> None:
        real(db, store)
        if isinstance(store, fx.StoreTurn):
            raise sqlite3.OperationalError("cut off in the middle")

    monkeypatch.setattr(journal_rows, "write", write)
    with pytest.raises(JournalUnreadable):
        journal.commit(STEPS[8])
    monkeypatch.undo()
    again = Journal(path, "s")
    assert again.load() == after(Kept("s"), STEPS[0])
    assert again.last_seq == 0
    again.close()


def test_events_are_numbered_and_read_by_cursor_and_kind(path: Path) -> None:
    journal = Journal(path, "s")
    for n in range(1, 11):
        journal.commit((event(n, EventKind.MESSAGE if n % 2 else EventKind.AGENT),))

    def read(
        seq: int, limit: int = 100, *, messages: bool = True, states: bool = True
    ) -> list[int]:
        batch = journal.read(seq, limit, messages=messages, states=states)
        return [e.seq for e in batch.events]

    assert read(0) == list(range(1, 11))
    assert read(7) == [8, 9, 10]
    assert read(0, 3) == [1, 2, 3]
    assert read(10) == []
    assert read(0, messages=False) == [2, 4, 6, 8, 10]
    assert read(0, states=False) == [1, 3, 5, 7, 9]
    journal.close()


def test_a_reader_holds_no_more_than_a_bounded_part(path: Path) -> None:
    journal = Journal(path, "s")
    for n in range(30):
        journal.commit((event(n, size=60_000),))
    batch = journal.read(0, 100, messages=True, states=True)
    assert 5 < len(batch.events) < 15
    assert batch.more
    last = journal.read(25, 100, messages=True, states=True)
    assert ([e.seq for e in last.events], last.more) == ([26, 27, 28, 29, 30], False)
    journal.close()


def test_numbers_go_on_after_a_restart(path: Path) -> None:
    journal = Journal(path, "s")
    journal.commit((event(), event()))
    journal.close()
    again = Journal(path, "s")
    assert again.commit((event(),))[0].seq == 3
    again.close()


def test_a_journal_that_is_served_cannot_be_opened_twice(path: Path) -> None:
    journal = Journal(path, "s")
    journal.commit(STEPS[0])
    second = Journal(path, "s")
    assert second.state is JournalState.UNREADABLE
    journal.commit(STEPS[1])
    journal.close()


def test_old_events_go_and_the_newest_stay(path: Path) -> None:
    journal = Journal(path, "s", keep=Retention(events=100))
    for n in range(1, 1001):
        journal.commit((event(n),))
    assert 80 <= journal.last_seq - journal.first_seq + 1 <= 120
    assert journal.read(0, 1, messages=True, states=True).events[0].seq == journal.first_seq
    journal.close()
    again = Journal(path, "s")
    assert (again.first_seq, again.last_seq) == (journal.first_seq, 1000)
    again.close()


def test_old_events_go_when_they_are_too_many_bytes(path: Path) -> None:
    journal = Journal(path, "s", keep=Retention(bytes=400_000))
    for n in range(3000):
        journal.commit((event(n, size=1000),))
    assert journal.first_seq > 1
    journal.close()
    assert journal.size() < 2_000_000


def test_old_events_go_when_their_time_is_over(path: Path) -> None:
    journal = Journal(path, "s", keep=Retention(days=2))

    def at(day: int, hour: int = 0) -> fx.Append:
        return fx.Append(EventKind.AGENT, f"2026-01-{day:02}T{hour:02}:00:00.000Z", "x1", {})

    for day in (1, 2, 3):
        journal.commit((at(day),))
    assert (journal.first_seq, journal.last_seq) == (1, 3), "two days back, and not a moment less"
    journal.commit((at(3, 1),))
    assert journal.first_seq == 2, "an hour later the first one goes"
    journal.commit((at(20),))
    assert (journal.first_seq, journal.last_seq) == (5, 5), "and after a rest all but the newest"
    journal.close()


def fill(journal: Journal) -> None:
    while journal.commit_or_lose((event(size=500),)):
        pass
    journal.lost_total = 0


def test_a_full_journal_refuses_and_says_later_what_was_lost(path: Path) -> None:
    journal = Journal(path, "s", max_pages=40)
    fill(journal)
    assert journal.state is JournalState.FULL
    last = journal.last_seq - 1  # the one that found no room any more has a number, too
    assert journal.commit_or_lose((event(size=5000), event(size=5000))) == []
    assert (journal.last_seq, journal.lost_total) == (last + 3, 2)
    big = Prompt("big", PromptFate.QUEUED, AT, ({"text": "z" * 9999},))
    with pytest.raises(JournalFull):
        journal.commit((fx.StorePrompt(big),))
    # Room again: the next event is preceded by one that tells of the loss.
    journal._usable().execute("PRAGMA max_page_count=4000")
    gap, told = journal.commit((event(size=5000),))
    assert gap.kind is EventKind.GAP
    assert gap.data == {"from_seq": last + 1, "to_seq": last + 3}
    assert told.seq == gap.seq + 1 == last + 5
    assert journal.state is JournalState.OK
    kinds = [e.kind for e in journal.read(last, 10, messages=True, states=False).events]
    assert kinds == [EventKind.GAP, EventKind.MESSAGE], "a gap is told to every reader"
    journal.close()


def test_what_must_survive_is_tried_again_when_there_is_room(path: Path) -> None:
    journal = Journal(path, "s", max_pages=40)
    fill(journal)
    big = Token("t" * 20_000, True, 4)
    journal.commit_or_lose((fx.StoreToken(big, (), 4, AT), event(size=5000)))
    assert journal.load().token is None
    journal._usable().execute("PRAGMA max_page_count=4000")
    journal.commit(STEPS[0])
    assert journal.load().token == big
    journal.close()


def damage_header(path: Path) -> None:
    path.write_bytes(b"no database" + path.read_bytes()[11:])


def damage_pages(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))


def from_the_future(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()


@pytest.mark.parametrize("damage", [damage_header, damage_pages, from_the_future])
def test_a_damaged_file_is_left_as_it_is(path: Path, damage: Callable[[Path], None]) -> None:
    journal = Journal(path, "s")
    for stores in STEPS:
        journal.commit(stores)
    journal.close()
    damage(path)
    before = path.read_bytes()
    again = Journal(path, "s")
    if again.state is JournalState.OK:
        with pytest.raises(JournalUnreadable):
            again.load()
    assert again.state is JournalState.UNREADABLE
    assert again.message
    assert "words" not in again.message
    with pytest.raises(JournalUnreadable):
        again.commit(STEPS[0])
    assert again.commit_or_lose((event(),)) == []
    again.close()
    assert path.read_bytes() == before


def test_a_journal_of_the_first_schema_is_taken_over(path: Path) -> None:
    journal = Journal(path, "s")
    journal.commit((prompt("old"),))
    journal.close()
    db = sqlite3.connect(path)
    db.execute("ALTER TABLE prompts DROP COLUMN digest")
    db.execute("PRAGMA user_version=1")
    db.commit()
    db.close()
    again = Journal(path, "s")
    assert again.state is JournalState.OK, again.message
    known = Prompt("new", PromptFate.QUEUED, AT, ({"type": "text", "text": "w"},), digest="d")
    again.commit((fx.StorePrompt(known),))
    assert [(p.prompt_id, p.digest) for p in again.load().prompts] == [("old", ""), ("new", "d")]
    found = again.find_prompt("new")
    assert found is not None
    assert found.digest == "d"
    again.close()


def test_a_folder_in_its_place_is_unreadable(path: Path) -> None:
    path.mkdir()
    assert Journal(path, "s").state is JournalState.UNREADABLE


def test_old_prompts_and_operations_are_remembered(path: Path) -> None:
    journal = Journal(path, "s")
    for n in range(300):
        journal.commit((prompt(f"p{n}", PromptFate.DELIVERED),))
        journal.commit((fx.StoreOperation(operation(f"o{n}", OperationState.FAILED)),))
    journal.commit((prompt("waiting"),))
    kept = journal.load()
    assert len(kept.prompts) == 200
    assert len(kept.operations) == 50
    assert kept.prompts[-1].prompt_id == "waiting"
    found = journal.find_prompt("p3")
    assert found is not None
    assert found.fate is PromptFate.DELIVERED
    old = journal.find_operation("o3")
    assert old is not None
    assert old.state is OperationState.FAILED
    assert journal.find_prompt("never") is None
    journal.close()


def test_what_is_read_from_memory_is_what_is_read_from_the_disk(path: Path) -> None:
    journal = Journal(path, "s")
    for n in range(1, 60):
        kind = EventKind.MESSAGE if n % 3 else EventKind.AGENT
        journal.commit((event(n, kind),))
    fresh = path.with_name("copy.db")
    journal.close()
    shutil.copy(path, fresh)
    journal, cold = Journal(path, "s"), Journal(fresh, "s")
    for each in (journal, cold):
        each.commit((event(60, EventKind.TOKEN), event(61)))
    journal._recent.clear()
    for after in (0, 30, 58, 59, 60, 61):
        for messages, states in ((True, True), (True, False), (False, True)):
            warm = cold.read(after, 100, messages=messages, states=states)
            disk = journal.read(after, 100, messages=messages, states=states)
            assert (warm.frames, warm.reached, warm.more) == (disk.frames, disk.reached, disk.more)
    assert cold.read(59, 1, messages=True, states=False).frames == []
    assert cold.read(59, 1, messages=True, states=False).more, "there is one more to look at"
    journal.close()
    cold.close()


def test_frames_of_text_that_is_odd_are_whole_events(path: Path) -> None:
    journal = Journal(path, "s\n\"'\u2028")
    odd = 'a\nb\r\n\n"\\ \u2028 \U0001f600 data: id: x'
    journal.commit((fx.Append(EventKind.MESSAGE, AT, 'x"\n1', {"text": odd}),))
    batch = journal.read(0, 10, messages=True, states=True)
    assert batch.frames[0].data.count(b"\n") == 4, "one line each: id, event, data, and the end"
    assert batch.events[0].data == {"text": odd}
    assert batch.events[0].execution_id == 'x"\n1'
    assert batch.events[0].session_id == journal.session_id
    journal.close()
