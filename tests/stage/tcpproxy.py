"""A TCP proxy between a client and a server that breaks connections as it is told.

It passes bytes and understands none of them, so TLS goes through it whole. It can reset what
connects, swallow what is said on connections that are open (a black hole: nothing is refused and
nothing answers), and delay every answer. Runs in a thread of its own.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

_RESET = struct.pack("ii", 1, 0)


class TcpProxy:
    """In front of one port of this machine. All methods may be called from any thread."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcpproxy", daemon=True)
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._swallowed: set[asyncio.StreamWriter] = set()
        self._resetting = False
        self._delay = 0.0
        self._server: asyncio.Server | None = None
        self.port = 0
        self.connections = 0

    @classmethod
    def before(cls, kubeconfig: Path) -> Self:
        """A proxy before the API server that a kubeconfig names."""
        port = urlsplit(_cluster(json.loads(kubeconfig.read_text()))["server"]).port
        assert port is not None
        return cls(port)

    def kubeconfig(self, original: Path, path: Path) -> Path:
        """A copy of a kubeconfig that goes through this proxy."""
        document = json.loads(original.read_text())
        _cluster(document)["server"] = f"https://127.0.0.1:{self.port}"
        path.touch(mode=0o600)
        path.write_text(json.dumps(document))
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # What can be told.

    def reset(self) -> None:
        """Reset what is open, and from now on whatever connects."""
        self._resetting = True
        self._do(self._reset_all)

    def swallow(self) -> None:
        """Make black holes of the connections that are open now; new ones pass."""
        self._do(lambda: self._swallowed.update(*self._pairs))

    def delay(self, seconds: float) -> None:
        """Let every piece of an answer come so much later."""
        self._delay = seconds

    def heal(self) -> None:
        """Pass everything that connects from now on. What was swallowed stays swallowed."""
        self._resetting, self._delay = False, 0.0

    # How it is done.

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # asyncio's own callback of this task cannot bear that it was cancelled.
        with contextlib.suppress(asyncio.CancelledError):
            await self._carry(reader, writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self._resetting:
            _reset(writer)
            return
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            _reset(writer)
            return
        pair = (writer, there[1])
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._pass(reader, there[1], delayed=False))
                tasks.create_task(self._pass(there[0], writer, delayed=True))
        except* OSError:
            pass
        finally:
            self._pairs.discard(pair)
            for each in pair:
                self._swallowed.discard(each)
                each.transport.abort()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, delayed: bool
    ) -> None:
        while data := await reader.read(65536):
            if delayed and self._delay:
                await asyncio.sleep(self._delay)
            if writer in self._swallowed:
                continue
            writer.write(data)
            await writer.drain()
        if writer in self._swallowed:
            await asyncio.Event().wait()
        with contextlib.suppress(OSError):
            writer.write_eof() if writer.can_write_eof() else None
        raise ConnectionResetError

    def _reset_all(self) -> None:
        for pair in list(self._pairs):
            for writer in pair:
                _reset(writer)

    def _do(self, what: Callable[[], None]) -> None:
        async def done() -> None:
            what()

        self._call(done())

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a RST, as a broken middlebox does."""
    found = writer.get_extra_info("socket")
    if found is not None:
        with contextlib.suppress(OSError):
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()


def _cluster(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["clusters"][0]["cluster"]
    return found
