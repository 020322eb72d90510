"""The rooms of a workspace where there is none: in front of an upstream they refuse, by name.

The files are on the upstream's machine. A folder of the same path on this one, if there is one, is
somebody else's, and must not be shown, written to or given a shell by mistake. Who calls is checked
as everywhere; then every path of a room, by any method and as a WebSocket, is refused in one way.
"""

from typing import Final

from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Send
from starlette.types import Scope as Scopes
from starlette.websockets import WebSocket

from kandev_operator.agentctl.auth import Denied
from kandev_operator.agentctl.checks import Checks, answer
from kandev_operator.agentctl.engine import Rejected, reject
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import STATUS_OF, Code, ErrorBody
from kandev_operator.contract.status import Room

REASON: Final = "the workspace is on the upstream's machine"
SCOPE_OF: Final = {Room.FILES: Scope.FILES, Room.GIT: Scope.FILES, Room.SHELL: Scope.SHELL}


class Refusing:
    """One room, as an ASGI application that refuses whatever is asked of it."""

    def __init__(self, checks: Checks, room: Room) -> None:
        self._checks, self._room = checks, room

    async def __call__(self, scope: Scopes, receive: Receive, send: Send) -> None:
        try:
            self._checks.allow(HTTPConnection(scope), SCOPE_OF[self._room])
            name = self._room.value
            raise reject(Code.NOT_SERVED, f"room {name} is not served: {REASON}", room=name)
        except (Denied, Rejected) as exc:
            if scope["type"] != "websocket":
                raise
            said = exc.refusal if isinstance(exc, Rejected) else exc
            body = ErrorBody(code=said.code.value, message=said.message, details=said.details)
            socket = WebSocket(scope, receive, send)
            await socket.send_denial_response(answer(body, STATUS_OF[said.code]))


def routes(checks: Checks) -> list[BaseRoute]:
    """Every path of files, git and shell."""
    found: list[BaseRoute] = []
    for room in Room:
        refusing = Refusing(checks, room)
        for path in (f"/api/v1/{room.value}", f"/api/v1/{room.value}/{{rest:path}}"):
            found += [Route(path, refusing), WebSocketRoute(path, refusing)]
    return found
