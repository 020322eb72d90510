"""Which paths git tracks, or has something tracked below: asked of the index, for few paths.

Ignore patterns do not apply to what is tracked. To look every path up in the index takes seconds
for a page of a large repository, so only those that a pattern matches are asked for, and an answer
is remembered for as long as the index is the same file. Patterns have no part in it.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from typing import Final

from kandev_operator.agentctl.git.repository import Repository

FEW: Final = 32
"""Paths that git looks for itself; of more, it lists the folder that they are all in."""
MOST: Final = 20_000
"""Answers that are remembered."""
Stamp = tuple[bytes, int, int, int, int]


class Tracked:
    """What is known of one workspace's index."""

    def __init__(self) -> None:
        self._stamp: Stamp | None = None
        self._known: dict[bytes, bool] = {}

    async def among(self, repository: Repository, paths: Sequence[bytes]) -> frozenset[bytes]:
        """Those that are tracked, or that are folders with something tracked in them.

        Raises Refusal where git does not say.
        """
        # The stamp is older than the answer: what changes in between is asked for again.
        stamp = await asyncio.to_thread(_stamp, repository.git_dir)
        if stamp is None:
            return frozenset()  # no index, nothing tracked
        if stamp != self._stamp or len(self._known) > MOST:
            self._stamp, self._known = stamp, {}
        known = self._known
        if asked := [path for path in paths if path not in known]:
            found = await _looked_up(repository, asked)
            if self._stamp == stamp:
                known.update((path, path in found) for path in asked)
            return frozenset(path for path in paths if path in found or known.get(path))
        return frozenset(path for path in paths if known[path])


async def _looked_up(repository: Repository, paths: Sequence[bytes]) -> frozenset[bytes]:
    wanted = set(paths)
    where = paths if len(paths) <= FEW else [_around(paths)]
    specs = tuple(path.decode("utf-8", "surrogateescape") for path in where if path)
    found: set[bytes] = set()
    async with repository.streaming(
        "ls-files", "-z", "--cached", *(("--", *specs) if specs else ())
    ) as process:
        process.stdin.close()
        rest = b""
        async for data in process.chunks():
            *tracked, rest = (rest + data).split(b"\0")
            for path in tracked:
                found |= wanted.intersection(_from_the_top(path))
            if found == wanted:
                return frozenset(found)
        code, err = await process.wait()
        if code:
            raise repository.refusal(err)
    return frozenset(found)


def _around(paths: Sequence[bytes]) -> bytes:
    """The folder nearest above all of them; the workspace is empty."""
    return os.path.commonpath([os.path.dirname(path) for path in paths])


def _from_the_top(path: bytes) -> Iterator[bytes]:
    """A path and each folder above it."""
    at = path.find(b"/")
    while at >= 0:
        yield path[:at]
        at = path.find(b"/", at + 1)
    yield path


def _stamp(git_dir: bytes) -> Stamp | None:
    """Which file the index is: git replaces it with each change."""
    try:
        found = os.stat(os.path.join(git_dir, b"index"))
    except OSError:
        return None
    return git_dir, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
