"""A few threads for blocking calls, and a bound on who waits for them.

The event loop never waits for a disk: a file system that hangs holds these threads and nothing
else. Who finds too many waiting is told so at once.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code

WORKERS: Final = 4
WAITING: Final = 64
P = ParamSpec("P")
T = TypeVar("T")


class Pool:
    """The threads, made as they are needed."""

    def __init__(self, workers: int = WORKERS, waiting: int = WAITING) -> None:
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="files")
        self._limit = workers + waiting
        self._under_way = 0

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do it in a thread. A caller that is cancelled leaves the call to its end."""
        if self._under_way >= self._limit:
            raise Refusal(Code.BUSY, "too many calls about files are under way")
        self._under_way += 1
        future = self._threads.submit(call, *args, **kwargs)
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda done: self._over(loop, done))
        return await asyncio.wrap_future(future)

    def _over(self, loop: asyncio.AbstractEventLoop, _: "Future[Any]") -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._count_down)

    def _count_down(self) -> None:
        self._under_way -= 1

    def close(self) -> None:
        """Start nothing more; what hangs is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
