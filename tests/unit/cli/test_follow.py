"""Cursors over lost connections: nothing lost, nothing doubled, gaps told, and when to give up."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from kandev_operator.cli.faults import Fault
from kandev_operator.cli.follow import Away, Connected, Follower, Item, Quiet
from kandev_operator.cli.reach import NotServed
from kandev_operator.contract.events import Event
from unit.cli.bodies import NAME, executor_body
from unit.cli.stage import FAST, Stage, until


class Reader:
    """Reads in the background; what came is looked at by the test."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.items: list[Item] = []

    async def run(self) -> None:
        async with aclosing(self.follower.items()) as items:
            async for item in items:
                self.items.append(item)

    @property
    def texts(self) -> list[str]:
        return [item.data["text"] for item in self.events if "text" in item.data]

    @property
    def events(self) -> list[Event]:
        return [item for item in self.items if isinstance(item, Event)]

    def of(self, kind: type) -> list[Item]:
        return [item for item in self.items if isinstance(item, kind)]


@asynccontextmanager
async def reading(stage: Stage, after: int | None = 0) -> AsyncIterator[Reader]:
    reader = Reader(Follower(lambda: stage.desk.reach.line(NAME), after, FAST))
    task = asyncio.create_task(reader.run())
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_replay_and_then_live(stage: Stage) -> None:
    stage.agentctl.says("before")
    async with reading(stage) as reader:
        await until(lambda: reader.texts == ["before"])
        await stage.agentctl.tell("message", text="live")
        await until(lambda: reader.texts == ["before", "live"])
    assert stage.agentctl.cursors == ["journal-1:0"]


@pytest.mark.parametrize(("after", "texts"), [(0, "abc"), (1, "bc"), (3, ""), (99, ""), (None, "")])
async def test_where_it_begins(stage: Stage, after: int | None, texts: str) -> None:
    for text in "abc":
        stage.agentctl.says(text)
    async with reading(stage, after) as reader:
        await until(lambda: bool(reader.of(Connected)) and len(reader.texts) >= len(texts))
        await stage.agentctl.tell("message", text="live")
        await until(lambda: "live" in reader.texts)
        assert reader.texts == [*texts, "live"]
        assert not [event for event in reader.events if event.kind == "gap"]


@pytest.mark.parametrize("repeats", [0, 2], ids=["a good peer", "a peer that repeats itself"])
async def test_a_broken_stream_goes_on_after_the_cursor(stage: Stage, repeats: int) -> None:
    stage.agentctl.repeats = repeats
    stage.agentctl.says("a")
    async with reading(stage) as reader:
        await until(lambda: reader.texts == ["a"])
        for text in "bcdef":
            stage.agentctl.says(text)
            await stage.agentctl.cut()
            await until(lambda: reader.texts[-1] == stage.agentctl.events[-1]["data"]["text"])
    assert reader.texts == [*"abcdef"]
    places = [int(each.removeprefix("journal-1:")) for each in stage.agentctl.cursors]
    assert len(places) > 1
    assert places == sorted(places)


async def test_agentctl_comes_back_at_another_address(stage: Stage) -> None:
    stage.agentctl.says("a")
    async with reading(stage) as reader:
        await until(lambda: reader.texts == ["a"])
        await stage.agentctl.stop()
        await until(lambda: bool(reader.of(Away)))
        stage.agentctl.says("b")
        url = await stage.agentctl.start()
        stage.api.put("executors", executor_body(url))
        await until(lambda: reader.texts == ["a", "b"])
    assert stage.agentctl.cursors == ["journal-1:0", "journal-1:1"]


async def test_a_session_that_rests_is_waited_for(stage: Stage) -> None:
    stage.agentctl.says("a")
    stage.api.session["status"]["executorRef"] = None
    async with reading(stage) as reader:
        await until(lambda: bool(reader.of(Away)))
        [away, *_] = reader.of(Away)
        assert isinstance(away, Away)
        assert isinstance(away.fault, NotServed)
        stage.api.session["status"]["executorRef"] = {"name": "place", "uid": "executor-uid"}
        await until(lambda: reader.texts == ["a"])


async def test_what_is_not_kept_any_more_is_a_gap(stage: Stage) -> None:
    for text in "abcd":
        stage.agentctl.says(text)
    stage.agentctl.lost = [2]
    async with reading(stage) as reader:
        await until(lambda: reader.texts == ["c", "d"])
    assert [event.kind for event in reader.events] == ["gap", "message", "message"]
    assert reader.follower.place == ("journal-1", 4)


async def test_another_journal_begins_anew(stage: Stage) -> None:
    for text in "abc":
        stage.agentctl.says(text)
    async with reading(stage) as reader:
        await until(lambda: reader.texts == [*"abc"])
        stage.agentctl.journal_id = "journal-2"
        stage.agentctl.events.clear()
        stage.agentctl.says("x")
        await stage.agentctl.cut()
        await until(lambda: reader.texts == [*"abcx"])
    assert [event.kind for event in reader.events][3:] == ["gap", "message"]
    assert reader.follower.place == ("journal-2", 1)


async def test_a_cluster_that_is_away_is_waited_for_once_it_was_there(stage: Stage) -> None:
    stage.agentctl.says("a")
    async with reading(stage) as reader:
        await until(lambda: reader.texts == ["a"])
        stage.api.broken = True
        await stage.agentctl.cut()
        await until(lambda: bool(reader.of(Away)))
        stage.api.broken = False
        stage.agentctl.says("b")
        await until(lambda: reader.texts == ["a", "b"])


async def test_passing_refusals_are_waited_for(stage: Stage) -> None:
    stage.agentctl.says("a")
    async with reading(stage) as reader:
        await until(lambda: reader.texts == ["a"])
        stage.agentctl.refuse["/api/v1/status"] = (503, "journal_unavailable")
        await stage.agentctl.cut()
        await until(lambda: bool(reader.of(Away)))
        stage.agentctl.refuse.clear()
        stage.agentctl.says("b")
        await until(lambda: reader.texts == ["a", "b"])


async def test_quiet_is_told(stage: Stage) -> None:
    async with reading(stage) as reader:
        await until(lambda: bool(reader.of(Quiet)))


async def test_the_first_connection_must_stand(stage: Stage) -> None:
    await stage.agentctl.stop()
    follower = Follower(lambda: stage.desk.reach.line(NAME), 0, FAST)
    with pytest.raises(Fault, match="does not answer at"):
        await anext(follower.items())


async def test_what_can_never_be_right_is_raised_at_any_time(stage: Stage) -> None:
    stage.agentctl.says("a")
    reader = Reader(Follower(lambda: stage.desk.reach.line(NAME), 0, FAST))
    running = asyncio.create_task(reader.run())
    await until(lambda: reader.texts == ["a"])
    stage.agentctl.refuse["/api/v1/status"] = (403, "forbidden_scope")
    await stage.agentctl.cut()
    with pytest.raises(Fault, match="forbidden_scope"):
        await running
