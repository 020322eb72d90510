"""One viewer's end of a shell: bytes and control frames over a WebSocket, typed both ways.

The peer is not trusted: what it sends is checked against the contract, in bounded frames, and
frames of a later minor version are skipped. Where the connection stands is counted here, so that
whoever attaches again goes on after the last byte it got. A dead line is noticed by pings.
"""

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import aiohttp
from pydantic import TypeAdapter, ValidationError

from kandev_operator.clients.errors import Malformed, Unreachable
from kandev_operator.contract.paths import MAX_FRAME_BYTES
from kandev_operator.contract.shell import (
    Attached,
    Gap,
    NewToken,
    Notice,
    ReleaseInput,
    Resize,
    TakeInput,
)

HEARTBEAT: Final = 20.0
"""Seconds between two pings; a peer that does not answer within half of it is gone."""
MAX_INCOMING: Final = 1024 * 1024
_NOTICE: Final[TypeAdapter[Any]] = TypeAdapter(Notice)
_UNKNOWN: Final = "union_tag_invalid"


class ShellConnection:
    """An open connection to one shell. Made by `AgentctlClient.attach_shell`."""

    def __init__(
        self, call: str, socket: aiohttp.ClientWebSocketResponse, token: Callable[[], str]
    ) -> None:
        self._call, self._socket, self._token = call, socket, token
        self.cursor = 0
        """The number of the next byte."""
        self.attached: Attached | None = None

    @property
    def close_code(self) -> int | None:
        """What the peer closed it with; None while it is open, or where the line was cut."""
        return self._socket.close_code

    async def frames(self) -> AsyncGenerator[bytes | Notice, None]:
        """What comes, until the socket is closed. Raises Malformed, or Unreachable."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                self.cursor += len(message.data)
                yield bytes(message.data)
            elif message.type is aiohttp.WSMsgType.TEXT:
                if (notice := self._notice(message.data)) is not None:
                    yield notice
            elif message.type is aiohttp.WSMsgType.ERROR:
                raise Unreachable(self._call, "the connection broke")

    def _notice(self, text: str) -> Notice | None:
        try:
            notice: Notice = _NOTICE.validate_json(text)
        except ValidationError as error:
            if error.errors(include_input=False, include_url=False)[0]["type"] == _UNKNOWN:
                return None
            problem = "a control frame does not fit the contract"
        else:
            if isinstance(notice, Attached):
                self.attached, self.cursor = notice, notice.cursor
            elif isinstance(notice, Gap):
                self.cursor = notice.end
            return notice
        raise Malformed(self._call, problem)

    async def type(self, data: bytes) -> None:
        """Send keystrokes."""
        for start in range(0, len(data), MAX_FRAME_BYTES):
            with contextlib.suppress(ConnectionError):  # `frames` tells that it is closed
                await self._socket.send_bytes(data[start : start + MAX_FRAME_BYTES])

    async def resize(self, cols: int, rows: int) -> None:
        """This viewer's window has this size now."""
        await self._say(Resize(type="resize", cols=cols, rows=rows))

    async def take_input(self) -> None:
        """Be the one who types, where only one does."""
        await self._say(TakeInput(type="take_input"))

    async def release_input(self) -> None:
        """And let go of it."""
        await self._say(ReleaseInput(type="release_input"))

    async def renew(self) -> None:
        """Send a newer token, so that the connection may stay."""
        await self._say(NewToken(type="token", token=self._token()))

    async def _say(self, control: Resize | TakeInput | ReleaseInput | NewToken) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_str(control.model_dump_json())
