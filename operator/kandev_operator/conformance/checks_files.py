"""Files and git of the workspace: in a folder of the suite's own, which is gone at the end."""

import hashlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from kandev_operator.conformance.checks_access import refused
from kandev_operator.conformance.checks_rooms import require
from kandev_operator.conformance.musts import NotApplicable, must, need
from kandev_operator.conformance.target import Answer, Target
from kandev_operator.contract import paths
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import Entry, SearchAnswer, TreePage, WriteAnswer
from kandev_operator.contract.git import CommitAnswer, GitLog, GitStatus
from kandev_operator.contract.shell import ShellAnswer, ShellReport
from kandev_operator.contract.status import Room

FILES: Final = Room.FILES
GIT: Final = Room.GIT
CONTENT: Final = bytes(range(256)) * 9 + b"\r\n\xff\x00 end"
_FILES: Final = (Scope.FILES,)
_NEW: Final = {"If-None-Match": "*"}


async def call(target: Target, method: str, path: str, body: object = None) -> Answer:
    return await target.call(method, path, body, scopes=_FILES)


async def write(target: Target, path: str, content: bytes, headers: dict[str, str]) -> Answer:
    where = f"{paths.FILES_CONTENT}?path={quote(path)}"
    token = target.token(_FILES)
    return await target.send("PUT", where, content=content, headers=headers, token=token)


async def read(target: Target, path: str, headers: dict[str, str] | None = None) -> Answer:
    where = f"{paths.FILES_CONTENT}?path={quote(path)}"
    return await target.send("GET", where, headers=headers, token=target.token(_FILES))


@asynccontextmanager
async def folder(target: Target) -> AsyncIterator[str]:
    """An empty folder of ours in the workspace."""
    await target.configured()
    name = f".conformance-{uuid.uuid4().hex[:10]}"
    made = await call(target, "POST", paths.FILES_FOLDERS, {"path": name})
    need(made.status == 201 and made.fits(Entry).path == name, f"the folder: {made}")
    try:
        yield name
    finally:
        await call(target, "DELETE", f"{paths.FILES_ENTRY}?path={name}&recursive=true")


@must("C-140", FILES, "Files are served while no agent runs.", FILES)
async def without_an_agent(target: Target) -> str:
    await target.configured()
    await target.stopped(grace_seconds=2)
    answer = await call(target, "GET", paths.FILES_TREE)
    need(answer.status == 200, f"got {answer}")
    return f"{len(answer.fits(TreePage).entries)} entries"


@must("C-141", FILES, "A write without a precondition is refused as precondition_required.", FILES)
async def precondition(target: Target) -> str:
    async with folder(target) as name:
        return refused(await write(target, f"{name}/f", b"x", {}), Code.PRECONDITION_REQUIRED)


@must(
    "C-142", FILES, "What is written is read back byte for byte, under its SHA-256 as ETag.", FILES
)
async def binary(target: Target) -> str:
    async with folder(target) as name:
        answer = await write(target, f"{name}/f", CONTENT, _NEW)
        need(answer.status == 201, f"the write got {answer}")
        tag = f'"sha256-{hashlib.sha256(CONTENT).hexdigest()}"'
        need(answer.fits(WriteAnswer).etag == tag, "another etag")
        found = await read(target, f"{name}/f")
        need(found.status == 200 and found.body == CONTENT, f"{len(found.body)} other bytes")
        need(found.headers.get("etag") == tag, f"read with etag {found.headers.get('etag')}")
        return f"{len(CONTENT)} bytes of every kind"


@must(
    "C-143",
    FILES,
    "A write over content that changed meanwhile is refused and changes nothing.",
    FILES,
)
async def changed_meanwhile(target: Target) -> str:
    async with folder(target) as name:
        await write(target, f"{name}/f", b"one", _NEW)
        again = await write(target, f"{name}/f", b"two", _NEW)
        refused(again, Code.PRECONDITION_FAILED)
        stale = {"If-Match": f'"sha256-{hashlib.sha256(b"other").hexdigest()}"'}
        refused(await write(target, f"{name}/f", b"two", stale), Code.PRECONDITION_FAILED)
        need((await read(target, f"{name}/f")).body == b"one", "the content changed")
        return "412 precondition_failed"


@must("C-144", FILES, "No path leads out of the workspace.", FILES)
async def outside(target: Target) -> str:
    for path in ("../etc/passwd", "a/../../etc/passwd", "/etc/passwd", "..", "a//../.."):
        answer = await read(target, path)
        wanted = (Code.OUTSIDE_WORKSPACE, Code.INVALID_REQUEST, Code.FILE_NOT_FOUND)
        refused(answer, *wanted)
    return "five ways out are closed"


@must("C-145", FILES, "A folder that is not empty is deleted only recursively.", FILES)
async def not_empty(target: Target) -> str:
    async with folder(target) as name:
        await write(target, f"{name}/f", b"x", _NEW)
        where = f"{paths.FILES_ENTRY}?path={name}"
        refused(await call(target, "DELETE", where), Code.FOLDER_NOT_EMPTY)
        need((await read(target, f"{name}/f")).status == 200, "it is gone all the same")
        gone = await call(target, "DELETE", f"{where}&recursive=true")
        need(gone.status in (200, 204), f"recursively: {gone}")
        refused(await read(target, f"{name}/f"), Code.FILE_NOT_FOUND)
        return "refused, then gone"


