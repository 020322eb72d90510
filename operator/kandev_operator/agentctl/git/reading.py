"""Status of a repository: one answer, bounded, whatever its size.

What was begun and not ended (a merge, a rebase) is told by files in git's own folder, as git itself
does it.
"""

import asyncio
import os
from typing import Final, Literal

from kandev_operator.agentctl.git.repository import Repository
from kandev_operator.agentctl.git.statuses import StatusReader
from kandev_operator.contract.git import GitStatus, InProgress

STATUS_SECONDS: Final = 20.0
SIGNS: Final = (
    ("rebase-merge", InProgress.REBASE),
    ("rebase-apply", InProgress.REBASE),
    ("MERGE_HEAD", InProgress.MERGE),
    ("CHERRY_PICK_HEAD", InProgress.CHERRY_PICK),
    ("REVERT_HEAD", InProgress.REVERT),
    ("BISECT_LOG", InProgress.BISECT),
)


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
