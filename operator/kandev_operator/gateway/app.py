"""The gateway's ASGI application: the socket, the HTTP API, the pages, and what is probed.

What the process is made of is put together in `process`; here is only which path leads where.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from kandev_operator.gateway import api
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.door import Door
from kandev_operator.gateway.hub import Hub
from kandev_operator.gateway.rights.headers import SafeHeaders
from kandev_operator.gateway.socket import Socket

SOCKETS = 10_000
_CLOSE_FULL = 1013


@dataclass
class House:
    """What the application is made of."""

    desk: Desk
    hub: Hub
    door: Door
    registry: CollectorRegistry
    problems: Callable[[], list[str]]
    """What keeps the gateway from being ready; empty when all is well."""
    pages: Sequence[BaseRoute] = ()
    ending: asyncio.Event = field(default_factory=asyncio.Event)


def build(house: House) -> Starlette:
    """The application."""
    opened = Counter(
        "kandev_gateway_sockets_opened", "Sockets that were let in.", registry=house.registry
    )
    sockets = Gauge("kandev_gateway_sockets", "Sockets that are open.", registry=house.registry)
    looks = Gauge(
        "kandev_gateway_subscriptions", "Subscriptions of all sockets.", registry=house.registry
    )
    looks.set_function(lambda: house.hub.subscriptions)
    open_now = 0

    async def ws(socket: WebSocket) -> None:
        nonlocal open_now
        person = await house.door.person(socket)
        if isinstance(person, Response):
            await socket.send_denial_response(person)
            return
        if open_now >= SOCKETS or house.ending.is_set():
            await socket.close(_CLOSE_FULL)
            return

        async def still() -> bool:
            found = await house.door.person(socket)
            return not (isinstance(found, Response) and found.status_code == 401)

        await socket.accept()
        opened.inc()
        open_now += 1
        sockets.set(open_now)
        try:
            looking = Socket(socket, person, house.desk, house.hub, time.monotonic, still)
            await looking.run(house.ending)
        finally:
            open_now -= 1
            sockets.set(open_now)

    async def healthz(request: Request) -> Response:
        return JSONResponse({"problems": []})

    async def readyz(request: Request) -> Response:
        problems = house.problems()
        return JSONResponse({"problems": problems}, status_code=503 if problems else 200)

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(house.registry), media_type="text/plain; version=0.0.4")

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            WebSocketRoute("/ws", ws),
            *house.door.routes(),
            *api.routes(house.desk, house.door),
            *house.pages,
        ],
        middleware=[Middleware(SafeHeaders)],
    )
