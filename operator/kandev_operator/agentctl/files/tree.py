"""The tree of a folder, page by page: folders before what is in them, names in byte order.

The cursor is the path of the last entry that was told, so a page goes on at the right place even
if that entry is gone by now. Of a folder only the part that a page can show is looked at closely.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from kandev_operator.agentctl.beneath import Names, Root, told
from kandev_operator.agentctl.files.ignoring import Ignoring, Judge
from kandev_operator.agentctl.files.reading import entry
from kandev_operator.agentctl.pool import Pool
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import Entry, FileKind, TreePage, encode_path

MAX_UNREADABLE: Final = 20
LEAST_SCAN: Final = 200
"""Entries looked at in one go: a folder full of ignored ones is not listed again for each."""
GIT_FOLDER: Final = b".git"


@dataclass(frozen=True, slots=True)
class Row:
    """An entry, and the bytes of its path."""

    names: Names
    entry: Entry

    @property
    def path(self) -> bytes:
        return b"/".join(self.names)


@dataclass(slots=True)
class _Page:
    limit: int
    rows: list[Row] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.rows) > self.limit


class Tree:
    """Lists folders, leaving out what git ignores unless asked."""

    def __init__(self, root: Root, pool: Pool, ignoring: Ignoring) -> None:
        self._root, self._pool, self._ignoring = root, pool, ignoring

    async def page(
        self, names: Names, *, depth: int, limit: int, after: Names | None, ignored: bool
    ) -> TreePage:
        """One page; `after` is the path of the last entry of the page before."""
        if after is not None:
            if after[: len(names)] != names or len(after) == len(names):
                raise Refusal(Code.INVALID_REQUEST, "`after` is a path in the folder asked for")
            after = after[len(names) :]
        page = _Page(limit)
        async with self._ignoring.judge() as judge:
            await self._into(page, judge, names, depth, after or (), ignored)
        rows = page.rows[:limit]
        return TreePage(
            path=encode_path(b"/".join(names)),
            entries=tuple(row.entry for row in rows),
            next=encode_path(rows[-1].path) if page.full and rows else None,
            unreadable=tuple(page.unreadable),
        )

    async def _into(
        self, page: _Page, judge: Judge, names: Names, depth: int, after: Names, ignored: bool
    ) -> None:
        """Add what is in a folder. `after`: names, from this folder on, of the last entry told."""
        begin, again = (after[0], True) if after else (None, False)
        while not page.full:
            want = max(page.limit + 1 - len(page.rows), LEAST_SCAN)
            rows, last = await self._pool.run(scan, self._root, names, begin, want, again)
            for row in await self._judged(judge, rows, ignored):
                was_told = again and bool(after) and row.names[-1] == after[0]
                if not was_told:
                    page.rows.append(row)
                if page.full:
                    return
                if row.entry.kind is FileKind.FOLDER and depth > 1:
                    rest = after[1:] if was_told else ()
                    await self._deeper(page, judge, row, depth - 1, rest, ignored)
            if last is None:
                return
            begin, again = last, False

    async def _deeper(
        self, page: _Page, judge: Judge, row: Row, depth: int, after: Names, ignored: bool
    ) -> None:
        try:
            await self._into(page, judge, row.names, depth, after, ignored)
        except Refusal:
            # One folder that cannot be read, or that is gone by now, does not spoil the page.
            if len(page.unreadable) < MAX_UNREADABLE:
                page.unreadable.append(row.entry.path)

    async def _judged(self, judge: Judge, rows: Sequence[Row], ignored: bool) -> Sequence[Row]:
        found = await judge.ignored([row.path for row in rows])
        if ignored:
            return [_marked(row, found) for row in rows]
        out = found or frozenset()
        return [row for row in rows if row.names[-1] != GIT_FOLDER and row.path not in out]


def _marked(row: Row, found: frozenset[bytes] | None) -> Row:
    if GIT_FOLDER in row.names:
        ignored: bool | None = True
    else:
        ignored = None if found is None else row.path in found
    return Row(row.names, row.entry.model_copy(update={"ignored": ignored}))


def scan(
    root: Root, names: Names, begin: bytes | None, limit: int, inclusive: bool
) -> tuple[list[Row], bytes | None]:
    """Entries of a folder from `begin` on, at most `limit`; the last name if there are more."""
    with told(), root.folder(names) as fd:
        with os.scandir(fd) as found:
            everything = (os.fsencode(each.name) for each in found)
            if begin is None:
                left = sorted(everything)
            elif inclusive:
                left = sorted(name for name in everything if name >= begin)
            else:
                left = sorted(name for name in everything if name > begin)
        rows = []
        for name in left[:limit]:
            try:
                there = os.stat(name, dir_fd=fd, follow_symlinks=False)
                root.admit(there)
            except (FileNotFoundError, Refusal):
                continue
            path = (*names, name)
            rows.append(Row(path, entry(fd, name, b"/".join(path), there)))
        return rows, left[limit - 1] if len(left) > limit else None
