"""A desk without a cluster, a conversation in memory, and a client's end of a socket.

What a test of the hub and the socket needs around them: the cache is the real one and filled by
hand; a client may stop taking frames, or go.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from starlette.websockets import WebSocket, WebSocketDisconnect

from kandev_operator.api import group
from kandev_operator.contract.events import Event, EventKind
from kandev_operator.gateway.cache import Cache
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.door import SOMEBODY, EveryRight
from kandev_operator.gateway.hub import Hub
from kandev_operator.gateway.ports import Person, Place, Right, Stretch
from kandev_operator.gateway.socket import Socket
from kandev_operator.gateway.wire.messages import MessagePage

AT = "2026-01-01T00:00:00.000Z"
JOURNAL = "j-1"
PATIENCE = 30.0
Body = dict[str, Any]


def task_body(name: str = "work", version: int = 1, namespace: str = "team") -> Body:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}-{name}-uid",
            "resourceVersion": str(version),
        },
        "spec": {"title": name},
    }


def session_body(uid: str = "s-1", version: int = 1, **status: Any) -> Body:
    return {
        "metadata": {
            "name": uid,
            "namespace": "team",
            "uid": uid,
            "resourceVersion": str(version),
        },
        "spec": {
            "taskRef": {"name": "work"},
            "agentProfileRef": {"name": "agent"},
            "executor": {"ref": {"name": "desk"}},
        },
        "status": {"state": "RUNNING", **status},
    }


class Said:
    """Conversations in memory."""

    def __init__(self) -> None:
        self.events: dict[str, list[Event]] = {}
        self._ears: dict[str, list[tuple[Callable[[], None], Callable[[Event], None]]]] = {}

    def say(self, uid: str, text: str) -> None:
        """One whole message more, kept at once."""
        kept = self.events.setdefault(uid, [])
        seq = len(kept) + 1
        kept.append(_message(uid, seq, text))
        for wake, _ in self._ears.get(uid, ()):
            wake()

    def whisper(self, uid: str, text: str) -> None:
        """Words that are not kept yet."""
        for _, live in self._ears.get(uid, ()):
            live(_message(uid, 0, text))

    def listeners(self, uid: str) -> int:
        return len(self._ears.get(uid, ()))

    async def newest(self, session_uid: str, before: str | None, limit: int) -> MessagePage:
        if before is not None:
            raise ValueError(before)
        return MessagePage(session_id=session_uid)

    async def after(self, session_uid: str, place: Place | None, limit: int) -> Stretch:
        kept = self.events.get(session_uid, [])
        start = place.seq if place is not None else 0
        taken = tuple(kept[start : start + limit])
        end = start + len(taken)
        return Stretch(taken, Place(JOURNAL, end) if end else None, end < len(kept), late=False)

    def listen(
        self, session_uid: str, wake: Callable[[], None], live: Callable[[Event], None]
    ) -> Callable[[], None]:
        ear = (wake, live)
        self._ears.setdefault(session_uid, []).append(ear)
        return lambda: self._ears[session_uid].remove(ear)

    def following(self, session_uid: str) -> bool:
        return True


def _message(uid: str, seq: int, text: str) -> Event:
    data = {
        "message_id": f"m{seq}",
        "author": "agent",
        "kind": "text",
        "text": text,
        "offset": 0,
    }
    return Event(
        journal_id=JOURNAL, seq=seq, kind=EventKind.MESSAGE, at=AT, session_id=uid, data=data
    )


class Rights(EveryRight):
    """Every right but those that were taken away."""

    def __init__(self) -> None:
        self.taken: set[Right] = set()

    async def may(self, person: Person, right: Right, namespace: str, name: str) -> bool:
        return right not in self.taken


class Window:
    """A hub over a cache that a test fills."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.said = Said()
        self.rights = Rights()
        nobody = cast("Any", None)
        self.desk = Desk(
            nobody, self.cache, nobody, self.rights, self.said, nobody, lambda: AT, None
        )
        self.hub = Hub(self.desk)
        self.cache.put(group.TASK, task_body())

    def session(self, uid: str = "s-1", version: int = 1, **status: Any) -> None:
        self.cache.put(group.TASK_SESSION, session_body(uid, version, **status))


class Client:
    """The other end of a socket, in this process."""

    def __init__(self) -> None:
        self._to_gateway: asyncio.Queue[Body] = asyncio.Queue()
        self.frames: list[Body] = []
        self.takes = asyncio.Event()
        self.takes.set()
        self.closed: int | None = None
        self._news = asyncio.Condition()

    def ask(self, id_: str, action: str, **payload: Any) -> None:
        frame = {"id": id_, "type": "request", "action": action, "payload": payload}
        self.raw(json.dumps(frame))

    def raw(self, text: str) -> None:
        self._to_gateway.put_nowait({"type": "websocket.receive", "text": text})

    def go(self) -> None:
        """The connection is lost."""
        self._to_gateway.put_nowait({"type": "websocket.disconnect"})

    def told(self, action: str) -> list[Body]:
        return [each["payload"] for each in self.frames if each["action"] == action]

    def answers(self) -> dict[str, Body]:
        return {each["id"]: each for each in self.frames if each["type"] != "notification"}

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE), self._news:
                await self._news.wait_for(holds)
        except TimeoutError:
            raise AssertionError(f"not so: {what}\n{self.frames[-5:]}") from None

    # ---- what the gateway calls ---------------------------------------------------------------

    async def receive(self) -> Body:
        return await self._to_gateway.get()

    async def send_text(self, text: str) -> None:
        await self.takes.wait()
        if self.closed is not None:
            raise WebSocketDisconnect(1006)
        async with self._news:
            self.frames.append(json.loads(text))
            self._news.notify_all()

    async def close(self, code: int, reason: str = "") -> None:
        self.closed = code
        self.go()


@asynccontextmanager
async def socket_of(
    window: Window, still: Callable[[], bool] = lambda: True
) -> AsyncIterator[tuple[Client, asyncio.Task[None], asyncio.Event]]:
    """A client whose socket is served until the block ends."""
    client, ending = Client(), asyncio.Event()

    async def holds() -> bool:
        return still()

    ws = cast("WebSocket", client)
    socket = Socket(ws, SOMEBODY, window.desk, window.hub, lambda: 0.0, holds)
    serving = asyncio.create_task(socket.run(ending))
    try:
        yield client, serving, ending
    finally:
        client.takes.set()
        client.go()
        with suppress(asyncio.CancelledError):
            async with asyncio.timeout(PATIENCE):
                await serving
