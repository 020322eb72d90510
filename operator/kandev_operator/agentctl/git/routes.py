"""The paths of this room: they check the caller, read what is asked, and answer.

Scope `files` for all of it. Refusals are raised; the face turns them into error bodies. Calls that
change a repository wait for each other: git's own lock would refuse the second.
"""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kandev_operator.agentctl import queries
from kandev_operator.agentctl.checks import Checks, answer
from kandev_operator.agentctl.git import reading
from kandev_operator.agentctl.git.repository import Repositories
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.git import MAX_STATUS_ENTRIES, STATUS_ENTRIES

UNTRACKED: Final = ("all", "normal", "no")


class GitFace:
    """The endpoints about git."""

    def __init__(self, checks: Checks, repositories: Repositories) -> None:
        self._checks, self._repositories = checks, repositories

    def routes(self) -> list[BaseRoute]:
        return [Route(paths.GIT_STATUS, self.status, methods=["GET"])]

    async def status(self, request: Request) -> Response:
        query = self._caller(request)
        limit = queries.number_in(query, "limit", STATUS_ENTRIES, MAX_STATUS_ENTRIES)
        untracked = query.get("untracked", "all")
        if untracked not in UNTRACKED:
            raise Refusal(Code.INVALID_REQUEST, f"`untracked` is one of {', '.join(UNTRACKED)}")
        async with self._repositories.open(queries.path_in(query, "repo")) as repository:
            return answer(await reading.status(repository, limit, untracked))

    def _caller(self, request: Request) -> Mapping[str, str]:
        """Check who calls; gives the query."""
        self._checks.allow(request, Scope.FILES)
        return request.query_params
