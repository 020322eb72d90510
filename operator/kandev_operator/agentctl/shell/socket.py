"""One viewer's WebSocket: the terminal's bytes outward, keystrokes and control frames inward.

The outward half pulls from the scroll-back by its own cursor and is only woken when there is more;
what is forgotten meanwhile becomes a `gap`. The inward half feeds the terminal and waits with it.
Whichever half ends first ends the other. A viewer that sends nothing but nonsense is closed, and
so is one whose token's time is over.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, assert_never

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from kandev_operator.agentctl.auth import Denied
from kandev_operator.agentctl.engine import Rejected
from kandev_operator.agentctl.shell import frames
from kandev_operator.agentctl.shell.terminal import Seat, Terminal
from kandev_operator.agentctl.shell.viewers import Size
from kandev_operator.contract.paths import HEARTBEAT_SECONDS
from kandev_operator.contract.shell import (
    CLOSE_AWAY,
    CLOSE_ENDED,
    CLOSE_POLICY,
    CLOSE_TOKEN,
    Alive,
    Attached,
    Complaint,
    Ended,
    EndReason,
    Gap,
    NewToken,
    ReleaseInput,
    Resize,
    TakeInput,
)
from kandev_operator.contract.wire import Wire

FRAME_BYTES: Final = 32 * 1024
"""Longest frame to a viewer."""
TYPING_PATIENCE: Final = 5.0
"""Input that finds no room for so long, in seconds, does not count."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What lets a viewer stay: until when (seconds since the epoch), and what renews it."""

    until: float
    renew: Callable[[str], float]
    """A newer token's end; raises Denied or Rejected."""
    clock: Callable[[], float] = time.time


class Connection:
    """One accepted WebSocket at one terminal. `cursor` is what the viewer has already."""

    def __init__(
        self,
        websocket: WebSocket,
        terminal: Terminal,
        seat: Seat,
        cursor: int,
        admission: Admission,
    ) -> None:
        self._websocket, self._terminal, self._seat = websocket, terminal, seat
        self._cursor = cursor
        self._admission, self._until = admission, admission.until
        self._complaints = 0

    async def serve(self, instance: tuple[str, str]) -> None:
        """Until either side ends it. Never raises for what a viewer does."""
        async with asyncio.TaskGroup() as group:
            halves = (
                group.create_task(self._outward(instance)),
                group.create_task(self._inward()),
            )
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
            for half in halves:
                half.cancel()

    # ---- outward -----------------------------------------------------------------------

    async def _outward(self, instance: tuple[str, str]) -> None:
        try:
            await self._welcome(*instance)
            while True:
                self._seat.wake.clear()
                if self._admission.clock() > self._until:
                    await self._close(CLOSE_TOKEN, "token_expired")
                    return
                over = self._terminal.over.is_set()
                for notice in self._seat.take():
                    await self._tell(notice)
                if not await self._send_some():
                    if over:
                        await self._end()
                        return
                    await self._wait()
        except WebSocketDisconnect:
            return

    async def _welcome(self, instance_id: str, boot_id: str) -> None:
        terminal, size = self._terminal, self._terminal.size
        await self._tell(
            Attached(
                instance_id=instance_id,
                boot_id=boot_id,
                shell_id=terminal.shell_id,
                viewer_id=self._seat.viewer_id,
                cursor=self._cursor,
                end=terminal.ring.end,
                cols=size.cols,
                rows=size.rows,
                input=terminal.report().input,
                owner=terminal.owner,
            )
        )

    async def _send_some(self) -> bool:
        """The next portion, if there is one."""
        ring = self._terminal.ring
        if self._cursor < ring.start:
            gap = Gap(start=self._cursor, end=ring.start)
            self._cursor = gap.end
            await self._tell(gap)
            return True  # while that was sent, more may have been forgotten
        data = ring.read(self._cursor, FRAME_BYTES)
        if not data:
            return False
        self._cursor += len(data)
        await self._send(self._websocket.send_bytes(data))
        return True

    async def _wait(self) -> None:
        left = self._until - self._admission.clock()
        try:
            async with asyncio.timeout(max(0.0, min(HEARTBEAT_SECONDS, left + 0.01))):
                await self._seat.wake.wait()
        except TimeoutError:
            await self._tell(Alive(cursor=self._cursor))

    async def _end(self) -> None:
        ended = self._terminal.exit
        assert ended is not None
        await self._tell(Ended(exit=ended))
        away = ended.reason is EndReason.STOPPED
        await self._close(CLOSE_AWAY if away else CLOSE_ENDED, ended.reason.value)

    async def _tell(self, notice: Wire) -> None:
        await self._send(self._websocket.send_text(frames.write(notice)))

    @staticmethod
    async def _send(sending: Awaitable[None]) -> None:
        """Raises WebSocketDisconnect once either side has closed, whichever of the layers below
        closed it: for a frame too long or a ping without answer, the server itself does."""
        try:
            await sending
        except RuntimeError:
            raise WebSocketDisconnect(1006) from None

    async def _close(self, code: int, reason: str) -> None:
        if self._websocket.application_state is WebSocketState.CONNECTED:
            await self._send(self._websocket.close(code, reason))

    # ---- inward ------------------------------------------------------------------------

    async def _inward(self) -> None:
        try:
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                if (data := message.get("bytes")) is not None:
                    await self._terminal.type(self._seat, data, TYPING_PATIENCE)
                    continue
                complaint = self._control(message.get("text") or "")
                if complaint is not None and not await self._complain(complaint):
                    return
        except WebSocketDisconnect:
            return

    def _control(self, text: str) -> Complaint | None:
        said = frames.read(text)
        match said:
            case Complaint():
                return said
            case Resize():
                self._terminal.resize(self._seat, Size(said.cols, said.rows))
            case TakeInput():
                self._terminal.take_input(self._seat)
            case ReleaseInput():
                self._terminal.release_input(self._seat)
            case NewToken():
                try:
                    self._until = self._admission.renew(said.token)
                except Denied as exc:
                    return Complaint(code=exc.code.value, message=exc.message)
                except Rejected as exc:
                    refusal = exc.refusal
                    return Complaint(code=refusal.code.value, message=refusal.message)
                self._seat.wake.set()
            case _:
                assert_never(said)
        return None

    async def _complain(self, complaint: Complaint) -> bool:
        """Tell it; or, at last, close. Tells whether to go on."""
        self._complaints += 1
        if self._complaints > frames.MOST_COMPLAINTS:
            await self._close(CLOSE_POLICY, "too many frames that make no sense")
            return False
        await self._tell(complaint)
        return True
