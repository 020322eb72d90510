"""Who looks at a terminal, how large it is for them, and whose keystrokes count.

The terminal has the size of the viewer that was active last: that attached with a size, resized
its window, or typed. The others may show margins, or less than all; so a forgotten small window
spoils nobody's screen for longer than it takes to type. Where the policy is `one`, the first who
types, or who takes it, owns the input until it is released, taken over, or its owner leaves.
Bookkeeping only: who must be told of a change is the caller's business.
"""

from dataclasses import dataclass, field
from typing import Literal

from kandev_operator.contract.shell import MAX_VIEWERS, InputPolicy


@dataclass(frozen=True, slots=True)
class Size:
    """Of a terminal or a window."""

    cols: int
    rows: int


class Full(Exception):
    """There are as many viewers as there may be."""


@dataclass(slots=True)
class _Viewer:
    size: Size | None
    may_type: bool
    active: int = 0


@dataclass(slots=True)
class Viewers:
    """The viewers of one terminal. Ids are never given twice."""

    policy: InputPolicy
    size: Size
    owner: int | None = None
    _all: dict[int, _Viewer] = field(default_factory=dict)
    _last_id: int = 0
    _moment: int = 0

    def __len__(self) -> int:
        return len(self._all)

    def add(self, size: Size | None, *, may_type: bool = True) -> int:
        """A viewer comes, with its window's size if it said one. Raises Full."""
        if len(self._all) >= MAX_VIEWERS:
            raise Full
        self._last_id += 1
        self._all[self._last_id] = _Viewer(size, may_type)
        if may_type and size is not None:
            self._touch(self._last_id)
        return self._last_id

    def remove(self, viewer: int) -> None:
        """A viewer leaves. The terminal follows whoever was active before it, if anybody is."""
        self._all.pop(viewer, None)
        if self.owner == viewer:
            self.owner = None
        self._settle()

    def resize(self, viewer: int, size: Size) -> None:
        """A viewer's window has another size. Who only looks does not decide it for all."""
        found = self._all[viewer]
        found.size = size
        if found.may_type:
            self._touch(viewer)

    def types(self, viewer: int) -> Literal["view_only", "not_owner"] | None:
        """A viewer types; gives why it does not count, or None where it does."""
        if not self._all[viewer].may_type:
            return "view_only"
        if self.policy is InputPolicy.ONE:
            if self.owner is None:
                self.owner = viewer
            if self.owner != viewer:
                return "not_owner"
        self._touch(viewer)
        return None

    def take(self, viewer: int) -> bool:
        """A viewer wants the input for itself; tells whether it has it now."""
        if self.policy is not InputPolicy.ONE or not self._all[viewer].may_type:
            return False
        self.owner = viewer
        self._touch(viewer)
        return True

    def release(self, viewer: int) -> None:
        """The owner lets go of the input."""
        if self.owner == viewer:
            self.owner = None

    def _touch(self, viewer: int) -> None:
        self._moment += 1
        self._all[viewer].active = self._moment
        self._settle()

    def _settle(self) -> None:
        sized = [each for each in self._all.values() if each.size is not None and each.active]
        if sized:
            latest = max(sized, key=lambda each: each.active).size
            assert latest is not None
            self.size = latest
