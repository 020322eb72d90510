"""What ended long ago goes, what grew too big loses its oldest part, and nothing else changes."""

import random

from sqlalchemy import text

from integration.history.conftest import AT, SESSION
from integration.history.real import QUICK, eventually, patient, recording
from kandev_operator.contract.events import EventKind
from kandev_operator.gateway.recorder.forgetting import ago
from kandev_operator.gateway.recorder.settings import Keeping
from kandev_operator.gateway.store.retention import Retention
from kandev_operator.gateway.store.rows import row_of
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store
from stage.playedagentctl import PlayedAgentctl
from stage.speech import Speech

ALL = frozenset(EventKind)


def spoken(uid: str, events: int) -> Speech:
    speech = Speech(uid, f"j-{uid}", random.Random(uid))
    speech.go_on(events)
    return speech


async def count(store: Store, table: str) -> int:
    async with store.database.reading() as db:
        return int((await db.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one())


async def test_sessions_that_ended_long_ago_go_and_others_stay(store: Store) -> None:
    ends = {
        "finished": ("2026-01-05T00:00:00.000Z", None),
        "deleted": (None, "2026-01-05T00:00:00.000Z"),
        "lately": (None, "2026-03-05T00:00:00.000Z"),
        "alive": (None, None),
    }
    for uid, (finished, deleted) in ends.items():
        await store.see([SeenSession(uid, "n", uid, "t", "t", finished_at=finished)], AT)
        await store.append(spoken(uid, 250).events)
        if deleted:
            await store.gone([uid], deleted)
    before = await count(store, "events")
    expected = len(spoken("finished", 250).events) + len(spoken("deleted", 250).events)
    # Small steps: each is a transaction of its own.
    removed = await Retention(store.database, 40).forget(ago("2026-03-06T00:00:00.000Z", 30))
    assert removed == expected
    assert await count(store, "events") == before - expected
    assert {s.uid for s in await store.sessions_seen("n")} == {"lately", "alive"}
    assert not (await store.page("finished", None, 10)).messages
    for uid in ("lately", "alive"):
        found = await store.page(uid, None, 1000)
        stands = [(m.message_id, m.text, m.content) for m in found.messages]
        assert stands == spoken(uid, 250).as_it_stands()
    # A writer that remembers the keys of a session that has gone meets it again.
    again = SeenSession("finished", "n", "finished", "t", "t")
    await store.see([again], AT)
    await store.append(spoken("finished", 20).events)
    assert (await store.page("finished", None, 10)).messages


async def test_a_session_that_grew_too_big_loses_its_oldest_part_alone(store: Store) -> None:
    first, second = spoken(SESSION.uid, 300), spoken("other", 300)
    await store.see([SeenSession("other", "n", "other", "t", "t")], AT)
    newer = Speech(SESSION.uid, "newer", random.Random(1))
    newer.go_on(400)
    for events in (first.events, second.events, newer.events):
        await store.append(events)
    sizes = [row_of(event).size for event in (*first.events, *newer.events)]
    bound = sum(row_of(event).size for event in newer.events) // 2
    assert not await store.shrink("other", sum(sizes))
    removed = await Retention(store.database, 70).shrink(SESSION.uid, bound)
    left = sizes[removed:]
    assert 0.8 * bound < sum(left) <= bound
    assert not await store.shrink(SESSION.uid, bound), "and then it fits"
    cut = removed - len(first.events)
    assert cut > 0, "the older journal goes first"
    found = await store.after(SESSION.uid, None, 5000, ALL)
    gap, *rest = found.events
    assert (gap.kind, gap.data) == (EventKind.GAP, {"from_seq": 1, "to_seq": cut})
    assert [event.seq for event in rest] == [event.seq for event in newer.events[cut:]]
    page = await store.page(SESSION.uid, None, 5000)
    begun = [e.data["message_id"] for e in newer.events[:cut] if e.kind is EventKind.MESSAGE]
    whole = {m: (t, c) for m, t, c in newer.as_it_stands() if m not in begun}
    assert {
        m.message_id: (m.text, m.content) for m in page.messages if m.message_id in whole
    } == whole
    halves = [m for m in page.messages if m.message_id not in whole]
    assert len(halves) <= 2
    assert all(m.seq > cut for m in page.messages)
    assert len((await store.page("other", None, 5000)).messages) == len(second.order)


async def test_the_recorder_keeps_a_session_within_its_bound_while_it_is_followed(
    url: str,
) -> None:
    keeping = Keeping(days=None, session_bytes=20_000, every_seconds=0.05)
    agentctl, store = PlayedAgentctl(SESSION.uid), Store(url)
    settings = patient(QUICK, keeping=keeping)
    async with recording(store, settings, s=(SESSION, agentctl.dial)) as recorder:
        agentctl.say(600)

        async def is_cut() -> bool:
            place = await store.newest_place(SESSION.uid) if store.is_open else None
            return place is not None and place.seq == agentctl.last_seq

        await eventually(is_cut, "the store has the end")

        async def fits() -> bool:
            async with store.database.reading() as db:
                total = (await db.execute(text("SELECT sum(size) FROM events"))).scalar_one()
            return int(total) <= 20_000

        await eventually(fits, "and no more than it may")
        page = await recorder.newest(SESSION.uid, None, 500)
        assert page.messages[-1].last_seq > agentctl.last_seq - 20
    await store.close()
