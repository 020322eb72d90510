"""Changing the workspace: content, folders, names. Blocking; one change at a time.

Content is written beside the file and takes its place by rename, so nobody ever sees half of it;
it keeps the file's mode and owner. The precondition is looked at last, under the lock that all
changes of this room share: between that look and the rename, only somebody who does not ask us can
come. Nothing is deleted with its content, or replaced, unless the caller said so.
"""

import os
import secrets
import shutil
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from kandev_operator.agentctl.beneath import Names, Place, Root, missing, told
from kandev_operator.agentctl.files import ranges
from kandev_operator.agentctl.files.noreplace import rename_noreplace
from kandev_operator.agentctl.files.reading import describe, digest_of, entry, opened
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import Entry, WriteAnswer, encode_path

NEW_FILE: Final = 0o644
NEW_FOLDER: Final = 0o755


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must be there: content with this ETag, anything at all ("*"), or nothing (None)."""

    etag: str | None


class Writer:
    """All changes of one workspace."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._lock = threading.Lock()

    def write(
        self, names: Names, data: bytes, before: Precondition, mode: int | None
    ) -> WriteAnswer:
        """Replace a file's content as a whole, or make the file."""
        _not_the_root(names)
        with told(), self._root.place(names, follow=True) as place:
            _file_or_nothing(place)
            part = f".kandev-{secrets.token_hex(8)}.part".encode()
            self._draft(place.folder, part, data)
            try:
                with self._lock:
                    created = self._take_place(place, part, before, mode)
            except BaseException:
                with suppress(OSError):
                    os.unlink(part, dir_fd=place.folder)
                raise
        path = encode_path(b"/".join(names))
        etag = ranges.strong(sha256(data).hexdigest())
        return WriteAnswer(path=path, etag=etag, size=len(data), created=created)

    def _draft(self, folder: int, part: bytes, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(part, flags, 0o600, dir_fd=folder)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            os.fsync(fd)
        except OSError:
            with suppress(OSError):
                os.unlink(part, dir_fd=folder)
            raise
        finally:
            os.close(fd)

    def _take_place(
        self, place: Place, part: bytes, before: Precondition, mode: int | None
    ) -> bool:
        old = _check(place, before)
        fd = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.folder)
        try:
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(fd, old.st_uid, old.st_gid)
            kept = NEW_FILE & ~_umask() if old is None else stat.S_IMODE(old.st_mode)
            os.fchmod(fd, kept if mode is None else mode)
        finally:
            os.close(fd)
        if old is None:
            try:
                rename_noreplace(place.folder, part, place.folder, place.name)
            except FileExistsError:
                raise _failed(place) from None
        else:
            os.rename(part, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return old is None

    def make_folder(self, names: Names, *, parents: bool) -> Entry:
        """Make a folder, and with `parents` those on the way to it."""
        _not_the_root(names)
        with self._lock, told():
            for end in range(1 if parents else len(names), len(names) + 1):
                with self._root.place(names[:end], follow=parents) as place:
                    try:
                        os.mkdir(place.name, NEW_FOLDER, dir_fd=place.folder)
                    except FileExistsError:
                        if not parents:
                            raise
                        with self._root.folder(names[:end]):
                            pass  # a folder already, or NotADirectoryError
        return describe(self._root, names)

    def rename(self, source: Names, target: Names, *, overwrite: bool) -> Entry:
        """Give an entry another name, in any folder of the workspace."""
        _not_the_root(source)
        _not_the_root(target)
        place_of = self._root.place
        with (
            self._lock,
            told(),
            place_of(source, follow=False) as old,
            place_of(target, follow=False) as new,
        ):
            found = old.stat()
            if found is None:
                raise missing()
            self._spare(found)
            if overwrite:
                if (there := new.stat()) is not None:
                    self._spare(there)
                os.rename(old.name, new.name, src_dir_fd=old.folder, dst_dir_fd=new.folder)
            else:
                rename_noreplace(old.folder, old.name, new.folder, new.name)
            now_there = new.stat()
            if now_there is None:
                raise missing()
            return entry(new.folder, new.name, b"/".join(target), now_there)

    def delete(self, names: Names, *, recursive: bool, before: Precondition | None) -> None:
        """Delete a file, a symlink (not its target), or a folder."""
        _not_the_root(names)
        with self._lock, told(), self._root.place(names, follow=False) as place:
            found = place.stat()
            if found is None:
                raise missing()
            self._spare(found)
            if before is not None:
                _check(place, before)
            if not stat.S_ISDIR(found.st_mode):
                os.unlink(place.name, dir_fd=place.folder)
            elif recursive:
                shutil.rmtree(place.name, dir_fd=place.folder)
            else:
                os.rmdir(place.name, dir_fd=place.folder)

    def _spare(self, found: os.stat_result) -> None:
        if self._root.keeps_state(found):
            raise Refusal(Code.OUTSIDE_WORKSPACE, "agentctl's own folder lies there")


def _check(place: Place, before: Precondition) -> os.stat_result | None:
    """The file as it is, if it is as the caller believes."""
    found = _file_or_nothing(place)
    if found is None:
        if before.etag is not None:
            raise _failed(place)
        return None
    if before.etag is None or (before.etag != "*" and _etag(place) != before.etag):
        raise _failed(place)
    return found


def _failed(place: Place) -> Refusal:
    words = "the file is not as the caller believes"
    return Refusal(Code.PRECONDITION_FAILED, words, etag=_etag(place))


def _etag(place: Place) -> str | None:
    try:
        with opened(place) as (fd, _):
            return ranges.strong(digest_of(fd))
    except (OSError, Refusal):
        return None


def _file_or_nothing(place: Place) -> os.stat_result | None:
    found = place.stat()
    if found is not None and not stat.S_ISREG(found.st_mode):
        kind = "folder" if stat.S_ISDIR(found.st_mode) else "other"
        raise Refusal(Code.NOT_A_FILE, "it is not a regular file", kind=kind)
    return found


def _not_the_root(names: Names) -> None:
    if not names:
        raise Refusal(Code.INVALID_REQUEST, "the workspace folder itself is not changed")


def _umask() -> int:
    """This process's umask, read without changing it: threads share it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
