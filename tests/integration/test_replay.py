"""Histories that agents replay when they come back: shown once, whole, and never as news."""

import asyncio

from kandev_operator.contract.events import EventKind
from stage.scene import Part, Scene
from stage.sessions import Body

TOLD = (EventKind.MESSAGE, EventKind.TURN_STARTED, EventKind.TURN_ENDED, EventKind.PROMPT)


async def told(part: Part) -> list[tuple[str, str]]:
    """All that a reader of the conversation has been told."""
    async with part.talk() as it:
        return [(each.kind, str(each.data)) for each in await it.events() if each.kind in TOLD]


async def comes_back(part: Part, before: Body) -> None:
    """Resumed, with nothing told anew and no sign of a turn."""
    known = await told(part)
    since_the_resume: set[str] = set()

    def watched(status: Body) -> bool:
        if since_the_resume or status["state"] == "STARTING":
            since_the_resume.add(status["state"])
        live = status["state"] == "WAITING_FOR_INPUT" and status.get("isAgentRunning")
        return bool(live and status["agentExecutionId"] != before["agentExecutionId"])

    part.kill()
    await part.wait(watched, "idle again")
    assert "RUNNING" not in since_the_resume
    assert await told(part) == known


async def test_B046_a_replayed_history_is_no_news(scene: Scene) -> None:
    async def play(name: str, fixed: tuple[str, ...], later: tuple[str, ...]) -> None:
        part = await scene.begin(name, *fixed)
        before = await part.with_history()
        await part.ask("beta")
        part.behave(*later)
        await comes_back(part, before)
        answer = await part.ask("gamma")
        assert answer == "You said 3 things so far; the first was: alpha"
        async with part.talk() as it:
            assert await it.user_messages() == ["alpha", "beta", "gamma"]

    await asyncio.gather(
        play("b046-load", ("--no-resume",), ()),
        play("b046-resume", (), ("--replay-on-resume",)),
        play("b046-late", ("--no-resume",), ("--replay-after-answer",)),
        play("b046-withdrawn", ("--no-resume",), ("--replay-count=40",)),
    )


async def test_B047_twenty_thousand_replayed_updates_overflow_nothing(scene: Scene) -> None:
    part = await scene.begin("b047", "--no-resume")
    before = await part.with_history()
    part.behave("--replay-count=20000", "--replay-size=3000")
    async with part.talk() as it:
        await comes_back(part, before)
        report = await it.status()
        assert report.details["updates_replayed"] >= 20_000
        assert report.journal.last_seq < 1_000
        with open(f"/proc/{report.pid}/status") as status:  # noqa: ASYNC230
            peak = next(line for line in status if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 300_000, "kB of memory at most"
    await part.remembers()
