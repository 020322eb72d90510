"""The database goes away, fills up, or comes late: live goes on, and nothing is lost or doubled."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event as hooks

from cluster.postgres import PostgresServer
from integration.history.conftest import SESSION
from integration.history.real import QUICK, eventually, kept, patient, recording
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import HistoryUnavailable, Place
from kandev_operator.gateway.recorder.recorder import READ_KINDS, Recorder
from kandev_operator.gateway.recorder.tail import Bounds
from kandev_operator.gateway.store.database import StoreUnavailable
from kandev_operator.gateway.store.store import Store
from stage.playedagentctl import PlayedAgentctl

UID = SESSION.uid
SMALL = patient(QUICK, bounds=Bounds(unkept=100, kept=20), room_patience=0.2)


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """A server that these tests may stop."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def stoppable(own_postgres: PostgresServer) -> Iterator[tuple[PostgresServer, str]]:
    if not own_postgres.is_running:
        own_postgres.start()
    with own_postgres.database() as url:
        yield own_postgres, url


class Reader:
    """Reads as a socket does: woken, from its place on, in steps; keeps what it was told."""

    def __init__(self, recorder: Recorder, limit: int = 17) -> None:
        self._recorder, self._limit = recorder, limit
        self._woken = asyncio.Event()
        self.read: list[Event] = []
        self.live: list[Event] = []
        self.place: Place | None = None
        self.was_late = False

    async def run(self) -> None:
        end = self._recorder.listen(UID, self._woken.set, self.live.append)
        try:
            while True:
                self._woken.clear()
                stretch = await self._recorder.after(UID, self.place, self._limit)
                self.read += stretch.events
                self.place = stretch.place
                self.was_late |= stretch.late
                if not stretch.more:
                    await self._woken.wait()
        finally:
            end()

    def has(self, agentctl: PlayedAgentctl) -> bool:
        """Whether it has been told everything that the journal holds for readers."""
        return self.plain() == wanted(agentctl.journal)

    def plain(self) -> list[Event]:
        return [plain(event) for event in self.read]


def plain(event: Event) -> Event:
    data = {k: v for k, v in event.data.items() if k != "offset"}
    return event.model_copy(update={"data": data})


def told_of(events: list[Event]) -> list[Any]:
    """Everything but when: agentctl and the store may date a gap differently."""
    return [(event.journal_id, event.seq, event.kind, event.data) for event in events]


def wanted(journal: list[Event]) -> list[Event]:
    return [event for event in journal if event.kind in READ_KINDS]


@asynccontextmanager
async def reading(recorder: Recorder, limit: int = 17) -> AsyncIterator[Reader]:
    reader = Reader(recorder, limit)
    task = asyncio.create_task(reader.run())
    try:
        yield reader
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def is_kept(store: Store, agentctl: PlayedAgentctl) -> bool:
    journal = agentctl.speech.journal_id
    with suppress(StoreUnavailable):
        return await store.newest_place(UID) == Place(journal, agentctl.last_seq)
    return False


async def judge(store: Store, recorder: Recorder, agentctl: PlayedAgentctl) -> None:
    """The store has the journal, and the page reads as it must."""
    await eventually(lambda: is_kept(store, agentctl), "the store has it all")
    assert await kept(store, agentctl.speech.journal_id, UID) == agentctl.journal
    page = await recorder.newest(UID, None, 500)
    journal_id = agentctl.speech.journal_id
    shown = [m for m in page.messages if m.journal_id == journal_id]
    found = [(m.message_id, m.text, m.content) for m in shown]
    assert found == agentctl.speech.as_it_stands()[-len(found) :]
    assert found


async def speaks(agentctl: PlayedAgentctl, times: int, events: int = 20) -> None:
    for _ in range(times):
        agentctl.say(events)
        await asyncio.sleep(0.02)


async def test_while_postgresql_is_stopped_readers_hear_all_and_later_all_is_kept(
    stoppable: tuple[PostgresServer, str],
) -> None:
    server, url = stoppable
    agentctl, store = PlayedAgentctl(UID), Store(url)
    async with recording(store, SMALL, s=(SESSION, agentctl.dial)) as recorder:
        agentctl.say(300)
        async with reading(recorder) as near, reading(recorder) as far:
            await eventually(lambda: near.has(agentctl) and far.has(agentctl), "both have it")
            assert not near.was_late or near.place is not None
            await eventually(lambda: is_kept(store, agentctl), "so has the store")
            for _ in range(2):
                server.stop()
                stood = far.place, list(far.read)
                await speaks(agentctl, 20)
                await eventually(lambda: near.has(agentctl), "the reader hears it all the same")
                page = await recorder.newest(UID, None, 100)
                assert page.late
                assert page.messages
                with pytest.raises(HistoryUnavailable):
                    await recorder.newest(UID, page.before, 100)
                # One whose place is older than memory gets nothing now, and is told so.
                old = await recorder.after(UID, stood[0], 50)
                assert old.late
                assert (old.events, old.place) == ((), stood[0])
                server.start()
                await judge(store, recorder, agentctl)
                assert near.has(agentctl)
                caught = await recorder.after(UID, stood[0], 10_000)
                expected = wanted(agentctl.journal)[len(stood[1]) :]
                assert [plain(e) for e in caught.events] == expected[: len(caught.events)]
                await eventually(lambda: far.has(agentctl), "and those that were far behind")
                await eventually(lambda: no_longer_late(recorder), "nothing is late any more")
    await store.close()


