"""Which folder each watch stands for, and what the kernel's events mean. Pure bookkeeping.

A watch follows its folder wherever that is moved, so a folder that is moved or removed is forgotten
with everything below, and met anew at its new place.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from inotify_simple import flags

Names = tuple[bytes, ...]
WATCHED = (
    flags.CREATE
    | flags.DELETE
    | flags.MODIFY
    | flags.CLOSE_WRITE
    | flags.MOVED_FROM
    | flags.MOVED_TO
    | flags.ATTRIB
    | flags.DELETE_SELF
    | flags.MOVE_SELF
)


@dataclass(slots=True)
class News:
    """What a handful of events says."""

    changed: set[Names] = field(default_factory=set)
    appeared: list[Names] = field(default_factory=list)
    """Folders that are new, to be watched."""
    dropped: list[int] = field(default_factory=list)
    """Watches that are of no use any more."""
    overflow: bool = False
    root_gone: bool = False


class Folders:
    """The folders watched, by the number of their watch."""

    def __init__(self) -> None:
        self._names: dict[int, Names] = {}
        self._watches: dict[Names, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    def add(self, watch: int, names: Names) -> None:
        """A folder is watched; one that was known elsewhere has been moved here."""
        if (before := self._names.get(watch)) is not None:
            self._watches.pop(before, None)
        if (stale := self._watches.get(names)) is not None and stale != watch:
            self._names.pop(stale, None)
        self._names[watch], self._watches[names] = names, watch

    def read(self, events: Iterable[tuple[int, int, int, bytes]]) -> News:
        """Take events as (watch, mask, cookie, name)."""
        news = News()
        for watch, mask, _, name in events:
            if mask & flags.Q_OVERFLOW:
                news.overflow = True
                continue
            folder = self._names.get(watch)
            if folder is None:
                continue
            if mask & (flags.DELETE_SELF | flags.MOVE_SELF | flags.IGNORED | flags.UNMOUNT):
                self._self_gone(watch, folder, mask, news)
                continue
            names = (*folder, name) if name else folder
            news.changed.add(names)
            if mask & flags.ISDIR:
                if mask & flags.MOVED_FROM:
                    news.dropped += self._forget(names)
                elif mask & (flags.CREATE | flags.MOVED_TO):
                    news.appeared.append(names)
        return news

    def _self_gone(self, watch: int, folder: Names, mask: int, news: News) -> None:
        if not folder:
            news.root_gone = True
        if mask & flags.MOVE_SELF and folder:
            return  # the folder around it says where from and where to
        self._names.pop(watch, None)
        if self._watches.get(folder) == watch:
            del self._watches[folder]

    def _forget(self, names: Names) -> list[int]:
        """A folder is gone from its place, with all that is below."""
        depth = len(names)
        gone = [n for n in self._watches if n[:depth] == names]
        watches = [self._watches.pop(each) for each in gone]
        for watch in watches:
            self._names.pop(watch, None)
        return watches
