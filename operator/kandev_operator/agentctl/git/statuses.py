"""Reading `git status --porcelain=v2 -z`, piece by piece as it is printed. Pure.

Only the entries up to the limit are kept; all are counted. So a repository with a million changes
costs the memory of a page.
"""

from dataclasses import dataclass, field
from typing import Final

from kandev_operator.contract.files import encode_path
from kandev_operator.contract.git import Change, StatusCounts, StatusEntry

LETTERS: Final = {
    "A": Change.ADDED,
    "M": Change.MODIFIED,
    "D": Change.DELETED,
    "R": Change.RENAMED,
    "C": Change.COPIED,
    "T": Change.TYPE_CHANGED,
    "U": Change.UNMERGED,
}


class Unreadable(Exception):
    """Git printed what this does not know: another format than asked for."""


@dataclass(slots=True)
class StatusReader:
    """Takes what git prints; afterwards the fields hold what it said."""

    limit: int
    head: str | None = None
    branch: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    entries: list[StatusEntry] = field(default_factory=list)
    total: int = 0
    staged: int = 0
    unstaged: int = 0
    untracked: int = 0
    unmerged: int = 0
    _rest: bytes = b""
    _renamed: tuple[str, bool, bytes] | None = None
    """An entry whose old path is the next record."""

    def feed(self, data: bytes) -> None:
        """Take more; raises Unreadable."""
        *records, self._rest = (self._rest + data).split(b"\0")
        for record in records:
            self._record(record)

    @property
    def counts(self) -> StatusCounts:
        return StatusCounts(
            staged=self.staged,
            unstaged=self.unstaged,
            untracked=self.untracked,
            unmerged=self.unmerged,
        )

    def _record(self, record: bytes) -> None:
        if self._renamed is not None:
            letters, submodule, path = self._renamed
            self._renamed = None
            self._add(letters, path, submodule, old=record)
            return
        kind, _, rest = record.partition(b" ")
        match kind:
            case b"#":
                self._header(rest.decode("utf-8", "surrogateescape"))
            case b"1":
                fields = _fields(rest, 7)
                self._add(fields[0].decode(), fields[-1], fields[1].startswith(b"S"))
            case b"2":
                fields = _fields(rest, 8)
                self._renamed = fields[0].decode(), fields[1].startswith(b"S"), fields[-1]
            case b"u":
                fields = _fields(rest, 9)
                self._count(unmerged=1)
                self._keep(fields[-1], None, Change.UNMERGED, Change.UNMERGED)
            case b"?":
                self._count(untracked=1)
                self._keep(rest, None, None, Change.UNTRACKED)
            case _:
                raise Unreadable

    def _header(self, line: str) -> None:
        name, _, value = line.partition(" ")
        match name:
            case "branch.oid":
                self.head = None if value == "(initial)" else value
            case "branch.head":
                self.branch = None if value == "(detached)" else _text(value)
            case "branch.upstream":
                self.upstream = _text(value)
            case "branch.ab":
                ahead, _, behind = value.partition(" ")
                self.ahead, self.behind = abs(int(ahead)), abs(int(behind))

    def _add(self, letters: str, path: bytes, submodule: bool, old: bytes | None = None) -> None:
        index, worktree = LETTERS.get(letters[0]), LETTERS.get(letters[1])
        self._count(staged=int(index is not None), unstaged=int(worktree is not None))
        self._keep(path, old, index, worktree, submodule=submodule)

    def _count(
        self, *, staged: int = 0, unstaged: int = 0, untracked: int = 0, unmerged: int = 0
    ) -> None:
        self.total += 1
        self.staged += staged
        self.unstaged += unstaged
        self.untracked += untracked
        self.unmerged += unmerged

    def _keep(
        self,
        path: bytes,
        old: bytes | None,
        index: Change | None,
        worktree: Change | None,
        *,
        submodule: bool = False,
    ) -> None:
        if len(self.entries) < self.limit:
            self.entries.append(
                StatusEntry(
                    path=encode_path(path),
                    old_path=None if old is None else encode_path(old),
                    index=index,
                    worktree=worktree,
                    submodule=submodule,
                )
            )


def _fields(rest: bytes, count: int) -> list[bytes]:
    fields = rest.split(b" ", count)
    if len(fields) != count + 1 or len(fields[0]) != 2:
        raise Unreadable
    return fields


def _text(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