async def no_longer_late(recorder: Recorder) -> bool:
    return not (await recorder.newest(UID, None, 10)).late


async def test_a_gateway_that_starts_before_its_database_shows_what_is_said_now(
    stoppable: tuple[PostgresServer, str],
) -> None:
    server, url = stoppable
    agentctl = PlayedAgentctl(UID)
    agentctl.say(500)
    server.stop()
    store = Store(url)
    async with recording(store, SMALL, s=(SESSION, agentctl.dial)) as recorder:
        await eventually(lambda: recorder.following(UID), "agentctl is heard")
        with pytest.raises(HistoryUnavailable):
            await recorder.newest("another-session", None, 10)
        said = agentctl.last_seq
        agentctl.say(50)

        async def is_shown() -> bool:
            page = await recorder.newest(UID, None, 10)
            return page.late and page.cursor == f"j1:{agentctl.last_seq}"

        await eventually(is_shown, "what is said now is shown")
        page = await recorder.newest(UID, None, 100)
        assert page.messages[0].seq > said
        assert agentctl.asked == [f"j1:{said}"]
        server.start()
        await judge(store, recorder, agentctl)
        await eventually(lambda: no_longer_late(recorder), "nothing is late any more")
    await store.close()


async def test_a_full_disk_is_a_database_that_takes_nothing_and_still_reads(
    tmp_path: Path,
) -> None:
    agentctl, store = PlayedAgentctl(UID), Store(f"sqlite:///{tmp_path / 'h.db'}")
    await store.open()
    async with recording(store, SMALL, s=(SESSION, agentctl.dial)) as recorder:
        agentctl.say(300)
        await eventually(lambda: is_kept(store, agentctl), "the store has it")
        before = await recorder.newest(UID, None, 100)
        async with reading(recorder) as reader:
            await eventually(lambda: reader.has(agentctl), "the reader has it")
            async with full(store):
                await speaks(agentctl, 30, 40)
                await eventually(lambda: reader.has(agentctl), "live goes on")

                async def is_late() -> bool:
                    return (await recorder.newest(UID, None, 10)).late

                await eventually(is_late, "the page says that it is late")
                older = await recorder.newest(UID, before.before, 100)
                assert older.messages, "what is kept is read all the same"
            await judge(store, recorder, agentctl)
            assert reader.has(agentctl)
    await store.close()


@asynccontextmanager
async def full(store: Store) -> AsyncIterator[None]:
    """No page can be added to the file meanwhile."""
    engine = store.database.engine

    def limit(raw: Any, pages: int) -> None:
        cursor = raw.cursor()
        cursor.execute(f"PRAGMA max_page_count={pages}")
        cursor.close()

    def none_more(raw: Any, *_more: Any) -> None:
        limit(raw, 1)  # never below what there is

    def as_before(raw: Any, *_more: Any) -> None:
        limit(raw, 1_000_000)

    hooks.listen(engine.sync_engine, "checkout", none_more)
    try:
        yield
    finally:
        hooks.remove(engine.sync_engine, "checkout", none_more)
        hooks.listen(engine.sync_engine, "checkout", as_before)


async def test_a_session_that_the_database_will_not_have_keeps_no_other_from_being_kept(
    url: str,
) -> None:
    store = Store(url)
    poisoned, well = PlayedAgentctl("session-uid-2"), PlayedAgentctl(UID)
    refused = type(SESSION)("session-uid-2", "team-a", "s-b", "t", "t-a")
    append = store.append

    async def picky(events: Any) -> None:
        if any(event.session_id == "session-uid-2" for event in events):
            raise StoreUnavailable("DataError 22021")
        await append(events)

    store.append = picky  # type: ignore[method-assign]
    followed = {"a": (refused, poisoned.dial), "b": (SESSION, well.dial)}
    async with recording(store, SMALL, **followed) as recorder:
        for _ in range(10):
            poisoned.say(5)
            well.say(20)
            await asyncio.sleep(0.02)
        await judge(store, recorder, well)

        async def says_so() -> bool:
            return (await recorder.newest("session-uid-2", None, 10)).late

        await eventually(says_so, "the page of the other says that it is late")
        assert not (await recorder.newest(UID, None, 10)).late
    await store.close()


