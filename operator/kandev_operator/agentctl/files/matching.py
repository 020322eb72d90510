"""What a search finds in names and in content. Pure, and linear in what is looked at.

No regular expression of a caller, and none made of a repository's patterns, is ever run: some take
for ever, and a thread cannot be ended.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

EXCERPT: Final = 300
"""Bytes of a line that are shown, around the find."""
SNIFF: Final = 8192
GLOB: Final = "*?["
MAX_STARS: Final = 10


@dataclass(frozen=True, slots=True)
class Find:
    """One line with the needle in it; both numbers count from 1."""

    line: int
    column: int
    text: bytes


def names_like(query: str, *, case: bool) -> Callable[[bytes], bool]:
    """A test of a path (bytes); raises ValueError with words for the caller."""
    wanted = query if case else query.lower()
    if not any(sign in query for sign in GLOB):
        return lambda path: wanted in _name(path, case=case)
    if query.count("*") > MAX_STARS:
        raise ValueError(f"a glob has at most {MAX_STARS} stars")
    whole = "/" in query
    return lambda path: fnmatchcase(
        _text(path, case=case) if whole else _name(path, case=case), wanted
    )


def _name(path: bytes, *, case: bool) -> str:
    return _text(path.rpartition(b"/")[2], case=case)


def _text(path: bytes, *, case: bool) -> str:
    text = path.decode("utf-8", "surrogateescape")
    return text if case else text.lower()


def is_binary(data: bytes) -> bool:
    """As git tells it: a NUL near the beginning."""
    return b"\0" in data[:SNIFF]


def finds(data: bytes, needle: bytes, *, case: bool) -> Iterator[Find]:
    """Lines of the content with the needle in them, each once. Without `case`, ASCII is folded."""
    looked = data if case else data.lower()
    wanted = needle if case else needle.lower()
    line, counted, at = 1, 0, looked.find(wanted)
    while at >= 0:
        line += looked.count(b"\n", counted, at)
        start = looked.rfind(b"\n", 0, at) + 1
        end = looked.find(b"\n", at)
        end = len(looked) if end < 0 else end
        first = max(start, min(at - EXCERPT // 3, end - EXCERPT))
        yield Find(line, at - start + 1, data[first : min(end, first + EXCERPT)])
        counted = end
        at = looked.find(wanted, end)
