"""A gateway that says what a test tells it to say: real pages, real sockets, made-up sessions.

For what a page does with words that no real agent would say on demand: scripts in messages, lost
sockets, gaps, ten thousand messages. The product's own gateway is tried beside it, with a real
operator; what both say is the wire's models, so a page cannot tell them apart.
"""

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from cluster import ports
from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.pages.routes import page_routes
from kandev_operator.gateway.ports import HistoryUnavailable, Person
from kandev_operator.gateway.wire.envelope import ErrorBody
from kandev_operator.gateway.wire.messages import Message, MessageChange, MessagePage
from kandev_operator.gateway.wire.requests import MessageList
from kandev_operator.gateway.wire.views import ProfileView, SessionView, TaskView

AT = "2026-12-01T10:00:00Z"
Answer = dict[str, Any] | Wire
Answerer = Callable[[dict[str, Any]], Answer]


class Refusal(Exception):
    """Raised by an answerer: the request is refused like this."""

    def __init__(self, code: str, message: str = "It cannot be done.", **details: Any) -> None:
        super().__init__(code)
        self.body = ErrorBody(code=code, message=message, details=details)


def session(uid: str = "s-1", version: int = 1, **fields: Any) -> SessionView:
    """A session whose agent waits for a prompt."""
    calm: dict[str, Any] = {
        "session_id": uid,
        "task_id": "t-1",
        "version": version,
        "namespace": "demo",
        "name": f"session-{uid}",
        "task_name": "task",
        "agent_profile_name": "scripted",
        "operating_mode": "Running",
        "state": "WAITING_FOR_INPUT",
        "executor_status": "ready",
        "is_agent_running": True,
        "is_resumable": True,
        "needs_resume": False,
        "resume_policy": "Auto",
        "created_at": AT,
    }
    return SessionView(**{**calm, **fields})


def task(uid: str = "t-1", **fields: Any) -> TaskView:
    calm = {"task_id": uid, "version": 1, "namespace": "demo", "name": "task", "title": "A task"}
    return TaskView(**{**calm, "state": "REVIEW", "created_at": AT, **fields})


def message(seq: int, text: str = "", author: str = "agent", **fields: Any) -> Message:
    calm: dict[str, Any] = {
        "message_id": f"m{seq}",
        "journal_id": "j1",
        "seq": seq,
        "last_seq": seq,
        "author": author,
        "kind": "text",
        "at": AT,
        "text": text,
    }
    return Message(**{**calm, **fields})


