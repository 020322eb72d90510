"""What part of a file is wanted, and what a file's ETag says. Pure.

One range of bytes (RFC 9110, 14.1.2); several, and units other than bytes, are read as none, as
the RFC allows. The strong ETag is the content's SHA-256; a weak one is made of size, time and
inode, for files that are too large to be hashed for every answer.
"""

import os
import re
from dataclasses import dataclass
from typing import Final

RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
STRONG: Final = re.compile(r'"sha256-[0-9a-f]{64}"')


class Unsatisfiable(Exception):
    """The range begins after the end of the file."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes `start` to `end`, the end not included."""

    start: int
    end: int


def part_of(header: str | None, size: int, limit: int) -> Part | None:
    """The part wanted, cut to `limit` bytes; None is the whole file. Raises Unsatisfiable."""
    found = RANGE.fullmatch(header.strip()) if header else None
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if first == "":
        start, end = max(0, size - int(last)), size
        if int(last) == 0:
            raise Unsatisfiable
    else:
        start, end = int(first), size if last == "" else min(int(last) + 1, size)
        if last != "" and int(last) < start:
            return None
    if start >= size:
        raise Unsatisfiable
    return Part(start, min(end, start + limit))


def strong(digest: str) -> str:
    """The ETag of content with this SHA-256, in hex."""
    return f'"sha256-{digest}"'


def weak(found: os.stat_result) -> str:
    """The ETag of a file by its stat alone."""
    return f'W/"{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ino:x}"'


def wanted_etag(header: str) -> str | None:
    """The one ETag of an If-Match, "*" for any; None if it is neither."""
    text = header.strip()
    return text if text == "*" or STRONG.fullmatch(text) else None
