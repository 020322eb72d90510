"""The stream of changes as it goes over the wire: ready, then sets of paths, then why it ends.

Comment lines keep an idle stream alive. Who reads slowly gets fewer and larger sets, or is told
that changes were lost: nothing is queued without a bound.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from kandev_operator.agentctl.files.watching import Reader, Watch
from kandev_operator.contract.files import (
    WatchChanged,
    WatchClosed,
    WatchEvent,
    WatchOverflow,
    WatchReady,
)
from kandev_operator.contract.paths import HEARTBEAT_SECONDS
from kandev_operator.contract.wire import Wire

ALIVE: Final = b": alive\n\n"


async def stream(
    watch: Watch, reader: Reader, ready: WatchReady, closing: asyncio.Event
) -> AsyncIterator[bytes]:
    """The body of the stream."""
    yield encode(WatchEvent.READY, ready)
    ending = asyncio.create_task(_at_the_end(closing, reader))
    try:
        while reader.end is None:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await reader.news.wait()
            except TimeoutError:
                yield ALIVE
                continue
            reader.news.clear()
            if reader.overflow is not None:
                lost = WatchOverflow(reason=reader.overflow)
                reader.overflow = None
                yield encode(WatchEvent.OVERFLOW, lost)
            if paths := reader.take():
                told = WatchChanged(paths=paths, unwatched=watch.unwatched)
                yield encode(WatchEvent.CHANGED, told)
        yield encode(WatchEvent.CLOSED, WatchClosed(reason=reader.end))
    finally:
        ending.cancel()


async def _at_the_end(closing: asyncio.Event, reader: Reader) -> None:
    await closing.wait()
    reader.close("shutdown")


def encode(event: WatchEvent, body: Wire) -> bytes:
    return f"event: {event.value}\ndata: {body.model_dump_json()}\n\n".encode()
