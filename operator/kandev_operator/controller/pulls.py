"""Images on their way to the Docker engine: fetched beside the passes, one after the other.

A pull takes minutes, and a pass may not wait for it: the pass says which image it wants, goes on,
and is rung for when the pull has ended, well or not. How the last one ended is remembered in this
process alone; one that an operator's end cut off is simply asked for again.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from kandev_operator.clients.docker import DockerEngine
from kandev_operator.clients.errors import EngineError
from kandev_operator.core.containerseen import ImageSeen

log = logging.getLogger(__name__)

AT_MOST: Final = 200
_LONGEST_WORDS: Final = 300


class Pulls:
    """Which images are being pulled, and for whom. `run` must be running."""

    def __init__(
        self, engine: DockerEngine, ring: Callable[[str], None], clock: Callable[[], datetime]
    ) -> None:
        """`ring` is called with the UID of each executor that waited for a pull that has ended."""
        self._engine = engine
        self._ring = ring
        self._clock = clock
        self._waiting: dict[str, set[str]] = {}
        self._ended: dict[str, ImageSeen] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue(maxsize=AT_MOST)

    def seen(self, image: str) -> ImageSeen:
        """How far an image that the engine does not have is on its way."""
        if image in self._waiting:
            return ImageSeen(pulling=True)
        return self._ended.get(image, ImageSeen())

    def want(self, image: str, executor_uid: str) -> None:
        """Fetch this image, and ring for this executor then. Raises ValueError when too many
        others are waited for."""
        waiting = self._waiting.get(image)
        if waiting is not None:
            waiting.add(executor_uid)
            return
        if self._queue.full():
            raise ValueError("too many images are waited for")
        self._waiting[image] = {executor_uid}
        self._queue.put_nowait(image)

    async def run(self) -> None:
        """Fetch what is wanted, until cancelled."""
        while True:
            await self._fetch(await self._queue.get())

    async def _fetch(self, image: str) -> None:
        failure = ""
        try:
            await self._engine.pull(image)
        except EngineError as error:
            failure = error.message[:_LONGEST_WORDS]
            log.warning("image %s cannot be pulled: %s", image, failure)
        except Exception as error:  # the stream of a pull is not ours to know
            failure = type(error).__name__
            log.exception("the pull of image %s broke", image)
        if len(self._ended) >= AT_MOST:
            self._ended.clear()
        self._ended[image] = ImageSeen(failure=failure, failed_at=self._clock())
        for executor_uid in self._waiting.pop(image, ()):
            self._ring(executor_uid)