class PlayedGateway:
    """What it knows can be changed at any time; what it was asked stands in `asked`."""

    def __init__(self) -> None:
        self.port = ports.free(1)[0]
        self.views: dict[str, SessionView] = {"s-1": session()}
        self.listed: list[TaskView] = [task()]
        self.messages: list[Message] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, Answerer] = {}
        self.history_down = False
        self.person: Person | None = Person("jane")
        self._sockets: set[WebSocket] = set()
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> "PlayedGateway":
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def start(self) -> None:
        config = uvicorn.Config(
            self._app(),
            host="127.0.0.1",
            port=self.port,
            log_level="error",
            ws="websockets-sansio",
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign,assignment]
        listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]))

    async def stop(self) -> None:
        assert self._server is not None
        assert self._serving is not None
        await self.drop_sockets()
        self._server.should_exit = self._server.force_exit = True
        await self._serving

    async def drop_sockets(self) -> None:
        for each in list(self._sockets):
            with contextlib.suppress(RuntimeError):
                await each.close(1012)

    async def say(self, action: str, payload: Answer) -> None:
        """A notification to every socket."""
        frame = _frame("n", "notification", action, payload)
        for each in list(self._sockets):
            with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                await each.send_text(frame)

    async def show(self, view: SessionView) -> None:
        """The session is like this now."""
        self.views[view.session_id] = view
        await self.say("session.state", view)

    async def event(self, seq: int, text: str = "", uid: str = "s-1", **fields: Any) -> None:
        """One event of the journal; kept like the real one keeps it."""
        calm: dict[str, Any] = {
            "session_id": uid,
            "task_id": "t-1",
            "cursor": f"j1:{seq}",
            "message_id": f"m{seq}",
            "journal_id": "j1",
            "seq": seq,
            "author": "agent",
            "kind": "text",
            "at": AT,
            "text": text,
        }
        change = MessageChange(**{**calm, **fields})
        self.keep(change)
        await self.say("session.message.added", change)

    def keep(self, change: MessageChange) -> None:
        at = next(
            (n for n, m in enumerate(self.messages) if m.message_id == change.message_id), None
        )
        if at is None:
            fields = change.model_dump(exclude={"session_id", "task_id", "cursor", "offset"})
            self.messages.append(Message(**fields, last_seq=change.seq))
        else:
            known = self.messages[at]
            text = known.text[: change.offset] + change.text
            update = {"text": text, "last_seq": change.seq}
            if change.content is not None:
                update["content"] = change.content
            self.messages[at] = known.model_copy(update=update)

    def requests(self, action: str) -> list[dict[str, Any]]:
        return [payload for asked, payload in self.asked if asked == action]

    # ---- what pages read ------------------------------------------------------------------

    async def tasks(self, person: Person) -> tuple[tuple[TaskView, ...], tuple[SessionView, ...]]:
        return tuple(self.listed), tuple(self.views.values())

    async def session(self, person: Person, uid: str) -> SessionView | None:
        return self.views.get(uid)

    async def newest(self, uid: str, limit: int) -> MessagePage:
        if self.history_down:
            raise HistoryUnavailable
        return self._page(MessageList(session_id=uid, limit=limit))

    # ---- the server -----------------------------------------------------------------------

    def _app(self) -> Starlette:
        pages = page_routes(self, self._identify)
        return Starlette(routes=[WebSocketRoute("/ws", self._socket), *pages])

    async def _identify(self, _: HTTPConnection) -> Person | Response:
        return self.person if self.person is not None else Response(status_code=401)

    async def _socket(self, socket: WebSocket) -> None:
        if self.person is None:
            await socket.send_denial_response(Response(status_code=401))
            return
        await socket.accept()
        self._sockets.add(socket)
        try:
            while True:
                frame = json.loads(await socket.receive_text())
                await socket.send_text(self._answer(frame))
                await self._follow_up(socket, frame)
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            self._sockets.discard(socket)

    def _answer(self, frame: dict[str, Any]) -> str:
        action, payload = frame["action"], frame["payload"]
        self.asked.append((action, payload))
        try:
            answerer = self.answers.get(action) or getattr(self, "_" + action.replace(".", "_"))
            return _frame(frame["id"], "response", action, answerer(payload))
        except Refusal as why:
            return _frame(frame["id"], "error", action, why.body)

    async def _follow_up(self, socket: WebSocket, frame: dict[str, Any]) -> None:
        """After a subscription: what follows its cursor."""
        if frame["action"] != "session.subscribe" or self.history_down:
            return
        after = int(str(frame["payload"].get("cursor") or "j1:0").rpartition(":")[2])
        uid = frame["payload"]["session_id"]
        for each in self.messages:
            if each.last_seq > after:
                fields = each.model_dump(exclude={"last_seq", "seq"})
                place = {"seq": each.last_seq, "cursor": f"j1:{each.last_seq}"}
                change = MessageChange(session_id=uid, task_id="t-1", **place, **fields)
                text = _frame("n", "notification", "session.message.added", change)
                await socket.send_text(text)

    def _page(self, ask: MessageList) -> MessagePage:
        end = len(self.messages) if ask.before is None else int(ask.before)
        start = max(0, end - ask.limit)
        last = self.messages[-1].last_seq if self.messages else None
        return MessagePage(
            session_id=ask.session_id,
            messages=tuple(self.messages[start:end]),
            before=str(start) if start else None,
            cursor=f"j1:{last}" if last is not None and ask.before is None else None,
        )

    def _ping(self, _: dict[str, Any]) -> Answer:
        return {}

    def _task_list(self, _: dict[str, Any]) -> Answer:
        views = [each.model_dump(mode="json") for each in self.views.values()]
        return {"tasks": [each.model_dump(mode="json") for each in self.listed], "sessions": views}

    def _profile_list(self, _: dict[str, Any]) -> Answer:
        profile = ProfileView(agent_profile_id="p-1", namespace="demo", name="scripted")
        return {"profiles": [profile.model_dump(mode="json")]}

    def _task_session_status(self, payload: dict[str, Any]) -> Answer:
        found = self.views.get(payload["session_id"])
        if found is None:
            raise Refusal("not_found")
        return found

    _session_subscribe = _task_session_status

    def _session_unsubscribe(self, _: dict[str, Any]) -> Answer:
        return {}

    def _message_list(self, payload: dict[str, Any]) -> Answer:
        if self.history_down:
            raise Refusal("history_unavailable")
        return self._page(MessageList(**payload))

    def _permission_list(self, _: dict[str, Any]) -> Answer:
        return {"permissions": []}

    def _session_prompt(self, payload: dict[str, Any]) -> Answer:
        return {"prompt_id": payload["prompt_id"], "fate": "queued", "position": 0}

    def _wish(self, payload: dict[str, Any]) -> Answer:
        return self.views[payload["session_id"]]

    _session_resume = _session_fresh_start = _session_stop = _wish

    def _shell_subscribe(self, payload: dict[str, Any]) -> Answer:
        place = {"cursor": payload.get("cursor", 0), "end": payload.get("cursor", 0)}
        size = {"cols": payload["cols"], "rows": payload["rows"]}
        return {"shell_id": "sh1", "instance_id": "i1", **place, **size}

    def _shell_unsubscribe(self, _: dict[str, Any]) -> Answer:
        return {}

    _shell_input = _shell_resize = _shell_unsubscribe


def shell_output(data: bytes, cursor: int, uid: str = "s-1") -> dict[str, Any]:
    """The payload of `shell.output`."""
    place = {"session_id": uid, "task_id": "t-1", "shell_id": "sh1", "instance_id": "i1"}
    return {**place, "cursor": cursor, "data": base64.b64encode(data).decode()}


@contextlib.asynccontextmanager
async def played() -> AsyncIterator[PlayedGateway]:
    async with PlayedGateway() as gateway:
        yield gateway


def _frame(frame_id: str, kind: str, action: str, payload: Answer) -> str:
    body = payload.model_dump(mode="json") if isinstance(payload, Wire) else payload
    return json.dumps({"id": frame_id, "type": kind, "action": action, "payload": body})
