"""The door to the shells: their paths are there from the start, the rest comes with the first call.

Most agentctls never have a shell, and all of them should answer soon and hold little. So nothing
of this room but this file is imported before somebody asks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from kandev_operator.agentctl.checks import Checks
from kandev_operator.agentctl.engine import Engine
from kandev_operator.contract import paths

if TYPE_CHECKING:
    from kandev_operator.agentctl.shell.routes import ShellFace
    from kandev_operator.agentctl.shell.shells import Shells

Answering = Callable[["ShellFace", Request], Awaitable[Response]]


class Room:
    """The shells of one agentctl, once there are any."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._group: asyncio.TaskGroup | None = None
        self._shells: Shells | None = None
        self._face: ShellFace | None = None
        self._loading = asyncio.Lock()

    async def run(self, until: asyncio.Event) -> None:
        """Serve until told to end; then end every shell."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            await until.wait()
            self._group = None
            if self._shells is not None:
                self._shells.end()

    def session_changed(self) -> None:
        """Another session is served from now on."""
        if self._shells is not None:
            self._shells.session_changed()

    def routes(self, checks: Checks) -> list[BaseRoute]:
        """To be served beside the other routes."""
        one = paths.SHELL + "/{shell_id}"

        def answering(answer: Answering) -> Callable[[Request], Awaitable[Response]]:
            async def endpoint(request: Request) -> Response:
                return await answer(await self._loaded(checks), request)

            return endpoint

        async def attach(websocket: WebSocket) -> None:
            await (await self._loaded(checks)).attach(websocket)

        calls: list[tuple[str, str, Answering]] = [
            ("GET", paths.SHELL, lambda face, request: face.list(request)),
            ("POST", paths.SHELL, lambda face, request: face.create(request)),
            ("GET", one, lambda face, request: face.show(request)),
            ("DELETE", one, lambda face, request: face.close(request)),
        ]
        return [
            *(Route(path, answering(call), methods=[method]) for method, path, call in calls),
            WebSocketRoute(one, attach),
        ]

    async def _loaded(self, checks: Checks) -> "ShellFace":
        async with self._loading:
            if self._face is None:
                # Off the loop: it is a good deal, and /health answers meanwhile.
                face, shells = await asyncio.to_thread(_import)
                self._shells = shells(self._engine, self._group)
                self._face = face(self._shells, checks)
        return self._face


def _import() -> "tuple[type[ShellFace], type[Shells]]":
    from kandev_operator.agentctl.shell.routes import ShellFace
    from kandev_operator.agentctl.shell.shells import Shells

    return ShellFace, Shells
