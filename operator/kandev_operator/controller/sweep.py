"""The LIST sweep: what the watch lost is found, and the first lists are complete before work.

The first sweep fills the cache before any decision is made: an object that was not listed yet is
not "missing". Later ones, at every period and after each restart of the watch, take over newer
bodies and drop what is gone; kopf never reports what was deleted while it was not watching. A
difference found twice in a row means that the watch is lying, and it is told so.

A list that is older than what was known before it was asked for is the mark of an API server that
was restored from a backup: versions only grow otherwise. Then the list holds, not the memory.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from kandev_operator.api import group
from kandev_operator.clients.errors import ClientError, Forbidden, Unauthorized
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.resources import (
    AGENT_PROFILES,
    EXECUTORS,
    PODS,
    TASK_SESSIONS,
    TASKS,
    Resource,
)
from kandev_operator.controller.cache import Cache, strip, version_of
from kandev_operator.controller.logs import EdgeLog
from kandev_operator.controller.metrics import Metrics

log = logging.getLogger(__name__)

LISTED: Final[tuple[Resource, ...]] = (AGENT_PROFILES, TASKS, PODS, EXECUTORS, TASK_SESSIONS)
SELECTED: Final = {PODS.plural: group.LABEL_EXECUTOR_UID}
"""Of these kinds only what carries the label is ours."""
_RETRY_SECONDS: Final = 2.0
_LIST_SECONDS: Final = 30.0


class Sweep:
    """Owns no task; `run` needs an owner."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        namespaces: tuple[str, ...],
        metrics: Metrics,
        edges: EdgeLog,
    ) -> None:
        self._kube = kube
        self._cache = cache
        self._namespaces: tuple[str | None, ...] = namespaces or (None,)
        self._metrics = metrics
        self._edges = edges
        self._asked = asyncio.Event()
        self._rewound = False
        self.complete = asyncio.Event()
        """Set once every kind was listed."""
        self.completed_at: float | None = None
        self.problem: str | None = "the first lists are not complete yet"

    def ask(self) -> None:
        """Sweep soon: the watch was away."""
        self._asked.set()

    async def run(
        self, period: float, on_drift: Callable[[int], None], on_rewound: Callable[[], None]
    ) -> None:
        """Sweep until cancelled: at once, at every period, and when asked to."""
        drifted_before = False
        while True:
            first = not self.complete.is_set()
            asked = self._asked.is_set()
            self._asked.clear()
            drift = await self._once()
            if self._rewound:
                self._rewound = False
                on_rewound()
            if drift is None:
                await self._rest(_RETRY_SECONDS)
                continue
            if not first and not asked:
                if drift and drifted_before:
                    on_drift(drift)
                drifted_before = drift > 0
            await self._rest(period)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            return

    async def _once(self) -> int | None:
        """List every kind; the number of differences found, or None where a list failed."""
        drift = 0
        for resource in LISTED:
            for namespace in self._namespaces:
                try:
                    drift += await self._list(resource, namespace)
                except (Forbidden, Unauthorized) as error:
                    kind = f"{resource.plural}.{resource.group}".rstrip(".")
                    where = f" in {namespace}" if namespace else ""
                    self.problem = f"the operator may not list {kind}{where}: {error}"
                    self._edges.log("sweep", "list", logging.ERROR, self.problem)
                    return None
                except (ClientError, TimeoutError) as error:
                    self.problem = f"{resource.plural} cannot be listed: {error}"[:300]
                    self._edges.log("sweep", "list", logging.WARNING, self.problem)
                    return None
        self.problem = None
        self.completed_at = time.monotonic()
        if not self.complete.is_set():
            log.info("the first lists are complete: %d objects", len(self._cache))
            self.complete.set()
        else:
            self._edges.log("sweep", "list", logging.DEBUG, "lists are complete")
        return drift

    async def _list(self, resource: Resource, namespace: str | None) -> int:
        known = {
            place: version_of(self._cache.get(*place) or {})
            for place in self._cache.places(resource.kind)
            if namespace is None or place[1] == namespace
        }
        items, listed_at = await self._kube.list(
            resource,
            namespace,
            label_selector=SELECTED.get(resource.plural),
            keep=strip,
            timeout=_LIST_SECONDS,
        )
        horizon = int(listed_at) if listed_at.isdigit() else 0
        newest = max(known.values(), default=0)
        went_back = 0 < horizon < newest
        if went_back:
            self._rewound = True
            words = "the API server went back from version %d of %s to %d: it was restored"
            log.warning(words, newest, resource.plural, horizon)
        drift = 0
        seen = set()
        for body in items:
            meta = body["metadata"]
            place = (resource.kind, meta.get("namespace", ""), meta["name"])
            seen.add(place)
            # Only in place of what was known before: what came meanwhile is of the new history.
            lost = went_back and version_of(self._cache.get(*place) or {}) == known.get(place)
            if self._cache.put(resource.kind, body, anyway=lost):
                drift += 1
        for place, version in known.items():
            # An object that is newer than the list was made after it, not lost; but all that was
            # known before the list was asked for is older than it, or of a history that is gone.
            if place not in seen and (version <= horizon or went_back):
                current = self._cache.get(*place)
                if current is not None and version_of(current) == version:
                    drift += self._cache.drop(*place)
        if drift and self.complete.is_set():
            self._metrics.drifted(resource.kind, drift)
        return drift
