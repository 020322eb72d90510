"""The rooms of a workspace where there is none: in front of an upstream they refuse, by name.

The files are on the upstream's machine. A folder of the same path on this one, if there is one, is
somebody else's, and must not be shown, written to or given a shell by mistake.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from kandev_operator.agentctl.engine import reject
from kandev_operator.contract.errors import Code

METHODS: Final = ("GET", "PUT", "POST", "DELETE", "PATCH")
ROOMS: Final = ("files", "git", "shell")


def routes() -> list[BaseRoute]:
    """Every path of shell, files and git."""
    return [
        Route(f"/api/v1/{room}{rest}", _refuse, methods=METHODS)
        for room in ROOMS
        for rest in ("", "/{rest:path}")
    ]


async def _refuse(request: Request) -> Response:
    raise reject(Code.NOT_SERVED, "the workspace is the upstream's: its shell, files and git, too")
