"""The HTTP face of the shells: list, make, close, and attach by WebSocket.

A WebSocket is checked and refused as any call is, with a status and the error body, before it is
upgraded. What goes over it then is `socket`'s business.
"""

from typing import Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from kandev_operator.agentctl.auth import Denied
from kandev_operator.agentctl.checks import Checks, answer, read_body
from kandev_operator.agentctl.engine import Rejected, reject
from kandev_operator.agentctl.shell.shells import Shells
from kandev_operator.agentctl.shell.socket import Admission, Connection
from kandev_operator.agentctl.shell.terminal import Seat, Terminal
from kandev_operator.agentctl.shell.viewers import Full, Size
from kandev_operator.contract.claims import LEEWAY_SECONDS, Claims, Scope
from kandev_operator.contract.errors import STATUS_OF, Code, ErrorBody
from kandev_operator.contract.shell import (
    MAX_SIDE,
    MAX_VIEWERS,
    SUBPROTOCOL,
    ShellAnswer,
    ShellList,
    ShellRequest,
)

MAX_CURSOR: Final = 2**62


class ShellFace:
    """The endpoints, bound to the shells of one agentctl."""

    def __init__(self, shells: Shells, checks: Checks) -> None:
        self._shells, self._checks = shells, checks

    async def list(self, request: Request) -> Response:
        self._checks.allow(request, Scope.SHELL)
        reports = tuple(terminal.report() for terminal in self._shells.list())
        return answer(ShellList(instance_id=self._shells.instance_id, shells=reports))

    async def create(self, request: Request) -> Response:
        self._checks.allow(request, Scope.SHELL)
        body = await read_body(request, ShellRequest)
        terminal, created = self._shells.create(body)
        made = ShellAnswer(created=created, **dict(terminal.report()))
        return answer(made, 201 if created else 200)

    async def show(self, request: Request) -> Response:
        self._checks.allow(request, Scope.SHELL)
        return answer(self._find(request).report())

    async def close(self, request: Request) -> Response:
        self._checks.allow(request, Scope.SHELL)
        terminal = await self._shells.close(self._find(request).shell_id)
        return answer(terminal.report())

    async def attach(self, websocket: WebSocket) -> None:
        try:
            claims = self._checks.allow(websocket, Scope.SHELL)
            terminal = self._find(websocket)
            cursor = _cursor(websocket, terminal)
            seat = _seat(websocket, terminal)
        except (Denied, Rejected) as exc:
            await websocket.send_denial_response(_refusal(exc))
            return
        try:
            offered = SUBPROTOCOL in websocket.scope["subprotocols"]
            await websocket.accept(subprotocol=SUBPROTOCOL if offered else None)
            admission = Admission(_end_of(claims), self._renew)
            connection = Connection(websocket, terminal, seat, cursor, admission)
            await connection.serve((self._shells.instance_id, self._shells.boot_id))
        finally:
            terminal.detach(seat)

    def _renew(self, token: str) -> float:
        return _end_of(self._checks.renew(token, Scope.SHELL))

    def _find(self, connection: HTTPConnection) -> Terminal:
        return self._shells.find(str(connection.path_params["shell_id"]))


def _end_of(claims: Claims) -> float:
    return float(claims.exp + LEEWAY_SECONDS)


def _cursor(websocket: WebSocket, terminal: Terminal) -> int:
    """Where the viewer goes on: what it names, or the oldest byte that is kept."""
    told = websocket.query_params.get("after")
    if told is None:
        return terminal.ring.start
    cursor = _number(told, "after", 0, MAX_CURSOR)
    if cursor > terminal.ring.end:
        raise reject(Code.INVALID_REQUEST, "that many bytes were not written yet")
    return cursor


def _seat(websocket: WebSocket, terminal: Terminal) -> Seat:
    query = websocket.query_params
    mode = query.get("mode", "type")
    if mode not in ("type", "view"):
        raise reject(Code.INVALID_REQUEST, "the mode is type or view")
    size = None
    if "cols" in query or "rows" in query:
        cols, rows = (_number(query.get(side, ""), side, 1, MAX_SIDE) for side in ("cols", "rows"))
        size = Size(cols, rows)
    try:
        return terminal.attach(size, may_type=mode == "type")
    except Full:
        words = f"the shell has {MAX_VIEWERS} viewers already"
        raise reject(Code.TOO_MANY, words, limit=MAX_VIEWERS) from None


def _number(text: str, name: str, least: int, most: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most:
        return int(text)
    raise reject(Code.INVALID_REQUEST, f"{name} is a number from {least} to {most}")


def _refusal(exc: Denied | Rejected) -> Response:
    said = exc.refusal if isinstance(exc, Rejected) else exc
    body = ErrorBody(code=said.code.value, message=said.message, details=said.details)
    return answer(body, STATUS_OF[said.code])
