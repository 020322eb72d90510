"""Work that is done only while its caller waits for it: a caller that goes away ends it.

The server tells of the end of a connection by a message; nobody else reads messages while the block
lasts, so the body of the call is read before.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request


@asynccontextmanager
async def attended(request: Request) -> AsyncIterator[None]:
    """Cancel the block if the caller goes; raises ClientDisconnect then."""
    worker = asyncio.current_task()
    assert worker is not None
    left = False

    async def watch() -> None:
        nonlocal left
        while (await request.receive())["type"] != "http.disconnect":
            pass
        left = True
        worker.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not left:
            raise
        worker.uncancel()
        raise ClientDisconnect from None
    finally:
        watcher.cancel()
