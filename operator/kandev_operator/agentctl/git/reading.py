"""Status, differences, history and branches: each one answer, bounded, whatever the size.

What was begun and not ended (a merge, a rebase) is told by files in git's own folder, as git itself
does it.
"""

import asyncio
import os
import re
from dataclasses import dataclass
from typing import Final, Literal

from kandev_operator.agentctl.beneath import Names
from kandev_operator.agentctl.git.diffs import DiffReader
from kandev_operator.agentctl.git.history import BRANCH_FORMAT, LOG_FORMAT, branches, commits
from kandev_operator.agentctl.git.repository import Repository
from kandev_operator.agentctl.git.statuses import StatusReader
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.git import (
    MAX_BRANCHES,
    Branches,
    GitDiff,
    GitLog,
    GitStatus,
    InProgress,
)

STATUS_SECONDS: Final = 20.0
DIFF_SECONDS: Final = 20.0
CURSOR: Final = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64}):(\d{1,9})")
SIGNS: Final = (
    ("rebase-merge", InProgress.REBASE),
    ("rebase-apply", InProgress.REBASE),
    ("MERGE_HEAD", InProgress.MERGE),
    ("CHERRY_PICK_HEAD", InProgress.CHERRY_PICK),
    ("REVERT_HEAD", InProgress.REVERT),
    ("BISECT_LOG", InProgress.BISECT),
)


@dataclass(frozen=True, slots=True)
class DiffWanted:
    """Which differences."""

    path: Names
    staged: bool
    base: str | None
    context: int
    max_bytes: int


async def status(repository: Repository, limit: int, untracked: str) -> GitStatus:
    """What `git status` says, the first `limit` entries of it; raises Refusal."""
    reader = StatusReader(limit)
    truncated: Literal["limit", "time"] | None = None
    async with repository.streaming(
        "status",
        "--porcelain=v2",
        "-z",
        "--branch",
        "--ahead-behind",
        "--find-renames",
        f"--untracked-files={untracked}",
        "--ignore-submodules=dirty",
    ) as process:
        process.stdin.close()
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                async for data in process.chunks():
                    reader.feed(data)
                code, err = await process.wait()
        except TimeoutError:
            truncated, code, err = "time", 0, b""
    if code:
        raise repository.refusal(err)
    if truncated is None and reader.total > len(reader.entries):
        truncated = "limit"
    return GitStatus(
        repo=repository.wire,
        head=reader.head,
        branch=reader.branch,
        upstream=reader.upstream,
        ahead=reader.ahead,
        behind=reader.behind,
        shallow=repository.shallow,
        in_progress=_in_progress(repository.git_dir),
        counts=reader.counts,
        total=reader.total,
        entries=tuple(reader.entries),
        truncated=truncated,
    )


def _in_progress(folder: bytes) -> InProgress | None:
    for name, what in SIGNS:
        if os.path.lexists(os.path.join(folder, name.encode())):
            return what
    return None


async def diff(repository: Repository, wanted: DiffWanted) -> GitDiff:
    """What changed, with patches up to a limit; raises Refusal."""
    reader = DiffReader(wanted.max_bytes)
    args = [
        *("diff", "--raw", "--numstat", "--patch", "--abbrev=40", "--find-renames"),
        *("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"),
        *("--submodule=short", f"--unified={wanted.context}", "--src-prefix=a/", "--dst-prefix=b/"),
    ]
    if wanted.staged:
        args.append("--cached")
    if wanted.base is not None:
        args.append(await commit_of(repository, wanted.base))
    elif not wanted.staged:
        args.append("--ours")  # of a conflict: our side against the work tree
    late = False
    async with repository.streaming(*args, "--", *_paths(wanted.path)) as process:
        process.stdin.close()
        try:
            async with asyncio.timeout(DIFF_SECONDS):
                async for data in process.chunks():
                    reader.feed(data)
                    if reader.is_full:
                        break
                else:
                    reader.end()
                    code, err = await process.wait()
                    if code:
                        raise repository.refusal(err)
        except TimeoutError:
            late = True
    files = reader.files(cut_by_time=late)
    truncated: Literal["files", "limit", "time"] | None = "time" if late else None
    if truncated is None and any(file.omitted in ("limit", "file_limit") for file in files):
        truncated = "limit"
    if truncated is None and reader.total > len(files):
        truncated = "files"
    return GitDiff(repo=repository.wire, files=files, total=reader.total, truncated=truncated)


async def log(
    repository: Repository, ref: str, path: Names, limit: int, after: str | None
) -> GitLog:
    """Commits from `ref` back, or on from where a page ended; raises Refusal."""
    if after is not None:
        start, skip = _cursor(after)
    elif ref == "HEAD" and await is_unborn(repository):
        return GitLog(repo=repository.wire, commits=())
    else:
        start, skip = await commit_of(repository, ref), 0
    out = await repository.git(
        *("log", "-z", f"--format={LOG_FORMAT}", "--encoding=UTF-8", "--no-show-signature"),
        *("--no-color", "--no-mailmap", f"--skip={skip}", f"--max-count={limit + 1}", start),
        *("--", *_paths(path)),
    )
    found = commits(out)
    more = len(found) > limit
    return GitLog(
        repo=repository.wire,
        commits=tuple(found[:limit]),
        next=f"{start}:{skip + limit}" if more else None,
    )


async def branches_of(repository: Repository) -> Branches:
    """Branches of this repository and of its remotes; raises Refusal."""
    out = await repository.git(
        *("for-each-ref", f"--format={BRANCH_FORMAT}", "--sort=-committerdate"),
        *(f"--count={MAX_BRANCHES + 1}", "refs/heads", "refs/remotes"),
    )
    found = branches(out)
    cut = out.count(b"\n") > MAX_BRANCHES
    return Branches(repo=repository.wire, branches=tuple(found[:MAX_BRANCHES]), truncated=cut)


async def commit_of(repository: Repository, revision: str) -> str:
    """The id of the commit that a revision names; raises Refusal."""
    done = await repository.tried(
        "rev-parse", "--verify", "--quiet", "--end-of-options", revision + "^{commit}"
    )
    if done.code or not (name := done.out.decode("ascii", "replace").strip()):
        raise repository.refusal(done.err or b"there is no such commit", Code.GIT_REF_NOT_FOUND)
    return name


async def branch_of(repository: Repository) -> str | None:
    """The branch that HEAD is on; None when it is detached."""
    done = await repository.tried("symbolic-ref", "--quiet", "--short", "HEAD")
    return done.out.decode("utf-8", "replace").strip() if done.code == 0 else None


async def is_unborn(repository: Repository) -> bool:
    """Whether there is no commit yet where HEAD points to."""
    done = await repository.tried("rev-parse", "--verify", "--quiet", "HEAD")
    return done.code != 0


def _cursor(text: str) -> tuple[str, int]:
    found = CURSOR.fullmatch(text)
    if found is None:
        raise Refusal(Code.INVALID_REQUEST, "`after` is the `next` of the page before")
    return found[1], int(found[2])


def _paths(names: Names) -> tuple[str, ...]:
    return (b"/".join(names).decode("utf-8", "surrogateescape"),) if names else ()
