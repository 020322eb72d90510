"""A recorder and a real agentctl: what is said is kept as it was journalled, whoever dies when."""

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

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
from kandev_operator.gateway.recorder.settings import Dial
from kandev_operator.gateway.store.sessions import SeenSession
from kandev_operator.gateway.store.store import Store

KILLS = int(os.environ.get("KANDEV_KILLS", "2"))
SEED = int(os.environ.get("KANDEV_SEED", "20260704"))


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
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
    killed = 0
    async with open_session() as http:
        lived = asyncio.create_task(asyncio.to_thread(day.live, KILLS))
        try:
            while not lived.done():
                # One gateway that is stopped, and one that is killed in the middle of things.
                store, process = Store(url), await launched(url, sidecar)
                async with recording(store, QUICK, s=followed(sidecar, http)):
                    await asyncio.wait([lived], timeout=dice.uniform(0.05, 1.5))
                process.kill()
                await process.wait()
                killed += 1
                await store.close()
        finally:
            await lived
        judge(day)
        store = Store(url)
        async with recording(store, QUICK, s=followed(sidecar, http)):
            journalled = await asyncio.to_thread(sidecar.events)
            assert await holds(store, sidecar) == journalled
        await store.close()
    assert killed > 1
    assert len(journalled) > 20 * KILLS


def followed(sidecar: Sidecar, http: ClientSession) -> tuple[SeenSession, Dial]:
    return session_of(sidecar), dialling(sidecar, http)


async def launched(url: str, sidecar: Sidecar) -> asyncio.subprocess.Process:
    """A recorder's process that has begun to follow."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "stage.recorderprocess"),
        *(url, str(sidecar.state / "run.json"), sidecar.session),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    token = sidecar.keys.token(scopes=["read"], exp=int(time.time()) + 600)
    process.stdin.write(f"{token}\n".encode())
    process.stdin.close()
    assert await process.stdout.readline() == b"follows\n"
    return process
