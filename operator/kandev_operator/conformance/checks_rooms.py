"""What an agentctl leaves out it says, and refuses throughout: files, git and shell.

A room that is declared as left out has no other MUSTs to keep; one that is not must keep them all,
and an answer `not_served` is then a failure as any other.
"""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import httpx
from websockets.exceptions import InvalidStatus

from kandev_operator.conformance.musts import NotApplicable, must, need
from kandev_operator.conformance.target import Answer, Target
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import STATUS_OF, Code
from kandev_operator.contract.routes import ROUTES
from kandev_operator.contract.status import Capabilities, Room, Rooms

ROOMS: Final = "rooms"
SCOPE_OF: Final = {Room.FILES: Scope.FILES, Room.GIT: Scope.FILES, Room.SHELL: Scope.SHELL}


async def declared(target: Target) -> Rooms:
    """What the target says that it serves."""
    answer = await target.call("GET", paths.CAPABILITIES)
    need(answer.status == 200, f"/capabilities answers {answer}")
    return answer.fits(Capabilities).rooms or Rooms()


async def require(target: Target, room: Room) -> None:
    """Raises NotApplicable where the target says that it leaves this room out."""
    rooms = await declared(target)
    if rooms.serves(room) is False:
        raise NotApplicable(f"room {room.value} is not served: {rooms.reason[:200]}")


@must("C-135", ROOMS, "Capabilities say of each room whether it is served, before any agent ran.")
async def told(target: Target) -> str:
    await target.configured()
    rooms = await declared(target)
    silent = [room.value for room in Room if rooms.serves(room) is None]
    need(not silent, f"nothing is said of {silent}")
    left_out = [room.value for room in Room if not rooms.serves(room)]
    need(not left_out or rooms.reason, f"no reason is given for leaving out {left_out}")
    return f"left out: {', '.join(left_out)}" if left_out else "all are served"


@must("C-136", ROOMS, "A room left out refuses all of its paths with 501 not_served, others none.")
async def throughout(target: Target) -> str:
    await target.configured()
    rooms = await declared(target)
    tried = 0
    for room in Room:
        served = rooms.serves(room) is not False
        for call in calls(room):
            answer = await call.made(target)
            tried += 1
            refused = (answer.status, answer.code()) == (STATUS_OF[Code.NOT_SERVED], "not_served")
            if served:
                need(not refused and answer.status != 501, f"{call}, a room that is served")
            else:
                need(refused, f"{call} of a room left out: {answer}")
    return f"{tried} calls"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that changes nothing where it is served, for what it names is nowhere."""

    method: str
    path: str
    room: Room

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    async def made(self, target: Target) -> Answer:
        scopes = (SCOPE_OF[self.room],)
        if self.method == "WEBSOCKET":
            try:
                async with target.websocket(self.path, scopes):
                    return Answer(101, httpx.Headers(), b"")
            except InvalidStatus as no:
                headers = httpx.Headers([*no.response.headers.raw_items()])
                return Answer(no.response.status_code, headers, bytes(no.response.body or b""))
        content = None if self.method in ("GET", "DELETE") else b"no JSON"
        where = f"{self.path}?path={NOWHERE}&repo={NOWHERE}&query=x"
        return await target.send(self.method, where, content=content, token=target.token(scopes))


NOWHERE: Final = f".conformance-nowhere-{uuid.uuid4().hex[:8]}"


def calls(room: Room) -> Iterator[Call]:
    """Every call of the contract below a room's path, and some that the contract does not have."""
    top = f"/api/v1/{room.value}"
    for route in ROUTES:
        if route.path == top or route.path.startswith(f"{top}/"):
            yield Call(route.method.upper(), route.path.replace("{shell_id}", NOWHERE), room)
    yield Call("PUT", f"{top}/no-such-thing/of-a-room", room)
    if room is Room.SHELL:
        yield Call("WEBSOCKET", f"{paths.SHELL}/{NOWHERE}", room)