@must("C-146", FILES, "A rename replaces nothing unless it says so.", FILES)
async def rename(target: Target) -> str:
    async with folder(target) as name:
        await write(target, f"{name}/a", b"a", _NEW)
        await write(target, f"{name}/b", b"b", _NEW)
        body = {"from_path": f"{name}/a", "to_path": f"{name}/b"}
        refused(await call(target, "POST", paths.FILES_RENAME, body), Code.FILE_EXISTS)
        need((await read(target, f"{name}/b")).body == b"b", "it was replaced")
        answer = await call(target, "POST", paths.FILES_RENAME, {**body, "overwrite": True})
        need(answer.status == 200, f"with overwrite: {answer}")
        need((await read(target, f"{name}/b")).body == b"a", "it was not replaced")
        return "file_exists, then replaced"


@must("C-147", FILES, "A range is answered with 206 and that part alone.", FILES)
async def part(target: Target) -> str:
    async with folder(target) as name:
        await write(target, f"{name}/f", CONTENT, _NEW)
        found = await read(target, f"{name}/f", {"Range": "bytes=250-259"})
        need((found.status, found.body) == (206, CONTENT[250:260]), f"got {found.status}")
        told = found.headers.get("content-range")
        need(told == f"bytes 250-259/{len(CONTENT)}", f"content-range {told}")
        beyond = await read(target, f"{name}/f", {"Range": "bytes=99999-"})
        refused(beyond, Code.RANGE_NOT_SATISFIABLE)
        return "206, and 416 beyond the end"


@must("C-148", FILES, "A search finds by name and by content.", FILES)
async def search(target: Target) -> str:
    async with folder(target) as name:
        await write(target, f"{name}/needle.txt", b"first\nthe Needle is here\n", _NEW)
        for where, query in (("names", "needle"), ("content", "Needle")):
            path = f"{paths.FILES_SEARCH}?in={where}&query={query}&path={name}&ignored=true"
            answer = await call(target, "GET", path)
            need(answer.status == 200, f"in {where}: {answer}")
            found = [(m.path, m.line) for m in answer.fits(SearchAnswer).matches]
            line = 2 if where == "content" else None
            need(found == [(f"{name}/needle.txt", line)], f"in {where}: {found[:3]}")
        return "once each"


@must("C-160", GIT, "A folder that holds no repository of its own is not_a_repository.", GIT)
async def no_repository(target: Target) -> str:
    async with folder(target) as name:
        answer = await call(target, "GET", f"{paths.GIT_STATUS}?repo={name}")
        return refused(answer, Code.NOT_A_REPOSITORY)


async def in_a_shell(target: Target, command: list[str], what: str) -> int | None:
    """Run something in a shell of the target's; gives its exit code."""
    await require(target, Room.SHELL)
    body = {"name": f"conformance-{uuid.uuid4().hex[:8]}", "command": command}
    shell = (Scope.SHELL,)
    made = await target.call("POST", paths.SHELL, body, scopes=shell)
    need(made.status == 201, f"the shell to run {command[0]} in: {made}")
    path = f"{paths.SHELL}/{made.fits(ShellAnswer).shell_id}"

    async def look() -> ShellReport | None:
        told = (await target.call("GET", path, scopes=shell)).fits(ShellReport)
        return told if told.exit is not None else None

    ended = await target.eventually(look, what)
    await target.call("DELETE", path, scopes=shell)
    return ended.exit.code if ended.exit is not None else None


async def repository(target: Target, name: str) -> None:
    """Make one with git itself."""
    command = ["git", "-c", "init.defaultBranch=main", "init", "-q", name]
    if await in_a_shell(target, command, "the end of git init") != 0:
        raise NotApplicable("there is no git on the target")


@must(
    "C-161",
    GIT,
    "What is new is told, staged and committed; the same commit twice is refused.",
    GIT,
)
async def commit(target: Target) -> str:
    async with folder(target) as name:
        await repository(target, name)
        await write(target, f"{name}/f.txt", b"one\n", _NEW)
        status = (await call(target, "GET", f"{paths.GIT_STATUS}?repo={name}")).fits(GitStatus)
        need([e.path for e in status.entries] == ["f.txt"], f"status {status.entries[:3]}")
        need(status.counts.untracked == 1, f"counts {status.counts}")
        staged = await call(target, "POST", paths.GIT_STAGE, {"repo": name, "all": True})
        need(staged.fits(GitStatus).counts.staged == 1, f"staging: {staged}")
        person = {"name": "Conformance", "email": "conformance@example.invalid"}
        body = {"repo": name, "message": "one", "author": person, "expected_head": "none"}
        made = await call(target, "POST", paths.GIT_COMMIT, body)
        need(made.status == 201, f"the commit: {made}")
        head = made.fits(CommitAnswer).head
        again = await call(target, "POST", paths.GIT_COMMIT, {**body, "allow_empty": True})
        refused(again, Code.GIT_HEAD_MOVED)
        log = (await call(target, "GET", f"{paths.GIT_LOG}?repo={name}")).fits(GitLog)
        need([c.id for c in log.commits] == [head], f"the log has {len(log.commits)} commits")
        return "one commit"