async def test_a_session_that_is_left_is_written_to_its_end_and_then_forgotten(url: str) -> None:
    agentctl, store = PlayedAgentctl(UID), Store(url)
    await store.open()
    slow = patient(QUICK, gather=0.3)
    async with recording(store, slow, s=(SESSION, agentctl.dial)) as recorder:
        read: list[None] = []
        end = recorder.listen(UID, lambda: read.append(None), lambda event: None)
        agentctl.say(100)
        await eventually(lambda: len(read) > 50, "it was heard")
        recorder.leave(SESSION)
        end()
        heard = await recorder.after(UID, None, 1000)
        assert heard.events

        async def is_forgotten() -> bool:
            return not recorder.holds(UID)

        await eventually(is_forgotten, "memory has nothing of it any more")
        kept_now = await recorder.after(UID, None, 1000)
        assert told_of([*kept_now.events]) == told_of([*heard.events])
        assert not recorder.following(UID)
    await store.close()


async def test_a_journal_that_begins_anew_follows_the_one_before(url: str) -> None:
    agentctl, store = PlayedAgentctl(UID), Store(url)
    async with (
        recording(store, SMALL, s=(SESSION, agentctl.dial)) as recorder,
        reading(recorder, limit=5) as reader,
    ):
        agentctl.say(150)
        first = agentctl.speech
        await eventually(lambda: reader.has(agentctl), "the reader has it")
        agentctl.begin_anew("j2")
        agentctl.say(150)
        both = [*wanted(first.events), *wanted(agentctl.journal)]
        await eventually(lambda: reader.plain() == both, "the reader has both")
        await judge(store, recorder, agentctl)
        assert await kept(store, "j1", UID) == first.events
    await store.close()


async def test_a_journal_that_was_set_back_goes_on_beside_what_was_told_before(url: str) -> None:
    agentctl, stores = PlayedAgentctl(UID), [Store(url), Store(url)]
    followed = SESSION, agentctl.dial
    async with (
        recording(stores[0], SMALL, s=followed) as recorder,
        recording(stores[1], SMALL, s=followed),
        reading(recorder, limit=7) as reader,
    ):
        agentctl.say(100)
        told = list(agentctl.journal)
        for times in (1, 2):
            before = list(told)
            await eventually(lambda b=before: reader.plain() == wanted(b), "the reader has it")
            back = agentctl.last_seq - 30
            agentctl.set_back(back)
            # Once it is longer again than before when the gateways come back, and once it is not.
            agentctl.say(80 if times == 1 else 10)
            name = f"j1~{back + 1}"
            newer = [
                event.model_copy(update={"journal_id": name}) for event in agentctl.journal[back:]
            ]
            told += newer
            await eventually(
                lambda t=told: reader.plain() == wanted(t), f"and what is new, {times}"
            )

            async def is_there(name: str = name) -> bool:
                return await stores[1].newest_place(UID) == Place(name, agentctl.last_seq)

            await eventually(is_there, "it is kept")
            assert await kept(stores[1], name, UID) == newer
            found = await stores[0].after(UID, None, 10_000, READ_KINDS)
            assert [plain(event) for event in found.events] == wanted(told)
    again = Store(url)
    async with recording(again, SMALL, s=followed):
        agentctl.say(10)
        name = told[-1].journal_id

        async def goes_on() -> bool:
            with suppress(StoreUnavailable):
                return await again.newest_place(UID) == Place(name, agentctl.last_seq)
            return False

        await eventually(goes_on, "a new gateway goes on under that name")
    for store in (*stores, again):
        await store.close()


async def test_what_agentctl_let_go_of_is_a_gap_for_readers_and_in_the_store(url: str) -> None:
    agentctl, store = PlayedAgentctl(UID), Store(url)
    async with (
        recording(store, SMALL, s=(SESSION, agentctl.dial)) as recorder,
        reading(recorder) as reader,
    ):
        agentctl.say(50)
        await eventually(lambda: reader.has(agentctl), "the reader has it")
        agentctl.is_away = True
        agentctl.cut()
        heard = agentctl.last_seq
        agentctl.say(100)
        agentctl.forget(heard + 61)
        agentctl.is_away = False
        expected = [*agentctl.journal[:heard], *agentctl.journal[heard + 60 :]]

        def has() -> bool:
            return [e for e in reader.plain() if e.kind is not EventKind.GAP] == wanted(expected)

        await eventually(has, "the reader has what there is")
        gaps = [e for e in reader.read if e.kind is EventKind.GAP]
        told = {"from_seq": heard + 1, "to_seq": heard + 60}
        assert [(e.seq, e.data) for e in gaps] == [(heard + 60, told)]

        async def is_told() -> bool:
            found = await store.after(UID, None, 1000, READ_KINDS)
            return told_of([*found.events]) == told_of(reader.read)

        await eventually(is_told, "the store tells the same")
    await store.close()
