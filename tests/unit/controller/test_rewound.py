"""An API server that was restored from a backup: what it says now holds, not what is remembered."""

from typing import Any, cast

import pytest

from kandev_operator.api import group
from kandev_operator.clients.kube import Kube
from kandev_operator.controller.cache import Body, Cache
from kandev_operator.controller.logs import EdgeLog
from kandev_operator.controller.metrics import Metrics
from kandev_operator.controller.sweep import Sweep


def body(name: str, version: int, word: str = "") -> Body:
    meta = {"namespace": "a", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"word": word}}


class Lists:
    """Lists of one kind, as told; others are empty."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.version = 0
        self.items: list[Body] = []
        self.meanwhile: list[Body] = []

    async def list(self, resource: Any, _namespace: Any, **_: Any) -> tuple[list[Body], str]:
        if resource.kind != group.TASK_SESSION:
            return [], str(self.version)
        for each in self.meanwhile:
            self.cache.put(group.TASK_SESSION, each)
        return list(self.items), str(self.version)


@pytest.fixture
def cache() -> Cache:
    return Cache(lambda _change: None)


@pytest.fixture
def lists(cache: Cache) -> Lists:
    return Lists(cache)


@pytest.fixture
def sweep(cache: Cache, lists: Lists) -> Sweep:
    return Sweep(cast("Kube", lists), cache, (), Metrics(), EdgeLog())


def words(cache: Cache) -> dict[str, str]:
    return {each["metadata"]["name"]: each["spec"]["word"] for each in cache.bodies("TaskSession")}


async def swept(sweep: Sweep) -> bool:
    """One sweep; tells whether it found the API server restored."""
    assert await sweep._once() is not None
    rewound, sweep._rewound = sweep._rewound, False
    return rewound


async def test_an_older_list_replaces_what_is_remembered(
    cache: Cache, lists: Lists, sweep: Sweep
) -> None:
    for each in (body("kept", 50, "new"), body("same", 10, "same"), body("lost", 60)):
        cache.put(group.TASK_SESSION, each)
    lists.version, lists.items = 40, [body("kept", 30, "old"), body("same", 10, "same")]
    assert await swept(sweep)
    assert words(cache) == {"kept": "old", "same": "same"}
    lists.version = 41
    assert not await swept(sweep), "it is told once"


async def test_what_came_meanwhile_is_of_the_new_history(
    cache: Cache, lists: Lists, sweep: Sweep
) -> None:
    cache.put(group.TASK_SESSION, body("other", 60))
    cache.put(group.TASK_SESSION, body("s", 20, "before"))
    lists.version, lists.items = 40, [body("s", 20, "before")]
    lists.meanwhile = [body("s", 45, "after"), body("fresh", 46, "after")]
    assert await swept(sweep)
    assert words(cache) == {"s": "after", "fresh": "after"}


async def test_a_list_that_is_as_new_as_the_memory_changes_nothing(
    cache: Cache, lists: Lists, sweep: Sweep
) -> None:
    cache.put(group.TASK_SESSION, body("s", 40, "known"))
    lists.version, lists.items = 40, [body("s", 40, "known")]
    lists.meanwhile = [body("fresh", 41, "after")]
    assert not await swept(sweep)
    assert words(cache) == {"s": "known", "fresh": "after"}


def test_only_a_live_read_may_put_an_older_body(cache: Cache) -> None:
    cache.put(group.TASK_SESSION, body("s", 40, "known"))
    assert not cache.put(group.TASK_SESSION, body("s", 30, "late event"))
    assert not cache.put(group.TASK_SESSION, body("s", 40, "same version"), anyway=True)
    assert cache.put(group.TASK_SESSION, body("s", 30, "restored"), anyway=True)
    assert words(cache) == {"s": "restored"}
