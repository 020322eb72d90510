"""Content of one file, and what is known of an entry. Blocking; never waits for a FIFO or device.

The whole of a file that is not too large is read at once, so its hash is the hash of what is
answered. Only regular files are opened, and without waiting: whatever else takes the name's place
meanwhile is recognised after the opening.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

from kandev_operator.agentctl.beneath import Names, Place, Root, missing, told
from kandev_operator.agentctl.files import ranges
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import MAX_FILE_BYTES, Entry, FileKind, encode_path, shown

CHUNK: Final = 1024 * 1024
KINDS: Final = {
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFDIR: FileKind.FOLDER,
    stat.S_IFLNK: FileKind.SYMLINK,
}


@dataclass(frozen=True, slots=True)
class Content:
    """What is answered about a file's content."""

    data: bytes
    part: ranges.Part | None
    size: int
    etag: str
    mode: str


def read(root: Root, names: Names, wanted: str | None, *, body: bool = True) -> Content:
    """A file's content, or the range wanted of it; without `body`, all but the bytes."""
    with told(), root.place(names, follow=True) as place, opened(place) as (fd, found):
        size = found.st_size
        try:
            part = ranges.part_of(wanted, size, MAX_FILE_BYTES)
        except ranges.Unsatisfiable:
            words = "the range begins after the end of the file"
            raise Refusal(Code.RANGE_NOT_SATISFIABLE, words, size=size) from None
        if size > MAX_FILE_BYTES:
            if part is None and body:
                words = f"larger than {MAX_FILE_BYTES} bytes: ask for ranges"
                raise Refusal(Code.TOO_LARGE, words, size=size)
            data = _read_at(fd, part.start, part.end - part.start) if part and body else b""
            return Content(data, part, size, ranges.weak(found), octal(found))
        data = _read_at(fd, 0, MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise Refusal(Code.TOO_LARGE, "the file grows while it is read")
        etag = ranges.strong(sha256(data).hexdigest())
        if part is not None:
            part = ranges.Part(part.start, min(part.end, len(data)))
            cut = data[part.start : part.end]
            return Content(cut if body else b"", part, len(data), etag, octal(found))
        return Content(data if body else b"", None, len(data), etag, octal(found))


def describe(root: Root, names: Names) -> Entry:
    """What is known of one entry; the workspace itself is one, too."""
    with told(), root.place(names, follow=False) as place:
        found = place.stat()
        if found is None:
            raise missing()
        root.admit(found)
        return entry(place.folder, place.name, b"/".join(names), found)


def entry(folder: int, name: bytes, path: bytes, found: os.stat_result) -> Entry:
    """An entry as it is told."""
    kind = KINDS.get(stat.S_IFMT(found.st_mode), FileKind.OTHER)
    target = None
    if kind is FileKind.SYMLINK:
        try:
            target = encode_path(os.readlink(name, dir_fd=folder))
        except OSError:
            target = None  # replaced meanwhile
    return Entry(
        path=encode_path(path),
        name=shown(path.rpartition(b"/")[2]),
        kind=kind,
        size=found.st_size if kind is FileKind.FILE else None,
        mode=octal(found),
        modified_at=datetime.fromtimestamp(found.st_mtime, UTC).isoformat(),
        target=target,
    )


@contextmanager
def opened(place: Place) -> Iterator[tuple[int, os.stat_result]]:
    """A regular file, open for reading; raises Refusal for everything else."""
    before = place.stat()
    if before is None:
        raise missing()
    _regular(before)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    fd = os.open(place.name, flags, dir_fd=place.folder)
    try:
        found = os.fstat(fd)
        _regular(found)
        yield fd, found
    finally:
        os.close(fd)


def digest_of(fd: int) -> str:
    """SHA-256 of an open file of any size, in hex."""
    digest, offset = sha256(), 0
    while data := os.pread(fd, CHUNK, offset):
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()


def octal(found: os.stat_result) -> str:
    return f"{stat.S_IMODE(found.st_mode):04o}"


def _regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), FileKind.OTHER)
        raise Refusal(Code.NOT_A_FILE, "it is not a regular file", kind=kind.value)


def _read_at(fd: int, start: int, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = os.pread(fd, min(CHUNK, length - len(data)), start + len(data))
        if not more:
            break
        data += more
    return bytes(data)
