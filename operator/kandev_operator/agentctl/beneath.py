"""Resolving a path beneath the workspace, so that no symlink, `..` or race leads out of it.

Name by name: each is opened relative to the folder before it, never followed by the kernel. A
symlink is read and its target walked by the same rules; `..` goes back to the folder that was
really passed, and not above the first. So whatever is renamed or swapped meanwhile, what is held
was reached from the workspace (decision 0010). Folders are known by device and inode: agentctl's
own state folder does not exist here, by whatever name it is reached.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import MAX_DEPTH

MAX_LINKS: Final = 40
"""Symlinks on one way, as many as the kernel takes."""
MAX_STEPS: Final = 2000
"""Names on one way, those of the symlinks counted in."""
Names = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads: an open folder, and a name in it; b"." is the folder itself."""

    folder: int
    """File descriptor (O_PATH), good while the way is held."""
    name: bytes

    def stat(self) -> os.stat_result | None:
        """What is there, not followed; None if nothing is."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None


class Root:
    """The workspace, and what in it is not the caller's business."""

    def __init__(self, workspace: Path, state: Path) -> None:
        self.workspace, self._state = workspace, state

    @contextmanager
    def place(self, names: Names, *, follow: bool) -> Iterator[Place]:
        """Find the folder of the last name; with `follow`, a symlink there is followed as well.

        The last name may not exist; everything before it must. Raises Refusal and OSError.
        """
        with _Way(self) as way:
            yield way.walk(names, follow=follow)

    @contextmanager
    def folder(self, names: Names) -> Iterator[int]:
        """A folder, opened for reading its entries; symlinks are followed."""
        with self.place(names, follow=True) as place:
            fd = os.open(
                place.name,
                os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
                dir_fd=place.folder,
            )
            try:
                self.admit(os.fstat(fd))
                yield fd
            finally:
                os.close(fd)

    def admit(self, found: os.stat_result) -> None:
        """Refuse agentctl's own folder, as if it were not there."""
        if stat.S_ISDIR(found.st_mode) and _identity(found) == self._own():
            raise missing()

    def keeps_state(self, found: os.stat_result) -> bool:
        """Whether agentctl's own folder is this folder or lies somewhere in it."""
        if not stat.S_ISDIR(found.st_mode):
            return False
        try:
            real = self._state.resolve(strict=True)
            above = {_identity(os.stat(each)) for each in (real, *real.parents)}
        except OSError:
            return False
        return _identity(found) in above

    def _own(self) -> tuple[int, int] | None:
        try:
            return _identity(os.stat(self._state))
        except OSError:
            return None


class _Way:
    """The folders passed so far, all held open."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._held: list[int] = []

    def __enter__(self) -> "_Way":
        flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        self._held.append(os.open(self._root.workspace, flags))
        self._end = Place(self._held[-1], b".")
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self._held:
            os.close(fd)

    def walk(self, names: Names, *, follow: bool) -> Place:
        if b".." in names:
            raise outside()
        todo, links, steps = deque(names), 0, 0
        while todo:
            name = todo.popleft()
            steps += 1
            if steps > MAX_STEPS or len(self._held) > MAX_DEPTH + 1:
                raise Refusal(Code.INVALID_REQUEST, "the path is too deep")
            if name in (b"", b"."):
                continue
            if name == b"..":
                self._up()
                continue
            if not todo and not follow:
                return Place(self._held[-1], name)
            target = self._step(name, last=not todo)
            if target is None:
                continue
            links += 1
            if links > MAX_LINKS:
                raise Refusal(Code.INVALID_REQUEST, "symlinks lead in a circle")
            todo.extendleft(reversed(target))
        return self._end

    def _up(self) -> None:
        if len(self._held) == 1:
            raise outside()
        os.close(self._held.pop())
        self._end = Place(self._held[-1], b".")

    def _step(self, name: bytes, *, last: bool) -> list[bytes] | None:
        """Enter a folder, or give the target of a symlink; what else is there ends the way."""
        above = self._held[-1]
        self._end = Place(above, name)
        try:
            fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except FileNotFoundError:
            if last:
                return None
            raise
        held = False
        try:
            found = os.fstat(fd)
            self._root.admit(found)
            if stat.S_ISLNK(found.st_mode):
                target = os.readlink(b"", dir_fd=fd)
                if target.startswith(b"/"):
                    raise outside()
                return target.split(b"/")
            if stat.S_ISDIR(found.st_mode):
                self._held.append(fd)
                held = True
                self._end = Place(fd, b".")
            elif not last:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        finally:
            if not held:
                os.close(fd)
        return None


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def outside() -> Refusal:
    return Refusal(Code.OUTSIDE_WORKSPACE, "the path leads out of the workspace")


def missing() -> Refusal:
    return Refusal(Code.FILE_NOT_FOUND, "there is nothing of that name")


@contextmanager
def told() -> Iterator[None]:
    """Turn what the operating system says into a refusal, without quoting a path."""
    try:
        yield
    except OSError as exc:
        raise _refusal(exc) from None


def _refusal(exc: OSError) -> Refusal:
    name = errno.errorcode.get(exc.errno or 0, "EIO")
    words = os.strerror(exc.errno) if exc.errno else "it failed"
    match exc.errno:
        case errno.ENOENT:
            return missing()
        case errno.EEXIST:
            return Refusal(Code.FILE_EXISTS, "there is something of that name already")
        case errno.ENOTDIR:
            return Refusal(Code.NOT_A_FOLDER, "a name on the way is not a folder")
        case errno.EISDIR:
            return Refusal(Code.NOT_A_FILE, "it is a folder", kind="folder")
        case errno.ENXIO | errno.ENODEV:
            return Refusal(Code.NOT_A_FILE, "it is not a regular file", kind="other")
        case errno.ENOTEMPTY:
            return Refusal(Code.FOLDER_NOT_EMPTY, "the folder is not empty")
        case errno.ENAMETOOLONG | errno.EINVAL | errno.ELOOP | errno.EILSEQ:
            return Refusal(Code.INVALID_REQUEST, f"the file system refuses the name: {words}")
        case errno.EACCES | errno.EPERM | errno.EROFS | errno.EBUSY | errno.ETXTBSY:
            return Refusal(Code.FILE_DENIED, words, errno=name)
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return Refusal(Code.DISK_FULL, words, errno=name)
        case _:
            return Refusal(Code.FILE_FAILED, words, errno=name)
