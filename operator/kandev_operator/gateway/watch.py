"""Fills the cache: one LIST and WATCH for each kind and namespace that the gateway looks at.

The first list of every kind is waited for before anything is shown (`complete`). After that a loss
is said as staleness, not as absence.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final, assert_never

from kandev_operator.api import group
from kandev_operator.clients import resources
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.watching import Alive, Changed, Deleted, Listed, Lost, Pace, watch
from kandev_operator.gateway.cache import KINDS, Cache, strip

_RESOURCES: Final = {
    group.AGENT_PROFILE: resources.AGENT_PROFILES,
    group.TASK: resources.TASKS,
    group.EXECUTOR: resources.EXECUTORS,
    group.TASK_SESSION: resources.TASK_SESSIONS,
}
_log = logging.getLogger(__name__)


class Watch:
    """The watches of one gateway. `namespaces` empty: the whole cluster."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        namespaces: tuple[str, ...],
        freshness_changed: Callable[[], None],
        pace: Pace | None = None,
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._places: tuple[str | None, ...] = namespaces or (None,)
        self._freshness_changed = freshness_changed
        self._pace = pace or Pace()
        self._waiting = {(kind.kind, place) for kind in KINDS for place in self._places}
        self.complete = asyncio.Event()
        """Set when every kind was listed once."""
        for kind, place in self._waiting:
            cache.expect(kind, place)

    async def run(self) -> None:
        """Look on until cancelled."""
        async with asyncio.TaskGroup() as group_:
            for kind in KINDS:
                for place in self._places:
                    group_.create_task(self._follow(kind.kind, place))

    async def _follow(self, kind: str, place: str | None) -> None:
        seen = watch(self._kube, _RESOURCES[kind], place, strip, self._pace)
        async with aclosing(seen) as changes:
            async for change in changes:
                match change:
                    case Listed(items):
                        self._cache.relist(kind, place, items)
                        self._fresh(kind, place)
                    case Changed(item):
                        self._cache.put(kind, item)
                    case Deleted(item):
                        self._cache.remove(kind, item)
                    case Alive():
                        pass
                    case Lost(error):
                        _log.warning("%s", error)
                        if self._cache.mark(kind, place, stale=True):
                            self._freshness_changed()
                    case _:
                        assert_never(change)

    def _fresh(self, kind: str, place: str | None) -> None:
        if self._cache.mark(kind, place, stale=False):
            self._freshness_changed()
        self._waiting.discard((kind, place))
        if not self._waiting:
            self.complete.set()
