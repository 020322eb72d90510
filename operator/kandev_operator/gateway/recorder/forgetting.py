"""What retention removes, and when: every so often, a little at a time, as the options say."""

import asyncio
import random
from collections.abc import Callable
from datetime import datetime, timedelta

from kandev_operator.gateway.recorder.metrics import RecorderMetrics
from kandev_operator.gateway.recorder.settings import Keeping
from kandev_operator.gateway.store.database import StoreUnavailable
from kandev_operator.gateway.store.store import Store


class Forgetting:
    """`now` gives the time of day; `written` the sessions that grew, as a set to take them from."""

    def __init__(
        self,
        store: Store,
        keeping: Keeping,
        metrics: RecorderMetrics,
        now: Callable[[], str],
        written: Callable[[], set[str]],
    ) -> None:
        self._store = store
        self._keeping = keeping
        self._metrics = metrics
        self._now = now
        self._written = written

    async def run(self) -> None:
        """For ever; ended by cancelling it."""
        while True:
            # Several gateways that were started together do not look together.
            await asyncio.sleep(self._keeping.every_seconds * random.uniform(0.5, 1.5))
            await self.look()

    async def look(self) -> None:
        """Once. A store that is away is looked at the next time."""
        grown = set(self._written())
        self._written().clear()
        try:
            if self._keeping.days is not None:
                before = ago(self._now(), self._keeping.days)
                self._metrics.forgot(await self._store.forget(before))
            while self._keeping.session_bytes is not None and grown:
                uid = min(grown)
                self._metrics.forgot(await self._store.shrink(uid, self._keeping.session_bytes))
                grown.discard(uid)
        except StoreUnavailable:
            self._written().update(grown)


def ago(now: str, days: float) -> str:
    """A time that is past, as the store writes times."""
    moment = datetime.fromisoformat(now) - timedelta(days=days)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
