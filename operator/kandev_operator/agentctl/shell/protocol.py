"""WebSockets under uvicorn: the library comes with the first of them, and a dead peer is let go.

uvicorn pings; a peer that does not answer is closed. But closing waits for what was not sent yet,
and a peer that has vanished takes nothing; so the kernel is told to give up on it.
"""

import asyncio
import functools
import socket
from typing import Any, Final

UNACKNOWLEDGED_MS: Final = 30_000
"""A peer that takes nothing of what was sent to it for so long is gone."""


def websocket_protocol(**kwargs: Any) -> asyncio.Protocol:
    """Make the protocol of one connection; what uvicorn takes as `ws`."""
    return _protocol()(**kwargs)


@functools.cache
def _protocol() -> type[asyncio.Protocol]:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    class Protocol(WebSocketsSansIOProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            peer = transport.get_extra_info("socket")
            if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MS)
            super().connection_made(transport)

    return Protocol
