"""Actions on files and git: handed to agentctl as they are, and its answers handed back.

They work while agentctl is ready, whatever the agent does. Contents travel as text where they are
UTF-8 and as base64 else; large ones are better had by HTTP, in parts.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from kandev_operator.clients import errors
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.gateway.desk import Desk
from kandev_operator.gateway.ports import Person, Right
from kandev_operator.gateway.refusals import Refusal, of_agentctl
from kandev_operator.gateway.wire import requests as asked
from kandev_operator.gateway.wire.envelope import ErrorCode

Answer = dict[str, Any]
LARGEST: Final = 512 * 1024
"""Bytes of a file that go into one answer."""
SECONDS: Final = 60.0


async def file_tree(desk: Desk, person: Person, request: asked.FileTree) -> Answer:
    """What is in a folder, a page of it."""
    query = {"path": request.path, "after": request.after or ""}
    return await _read(desk, person, request, paths.FILES_TREE, query)


async def file_search(desk: Desk, person: Person, request: asked.FileSearch) -> Answer:
    """Find files by name, or lines by what is in them."""
    query = {"query": request.query, "in": request.what}
    return await _read(desk, person, request, paths.FILES_SEARCH, query)


async def file_read(desk: Desk, person: Person, request: asked.FileRead) -> Answer:
    """A file's content; the first part of a large one."""
    wanted = {"Range": f"bytes=0-{LARGEST - 1}"}
    query = {"path": request.path}
    try:
        part = _Call(paths.FILES_CONTENT, query, headers=wanted)
        headers, data = await _exchange(desk, person, request, part)
    except Refusal as refusal:
        if refusal.body.code != "range_not_satisfiable":
            raise
        # Of an empty file there is no part.
        whole = _Call(paths.FILES_CONTENT, query)
        headers, data = await _exchange(desk, person, request, whole)
    size = headers.get("Content-Range", "").rpartition("/")[2]
    total = int(size) if size.isdecimal() and len(size) < 19 else len(data)
    encoding, content = _as_text(data)
    return {
        "path": request.path,
        "etag": headers.get("ETag"),
        "size": total,
        "complete": total == len(data),
        "encoding": encoding,
        "content": content,
    }


async def file_write(desk: Desk, person: Person, request: asked.FileWrite) -> Answer:
    """Replace a file that is as the caller knows it, or make a new one."""
    precondition = {"If-None-Match": "*"} if request.etag is None else {"If-Match": request.etag}
    if request.encoding == "utf-8":
        data = request.content.encode("utf-8", "surrogatepass")
    else:
        try:
            data = base64.b64decode(request.content, validate=True)
        except ValueError:
            raise Refusal(ErrorCode.INVALID_REQUEST, "content is not base64") from None
    call = _Call(paths.FILES_CONTENT, {"path": request.path}, "PUT", precondition, data)
    _, body = await _exchange(desk, person, request, call)
    return _document(body)


async def git_status(desk: Desk, person: Person, request: asked.OfRepository) -> Answer:
    """What differs in a repository."""
    return await _read(desk, person, request, paths.GIT_STATUS, {"repo": request.repo})


async def git_diff(desk: Desk, person: Person, request: asked.OfRepository) -> Answer:
    """The differences themselves."""
    query = {
        "repo": request.repo,
        "path": request.path or "",
        "staged": str(request.staged).lower(),
        "max_bytes": str(LARGEST),
    }
    return await _read(desk, person, request, paths.GIT_DIFF, query)


async def git_log(desk: Desk, person: Person, request: asked.OfRepository) -> Answer:
    """The newest commits."""
    query = {"repo": request.repo, "path": request.path or "", "limit": "50"}
    return await _read(desk, person, request, paths.GIT_LOG, query)


async def _read(
    desk: Desk,
    person: Person,
    request: asked.OfSession,
    path: str,
    query: Mapping[str, str],
) -> Answer:
    given = {key: value for key, value in query.items() if value}
    _, body = await _exchange(desk, person, request, _Call(path, given))
    return _document(body)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the contract."""

    path: str
    query: Mapping[str, str]
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    data: bytes | None = None


async def _exchange(
    desk: Desk, person: Person, request: asked.OfSession, call: _Call
) -> tuple[Mapping[str, str], bytes]:
    session = await desk.session(person, request.session_id, Right.FILES, request.task_id)
    client = await desk.lines.client(session)
    try:
        return await client.exchange(
            call.method,
            call.path,
            (Scope.FILES,),
            query=call.query,
            headers=call.headers,
            data=call.data,
            seconds=SECONDS,
        )
    except errors.AgentctlError as error:
        raise of_agentctl(error) from None


def _as_text(data: bytes) -> tuple[str, str]:
    try:
        return "utf-8", data.decode()
    except UnicodeDecodeError:
        return "base64", base64.b64encode(data).decode()


def _document(body: bytes) -> Answer:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Refusal(ErrorCode.UNREACHABLE, "agentctl's answer cannot be understood")
    return document
