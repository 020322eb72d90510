"""Many agentctls at once, and some that lie: none is asked for all at once, none is believed."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from typing import Any

import pytest

from integration.history.conftest import SESSION
from integration.history.real import QUICK, eventually, kept, patient, recording
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.contract.status import StatusReport
from kandev_operator.gateway.ports import Place
from kandev_operator.gateway.recorder.metrics import RecorderMetrics
from kandev_operator.gateway.recorder.recorder import Recorder
from kandev_operator.gateway.store.store import Store
from stage.playedagentctl import PlayedAgentctl


class Counted(PlayedAgentctl):
    """Counts, over all of its kind, who is called and who is read from far behind."""

    calling = reading = most_calling = most_reading = 0

    async def status(self, *, with_token: bool = True) -> StatusReport:
        Counted.calling += 1
        Counted.most_calling = max(Counted.most_calling, Counted.calling)
        try:
            await asyncio.sleep(0.002)
            return await super().status(with_token=with_token)
        finally:
            Counted.calling -= 1

    async def events(
        self, after: str | None = None, kinds: Iterable[str] = ()
    ) -> AsyncGenerator[Event, None]:
        last, counts = self.last_seq, after is None
        Counted.reading += counts
        Counted.most_reading = max(Counted.most_reading, Counted.reading)
        try:
            async for event in super().events(after, kinds):
                if counts and event.seq >= last:
                    Counted.reading -= 1
                    counts = False
                yield event
        finally:
            Counted.reading -= counts


async def test_a_gateway_that_starts_reads_so_many_from_far_behind_at_a_time(url: str) -> None:
    settings = patient(QUICK, connecting=10, catching_up=3, near=20)
    agentctls = [Counted(f"uid-{n}", seed=n) for n in range(40)]
    for agentctl in agentctls:
        agentctl.say(60)
    agentctls[7].is_away = agentctls[8].is_away = True
    followed = {
        a.session_uid: (replace(SESSION, uid=a.session_uid, name=a.session_uid), a.dial)
        for a in agentctls
    }
    store = Store(url)
    await store.open()
    async with recording(store, settings, **followed):
        for agentctl in agentctls:
            if agentctl.is_away:
                continue

            async def is_kept(one: Counted = agentctl) -> bool:
                place = await store.newest_place(one.session_uid)
                return place == Place("j1", one.last_seq)

            await eventually(is_kept, f"{agentctl.session_uid} is kept")
        agentctls[7].is_away = False
        agentctl = agentctls[7]
        await eventually(is_kept, "and who was away comes later")
    assert Counted.most_reading == 3
    assert 3 < Counted.most_calling <= 10
    await store.close()


class Liar(PlayedAgentctl):
    """Ends its journal with one event that cannot be."""

    def __init__(self, **lie: Any) -> None:
        super().__init__(SESSION.uid)
        self.lie = lie
        self.say(10)

    async def events(
        self, after: str | None = None, kinds: Iterable[str] = ()
    ) -> AsyncGenerator[Event, None]:
        async for event in super().events(after, kinds):
            yield event
            if event.seq == self.last_seq:
                yield event.model_copy(update={"seq": event.seq + 1} | self.lie)


@pytest.mark.parametrize(
    "lie",
    [
        {"session_id": "somebody-else"},
        {"seq": 2**70},
        {"seq": -1},
        {"journal_id": ""},
        {"journal_id": "j" * 300},
    ],
)
async def test_what_cannot_be_of_this_session_ends_the_connection_and_is_not_kept(
    url: str, lie: dict[str, Any]
) -> None:
    agentctl, store, metrics = Liar(**lie), Store(url), RecorderMetrics()
    await store.open()
    others = replace(SESSION, uid="somebody-else", name="s-b")
    await store.see([others], "2026-01-01T00:00:00.000Z")
    recorder = Recorder(store, lambda: "2026-01-01T00:00:00.000Z", QUICK, metrics)
    recorder.follow(SESSION, agentctl.dial)
    task = asyncio.create_task(recorder.run())
    try:

        async def is_kept() -> bool:
            return await store.newest_place(SESSION.uid) == Place("j1", agentctl.last_seq)

        await eventually(is_kept, "what is true is kept")
        ended = "kandev_gateway_event_streams_ended_total"
        await eventually(
            lambda: metrics.registry.get_sample_value(ended, {"reason": "Strange"}),
            "the lie is counted",
        )
        assert await kept(store, "j1", SESSION.uid) == agentctl.journal
        assert await store.newest_place("somebody-else") is None
    finally:
        task.cancel()
        await asyncio.wait([task])
    await store.close()


async def test_texts_that_no_database_holds_are_kept_and_shown(url: str) -> None:
    agentctl, store = PlayedAgentctl(SESSION.uid), Store(url)
    await store.open()
    odd = "a\0b\ud800c"
    agentctl.speech.add(
        EventKind.MESSAGE, message_id=odd, author="agent", kind="text", text=odd, turn_id=odd
    )
    agentctl.speech.add(EventKind.MESSAGE, message_id="m" * 5000, kind="text", text="x")
    agentctl.speech.add(EventKind.MESSAGE, message_id=odd, content={odd: [odd, 1e300, 2**80, None]})
    agentctl.speech.add(EventKind.GAP, from_seq="no number", to_seq=None)
    async with recording(store, QUICK, s=(SESSION, agentctl.dial)) as recorder:

        async def is_shown() -> bool:
            page = await recorder.newest(SESSION.uid, None, 10)
            return not page.late and len(page.messages) == 2 and page.messages[0].last_seq == 3

        await eventually(is_shown, "both messages are shown")
        page = await recorder.newest(SESSION.uid, None, 10)
        assert page.messages[0].text == odd
        assert page.messages[0].content == {odd: [odd, 1e300, 2**80, None]}
        assert page.messages[1].message_id == "m" * 255
        assert await kept(store, "j1", SESSION.uid) == agentctl.journal[:3]
    await store.close()
