"""The paths of this room: they check the caller, read what is asked, and answer.

Scope `files` for all of it. Refusals are raised; the face turns them into error bodies. Calls that
change a repository wait for each other: git's own lock would refuse the second.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kandev_operator.agentctl import queries
from kandev_operator.agentctl.attendance import attended
from kandev_operator.agentctl.checks import Checks, answer, read_body
from kandev_operator.agentctl.git import changing, reading, remotes
from kandev_operator.agentctl.git.repository import Repositories, Repository
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.git import (
    MAX_DIFF_BYTES,
    MAX_LOG,
    MAX_STATUS_ENTRIES,
    REVISION,
    STATUS_ENTRIES,
    BranchRequest,
    CommitRequest,
    PushRequest,
    RemoteRequest,
    StageRequest,
    SwitchRequest,
)

UNTRACKED: Final = ("all", "normal", "no")
LOG_PAGE: Final = 50
MAX_CONTEXT: Final = 1000
READERS: Final = 8
"""Git processes that read at once; further calls wait."""
Body = TypeVar("Body", StageRequest, CommitRequest, BranchRequest, SwitchRequest, RemoteRequest)


class GitFace:
    """The endpoints about git."""

    def __init__(self, checks: Checks, repositories: Repositories) -> None:
        self._checks, self._repositories = checks, repositories
        self._changing = asyncio.Lock()
        self._reading = asyncio.Semaphore(READERS)

    def routes(self) -> list[BaseRoute]:
        return [
            Route(paths.GIT_STATUS, self.status, methods=["GET"]),
            Route(paths.GIT_DIFF, self.diff, methods=["GET"]),
            Route(paths.GIT_LOG, self.log, methods=["GET"]),
            Route(paths.GIT_BRANCHES, self.branches, methods=["GET"]),
            Route(paths.GIT_BRANCHES, self.make_branch, methods=["POST"]),
            Route(paths.GIT_STAGE, self.stage, methods=["POST"]),
            Route(paths.GIT_UNSTAGE, self.unstage, methods=["POST"]),
            Route(paths.GIT_COMMIT, self.commit, methods=["POST"]),
            Route(paths.GIT_SWITCH, self.switch, methods=["POST"]),
            Route(paths.GIT_FETCH, self.fetch, methods=["POST"]),
            Route(paths.GIT_PULL, self.pull, methods=["POST"]),
            Route(paths.GIT_PUSH, self.push, methods=["POST"]),
        ]

    # ---- reading -----------------------------------------------------------------------

    async def status(self, request: Request) -> Response:
        query = self._caller(request)
        limit = queries.number_in(query, "limit", STATUS_ENTRIES, MAX_STATUS_ENTRIES)
        untracked = query.get("untracked", "all")
        if untracked not in UNTRACKED:
            raise Refusal(Code.INVALID_REQUEST, f"`untracked` is one of {', '.join(UNTRACKED)}")
        async with self._reads(request) as repository:
            return answer(await reading.status(repository, limit, untracked))

    async def diff(self, request: Request) -> Response:
        query = self._caller(request)
        wanted = reading.DiffWanted(
            path=queries.path_in(query),
            staged=queries.flag_in(query, "staged"),
            base=queries.text_in(query, "base", REVISION),
            context=queries.number_in(query, "context", 3, MAX_CONTEXT, least=0),
            max_bytes=queries.number_in(query, "max_bytes", MAX_DIFF_BYTES, MAX_DIFF_BYTES),
        )
        async with self._reads(request) as repository:
            return answer(await reading.diff(repository, wanted))

    async def log(self, request: Request) -> Response:
        query = self._caller(request)
        ref = queries.text_in(query, "ref", REVISION) or "HEAD"
        limit = queries.number_in(query, "limit", LOG_PAGE, MAX_LOG)
        path, after = queries.path_in(query), query.get("after") or None
        async with self._reads(request) as repository:
            return answer(await reading.log(repository, ref, path, limit, after))

    async def branches(self, request: Request) -> Response:
        self._caller(request)
        async with self._reads(request) as repository:
            return answer(await reading.branches_of(repository))

    # ---- changing ----------------------------------------------------------------------

    async def stage(self, request: Request) -> Response:
        return await self._stages(request, staged=True)

    async def unstage(self, request: Request) -> Response:
        return await self._stages(request, staged=False)

    async def _stages(self, request: Request, *, staged: bool) -> Response:
        body = await self._body(request, StageRequest)
        named = tuple(queries.path(path) for path in body.paths)
        if bool(named) == body.all:
            raise Refusal(Code.INVALID_REQUEST, "name `paths`, or say `all`")
        async with self._changes(request, body.repo) as repository:
            call = changing.stage if staged else changing.unstage
            await call(repository, named)
            return await self._state(repository)

    async def commit(self, request: Request) -> Response:
        body = await self._body(request, CommitRequest)
        async with self._changes(request, body.repo) as repository:
            return answer(await changing.commit(repository, body), 201)

    async def make_branch(self, request: Request) -> Response:
        body = await self._body(request, BranchRequest)
        async with self._changes(request, body.repo) as repository:
            await changing.make_branch(repository, body.name, body.start)
            known = await reading.branches_of(repository)
            made = [b for b in known.branches if b.name == body.name and not b.remote]
            if not made:
                raise Refusal(Code.GIT_REF_NOT_FOUND, "the branch is gone already")
            return answer(made[0], 201)

    async def switch(self, request: Request) -> Response:
        body = await self._body(request, SwitchRequest)
        async with self._changes(request, body.repo) as repository:
            await changing.switch(repository, body.branch)
            return await self._state(repository)

    # ---- remotes -----------------------------------------------------------------------

    async def fetch(self, request: Request) -> Response:
        body = await self._body(request, RemoteRequest)
        async with self._changes(request, body.repo) as repository:
            await remotes.fetch(repository, body)
            return await self._state(repository)

    async def pull(self, request: Request) -> Response:
        body = await self._body(request, RemoteRequest)
        async with self._changes(request, body.repo) as repository:
            await remotes.pull(repository, body)
            return await self._state(repository)

    async def push(self, request: Request) -> Response:
        self._caller(request)
        body = await read_body(request, PushRequest)
        async with self._changes(request, body.repo) as repository:
            await remotes.push(repository, body)
            return await self._state(repository)

    # ---- the way in --------------------------------------------------------------------

    def _caller(self, request: Request) -> Mapping[str, str]:
        """Check who calls; gives the query."""
        self._checks.allow(request, Scope.FILES)
        return request.query_params

    async def _body(self, request: Request, model: type[Body]) -> Body:
        self._caller(request)
        return await read_body(request, model)

    @asynccontextmanager
    async def _reads(self, request: Request) -> AsyncIterator[Repository]:
        names = queries.path_in(request.query_params, "repo")
        async with (
            attended(request),
            self._reading,
            self._repositories.open(names) as repository,
        ):
            yield repository

    @asynccontextmanager
    async def _changes(self, request: Request, repo: str) -> AsyncIterator[Repository]:
        names = queries.path(repo)
        async with (
            attended(request),
            self._changing,
            self._repositories.open(names) as repository,
        ):
            yield repository

    async def _state(self, repository: Repository) -> Response:
        return answer(await reading.status(repository, STATUS_ENTRIES, "all"))
