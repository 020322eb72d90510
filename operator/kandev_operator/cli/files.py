"""`kubectl kandev files ls|get|put`: files of the workspace, whatever the agent does.

Paths are typed as the shell has them and shown as the contract spells them. A file is written as a
whole, and one that is there is replaced only if that was said.
"""

import os
from pathlib import Path
from typing import Final, assert_never

from kandev_operator.cli import refusals, rooms
from kandev_operator.cli.clock import now
from kandev_operator.cli.commands import FilesGet, FilesLs, FilesPut, OfFiles
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode, Fault, Misuse, Refusal
from kandev_operator.cli.plain import one_line
from kandev_operator.cli.reach import Line, NotServed
from kandev_operator.clients import errors
from kandev_operator.clients.workspace import Workspace
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import MAX_FILE_BYTES, Entry, FileKind, encode_path
from kandev_operator.contract.status import Room

MISSING: Final = frozenset({Code.FILE_NOT_FOUND, Code.OUTSIDE_WORKSPACE, Code.NOT_A_REPOSITORY})
LONGEST_NAME: Final = 400


async def files(desk: Desk, asked: OfFiles) -> ExitCode:
    """Carry one of them out."""
    line = await line_to(desk, asked.session)
    workspace = Workspace(line.client)
    try:
        await line.client.health()  # nobody else at that address is told or believed anything
        await rooms.require(line, Room.FILES)
        match asked:
            case FilesLs():
                await _list(desk, workspace, asked)
            case FilesGet():
                await _get(desk, workspace, asked)
            case FilesPut():
                await _put(desk, workspace, asked)
            case _:
                assert_never(asked)
    except errors.AgentctlError as error:
        raise fault_of(line, error, asked.path) from error
    return ExitCode.OK


async def line_to(desk: Desk, session: str) -> Line:
    """The line to the session's agentctl; raises Fault."""
    try:
        return await desk.reach.line(session)
    except NotServed as why:
        raise refusals.not_served(why, why.session, now()) from why


def fault_of(line: Line, error: errors.AgentctlError, path: str = "") -> Fault:
    """What went wrong, by its cause. `path`: what it was about, as it was typed."""
    if isinstance(error, errors.Refused):
        if error.code in MISSING:
            about = f"{one_line(path, LONGEST_NAME)}: " if path else ""
            return Refusal(f"{about}{error.message} ({error.code})")
        if error.code == Code.PRECONDITION_FAILED:
            return Refusal("there is such a file already", "Replace it: --overwrite")
    return line.fault(error)


def wire_path(typed: str) -> str:
    """A path as a person types it, as the contract spells it."""
    path = os.fsencode(typed).rstrip(b"/")
    while path.startswith(b"./"):
        path = path[2:].lstrip(b"/")
    return encode_path(b"" if path == b"." else path)


async def _list(desk: Desk, workspace: Workspace, asked: FilesLs) -> None:
    found = workspace.entries(wire_path(asked.path), asked.depth, ignored=asked.everything)
    async for entry in found:
        desk.screen.say(entry.model_dump_json() if asked.as_json else _shown(entry))


def _shown(entry: Entry) -> str:
    size = "" if entry.size is None else f"{entry.size}"
    name = one_line(entry.path, LONGEST_NAME)
    match entry.kind:
        case FileKind.FOLDER:
            name += "/"
        case FileKind.SYMLINK:
            name += f" -> {one_line(entry.target or '', LONGEST_NAME)}"
        case FileKind.OTHER:
            name += " (neither file nor folder)"
        case FileKind.FILE:
            pass
        case _:
            assert_never(entry.kind)
    when = (entry.modified_at or "")[:19]
    return f"{entry.mode or '':>4}  {size:>12}  {when}  {name}"


async def _get(desk: Desk, workspace: Workspace, asked: FilesGet) -> None:
    parts = workspace.content(wire_path(asked.path))
    if asked.output == "-":
        async for part in parts:
            desk.screen.write(part)
        return
    target = Path(asked.output)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with draft.open("xb") as file:
            async for part in parts:
                file.write(part)
        draft.replace(target)
    except OSError as error:
        raise Fault(f"cannot write {asked.output}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


async def _put(desk: Desk, workspace: Workspace, asked: FilesPut) -> None:
    data = _source(desk, asked.source)
    if len(data) > MAX_FILE_BYTES:
        raise Refusal(f"agentctl takes files of up to {MAX_FILE_BYTES} bytes")
    path = wire_path(asked.path)
    try:
        done = await workspace.write(path, data, overwrite=asked.overwrite)
    except errors.Refused as error:
        # "*" stands for a file that is there; a new one is welcome all the same.
        if not (asked.overwrite and error.code == Code.PRECONDITION_FAILED):
            raise
        done = await workspace.write(path, data, overwrite=False)
    desk.screen.note(f"{'made' if done.created else 'replaced'}: {one_line(done.path)}")


def _source(desk: Desk, name: str) -> bytes:
    if name == "-":
        return desk.screen.read_bytes()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise Misuse(f"cannot read {name}: {error.strerror}") from None
