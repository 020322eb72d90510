"""Images are fetched beside the passes: once each, and whoever waited is rung for."""

import asyncio
from typing import Any

import pytest

from builders import NOW
from kandev_operator.clients.errors import EngineRefused
from kandev_operator.controller.pulls import AT_MOST, Pulls


class Engine:
    """Pulls when it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.pulled: list[str] = []
        self.fails: Exception | None = None

    async def pull(self, name: str) -> None:
        await self.go.wait()
        self.pulled.append(name)
        if self.fails is not None:
            raise self.fails


async def played(engine: Any, rung: list[str], **wanted: str) -> Pulls:
    done = asyncio.Event()

    def ring(uid: str) -> None:
        rung.append(uid)
        if len(rung) == len(wanted):
            done.set()

    pulls = Pulls(engine, ring, lambda: NOW)
    for uid, image in wanted.items():
        pulls.want(image, uid)
    assert all(pulls.seen(image).pulling for image in wanted.values())
    engine.go.set()
    task = asyncio.create_task(pulls.run())
    async with asyncio.timeout(30):
        await done.wait()
    task.cancel()
    return pulls


async def test_an_image_is_fetched_once_for_all_who_wait() -> None:
    engine, rung = Engine(), list[str]()
    pulls = await played(engine, rung, a="one", b="one", c="two")
    assert (engine.pulled, sorted(rung)) == (["one", "two"], ["a", "b", "c"])
    assert not pulls.seen("one").pulling
    assert pulls.seen("one").failure == ""


@pytest.mark.parametrize("fault", [EngineRefused("pull", "no such host"), KeyError("x")])
async def test_a_pull_that_failed_is_told_and_the_next_goes_on(fault: Exception) -> None:
    engine, rung = Engine(), list[str]()
    engine.fails = fault
    pulls = await played(engine, rung, a="one", b="two")
    assert engine.pulled == ["one", "two"]
    words = "no such host" if isinstance(fault, EngineRefused) else "KeyError"
    assert (pulls.seen("one").failure, pulls.seen("one").failed_at) == (words, NOW)


async def test_the_queue_has_a_bound() -> None:
    pulls = Pulls(Engine(), lambda _uid: None, lambda: NOW)  # type: ignore[arg-type]
    for number in range(AT_MOST):
        pulls.want(f"image-{number}", "a")
    with pytest.raises(ValueError, match="too many"):
        pulls.want("one-more", "a")
    pulls.want("image-0", "b")
