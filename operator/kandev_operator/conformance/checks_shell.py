"""Shells: made by name, seen through their socket, ended with all that they started."""

import asyncio
import json
import uuid
from typing import Final

from websockets.exceptions import ConnectionClosed, InvalidHandshake

from kandev_operator.conformance.checks_access import refused
from kandev_operator.conformance.musts import Broken, must, need
from kandev_operator.conformance.target import Target
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.shell import ShellAnswer, ShellList, ShellReport
from kandev_operator.contract.status import Room

SHELL: Final = Room.SHELL
_SHELL: Final = (Scope.SHELL,)


async def made(target: Target, **more: object) -> ShellAnswer:
    """A shell that runs `cat`, unless told otherwise."""
    body = {"name": f"conformance-{uuid.uuid4().hex[:8]}", "command": ["cat"], **more}
    answer = await target.call("POST", paths.SHELL, body, scopes=_SHELL)
    need(answer.status in (200, 201), f"the shell: {answer}")
    told = answer.fits(ShellAnswer)
    need(told.created == (answer.status == 201), f"created {told.created} with {answer.status}")
    return told


async def ended(target: Target, shell_id: str) -> None:
    await target.call("DELETE", f"{paths.SHELL}/{shell_id}", scopes=_SHELL)


async def seen(
    target: Target, shell_id: str, typed: bytes, wanted: bytes, after: int | None = None
) -> tuple[list[dict[str, object]], bytes]:
    """What a viewer sees up to the bytes that are wanted: text frames, and bytes."""
    query = "" if after is None else f"?after={after}"
    told: list[dict[str, object]] = []
    data = b""
    try:
        async with (
            asyncio.timeout(20),
            target.websocket(f"{paths.SHELL}/{shell_id}{query}", _SHELL) as line,
        ):
            if typed:
                await line.send(typed)
            while wanted not in data:
                frame = await line.recv()
                if isinstance(frame, bytes):
                    data += frame
                else:
                    told.append(json.loads(frame))
    except TimeoutError:
        raise Broken(f"did not come: {wanted!r}; seen {data[-80:]!r}") from None
    except (ConnectionClosed, InvalidHandshake, OSError) as exc:
        raise Broken(f"the socket: {type(exc).__name__}") from None
    return told, data


@must("C-170", SHELL, "A shell is made while no agent runs, and listed with its id.", SHELL)
async def without_an_agent(target: Target) -> str:
    await target.configured()
    await target.stopped(grace_seconds=2)
    shell = await made(target)
    need(shell.created, "it is said to have run already")
    listed = (await target.call("GET", paths.SHELL, scopes=_SHELL)).fits(ShellList)
    await ended(target, shell.shell_id)
    need(shell.shell_id in [s.shell_id for s in listed.shells], "it is not listed")
    return "made and listed"


@must("C-171", SHELL, "A name that runs already gives that shell, unchanged, created false.", SHELL)
async def by_name(target: Target) -> str:
    await target.configured()
    first = await made(target)
    again = await made(target, name=first.name, command=["another", "command"])
    await ended(target, first.shell_id)
    need(not again.created, "it is made anew")
    same = (again.shell_id, again.command) == (first.shell_id, first.command)
    need(same, "another shell is given")
    return "the same shell"


@must(
    "C-172",
    SHELL,
    "A viewer is told instance and cursor first; then each byte once, in order.",
    SHELL,
)
async def viewer(target: Target) -> str:
    await target.configured()
    shell = await made(target)
    told, data = await seen(target, shell.shell_id, b"abc-123\n", b"abc-123\r\nabc-123\r\n")
    need(told and told[0].get("type") == "attached", f"first came {told[:1]}")
    instance = (await target.status()).instance_id
    need(told[0].get("instance_id") == instance, "the first frame names another instance")
    need(data == b"abc-123\r\nabc-123\r\n", f"the terminal shows {data[:80]!r}")
    told, again = await seen(target, shell.shell_id, b"", b"23\r\n", after=len(data) - 4)
    await ended(target, shell.shell_id)
    need(again == b"23\r\n", f"from a cursor it shows {again[:80]!r}")
    return f"{len(data)} bytes, and again from a cursor"


@must("C-173", SHELL, "A shell that does not exist is 404 unknown_shell.", SHELL)
async def unknown(target: Target) -> str:
    await target.configured()
    answer = await target.call("GET", f"{paths.SHELL}/no-such-shell", scopes=_SHELL)
    return refused(answer, Code.UNKNOWN_SHELL)


@must("C-174", SHELL, "DELETE ends a shell; its end is told with a reason.", SHELL)
async def deleted(target: Target) -> str:
    await target.configured()
    shell = await made(target)
    path = f"{paths.SHELL}/{shell.shell_id}"
    answer = await target.call("DELETE", path, scopes=_SHELL)
    need(answer.status in (200, 202, 204), f"got {answer}")

    async def look() -> str | None:
        found = await target.call("GET", path, scopes=_SHELL)
        if found.status == 404:
            return "gone"
        told = found.fits(ShellReport).exit
        return None if told is None else told.reason.value

    reason = await target.eventually(look, "its end")
    need(reason in ("closed", "gone"), f"the reason is {reason}")
    return reason


@must("C-175", SHELL, "What is typed and shown is in no event of the stream.", SHELL)
async def private(target: Target) -> str:
    await target.opened()
    mark = await target.mark()
    shell = await made(target)
    word = uuid.uuid4().hex
    await seen(target, shell.shell_id, f"{word}\n".encode(), f"{word}\r\n{word}".encode())
    await ended(target, shell.shell_id)
    await target.turn_end(await target.prompted("say done"))
    told = await target.events(mark)
    need(all(word not in e.model_dump_json() for e in told), "an event has it")
    return "in none"
