"""Watching the workspace for changes: one watch of the kernel's for all readers, coalesced.

Folders that git ignores are not watched (asked when they are met, and again when a `.gitignore`
changes), and there is a limit to how many are: what is beyond is counted and said. Changes are
gathered for a moment and told as a set of paths. A reader holds a bounded set; who falls behind,
and whoever the kernel told that it lost events, is told `overflow`.
Own bookkeeping over the kernel's interface, since names need not be text and losses must be said.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Literal

import inotify_simple
from inotify_simple import INotify, flags

from kandev_operator.agentctl.beneath import Names, Root, told
from kandev_operator.agentctl.files.folders import WATCHED, Folders, News
from kandev_operator.agentctl.files.ignoring import Ignoring
from kandev_operator.agentctl.pool import Pool
from kandev_operator.agentctl.refusal import Refusal
from kandev_operator.contract.errors import Code
from kandev_operator.contract.files import encode_path

MAX_FOLDERS: Final = 10_000
MAX_READERS: Final = 32
MAX_PENDING: Final = 2_000
"""Paths that a reader may have waiting."""
BATCH: Final = 200
GATHER: Final = 0.2
"""Seconds in which changes are gathered."""
GIT_FOLDER: Final = b".git"
End = Literal["shutdown", "folder_gone"]

# It would look for a C library by running ldconfig and a compiler, and could find another one than
# this process has.
inotify_simple._libc = ctypes.CDLL(None, use_errno=True)


class Reader:
    """One reader: what it has not been told yet."""

    def __init__(self, folder: Names) -> None:
        self._folder = folder
        self._pending: set[str] = set()
        self.overflow: Literal["kernel", "reader"] | None = None
        self.end: End | None = None
        self.news = asyncio.Event()

    def tell(self, changed: set[Names]) -> None:
        depth = len(self._folder)
        mine = {encode_path(b"/".join(n)) for n in changed if n[:depth] == self._folder}
        if not mine or self.overflow is not None:
            return
        self._pending |= mine
        if len(self._pending) > MAX_PENDING:
            self.lose("reader")
        self.news.set()

    def lose(self, reason: Literal["kernel", "reader"]) -> None:
        self._pending.clear()
        self.overflow = reason
        self.news.set()

    def close(self, reason: End) -> None:
        self.end = reason
        self.news.set()

    def take(self) -> tuple[str, ...]:
        """What is to be told now; nothing after an overflow, until that was told."""
        taken = tuple(sorted(self._pending))
        self._pending.clear()
        return taken


class Watch:
    """A watch over the whole workspace, for as long as it has readers."""

    def __init__(self, root: Root, pool: Pool, ignoring: Ignoring, *, ignored: bool) -> None:
        self._root, self._pool, self._ignoring = root, pool, ignoring
        self._ignored = ignored
        self._kernel = INotify(nonblocking=True)
        self._folders = Folders()
        self._woken = asyncio.Event()
        self.readers: set[Reader] = set()
        self.unwatched = 0
        self.ready = asyncio.Event()
        self.failure: Refusal | None = None

    @property
    def folders(self) -> int:
        return len(self._folders)

    async def run(self) -> None:
        """Watch until cancelled, or until the workspace is gone."""
        loop = asyncio.get_running_loop()
        fd = self._kernel.fileno()
        try:
            await self._cover(())
            self.ready.set()
            while True:
                loop.add_reader(fd, self._wake)
                await self._woken.wait()
                self._woken.clear()
                await asyncio.sleep(GATHER)
                if not await self._read():
                    return
        except Refusal as exc:
            self.failure = exc
            self._close_all()
        finally:
            self.ready.set()
            loop.remove_reader(fd)
            self._kernel.close()

    def _wake(self) -> None:
        asyncio.get_running_loop().remove_reader(self._kernel.fileno())
        self._woken.set()

    async def _read(self) -> bool:
        """Take what the kernel has; False if the workspace is gone."""
        events = [
            (e.wd, e.mask, e.cookie, os.fsencode(e.name)) for e in self._kernel.read(timeout=0)
        ]
        news = self._folders.read(events)
        for watch in news.dropped:
            with contextlib.suppress(OSError):
                self._kernel.rm_watch(watch)
        if news.root_gone:
            self._close_all()
            return False
        if news.overflow:
            # Folders may be new that nobody told of.
            self.unwatched = 0
            await self._cover(())
            for reader in self.readers:
                reader.lose("kernel")
            return True
        await self._tell(news)
        return True

    async def _tell(self, news: News) -> None:
        changed = news.changed
        for folder in news.appeared:
            # What was put into it before it was watched is news as well.
            with contextlib.suppress(Refusal):
                changed |= await self._cover(folder)
        if not self._ignored:
            changed = {names for names in changed if GIT_FOLDER not in names}
            if any(names and names[-1] == b".gitignore" for names in changed):
                await self._cover(())  # a folder may not be ignored any more
            changed -= await self._ignored_of(changed)
        if changed:
            for reader in self.readers:
                reader.tell(changed)

    async def _ignored_of(self, names: set[Names]) -> set[Names]:
        if not names:
            return set()
        by_path = {b"/".join(each): each for each in names if each}
        async with self._ignoring.judge() as judge:
            found = await judge.ignored(list(by_path))
        return {by_path[path] for path in found or () if path in by_path}

    async def _cover(self, top: Names) -> set[Names]:
        """Watch a folder and those in it, level by level; gives what is in them."""
        level, seen = [top], set[Names]() if top else None
        while level:
            found: list[Names] = []
            for start in range(0, len(level), BATCH):
                part = level[start : start + BATCH]
                found += await self._pool.run(self._add_all, part, seen)
            if not self._ignored:
                found = [names for names in found if names[-1] != GIT_FOLDER]
                out = await self._ignored_of(set(found))
                found = [names for names in found if names not in out]
            level = found
        return seen or set()

    def _add_all(self, level: Sequence[Names], seen: set[Names] | None) -> list[Names]:
        """Watch folders, and note what is in them; gives the folders among it. In a thread."""
        found: list[Names] = []
        for folder in level:
            if len(self._folders) >= MAX_FOLDERS:
                self.unwatched += 1
                continue
            try:
                inside, below = self._add(folder)
            except Refusal:
                if not folder:
                    raise
                continue  # gone again, or not readable
            if seen is not None and len(seen) <= MAX_PENDING:  # more is an overflow anyway
                seen.update(inside)
            found += below
        return found

    def _add(self, folder: Names) -> tuple[list[Names], list[Names]]:
        """Watch one folder, and then list it: what comes between is told."""
        with told(), self._root.folder(folder) as fd:
            try:
                path = f"/proc/self/fd/{fd}"
                watch = self._kernel.add_watch(path, WATCHED | flags.ONLYDIR | flags.EXCL_UNLINK)
            except OSError as exc:
                if exc.errno != errno.ENOSPC:
                    raise
                self.unwatched += 1
                return [], []
            self._folders.add(watch, folder)
            inside, below = [], []
            with os.scandir(fd) as entries:
                for each in entries:
                    names = (*folder, os.fsencode(each.name))
                    inside.append(names)
                    if each.is_dir(follow_symlinks=False):
                        below.append(names)
            return inside, below

    def _close_all(self) -> None:
        for reader in self.readers:
            reader.close("folder_gone")


class Watches:
    """The watches of this process: one that leaves out what git ignores, one that does not."""

    def __init__(self, root: Root, pool: Pool, ignoring: Ignoring) -> None:
        self._root, self._pool, self._ignoring = root, pool, ignoring
        self._running: dict[bool, tuple[Watch, asyncio.Task[None]]] = {}
        self._readers = 0

    @asynccontextmanager
    async def reading(self, folder: Names, *, ignored: bool) -> AsyncIterator[tuple[Watch, Reader]]:
        """A reader of changes in a folder, for as long as the block lasts; raises Refusal."""
        await self._pool.run(_require_folder, self._root, folder)
        if self._readers >= MAX_READERS:
            raise Refusal(Code.BUSY, f"at most {MAX_READERS} watch for changes at once")
        self._readers += 1
        watch, reader = self._watch(ignored), Reader(folder)
        watch.readers.add(reader)
        try:
            await watch.ready.wait()
            if watch.failure is not None:
                raise watch.failure
            yield watch, reader
        finally:
            self._readers -= 1
            watch.readers.discard(reader)
            if not watch.readers:
                await self._stop(ignored, watch)

    def _watch(self, ignored: bool) -> Watch:
        known = self._running.get(ignored)
        if known is not None and not known[1].done():
            return known[0]
        try:
            watch = Watch(self._root, self._pool, self._ignoring, ignored=ignored)
        except OSError as exc:
            words = f"the kernel gives no watch: {exc.strerror}"
            raise Refusal(Code.BUSY, words) from None
        self._running[ignored] = watch, asyncio.create_task(watch.run())
        return watch

    async def _stop(self, ignored: bool, watch: Watch) -> None:
        known = self._running.get(ignored)
        if known is None or known[0] is not watch:
            return
        del self._running[ignored]
        known[1].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await known[1]


def _require_folder(root: Root, names: Names) -> None:
    """A folder that is there, under its own name: of any other, silence would mean nothing."""
    with told(), root.folder(()) as top, root.folder(names) as fd:
        wanted = b"/".join((os.readlink(f"/proc/self/fd/{top}".encode()), *names))
        if os.readlink(f"/proc/self/fd/{fd}".encode()) != wanted:
            raise Refusal(Code.NOT_A_FOLDER, "a symlink is on the way: watch where it leads")
