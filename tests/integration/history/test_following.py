"""A recorder and a real agentctl: what is said is kept as it was journalled, whoever dies when."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from integration.agentctl.harness import Keys, Sidecar
from integration.agentctl.workday import Day, judge
from integration.history.real import (
    QUICK,
    dialling,
    eventually,
    holds,
    open_session,
    recording,
    session_of,
)
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.store.store import Store

KILLS = int(os.environ.get("KANDEV_KILLS", "3"))
SEED = int(os.environ.get("KANDEV_SEED", "20260704"))


@pytest.fixture
def sidecar(tmp_path: Path):  # type: ignore[no-untyped-def]
    made = Sidecar(tmp_path, Keys(tmp_path / "jwks.json"))
    yield made
    made.close()


async def test_what_is_said_is_kept_and_read_while_it_is_said(url: str, sidecar: Sidecar) -> None:
    store = Store(url)
    live: list[Event] = []
    woken = asyncio.Event()
    await asyncio.to_thread(sidecar.start)
    await asyncio.to_thread(sidecar.put, "--tick", "0.02")
    await asyncio.to_thread(sidecar.open)
    async with (
        open_session() as http,
        recording(store, s=(session_of(sidecar), dialling(sidecar, http))) as recorder,
    ):
        end = recorder.listen(sidecar.session, woken.set, live.append)
        await eventually(lambda: recorder.following(sidecar.session), "agentctl is heard")
        await asyncio.to_thread(sidecar.say, "slow 5")
        last = (await asyncio.to_thread(sidecar.status))["journal"]["last_seq"]
        read: list[Event] = []
        place: Place | None = None

        async def is_read() -> bool:
            nonlocal place
            stretch = await recorder.after(sidecar.session, place, 3)
            place = stretch.place
            read.extend(stretch.events)
            return place is not None and place.seq == last

        await eventually(is_read, "the reader has all of it")
        page = await recorder.newest(sidecar.session, None, 50)
        end()
        assert woken.is_set()
        said = await asyncio.to_thread(sidecar.said)
        words = [e for e in read if e.kind is EventKind.MESSAGE and e.data["author"] == "agent"]
        assert "".join(e.data.get("text", "") for e in words) == said
        assert len({e.seq for e in read}) == len(read)
        assert [m.text for m in page.messages if m.author == "user"] == ["slow 5"]
        assert live
        assert all(e.kind is EventKind.LIVE for e in live)
        journalled = await asyncio.to_thread(sidecar.events)
        assert await holds(store, sidecar) == journalled
    await store.close()


@pytest.mark.timeout(120 + 30 * KILLS)
async def test_a_day_on_which_both_ends_are_killed_is_kept_to_the_byte(
    url: str, sidecar: Sidecar
) -> None:
    print(f"KANDEV_SEED={SEED} KANDEV_KILLS={KILLS}")
    dice = random.Random(SEED)
    day = Day(sidecar, SEED)
    lived = asyncio.create_task(asyncio.to_thread(day.live, KILLS))
    recorders = 0
    async with open_session() as http:
        while not lived.done():
            stores = [Store(url), Store(url)]
            followed = session_of(sidecar), dialling(sidecar, http)
            async with (
                recording(stores[0], QUICK, s=followed),
                recording(stores[1], QUICK, s=followed),
            ):
                await asyncio.wait([lived], timeout=dice.uniform(0.05, 1.5))
            recorders += 2
            for store in stores:
                await store.close()
        await lived
        judge(day)
        store = Store(url)
        async with recording(store, QUICK, s=(session_of(sidecar), dialling(sidecar, http))):
            journalled = await asyncio.to_thread(sidecar.events)
            assert await holds(store, sidecar) == journalled
        await store.close()
    assert recorders > 2
    assert len(journalled) > 20 * KILLS
