"""How old a Secret may be that a pass reads, and when it must be read as it is now."""

from typing import Any

import pytest

from kandev_operator.clients.errors import NotFound
from kandev_operator.clients.resources import SECRETS, Resource
from kandev_operator.controller import secrets
from kandev_operator.core.observed import Found, Missing


class Cluster:
    """One Secret, or none, and how often it was read."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = {"data": {"api": "b25l"}}
        self.reads = 0

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        self.reads += 1
        if self.body is None:
            raise NotFound("GET", "no such Secret")
        return self.body


class Scene:
    def __init__(self) -> None:
        self.cluster, self.now = Cluster(), 1000.0
        self.secrets = secrets.Secrets(self.cluster, lambda: self.now, lambda *_: None)  # type: ignore[arg-type]

    async def read(self, **how: bool) -> object:
        return await self.secrets.read(SECRETS, "ns", "keys", **how)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_many_passes_cost_one_read(scene: Scene) -> None:
    assert await scene.read() == await scene.read()
    assert scene.cluster.reads == 1
    scene.now += secrets.KEPT_SECONDS
    await scene.read()
    assert scene.cluster.reads == 2


async def test_who_asks_for_a_new_try_gets_it_as_it_is_now(scene: Scene) -> None:
    await scene.read()
    scene.cluster.body = {"data": {"api": "dHdv"}}
    assert await scene.read() != Found(scene.cluster.body)
    assert await scene.read(fresh=True) == Found(scene.cluster.body)
    assert await scene.read() == Found(scene.cluster.body), "and so do all who come after"


async def test_what_is_missing_is_soon_looked_for_again(scene: Scene) -> None:
    scene.cluster.body = None
    assert await scene.read() == Missing()
    assert await scene.read() == Missing()
    assert scene.cluster.reads == 1
    scene.cluster.body = {"data": {}}
    scene.now += secrets.MISSING_SECONDS
    assert await scene.read() == Found({"data": {}})
