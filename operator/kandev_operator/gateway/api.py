"""The same actions by HTTP: POST `/api/v1/actions/ACTION` with the payload as JSON; and downloads.

What the workspace holds is never shown as a page of ours: files come as attachments, of no type
that a browser would run, in a sandbox.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kandev_operator.clients import errors
from kandev_operator.clients.workspace import Workspace
from kandev_operator.gateway.actions.table import perform
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.door import Door
from kandev_operator.gateway.openapi import document
from kandev_operator.gateway.ports import Person, Right
from kandev_operator.gateway.refusals import Refusal, of_agentctl
from kandev_operator.gateway.wire.envelope import MAX_FRAME_BYTES, ErrorBody, ErrorCode

STATUS_OF: Final = {
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.UNKNOWN_ACTION: 404,
    ErrorCode.TOO_MANY: 429,
    ErrorCode.RATE_LIMITED: 429,
    ErrorCode.REFUSED_BY_CLUSTER: 422,
    ErrorCode.UNREACHABLE: 503,
    ErrorCode.HISTORY_UNAVAILABLE: 503,
    ErrorCode.INTERNAL: 500,
}
"""Whatever else is refused, agentctl's own codes too, is 409."""
_DOWNLOAD: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}

Handler = Callable[[Request], Awaitable[Response]]


def routes(desk: Desk, door: Door) -> list[Route]:
    """The HTTP API."""

    def guarded(handler: Callable[[Request, Person], Awaitable[Response]]) -> Handler:
        async def handle(request: Request) -> Response:
            person = await door.person(request)
            if isinstance(person, Response):
                return person
            try:
                return await handler(request, person)
            except Refusal as refusal:
                return refused(refusal.body)

        return handle

    async def act(request: Request, person: Person) -> Response:
        payload = await _payload(request)
        answer = await perform(desk, person, request.path_params["action"], payload)
        return JSONResponse(answer, headers={"Cache-Control": "no-store"})

    async def download(request: Request, person: Person) -> Response:
        uid, path = request.path_params["uid"], request.query_params.get("path", "")
        session = await desk.session(person, uid, Right.FILES)
        parts = Workspace(await desk.lines.client(session)).content(path)
        try:
            first = await anext(parts, b"")
        except errors.AgentctlError as error:
            raise of_agentctl(error) from None
        name = quote(path.rpartition("/")[2] or "file", safe="")
        headers = {**_DOWNLOAD, "Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
        media = "application/octet-stream"
        return StreamingResponse(_then(first, parts), headers=headers, media_type=media)

    async def openapi(request: Request, person: Person) -> Response:
        return JSONResponse(document())

    return [
        Route("/api/v1/actions/{action}", guarded(act), methods=["POST"]),
        Route("/api/v1/sessions/{uid}/download", guarded(download), methods=["GET"]),
        Route("/api/openapi.json", guarded(openapi), methods=["GET"]),
    ]


def refused(body: ErrorBody) -> Response:
    """The error body with its HTTP status."""
    try:
        status = STATUS_OF.get(ErrorCode(body.code), 409)
    except ValueError:
        status = 409
    return JSONResponse(body.model_dump(), status_code=status)


async def _payload(request: Request) -> dict[str, object]:
    """The JSON body, bounded. Raises Refusal."""
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FRAME_BYTES:
            words = f"a body holds {MAX_FRAME_BYTES} bytes at most"
            raise Refusal(ErrorCode.INVALID_REQUEST, words, limit=MAX_FRAME_BYTES)
    try:
        payload = json.loads(data)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise Refusal(ErrorCode.INVALID_REQUEST, "the body is a JSON object")
    return payload


async def _then(first: bytes, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """All parts. A file that changes while it is read breaks the download off, visibly."""
    yield first
    async for part in parts:
        yield part
