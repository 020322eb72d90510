"""One client's socket: requests in, answers and notifications out.

Two tasks: the reader takes frames, starts what they ask for and never more than REQUESTS at once;
the writer is the only one who sends. Answers and terminal output wait in short queues whose makers
wait with them; everything else is pulled by the writer when the client has taken what came before.
A client that takes nothing for SLOW_SECONDS is closed with 4408 and may come back with its cursors.
What was asked for before a client went is done all the same; only its answer is dropped.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.websockets import WebSocket, WebSocketDisconnect

from kandev_operator.contract.events import parse_cursor
from kandev_operator.contract.wire import Wire
from kandev_operator.gateway.actions.table import parse, perform
from kandev_operator.gateway.bucket import FRAMES_A_SECOND, Bucket
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.frames import Frames, payload_of, request_of
from kandev_operator.gateway.hub import Hub, Subscription, TaskList
from kandev_operator.gateway.ports import Person, Place, Right
from kandev_operator.gateway.refusals import Refusal
from kandev_operator.gateway.shells import ATTACH_SECONDS, Relay, decoded
from kandev_operator.gateway.teller import Teller
from kandev_operator.gateway.wire import requests as asked
from kandev_operator.gateway.wire.envelope import ErrorBody, ErrorCode, Frame
from kandev_operator.gateway.wire.notices import Notice
from kandev_operator.gateway.wire.requests import Action

REQUESTS: Final = 16
"""Requests of one socket that are under way at once; the next one is not read before."""
SUBSCRIPTIONS: Final = 200
SHELLS: Final = 8
SLOW_SECONDS: Final = 30.0
CLOSE_SLOW: Final = 4408
CLOSE_AWAY: Final = 1001
CLOSE_LOGIN: Final = 4401
RECHECK_SECONDS: Final = 15.0
"""How often login and rights are asked again, for every subscription and terminal."""
CLOSING_SECONDS: Final = 5.0
_log = logging.getLogger(__name__)


async def _always() -> bool:
    return True


class Socket:
    """One open socket. `clock` gives seconds that never go back."""

    def __init__(
        self,
        ws: WebSocket,
        person: Person,
        desk: Desk,
        hub: Hub,
        clock: Callable[[], float],
        still: Callable[[], Awaitable[bool]] = _always,
    ) -> None:
        """`still` tells whether the login with which the socket was opened holds."""
        self._still = still
        self._ws = ws
        self._person = person
        self._desk = desk
        self._hub = hub
        self._clock = clock
        self._frames = Frames(desk.now)
        self._teller = Teller(desk, hub, self._frames)
        self._wake = asyncio.Event()
        self._outbox: asyncio.Queue[str] = asyncio.Queue(REQUESTS * 4)
        self._slots = asyncio.Semaphore(REQUESTS)
        self._subscriptions: dict[str, Subscription] = {}
        self._relays: dict[str, tuple[Relay, asyncio.Task[None]]] = {}
        self._bucket = Bucket(clock())
        self._lists: TaskList | None = None
        self._gone = False
        """The client takes nothing any more: what would be sent is dropped."""

    async def run(self, ending: asyncio.Event) -> None:
        """Serve until the client goes, or `ending` is set."""
        try:
            async with asyncio.TaskGroup() as beside:
                others = [
                    beside.create_task(self._write()),
                    beside.create_task(self._recheck()),
                    beside.create_task(self._say_goodbye(ending)),
                ]
                async with asyncio.TaskGroup() as requests:
                    await self._read(requests)
                    self._leave()
                for task in others:
                    task.cancel()
        except* _Slow:
            await self._close_slow()
        finally:
            self._leave()

    def _leave(self) -> None:
        """Look at nothing any more. Requests under way end by themselves."""
        self._gone = True
        for subscription in self._subscriptions.values():
            self._hub.unsubscribe(subscription)
        self._subscriptions.clear()
        if self._lists is not None:
            self._hub.unlist_tasks(self._lists)
            self._lists = None
        for _, running in self._relays.values():
            running.cancel()
        self._wake.set()

    async def _close_slow(self) -> None:
        with contextlib.suppress(TimeoutError, RuntimeError, WebSocketDisconnect):
            async with asyncio.timeout(CLOSING_SECONDS):
                await self._ws.close(CLOSE_SLOW, "nothing was taken; connect again")

    # ---- in ---------------------------------------------------------------------------------

    async def _read(self, group: asyncio.TaskGroup) -> None:
        while True:
            try:
                message = await self._ws.receive()
            except RuntimeError:
                return
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if not self._bucket.take(self._clock()):
                words = f"more than {FRAMES_A_SECOND:g} frames a second: wait a second"
                body = ErrorBody(
                    code=ErrorCode.RATE_LIMITED, message=words, details={"retry_after_seconds": 1}
                )
                await self._answer(self._frames.error(_named(text), body))
                continue
            try:
                if text is None:
                    raise Refusal(ErrorCode.INVALID_FRAME, "frames are text, not binary")
                request = request_of(text)
            except Refusal as refusal:
                await self._answer(self._frames.error(None, refusal.body))
                continue
            if request.action in _IN_ORDER:
                await self._handle(request, group)
            else:
                await self._slots.acquire()
                group.create_task(self._handle_and_free(request, group))

    async def _handle_and_free(self, request: Frame, group: asyncio.TaskGroup) -> None:
        try:
            await self._handle(request, group)
        finally:
            self._slots.release()

    async def _handle(self, request: Frame, group: asyncio.TaskGroup) -> None:
        try:
            match request.action:
                case Action.PING:
                    answer: dict[str, Any] = {}
                case Action.SESSION_SUBSCRIBE:
                    await self._subscribe(request)
                    return
                case Action.SESSION_UNSUBSCRIBE:
                    answer = self._unsubscribe(parse(asked.OfSession, request.payload))
                case Action.SHELL_SUBSCRIBE:
                    wanted = parse(asked.ShellSubscribe, request.payload)
                    answer = await self._open_shell(wanted, group)
                case Action.SHELL_UNSUBSCRIBE | Action.SHELL_INPUT | Action.SHELL_RESIZE:
                    answer = await self._use_shell(request)
                case _:
                    action, payload = request.action, request.payload
                    answer = await perform(self._desk, self._person, action, payload)
                    if action == Action.TASK_LIST:
                        self._follow_tasks(parse(asked.Listing, payload))
        except Refusal as refusal:
            await self._answer(self._frames.error(request, refusal.body))
            return
        except Exception:
            # A fault of ours in one request must not take the other panels with it.
            _log.exception("%s failed", request.action)
            body = ErrorBody(code=ErrorCode.INTERNAL, message="the gateway failed: see its log")
            await self._answer(self._frames.error(request, body))
            return
        await self._answer(self._frames.response(request, answer))

    async def _subscribe(self, frame: Frame) -> None:
        request = parse(asked.Subscribe, frame.payload)
        uid = request.session_id
        session = await self._desk.session(self._person, uid, task_id=request.task_id)
        if uid not in self._subscriptions and len(self._subscriptions) >= SUBSCRIPTIONS:
            words = f"one socket looks at {SUBSCRIPTIONS} sessions at most"
            raise Refusal(ErrorCode.TOO_MANY, words, limit=SUBSCRIPTIONS)
        if self._gone:
            return
        place = _place(request.cursor)
        view = self._desk.view(session).model_dump(exclude_none=True)
        if (earlier := self._subscriptions.pop(uid, None)) is not None:
            self._hub.unsubscribe(earlier)
        # Before anything is waited for: the limit holds for requests that run side by side, too.
        self._subscriptions[uid] = self._hub.subscribe(uid, place, self._wake.set)
        await self._answer(self._frames.response(frame, view))

    def _follow_tasks(self, request: asked.Listing) -> None:
        """From its first list on, a client hears of tasks that change; the newest list counts."""
        if self._lists is not None:
            self._hub.unlist_tasks(self._lists)
        self._lists = (
            None if self._gone else self._hub.list_tasks(request.namespace, self._wake.set)
        )

    def _unsubscribe(self, request: asked.OfSession) -> dict[str, Any]:
        if (known := self._subscriptions.pop(request.session_id, None)) is not None:
            self._hub.unsubscribe(known)
        return {}

    async def _open_shell(
        self, request: asked.ShellSubscribe, group: asyncio.TaskGroup
    ) -> dict[str, Any]:
        session = await self._desk.session(
            self._person, request.session_id, Right.SHELL, request.task_id
        )
        self._relays = {k: v for k, v in self._relays.items() if not v[1].done()}
        if len(self._relays) >= SHELLS:
            words = f"one socket shows {SHELLS} terminals at most"
            raise Refusal(ErrorCode.TOO_MANY, words, limit=SHELLS)
        client = await self._desk.lines.client(session)
        task = self._desk.cache.task_of(session)
        relay = Relay(session, task.metadata.uid if task else "", self._say)
        running = group.create_task(relay.run(client, request))
        try:
            async with asyncio.timeout(ATTACH_SECONDS):
                attached = await asyncio.shield(relay.attached)
        except TimeoutError:
            running.cancel()
            words = "the terminal does not answer"
            raise Refusal(ErrorCode.UNREACHABLE, words) from None
        if (earlier := self._relays.pop(relay.shell_id, None)) is not None:
            earlier[1].cancel()
        self._relays[relay.shell_id] = (relay, running)
        return {
            "shell_id": relay.shell_id,
            "instance_id": attached.instance_id,
            "cursor": attached.cursor,
            "end": attached.end,
            "cols": attached.cols,
            "rows": attached.rows,
        }

    async def _use_shell(self, frame: Frame) -> dict[str, Any]:
        wanted = parse(asked.OfShell, frame.payload)
        relay, running = self._relays.get(wanted.shell_id, (None, None))
        if relay is None or running is None or running.done():
            raise Refusal("unknown_shell", "this socket shows no such terminal: subscribe again")
        match frame.action:
            case Action.SHELL_INPUT:
                await relay.type(decoded(parse(asked.ShellInput, frame.payload)))
            case Action.SHELL_RESIZE:
                size = parse(asked.ShellResize, frame.payload)
                await relay.resize(size.cols, size.rows)
            case _:
                running.cancel()
                del self._relays[wanted.shell_id]
        return {}

    # ---- out --------------------------------------------------------------------------------

    async def _answer(self, frame: str) -> None:
        await self._outbox.put(frame)
        self._wake.set()

    async def _say(self, notice: Notice, payload: Wire) -> None:
        await self._answer(self._frames.notification(notice.value, payload_of(payload)))

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._drain()
            if self._lists is not None and self._lists.due:
                for frame in await self._teller.tasks(self._lists, self._person):
                    await self._send(frame)
            again = True
            while again:
                again = False
                for subscription in list(self._subscriptions.values()):
                    again = await self._tell(subscription) or again
                    await self._drain()

    async def _drain(self) -> None:
        """Send what was asked for."""
        while not self._outbox.empty():
            await self._send(self._outbox.get_nowait())

    async def _tell(self, subscription: Subscription) -> bool:
        """Send what one subscription has to tell; tells whether there may be more."""
        if subscription.state_due:
            for frame in self._teller.state(subscription):
                await self._send(frame)
        if subscription.gone:
            self._unsubscribe(asked.OfSession(session_id=subscription.session_uid))
            return False
        if subscription.more or subscription.live:
            for frame in await self._teller.words(subscription):
                await self._send(frame)
        return subscription.more or subscription.state_due

    async def _send(self, frame: str) -> None:
        if self._gone:
            return
        try:
            async with asyncio.timeout(SLOW_SECONDS):
                await self._ws.send_text(frame)
        except TimeoutError:
            raise _Slow from None
        except (RuntimeError, WebSocketDisconnect):
            self._gone = True  # closed meanwhile: the reader hears of it, too

    # ---- beside -----------------------------------------------------------------------------

    async def _recheck(self) -> None:
        """A right that was taken away ends a subscription like a deletion, and a terminal at once.

        While nobody can say what this person may do, what was open stays open.
        """
        while True:
            await asyncio.sleep(RECHECK_SECONDS)
            if not await self._still():
                with contextlib.suppress(RuntimeError, WebSocketDisconnect):
                    await self._ws.close(CLOSE_LOGIN, "log in again")
                return
            for uid, subscription in list(self._subscriptions.items()):
                if await self._is_refused(uid, Right.READ):
                    subscription.state_due = subscription.gone = True
                    self._wake.set()
            for shell_id, (relay, running) in list(self._relays.items()):
                if not running.done() and await self._is_refused(relay.session_id, Right.SHELL):
                    running.cancel()
                    self._relays.pop(shell_id, None)
                    await relay.refuse()

    async def _is_refused(self, uid: str, right: Right) -> bool:
        try:
            await self._desk.session(self._person, uid, right)
        except Refusal as refusal:
            return refusal.body.code in (ErrorCode.NOT_FOUND, ErrorCode.FORBIDDEN)
        return False

    async def _say_goodbye(self, ending: asyncio.Event) -> None:
        await ending.wait()
        await self._answer(self._frames.notification(Notice.GOING_AWAY.value, "{}"))
        await asyncio.sleep(0.1)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await self._ws.close(CLOSE_AWAY, "the gateway ends; connect again")


class _Slow(Exception):
    """The client takes nothing."""


_IN_ORDER: Final = frozenset(
    {Action.SHELL_INPUT, Action.SHELL_RESIZE, Action.SHELL_UNSUBSCRIBE, Action.PING}
)
"""Handled before the next frame is read, so that keystrokes keep their order."""


def _place(cursor: str | None) -> Place | None:
    if cursor is None:
        return None
    try:
        return Place(*parse_cursor(cursor))
    except ValueError:
        raise Refusal(ErrorCode.INVALID_REQUEST, "cursor is JOURNAL_ID:SEQ") from None


def _named(text: str | None) -> Frame | None:
    try:
        return request_of(text or "")
    except Refusal:
        return None
