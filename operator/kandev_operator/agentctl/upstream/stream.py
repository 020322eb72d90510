"""The one stream of an instance: their events in, our calls and their answers over it.

It connects, and connects again for as long as the process that it was made for lives; what their
side gathered meanwhile comes first then. Answers are matched to calls by id, events are handed on
in order and none is taken before the last one was dealt with. A connection that breaks fails the
calls that wait on it as `Broken`: whether they were carried out is not known. Their events have no
acknowledgement, so a second reader, or one that dies, costs events: there is one reader, here.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import aiohttp

from kandev_operator.agentctl.upstream.client import Client, Process, Trouble, Vanished

log = logging.getLogger("kandev.agentctl.upstream")
Json = dict[str, Any]

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0


class Broken(Exception):
    """The connection broke while a call waited for its answer: its outcome is not known."""


class Rejected(Exception):
    """They answered a call with an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code)
        self.code, self.message = code, message


class Stream:
    """The stream of one instance, for one process of the agent."""

    def __init__(
        self,
        client: Client,
        instance_id: str,
        pid: int,
        *,
        on_event: Callable[[Json], Awaitable[None]],
        on_connected: Callable[[], Coroutine[Any, Any, None]],
        on_silence: Callable[[], None],
        on_gone: Callable[[Process | None], None],
    ) -> None:
        self._client, self._instance_id, self._pid = client, instance_id, pid
        self._on_event, self._on_connected = on_event, on_connected
        self._on_silence, self._on_gone = on_silence, on_gone
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._up = asyncio.Event()
        self._waiting: dict[str, asyncio.Future[Json]] = {}
        self._calls = 0

    async def run(self) -> None:
        """Keep connected until the process is gone; then tell so and return."""
        pause = FIRST_PAUSE
        while True:
            try:
                instance = await self._client.find(self._instance_id)
                process = await self._client.process(instance)
                if not self.is_ours(process):
                    self._on_gone(process if process.pid == self._pid else None)
                    return
                socket = await self._client.stream(instance)
            except Vanished:
                self._on_gone(None)
                return
            except Trouble as trouble:
                log.debug("no stream: %s", trouble)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            pause = FIRST_PAUSE
            await self._read(socket)
            await asyncio.sleep(FIRST_PAUSE)

    def is_ours(self, process: Process) -> bool:
        """The process that this stream was made for still runs."""
        return process.running and process.pid == self._pid

    async def connected(self) -> None:
        """Wait for a connection, for as long as it takes."""
        await self._up.wait()

    async def call(self, action: str, payload: Json, timeout: float) -> Json:
        """Call, and wait for the answer; waits for a connection first.

        Raises Rejected, Broken, and TimeoutError.
        """
        async with asyncio.timeout(timeout):
            while (socket := self._socket) is None:
                await self._up.wait()
            return await self._call(socket, action, payload)

    async def _call(
        self, socket: aiohttp.ClientWebSocketResponse, action: str, payload: Json
    ) -> Json:
        self._calls += 1
        call_id = f"c{self._calls}"
        frame = {"id": call_id, "type": "request", "action": action, "payload": payload}
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[call_id] = answer
        try:
            try:
                await socket.send_json(frame)
            except (ConnectionError, aiohttp.ClientError, RuntimeError):
                raise Broken(action) from None
            return await answer
        finally:
            self._waiting.pop(call_id, None)

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._up.set()
        events: asyncio.Queue[Json] = asyncio.Queue(maxsize=1)
        try:
            async with asyncio.TaskGroup() as tasks:
                dealing = tasks.create_task(self._deal(events))
                tasks.create_task(self._on_connected())
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        await self._take(message.data, events)
                self._down()
                await events.join()
                dealing.cancel()
        finally:
            self._down()
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await socket.close()

    def _down(self) -> None:
        if self._up.is_set():
            self._on_silence()
        self._up.clear()
        self._socket = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Broken("the connection broke"))

    async def _deal(self, events: asyncio.Queue[Json]) -> None:
        while True:
            event = await events.get()
            try:
                await self._on_event(event)
            finally:
                events.task_done()

    async def _take(self, data: str, events: asyncio.Queue[Json]) -> None:
        try:
            frame = json.loads(data)
        except ValueError:
            return
        if not isinstance(frame, dict):
            return
        if "action" not in frame:
            await events.put(frame)
            return
        waiting = self._waiting.get(str(frame.get("id")))
        if waiting is None or waiting.done():
            return  # an answer nobody waits for, or a call of theirs to a backend that is not us
        payload = frame.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        if frame.get("type") == "error":
            message = payload.get("message")
            waiting.set_exception(
                Rejected(str(payload.get("code", "")), message if isinstance(message, str) else "")
            )
        else:
            waiting.set_result(payload)
