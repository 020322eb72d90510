"""Bounds on what a caller's connection may hold: how many there are, how long half a request lives.

A caller that begins a request and does not end it is let go after a while, headers or body, however
slowly it drips; one connection too many is closed at once. A request that is whole may take its
time: streams have no end. The server is uvicorn's; this only watches the clock for it.
"""

import asyncio
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS: Final = 1_000


def protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, in which a request must be whole within so many seconds."""

    class Bounded(H11Protocol):
        """One connection."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > MAX_CONNECTIONS:
                transport.abort()
                return
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _watch(self) -> None:
            cycle = self.cycle
            under_way = cycle is not None and not cycle.response_complete
            if self.transport.is_closing() or (under_way and not cycle.more_body):
                self._forget()
            elif self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self._too_late)

        def _forget(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _too_late(self) -> None:
            # One that became a WebSocket is somebody else's by now.
            if self in self.connections:
                self.transport.abort()

    return Bounded
