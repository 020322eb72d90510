"""The paths of this room: they check the caller, read what is asked, and answer.

Scope `files` for all of it. Refusals are raised; the face turns them into error bodies.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Send
from starlette.types import Scope as Scopes

from kandev_operator.agentctl import queries
from kandev_operator.agentctl.attendance import attended
from kandev_operator.agentctl.beneath import Root
from kandev_operator.agentctl.checks import Checks, answer, read_body
from kandev_operator.agentctl.files import changes, ranges, reading
from kandev_operator.agentctl.files.ignoring import Ignoring
from kandev_operator.agentctl.files.search import (
    MATCHES,
    MAX_MATCHES,
    MAX_QUERY,
    Search,
    Wanted,
)
from kandev_operator.agentctl.files.tree import Tree
from kandev_operator.agentctl.files.watching import Watches
from kandev_operator.agentctl.files.writing import Precondition, Writer
from kandev_operator.agentctl.pool import Pool
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import (
    MAX_FILE_BYTES,
    MAX_PAGE,
    MODE_HEADER,
    MakeFolder,
    Rename,
    WatchReady,
)

MAX_TREE_DEPTH: Final = 20
UPLOADS: Final = 4
"""Contents taken in at once; each is held in memory."""
UPLOAD_SECONDS: Final = 120.0
MODE: Final = re.compile(r"0?[0-7]{3}")


@dataclass(frozen=True, slots=True)
class Who:
    """Which agentctl this is, and when it ends."""

    instance_id: str
    boot_id: str
    closing: asyncio.Event
    is_network: bool
    """Whether the workspace is on a file system that other machines write, too."""


class Held(StreamingResponse):
    """A stream of events that lets go of its reader, even if it never began."""

    def __init__(self, body: AsyncIterator[bytes], stack: AsyncExitStack) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(body, media_type="text/event-stream", headers=headers)
        self._stack = stack

    async def __call__(self, scope: Scopes, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


class FilesFace:
    """The endpoints about files."""

    def __init__(
        self, checks: Checks, root: Root, pool: Pool, ignoring: Ignoring, who: Who
    ) -> None:
        self._checks, self._root, self._pool, self._who = checks, root, pool, who
        self._tree, self.writer = Tree(root, pool, ignoring), Writer(root)
        self._search, self._watches = Search(root, pool, ignoring), Watches(root, pool, ignoring)
        self._uploads = asyncio.Semaphore(UPLOADS)

    def routes(self) -> list[BaseRoute]:
        content = paths.FILES_CONTENT
        return [
            Route(paths.FILES_TREE, self.tree, methods=["GET"]),
            Route(content, self.read, methods=["GET"]),  # and HEAD, which Starlette adds
            Route(content, self.write, methods=["PUT"]),
            Route(paths.FILES_ENTRY, self.describe, methods=["GET"]),
            Route(paths.FILES_ENTRY, self.delete, methods=["DELETE"]),
            Route(paths.FILES_FOLDERS, self.make_folder, methods=["POST"]),
            Route(paths.FILES_RENAME, self.rename, methods=["POST"]),
            Route(paths.FILES_SEARCH, self.search, methods=["GET"]),
            Route(paths.FILES_WATCH, self.watch, methods=["GET"]),
        ]

    async def tree(self, request: Request) -> Response:
        query = self._caller(request)
        after = query.get("after")
        return answer(
            await self._tree.page(
                queries.path_in(query),
                depth=queries.number_in(query, "depth", 1, MAX_TREE_DEPTH),
                limit=queries.number_in(query, "limit", MAX_PAGE, MAX_PAGE),
                after=queries.path(after) if after else None,
                ignored=queries.flag_in(query, "ignored"),
            )
        )

    async def describe(self, request: Request) -> Response:
        names = queries.path_in(self._caller(request))
        return answer(await self._pool.run(reading.describe, self._root, names))

    async def read(self, request: Request) -> Response:
        names = queries.path_in(self._caller(request))
        wanted, body = request.headers.get("range"), request.method != "HEAD"
        found = await self._pool.run(reading.read, self._root, names, wanted, body=body)
        headers = {
            "ETag": found.etag,
            MODE_HEADER: found.mode,
            "Accept-Ranges": "bytes",
            "Cache-Control": "no-store",
            # Whatever is in it, no browser takes it for a page of ours.
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "sandbox",
        }
        length = found.size
        if found.part is not None:
            length = found.part.end - found.part.start
            headers["Content-Range"] = f"bytes {found.part.start}-{found.part.end - 1}/{found.size}"
        headers["Content-Length"] = str(length)
        status = 200 if found.part is None else 206
        return Response(found.data, status, headers, media_type="application/octet-stream")

    async def write(self, request: Request) -> Response:
        query = self._caller(request)
        names, mode = queries.path_in(query), _mode(query)
        before = _precondition(request.headers)
        if before is None:
            words = "a write needs If-Match or If-None-Match: * to say what it replaces"
            raise Refusal(Code.PRECONDITION_REQUIRED, words)
        if self._uploads.locked():
            raise Refusal(Code.BUSY, "too many contents are being written")
        async with self._uploads:
            data = await _content(request)
            done = await self._pool.run(self.writer.write, names, data, before, mode)
        response = answer(done, 201 if done.created else 200)
        response.headers["ETag"] = done.etag
        return response

    async def make_folder(self, request: Request) -> Response:
        self._caller(request)
        body = await read_body(request, MakeFolder)
        names = queries.path(body.path)
        made = await self._pool.run(self.writer.make_folder, names, parents=body.parents)
        return answer(made, 201)

    async def rename(self, request: Request) -> Response:
        self._caller(request)
        body = await read_body(request, Rename)
        source, target = queries.path(body.from_path), queries.path(body.to_path)
        call = self.writer.rename
        return answer(await self._pool.run(call, source, target, overwrite=body.overwrite))

    async def delete(self, request: Request) -> Response:
        query = self._caller(request)
        names, recursive = queries.path_in(query), queries.flag_in(query, "recursive")
        before = _precondition(request.headers)
        await self._pool.run(self.writer.delete, names, recursive=recursive, before=before)
        return Response(status_code=204)

    async def search(self, request: Request) -> Response:
        query = self._caller(request)
        text, where = query.get("query", ""), query.get("in", "names")
        if not 0 < len(text) <= MAX_QUERY or not text.isprintable():
            raise Refusal(Code.INVALID_REQUEST, f"`query` is text of 1 to {MAX_QUERY} characters")
        if where not in ("names", "content"):
            raise Refusal(Code.INVALID_REQUEST, "`in` is names or content")
        wanted = Wanted(
            query=text,
            folder=queries.path_in(query),
            limit=queries.number_in(query, "limit", MATCHES, MAX_MATCHES),
            case=queries.flag_in(query, "case"),
            ignored=queries.flag_in(query, "ignored"),
        )
        call = self._search.names if where == "names" else self._search.content
        async with attended(request):
            return answer(await call(wanted))

    async def watch(self, request: Request) -> Response:
        query = self._caller(request)
        folder, ignored = queries.path_in(query), queries.flag_in(query, "ignored")
        stack = AsyncExitStack()
        watch, reader = await stack.enter_async_context(
            self._watches.reading(folder, ignored=ignored)
        )
        ready = WatchReady(
            instance_id=self._who.instance_id,
            boot_id=self._who.boot_id,
            folders=watch.folders,
            unwatched=watch.unwatched,
            sees_other_machines=not self._who.is_network,
        )

        return Held(changes.stream(watch, reader, ready, self._who.closing), stack)

    def _caller(self, request: Request) -> Mapping[str, str]:
        """Check who calls; gives the query."""
        self._checks.allow(request, Scope.FILES)
        return request.query_params


def _precondition(headers: Mapping[str, str]) -> Precondition | None:
    match, none_match = headers.get("if-match"), headers.get("if-none-match")
    if match is not None and none_match is None:
        if (etag := ranges.wanted_etag(match)) is None:
            raise Refusal(Code.INVALID_REQUEST, "If-Match is one strong ETag of this API, or *")
        return Precondition(etag)
    if none_match is None:
        return None
    if match is not None or none_match.strip() != "*":
        raise Refusal(Code.INVALID_REQUEST, "If-None-Match is *, and stands alone")
    return Precondition(None)


def _mode(query: Mapping[str, str]) -> int | None:
    text = query.get("mode", "")
    if not text:
        return None
    if not MODE.fullmatch(text):
        raise Refusal(Code.INVALID_REQUEST, "`mode` is three octal digits")
    return int(text, 8)


async def _content(request: Request) -> bytes:
    """The body, bounded in size and time."""
    declared = request.headers.get("content-length", "0")
    too_large = Refusal(Code.TOO_LARGE, f"contents end at {MAX_FILE_BYTES} bytes")
    if declared.isdecimal() and int(declared) > MAX_FILE_BYTES:
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            async for chunk in request.stream():
                data += chunk
                if len(data) > MAX_FILE_BYTES:
                    raise too_large
    except TimeoutError:
        raise Refusal(Code.INVALID_REQUEST, "the content did not come in time") from None
    return bytes(data)
