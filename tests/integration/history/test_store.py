"""The store on both databases: each event once, every message whole, whoever writes."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import event as hooks
from sqlalchemy import text

from integration.history.conftest import AT, SESSION
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store.database import StoreRefused, StoreUnavailable
from kandev_operator.gateway.store.schema import METADATA
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store
from stage.speech import Speech

ALL = frozenset(EventKind)
UID = SESSION.uid


def spoken(seed: int, events: int, journal_id: str = "j1") -> Speech:
    speech = Speech(UID, journal_id, random.Random(seed))
    speech.go_on(events)
    return speech


async def everything(store: Store, size: int = 40) -> list[Any]:
    """Every message, page by page."""
    found: list[Any] = []
    before = None
    while True:
        page = await store.page(UID, before, size)
        found = [*page.messages, *found]
        if not page.older:
            return found
        before = Place(page.messages[0].journal_id, page.messages[0].seq)


async def read_all(store: Store, limit: int = 37) -> list[Event]:
    found: list[Event] = []
    place: Place | None = None
    while True:
        stretch = await store.after(UID, place, limit, ALL)
        found += stretch.events
        if not stretch.more:
            return found
        place = stretch.place


def plain(events: list[Event]) -> list[Event]:
    """Without the offsets that are told beside the text."""
    return [
        each.model_copy(update={"data": {k: v for k, v in each.data.items() if k != "offset"}})
        for each in events
    ]


def stands(messages: list[Any]) -> list[tuple[str, str, Any]]:
    return [(m.message_id, m.text, m.content) for m in messages]


def cut(events: list[Event], dice: random.Random) -> Iterator[list[Event]]:
    rest = events
    while rest:
        count = dice.randint(1, 40)
        yield rest[:count]
        rest = rest[count:]


async def test_what_was_written_reads_the_same(store: Store) -> None:
    speech = spoken(1, 700)
    for part in cut(speech.events, random.Random(1)):
        await store.append(part)
    assert plain(await read_all(store)) == speech.events
    assert stands(await everything(store)) == speech.as_it_stands()
    assert await store.newest_place(UID) == Place("j1", speech.events[-1].seq)


async def test_each_text_says_where_in_its_message_it_goes(store: Store) -> None:
    speech = spoken(2, 300)
    await store.append(speech.events)
    texts: Counter[str] = Counter()
    for event in await read_all(store, limit=7):
        if event.kind is EventKind.MESSAGE and "text" in event.data:
            assert event.data["offset"] == texts[event.data["message_id"]]
            texts[event.data["message_id"]] += len(event.data["text"])
    assert texts == Counter({k: len(v) for k, v in speech.texts.items() if v})


async def test_gateways_that_write_the_same_at_once_write_it_once(url: str) -> None:
    speech = spoken(3, 600)
    other = Speech("session-uid-2", "j2", random.Random(4))
    other.go_on(600)
    stores = [Store(url) for _ in range(4)]
    try:
        await asyncio.gather(*(store.open() for store in stores))
        sessions = [SESSION, SeenSession("session-uid-2", "team-a", "s-b", "t", "t-a")]
        await asyncio.gather(*(store.see(sessions, AT) for store in stores))

        async def write(store: Store, dice: random.Random) -> None:
            """One gateway: both sessions in order, cut as its own luck would have it."""
            pairs = list(zip(cut(speech.events, dice), cut(other.events, dice), strict=False))
            done = [sum(len(a) for a, _ in pairs), sum(len(b) for _, b in pairs)]
            for mine, others in [*pairs, (speech.events[done[0] :], other.events[done[1] :])]:
                both = [*mine, *others]
                dice.shuffle(both)
                if both:
                    await store.append(both)

        await asyncio.gather(*(write(s, random.Random(n)) for n, s in enumerate(stores)))
        assert plain(await read_all(stores[0])) == speech.events
        assert stands(await everything(stores[1])) == speech.as_it_stands()
        async with stores[2].database.reading() as db:
            counted = (await db.execute(text("SELECT count(*) FROM events"))).scalar_one()
        assert counted == len(speech.events) + len(other.events)
    finally:
        for store in stores:
            await store.close()


async def test_journals_follow_each_other_as_they_came(store: Store) -> None:
    first, second = spoken(5, 80, "j-z"), spoken(6, 80, "j-a")
    await store.append(first.events)
    await store.append(second.events)
    await store.append(first.events)
    assert plain(await read_all(store)) == [*first.events, *second.events]
    messages = await everything(store, size=9)
    assert stands(messages) == [*first.as_it_stands(), *second.as_it_stands()]
    assert await store.newest_place(UID) == Place("j-a", second.events[-1].seq)
    place = Place("j-z", first.events[-3].seq)
    found = await store.after(UID, place, 4, ALL)
    assert plain([*found.events]) == [*first.events[-2:], *second.events[:2]]


async def test_a_hole_in_the_numbers_is_told_where_it_is(store: Store) -> None:
    speech = spoken(7, 100)
    kept = [*speech.events[4:30], *speech.events[60:]]
    await store.append(kept)
    told = [e for e in await read_all(store, limit=11) if e.kind is EventKind.GAP]
    assert [(e.seq, e.data) for e in told] == [
        (4, {"from_seq": 1, "to_seq": 4}),
        (60, {"from_seq": 31, "to_seq": 60}),
    ]
    # Another gateway had read them before agentctl let them go.
    await store.append(speech.events[:60])
    assert plain(await read_all(store)) == speech.events
    assert stands(await everything(store)) == speech.as_it_stands()


async def test_a_loss_that_agentctl_told_is_told_once(store: Store) -> None:
    speech = spoken(8, 20)
    count = len(speech.events)
    lost = speech.events[-1].model_copy(
        update={
            "seq": count + 11,
            "kind": EventKind.GAP,
            "data": {"from_seq": count + 1, "to_seq": count + 10},
        }
    )
    await store.append([*speech.events, lost])
    assert plain(await read_all(store)) == [*speech.events, lost]


async def test_a_page_of_ten_thousand_messages_costs_what_a_page_of_ten_costs(url: str) -> None:
    counted: dict[int, list[int]] = {}
    for messages in (10, 10_000):
        store = Store(url)
        await store.open()
        await store.see([SESSION], AT)
        speech = Speech(UID, f"j{messages}", random.Random(9))
        while len(speech.order) < messages:
            speech.say(1)
        for start in range(0, len(speech.events), 2000):
            await store.append(speech.events[start : start + 2000])
        edges = [None, Place(speech.journal_id, speech.events[len(speech.events) // 2].seq)]
        counted[messages] = []
        for edge in edges:
            with counting(store) as statements:
                page = await store.page(UID, edge, 50)
            assert page.messages
            counted[messages].append(len(statements))
        with counting(store) as statements:
            await store.after(UID, edges[1], 50, ALL)
        counted[messages].append(len(statements))
        await store.close()
    assert max(counted[10_000]) <= max(counted[10]) == 5, counted


async def test_pages_and_stretches_are_found_by_an_index(store: Store) -> None:
    speech = Speech(UID, "j1", random.Random(10))
    speech.go_on(3000)
    await store.append(speech.events)
    with counting(store) as statements:
        await store.page(UID, Place("j1", 1500), 20)
        await store.after(UID, Place("j1", 1500), 20, ALL)
    asked = [each for each in statements if each[0].lstrip().startswith("SELECT")]
    scans = []
    async with store.database.writing() as db:
        if not store.database.is_sqlite:
            # A table so small is read whole for good reasons; whether it must be is what is asked.
            await db.exec_driver_sql("SET LOCAL enable_seqscan = off")
        for statement, values in asked:
            explain = "EXPLAIN QUERY PLAN " if store.database.is_sqlite else "EXPLAIN "
            plan = await db.exec_driver_sql(explain + statement, tuple(values))
            lines = " | ".join(str(row[-1]) for row in plan)
            scans += (
                [lines]
                if "SCAN"
                in lines.upper()
                .replace("INDEX SCAN", "")
                .replace("INDEX ONLY SCAN", "")
                .replace("BITMAP HEAP SCAN", "")
                else []
            )
    assert len(asked) >= 6
    assert not scans


@contextmanager
def counting(store: Store) -> Iterator[list[tuple[str, Any]]]:
    """The statements that a store sends meanwhile, but for the bounds of transactions."""
    sent: list[tuple[str, Any]] = []

    def note(_db: Any, _cursor: Any, statement: str, values: Any, *_more: Any) -> None:
        if not statement.startswith("BEGIN"):
            sent.append((statement, values))

    engine = store.database.engine.sync_engine
    hooks.listen(engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        hooks.remove(engine, "before_cursor_execute", note)


async def test_gateways_that_start_at_once_upgrade_once(url: str) -> None:
    stores = [Store(url) for _ in range(5)]
    try:
        await asyncio.gather(*(store.open() for store in stores))
        async with stores[0].database.reading() as db:
            versions = [*await db.execute(text("SELECT version_num FROM alembic_version"))]
        assert len(versions) == 1
    finally:
        for store in stores:
            await store.close()


async def test_the_steps_end_in_the_schema_that_the_code_reads(store: Store) -> None:
    async with store.database.reading() as db:
        differences = await db.run_sync(
            lambda sync: compare_metadata(MigrationContext.configure(sync), METADATA)
        )
    assert differences == []


async def test_a_schema_of_the_future_is_refused_in_words(url: str) -> None:
    store = Store(url)
    await store.open()
    async with store.database.writing() as db:
        await db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await store.close()
    later = Store(url)
    with pytest.raises(StoreRefused, match="schema 9999, and this gateway knows up to 0001"):
        await later.open()
    with pytest.raises(StoreUnavailable):
        await later.page(UID, None, 10)
    await later.close()


async def test_sessions_of_the_past_are_found_by_name(store: Store) -> None:
    others = [SeenSession(f"u{n}", "team-b", f"s-{n}", "t", "t-b") for n in range(5)]
    await store.see(others, AT)
    await store.listed([SESSION.uid, "u1"], ["team-b"], "2026-02-01T00:00:00.000Z")
    await store.gone([SESSION.uid], "2026-03-01T00:00:00.000Z")
    await store.gone([SESSION.uid], "2026-04-01T00:00:00.000Z")
    assert [s.uid for s in await store.sessions_seen("team-b") if s.deleted_at is None] == ["u1"]
    seen = await store.session_seen(SESSION.uid)
    assert seen is not None
    assert (seen.name, seen.deleted_at) == ("s-a", "2026-03-01T00:00:00.000Z")
    pages = [await store.sessions_seen(None, limit=4)]
    pages.append(await store.sessions_seen(None, after=pages[0][-1].uid, limit=4))
    assert [s.uid for page in pages for s in page] == sorted(
        ["session-uid-1", *(s.uid for s in others)]
    )
