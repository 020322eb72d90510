"""A client of the gateway that knows only its contract: `websockets`, frames, cursors.

It asks, waits for its answers, and keeps every notification in the order in which it came. What it
heard of a conversation it puts together as the contract says, and can compare with agentctl's own
journal. It imports nothing of the product.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import websockets

Body = dict[str, Any]
PATIENCE = 30.0


class RefusedError(Exception):
    """An error frame."""

    def __init__(self, body: Body) -> None:
        super().__init__(f"{body['code']}: {body['message']}")
        self.code: str = body["code"]
        self.details: Body = body.get("details") or {}


@dataclass
class Heard:
    """A conversation as it was heard, by the contract: pieces with cursors, each once."""

    cursor: str | None = None
    pieces: list[tuple[str, Any]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)

    def take(self, change: Body) -> None:
        """A message event."""
        assert change["cursor"] not in {cursor for cursor, _ in self.pieces}, "heard twice"
        self.cursor = change["cursor"]
        said = change.get("content") if "content" in change else change["text"]
        self.pieces.append((change["cursor"], said))
        if "content" not in change:
            known = self.texts.get(change["message_id"], "")
            assert len(known) == change["offset"], "a piece of a text is missing or doubled"
            self.texts[change["message_id"]] = known + change["text"]


class Onlooker:
    """One socket."""

    def __init__(self, socket: websockets.ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Body]] = {}
        self.notices: list[tuple[str, Body]] = []
        self.heard: dict[str, Heard] = {}
        self.news = asyncio.Condition()
        self.closed: int | None = None

    async def listen(self) -> None:
        """Take frames until the socket ends."""
        with suppress(websockets.ConnectionClosed):
            async for text in self._socket:
                frame = json.loads(text)
                match frame["type"]:
                    case "notification":
                        await self._notice(frame["action"], frame["payload"])
                    case "response" | "error":
                        waiting = self._waiting.pop(frame["id"], None)
                        if waiting is not None and not waiting.done():
                            waiting.set_result(frame)
        self.closed = self._socket.close_code
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the socket ended"))
        async with self.news:
            self.news.notify_all()

    async def _notice(self, action: str, payload: Body) -> None:
        if "cursor" in payload and action != "shell.output":
            heard = self.heard.setdefault(payload["session_id"], Heard())
            if action.startswith("session.message."):
                heard.take(payload)
            else:
                heard.cursor = payload["cursor"]
        async with self.news:
            self.notices.append((action, payload))
            self.news.notify_all()

    async def raw(self, text: str | bytes) -> None:
        """Send whatever one likes."""
        await self._socket.send(text)

    async def ask(self, action: str, **payload: Any) -> Body:
        """A request and its answer. Raises RefusedError."""
        number = f"r{next(self._numbers)}"
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        frame = {"id": number, "type": "request", "action": action, "payload": payload}
        await self._socket.send(json.dumps(frame))
        answer = await asyncio.wait_for(waiting, PATIENCE)
        if answer["type"] == "error":
            raise RefusedError(answer["payload"])
        body: Body = answer["payload"]
        return body

    async def until(
        self, holds: Callable[[str, Body], Any], what: str, after: int = 0, seconds: float = 45
    ) -> Body:
        """The first notification (after so many) for which this holds."""
        async with self.news:
            try:
                async with asyncio.timeout(seconds):
                    while True:
                        for action, payload in self.notices[after:]:
                            if holds(action, payload):
                                return payload
                        if self.closed is not None:
                            raise AssertionError(f"closed with {self.closed} before: {what}")
                        await self.news.wait()
            except TimeoutError:
                told = [(a, p.get("state"), p.get("executor_status")) for a, p in self.notices]
                raise AssertionError(f"not heard in {seconds} s: {what}\n{told[-30:]}") from None

    async def state(self, holds: Callable[[Body], Any], what: str, seconds: float = 45) -> Body:
        """The first view of a session for which this holds."""
        return await self.until(
            lambda action, body: action == "session.state" and holds(body), what, seconds=seconds
        )

    def words(self, session_id: str, author: str = "agent") -> str:
        """Every text of the conversation that this author said, as it was put together."""
        said: dict[str, str] = {}
        for action, body in self.notices:
            if (
                action.startswith("session.message.")
                and "cursor" in body
                and body["session_id"] == session_id
                and body["author"] == author
                and body["kind"] == "text"
            ):
                said[body["message_id"]] = said.get(body["message_id"], "") + body["text"]
        return "\n".join(said.values())


@asynccontextmanager
async def onlooker(url: str, **options: Any) -> AsyncIterator[Onlooker]:
    """A socket to the gateway at this URL."""
    address = url.replace("http", "ws", 1) + "/ws"
    async with websockets.connect(address, max_size=None, **options) as socket:
        it = Onlooker(socket)
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(it.listen())
            try:
                yield it
            finally:
                listening.cancel()
