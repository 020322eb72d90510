"""Files and git of one agentctl's workspace, by the contract.

Large files are read in ranges and must stay the same meanwhile; a listing is read page by page.
The peer is not trusted any more than elsewhere: every answer is bounded and checked.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final, TypeVar

from kandev_operator.clients.agentctl import AgentctlClient
from kandev_operator.clients.agentctl_answers import parse
from kandev_operator.clients.errors import Malformed, Refused
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import Entry, TreePage, WriteAnswer
from kandev_operator.contract.git import GitDiff, GitLog, GitStatus
from kandev_operator.contract.wire import Wire

PART: Final = 2 * 1024 * 1024
SECONDS: Final = 60.0
DIFF_BYTES: Final = 512 * 1024
Body = TypeVar("Body", bound=Wire)


class Workspace:
    """The calls about files and git; paths are spelled as on the wire."""

    def __init__(self, client: AgentctlClient) -> None:
        self._client = client

    async def entries(self, path: str, depth: int, *, ignored: bool) -> AsyncIterator[Entry]:
        """What is in a folder, page by page."""
        after: str | None = ""
        while after is not None:
            query = {
                "path": path,
                "depth": str(depth),
                "ignored": str(ignored).lower(),
                "after": after,
            }
            page = await self._get(paths.FILES_TREE, query, TreePage)
            for entry in page.entries:
                yield entry
            if page.next == after:
                raise Malformed(f"GET {paths.FILES_TREE}", "its pages do not come to an end")
            after = page.next

    async def content(self, path: str) -> AsyncIterator[bytes]:
        """A file in parts; raises Malformed if it changes meanwhile."""
        call = f"GET {paths.FILES_CONTENT}"
        etag: str | None = None
        start, size = 0, 1
        while start < size:
            try:
                headers, data = await self._part(path, start)
            except Refused as error:
                if start == 0 and error.code == Code.RANGE_NOT_SATISFIABLE:
                    return  # of an empty file there is no part
                raise
            if etag not in (None, headers.get("ETag")) or not data:
                raise Malformed(call, "the file changed while it was read")
            etag, size = headers.get("ETag"), _size(call, headers)
            yield data
            start += len(data)

    async def _part(self, path: str, start: int) -> tuple[Mapping[str, str], bytes]:
        return await self._client.exchange(
            "GET",
            paths.FILES_CONTENT,
            (Scope.FILES,),
            query={"path": path},
            headers={"Range": f"bytes={start}-{start + PART - 1}"},
            seconds=SECONDS,
        )

    async def write(self, path: str, data: bytes, *, overwrite: bool) -> WriteAnswer:
        """Write a file; without `overwrite` only a new one."""
        precondition = {"If-Match": "*"} if overwrite else {"If-None-Match": "*"}
        _, body = await self._client.exchange(
            "PUT",
            paths.FILES_CONTENT,
            (Scope.FILES,),
            query={"path": path},
            headers=precondition,
            data=data,
            seconds=SECONDS,
        )
        return parse(f"PUT {paths.FILES_CONTENT}", WriteAnswer, body)

    async def status(self, repo: str) -> GitStatus:
        """What differs in a repository."""
        return await self._get(paths.GIT_STATUS, {"repo": repo}, GitStatus)

    async def diff(self, repo: str, path: str, *, staged: bool, base: str | None) -> GitDiff:
        """The differences themselves."""
        query = {"repo": repo, "path": path, "base": base or "", "max_bytes": str(DIFF_BYTES)}
        return await self._get(paths.GIT_DIFF, {**query, "staged": str(staged).lower()}, GitDiff)

    async def log(self, repo: str, path: str, *, ref: str | None, limit: int) -> GitLog:
        """The newest commits."""
        query = {"repo": repo, "path": path, "ref": ref or "", "limit": str(limit)}
        return await self._get(paths.GIT_LOG, query, GitLog)

    async def _get(self, path: str, query: Mapping[str, str], model: type[Body]) -> Body:
        _, body = await self._client.exchange(
            "GET", path, (Scope.FILES,), query=query, seconds=SECONDS
        )
        return parse(f"GET {path}", model, body)


def _size(call: str, headers: Mapping[str, str]) -> int:
    told = headers.get("Content-Range", "").rpartition("/")[2]
    if not (told.isascii() and told.isdecimal() and len(told) < 19):
        raise Malformed(call, "it does not say how large the file is")
    return int(told)
