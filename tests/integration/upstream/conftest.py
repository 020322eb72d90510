"""Kandev's own agentctl from npm, and ours in front of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fakes.kandev_agentctl import KandevAgentctl
from integration.agentctl.harness import Keys
from integration.upstream.harness import Fronted


@pytest.fixture
def kandev(tmp_path: Path) -> Iterator[KandevAgentctl]:
    """A running one, for this test alone."""
    it = KandevAgentctl(tmp_path / "kandev")
    try:
        yield it.start()
    finally:
        it.close()


@pytest.fixture
def make_front(tmp_path: Path) -> Iterator[Callable[..., Fronted]]:
    """Ours, not yet started."""
    made: list[Fronted] = []

    def make(kandev: KandevAgentctl, *options: str) -> Fronted:
        folder = tmp_path / f"front-{len(made)}"
        folder.mkdir()
        front = Fronted(folder, Keys(folder / "jwks.json"), kandev, *options)
        made.append(front)
        return front

    yield make
    for front in made:
        front.close()


@pytest.fixture
def front(kandev: KandevAgentctl, make_front: Callable[..., Fronted]) -> Fronted:
    """Ours, running, in front of it."""
    return make_front(kandev).start()
