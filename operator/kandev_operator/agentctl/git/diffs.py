"""Reading `git diff --raw --numstat --patch`, piece by piece as it is printed. Pure.

First come all files, then their numbers, then their patches, in one run: so they are of one moment.
Patches are kept up to a limit for each file and one for all; what is beyond is counted, not kept.
A patch belongs to the file whose header it carries, not to a position.
"""

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Literal

from kandev_operator.agentctl.git.quoting import prefixed, unquoted
from kandev_operator.contract.files import encode_path
from kandev_operator.contract.git import MAX_DIFF_FILES, MAX_PATCH_BYTES, Change, FileDiff

NUMBERS: Final = re.compile(rb"(\d+|-)\t(\d+|-)\t")
HEADER: Final = b"diff --git "
SUBMODULE: Final = b"160000"
LONGEST_PIECE: Final = 64 * 1024
CHANGES: Final = {
    b"A": Change.ADDED,
    b"M": Change.MODIFIED,
    b"D": Change.DELETED,
    b"R": Change.RENAMED,
    b"C": Change.COPIED,
    b"T": Change.TYPE_CHANGED,
    b"U": Change.UNMERGED,
}
Cut = Literal["binary", "unmerged", "file_limit", "limit", "time"]


@dataclass(slots=True)
class _File:
    path: bytes
    old_path: bytes | None
    change: Change
    submodule: bool
    numbers: tuple[int | None, int | None] | None = None
    patch: bytearray = field(default_factory=bytearray)
    seen: bool = False
    cut: "Cut | None" = None


class _Phase(Enum):
    FILES = auto()
    PATCHES = auto()


class DiffReader:
    """Takes what git prints; `files` tells it afterwards."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes
        self._files: list[_File] = []
        self._by_header: dict[bytes, _File] = {}
        self._phase = _Phase.FILES
        self._rest = b""
        self._middle = False
        """The rest is the later part of a line whose beginning was taken already."""
        self._current: _File | None = None
        self._numbered = 0
        self.total = 0

    @property
    def is_full(self) -> bool:
        """Whether nothing of what is still to come would be kept."""
        return self._left <= 0 and self._phase is _Phase.PATCHES

    def feed(self, data: bytes) -> None:
        """Take more."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line + b"\n", begins=not self._middle)
            self._middle = False
        if self._phase is _Phase.PATCHES and len(self._rest) > LONGEST_PIECE:
            self._line(self._rest, begins=not self._middle)
            self._rest, self._middle = b"", True

    def end(self) -> None:
        """Nothing more comes."""
        if self._rest:
            self._line(self._rest, begins=not self._middle)
            self._rest = b""

    def files(self, *, cut_by_time: bool = False) -> tuple[FileDiff, ...]:
        """All that was kept."""
        return tuple(_told(each, cut_by_time=cut_by_time) for each in self._files)

    def _line(self, line: bytes, *, begins: bool) -> None:
        if self._phase is _Phase.FILES:
            if line.startswith(b":"):
                self._file(line.rstrip(b"\n"))
                return
            if found := NUMBERS.match(line):
                self._numbers(found)
                return
            self._phase = _Phase.PATCHES
        if begins and line.startswith(HEADER):
            self._current = self._by_header.get(line.rstrip(b"\n"))
            if self._current is not None:
                self._current.seen = True
        elif begins and line.startswith((b"diff --", b"* Unmerged")):
            self._current = None
        self._keep(line)

    def _file(self, line: bytes) -> None:
        self.total += 1
        if len(self._files) >= MAX_DIFF_FILES:
            return
        head, *names = line.split(b"\t")
        old_mode, new_mode, _, _, letter = head[1:].split(b" ")
        change = CHANGES.get(letter[:1], Change.MODIFIED)
        old, new = names[0], names[-1]
        file = _File(
            unquoted(new),
            unquoted(old) if len(names) > 1 else None,
            change,
            SUBMODULE in (old_mode, new_mode),
        )
        self._files.append(file)
        if change is not Change.UNMERGED:
            header = HEADER + prefixed(b"a/", old) + b" " + prefixed(b"b/", new)
            self._by_header[header] = file

    def _numbers(self, found: "re.Match[bytes]") -> None:
        if self._numbered < len(self._files):
            added, deleted = (None if n == b"-" else int(n) for n in found.groups())
            self._files[self._numbered].numbers = (added, deleted)
        self._numbered += 1

    def _keep(self, line: bytes) -> None:
        file = self._current
        if file is None:
            return
        if len(line) > self._left:
            file.cut = "limit"
            self._left = 0  # what comes later must not seem whole beside this
        elif len(file.patch) + len(line) > MAX_PATCH_BYTES:
            file.cut = "file_limit"
        if file.cut is not None:
            self._current = None
            return
        file.patch += line
        self._left -= len(line)


def _told(file: _File, *, cut_by_time: bool) -> FileDiff:
    added, deleted = file.numbers or (None, None)
    binary = file.numbers == (None, None) and file.numbers is not None
    text, lossy = _text(bytes(file.patch))
    omitted: Cut | None = None
    if file.change is Change.UNMERGED:
        omitted = "unmerged"
    elif binary:
        omitted, text = "binary", None
    elif file.cut is not None:
        omitted = file.cut
    elif not file.seen:
        omitted = "time" if cut_by_time else "limit"
    return FileDiff(
        path=encode_path(file.path),
        old_path=None if file.old_path is None else encode_path(file.old_path),
        change=file.change,
        binary=binary,
        submodule=file.submodule,
        additions=added,
        deletions=deleted,
        patch=text,
        lossy=lossy,
        omitted=omitted,
    )


def _text(patch: bytes) -> tuple[str | None, bool]:
    if not patch:
        return None, False
    try:
        return patch.decode(), False
    except UnicodeDecodeError:
        return patch.decode("utf-8", "replace"), True
