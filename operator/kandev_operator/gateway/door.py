"""Who comes in. `Door` is what the process asks; `OpenDoor` is for one's own machine alone.

With `--no-login` everybody who reaches the loopback address is one person with every right: it is
refused on any other address, and the Host must be a loopback one, so that no page of the world can
reach it by a name of its own.
"""

import re
from typing import Final, Protocol

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import Route

from kandev_operator.clients.resources import Resource
from kandev_operator.gateway.ports import Person, Right

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
_AT_HOME: Final = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
SOMEBODY: Final = Person("local")


def is_at_home(host: str) -> bool:
    """Whether a Host header names this machine, and nothing else.

    The header itself is read: a URL that is made of it falls back to the server's own address,
    which is loopback, where the header is broken.
    """
    return _AT_HOME.fullmatch(host) is not None


class Door(Protocol):
    """Says who asks, or how they are turned away."""

    async def person(self, connection: HTTPConnection) -> Person | Response:
        """For HTTP and WebSocket upgrades alike; Origin and Host are looked at, too."""

    def routes(self) -> list[Route]:
        """Where one comes in and goes out."""


class OpenDoor:
    """Everybody on this machine is the same person."""

    async def person(self, connection: HTTPConnection) -> Person | Response:
        """Refuses foreign hosts and origins, and nothing else."""
        host = connection.headers.get("host", "")
        origin = connection.headers.get("origin")
        own = f"{'https' if connection.url.scheme in ('https', 'wss') else 'http'}://"
        if not is_at_home(host) or origin not in (None, own + host):
            return Response("this host or origin is not served here\n", status_code=403)
        return SOMEBODY

    def routes(self) -> list[Route]:
        """Nobody needs to."""
        return []


class EveryRight:
    """The rights of who is at home."""

    async def may(self, person: Person, right: Right, namespace: str, name: str) -> bool:
        """Yes."""
        return True

    async def may_list(self, person: Person, resource: Resource, namespace: str | None) -> bool:
        """Yes."""
        return True

    async def may_create(self, person: Person, resource: Resource, namespace: str) -> bool:
        """Yes."""
        return True
