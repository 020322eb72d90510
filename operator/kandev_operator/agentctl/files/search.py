"""Search by name and by content: bounded in time, in finds and in what is read.

Which files are looked at is git's business where it knows what is ignored; else folders are walked.
Every file is opened beneath the workspace like any other, links are not followed, and large or
binary ones are counted and left out.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, Literal

from kandev_operator.agentctl.beneath import Names, Place, Root, told
from kandev_operator.agentctl.files import matching
from kandev_operator.agentctl.files.ignoring import Ignoring
from kandev_operator.agentctl.files.reading import opened
from kandev_operator.agentctl.pool import Pool
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import Match, SearchAnswer, encode_path, shown

SECONDS: Final = 10.0
MAX_MATCHES: Final = 1000
MATCHES: Final = 200
MAX_QUERY: Final = 1000
MAX_SEARCHED_BYTES: Final = 4 * 1024 * 1024
"""Largest file that is looked into."""
BATCH: Final = 200
MAX_NESTING: Final = 20
"""Repositories in repositories."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is looked for."""

    query: str
    folder: Names
    limit: int
    case: bool
    ignored: bool


@dataclass(slots=True)
class _Result:
    limit: int
    deadline: float
    matches: list[Match] = field(default_factory=list)
    searched: int = 0
    binary: int = 0
    large: int = 0
    truncated: Literal["limit", "time"] | None = None

    @property
    def is_over(self) -> bool:
        if self.truncated is None and time.monotonic() >= self.deadline:
            self.truncated = "time"
        return self.truncated is not None

    def add(self, match: Match) -> None:
        if len(self.matches) >= self.limit:
            self.truncated = "limit"
        else:
            self.matches.append(match)

    def answer(self) -> SearchAnswer:
        return SearchAnswer(
            matches=tuple(self.matches),
            searched=self.searched,
            skipped_binary=self.binary,
            skipped_large=self.large,
            truncated=self.truncated,
        )


Look = Callable[[Root, Sequence[bytes], _Result], None]


class Search:
    """Searches one workspace."""

    def __init__(self, root: Root, pool: Pool, ignoring: Ignoring) -> None:
        self._root, self._pool, self._ignoring = root, pool, ignoring

    async def names(self, wanted: Wanted) -> SearchAnswer:
        """Files whose name fits; raises Refusal."""
        try:
            fits = matching.names_like(wanted.query, case=wanted.case)
        except ValueError as exc:
            raise Refusal(Code.INVALID_REQUEST, str(exc)) from None

        def look(root: Root, paths: Sequence[bytes], result: _Result) -> None:
            for path in paths:
                result.searched += 1
                if fits(path) and _exists(root, path):
                    result.add(Match(path=encode_path(path)))
                if result.is_over:
                    return

        return await self._run(wanted, look)

    async def content(self, wanted: Wanted) -> SearchAnswer:
        """Lines with the query in them; raises Refusal."""
        needle = wanted.query.encode()
        if b"\n" in needle or b"\0" in needle:
            raise Refusal(Code.INVALID_REQUEST, "the query is a part of one line")

        def look(root: Root, paths: Sequence[bytes], result: _Result) -> None:
            for folder, names in _by_folder(paths):
                _look_into(root, folder, names, (needle, wanted.case), result)

        return await self._run(wanted, look)

    async def _run(self, wanted: Wanted, look: Look) -> SearchAnswer:
        result = _Result(wanted.limit, time.monotonic() + SECONDS)
        try:
            # The look itself stops at the deadline; this is for a file system that hangs.
            async with asyncio.timeout(SECONDS * 1.5):
                async for batch in self._files(wanted.folder, wanted.ignored):
                    await self._pool.run(look, self._root, batch, result)
                    if result.is_over:
                        break
        except TimeoutError:
            result.truncated = "time"
        return result.answer()

    async def _files(
        self, folder: Names, ignored: bool, nesting: int = 0
    ) -> AsyncIterator[Sequence[bytes]]:
        """Paths of files in batches."""
        others: list[bytes] = []
        if not ignored and nesting < MAX_NESTING:
            known = False
            try:
                async for paths in self._ignoring.candidates(b"/".join(folder)):
                    known = True
                    others += [path for path in paths if path.endswith(b"/")]
                    plain = [path for path in paths if not path.endswith(b"/")]
                    for start in range(0, len(plain), BATCH):
                        yield plain[start : start + BATCH]
            except Refusal:
                if known:
                    raise
            else:
                for other in others:
                    names = tuple(other[:-1].split(b"/"))
                    async for batch in self._files(names, ignored, nesting + 1):
                        yield batch
                return
        stack: list[Names] = [folder]
        while stack:
            files, stack = await self._pool.run(_walk, self._root, stack, ignored)
            if files:
                yield files


def _walk(root: Root, stack: list[Names], hidden: bool) -> tuple[list[bytes], list[Names]]:
    """Files of the next folders, about a batch of them; and the folders that are left."""
    files: list[bytes] = []
    while stack and len(files) < BATCH:
        folder = stack.pop()
        try:
            with told(), root.folder(folder) as fd, os.scandir(fd) as found:
                entries = sorted(found, key=lambda each: each.name)
                for each in reversed(entries):
                    name = os.fsencode(each.name)
                    if each.is_dir(follow_symlinks=False):
                        if hidden or name != b".git":
                            stack.append((*folder, name))
                    elif each.is_file(follow_symlinks=False):
                        files.append(b"/".join((*folder, name)))
        except Refusal:
            continue  # gone, or not readable
    return files, stack


def _exists(root: Root, path: bytes) -> bool:
    try:
        with told(), root.place(tuple(path.split(b"/")), follow=False) as place:
            return place.stat() is not None
    except Refusal:
        return False


def _by_folder(paths: Sequence[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Paths that follow each other in one folder are looked at together: it is found once."""
    for folder, group in groupby(paths, key=lambda path: path.rpartition(b"/")[0]):
        yield folder, [path.rpartition(b"/")[2] for path in group]


def _look_into(
    root: Root, folder: bytes, names: list[bytes], query: tuple[bytes, bool], result: _Result
) -> None:
    way = tuple(folder.split(b"/")) if folder else ()
    try:
        with told(), root.place(way, follow=True) as place:
            for name in names:
                if result.is_over:
                    return
                with suppress(Refusal, OSError):
                    path = folder + b"/" + name if folder else name
                    _look_at(Place(place.folder, name), path, query, result)
    except Refusal:
        return


def _look_at(place: Place, path: bytes, query: tuple[bytes, bool], result: _Result) -> None:
    with opened(place) as (fd, found):
        if found.st_size > MAX_SEARCHED_BYTES:
            result.large += 1
            return
        data = os.read(fd, found.st_size)
    result.searched += 1
    if matching.is_binary(data):
        result.binary += 1
        return
    needle, case = query
    for find in matching.finds(data, needle, case=case):
        text = shown(find.text)
        result.add(Match(path=encode_path(path), line=find.line, column=find.column, text=text))
        if result.is_over:
            return
