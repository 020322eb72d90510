"""Files of the workspace: GET/PUT/DELETE `/api/v1/files…`, scope `files`, with or without an agent.

Paths on the wire are relative to the workspace, with `/` between names; "" is the workspace. A name
is any bytes but `/` and NUL: text as it is, `%` as `%25`, each byte that is not part of valid UTF-8
as `%XX` in capitals. One file has one spelling; another one is an `invalid_request`.

MUST, for an implementation:

- never resolve to a file outside the workspace, nor to agentctl's own state folder, whatever `..`,
  symlinks and renames under way say (`outside_workspace`, or as if it did not exist);
- never wait for a FIFO, a device or a socket (`not_a_file`), and answer `/health` meanwhile;
- refuse a write without precondition (`precondition_required`): `If-Match: "sha256-HEX"` for the
  content that was read, `If-Match: *` for whatever is there, `If-None-Match: *` for a new file;
- replace content as a whole: a reader sees the old file or the new one, and its mode stays;
- delete a folder that is not empty only with `recursive=true`; replace by rename only with
  `overwrite`; never touch the workspace folder itself;
- say what was left out: `next`, `truncated`, `overflow`. Silence means complete.
- leave out what git ignores, and `.git`, from trees, searches and watches unless `ignored=true`. By
  git's own rule: patterns do not apply to a file that is tracked, nor to a folder that holds one.

Answers about content carry `ETag` (strong: the file's SHA-256; weak: the file is larger than
MAX_FILE_BYTES and only its stat was looked at) and `X-Kandev-Mode`. Ranges are single byte ranges.
"""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from kandev_operator.contract.wire import Wire

MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""Largest content of one answer and of one write; larger files are read in ranges."""
MAX_PATH_BYTES: Final = 4096
MAX_DEPTH: Final = 200
"""Most names in a path."""
MAX_PAGE: Final = 1000
MODE_HEADER: Final = "X-Kandev-Mode"
"""Permission bits of a file, as four octal digits."""

WirePath = Annotated[str, Field(max_length=3 * MAX_PATH_BYTES)]


class FileKind(StrEnum):
    """What an entry of a folder is."""

    FILE = "file"
    FOLDER = "folder"
    SYMLINK = "symlink"
    OTHER = "other"
    """A FIFO, a socket or a device: told, never opened."""


class Entry(Wire):
    """One entry of a folder, not followed if it is a symlink."""

    path: str
    name: str
    """For eyes: bytes that are not UTF-8 are shown as U+FFFD."""
    kind: FileKind
    size: int | None = None
    """Bytes, of a file."""
    mode: str | None = None
    modified_at: str | None = None
    target: str | None = None
    """Of a symlink: where it points, spelled as a path."""
    ignored: bool | None = None
    """Whether git ignores it; None where that is not known."""


class TreePage(Wire):
    """GET `/api/v1/files/tree?path=&depth=1&limit=&after=&ignored=false`.

    Folders before what is in them, names in the order of their bytes. `next` is the `after` of the
    following page; absent on the last. Folders that cannot be read are named in `unreadable`.
    """

    path: str
    entries: tuple[Entry, ...]
    next: str | None = None
    unreadable: tuple[str, ...] = ()


class WriteAnswer(Wire):
    """PUT `/api/v1/files/content?path=&mode=`: the body is the content. 201 if the file is new."""

    path: str
    etag: str
    size: int
    created: bool


class MakeFolder(Wire):
    """POST `/api/v1/files/folders`: answer 201 `Entry`; `file_exists` if there is anything."""

    path: WirePath
    parents: bool = False
    """Make missing folders on the way; an existing folder is no mistake then."""


class Rename(Wire):
    """POST `/api/v1/files/rename`: answer `Entry`. A symlink itself is renamed, not its target."""

    from_path: WirePath
    to_path: WirePath
    overwrite: bool = False
    """Replace a file (or an empty folder) that is there."""


class Match(Wire):
    """One find. `line` counts from 1, `column` (in bytes) from 1; absent in a search by name."""

    path: str
    line: int | None = None
    column: int | None = None
    text: str | None = None
    """The line, bounded; bytes that are not UTF-8 are shown as U+FFFD."""


class SearchAnswer(Wire):
    """GET `/api/v1/files/search?in=names|content&query=&path=&limit=&case=false&ignored=false`.

    By name: a part of the name, or a glob where the query has `*`, `?` or `[` (with `/` in it, over
    the whole path). By content: literal bytes of one line; without `case`, ASCII letters are alike.
    Binary files and files over a limit are left out and counted.
    """

    matches: tuple[Match, ...]
    searched: int
    """Files looked at."""
    skipped_binary: int = 0
    skipped_large: int = 0
    truncated: Literal["limit", "time"] | None = None
    """Why the search ended early."""


class WatchEvent(StrEnum):
    """The `event:` of GET `/api/v1/files/watch?path=&ignored=false` (server-sent events).

    `path` is a folder that is there, under its own name; a symlink on the way is `not_a_folder`.
    Frames have no id, and there is no cursor: who comes again begins with `ready`, and reads anew
    what it needs. From `ready` on, each change is told or an `overflow` is.
    """

    READY = "ready"
    """First: everything from here on is told. `WatchReady`."""
    CHANGED = "changed"
    """`WatchChanged`."""
    OVERFLOW = "overflow"
    """Changes were lost: read the tree anew. `WatchOverflow`."""
    CLOSED = "closed"
    """Last: why the stream ends. `WatchClosed`. Without it the connection broke."""


class WatchReady(Wire):
    """Who watches, and what is not seen."""

    instance_id: str
    boot_id: str
    folders: int
    unwatched: int = 0
    """Folders that are not watched, since a limit is reached: changes in them are not told."""
    sees_other_machines: bool = True
    """False on a network file system: what another machine writes may not be told."""


class WatchChanged(Wire):
    """Paths that were made, changed or removed since the last event; each at most once."""

    paths: tuple[str, ...]
    unwatched: int = 0


class WatchOverflow(Wire):
    """Why changes were lost: the kernel's queue, or this reader, could not keep up."""

    reason: Literal["kernel", "reader"]


class WatchClosed(Wire):
    """Why the stream ended; the client connects anew, and compares `instance_id`."""

    reason: Literal["shutdown", "folder_gone"]


def encode_path(path: bytes) -> str:
    """Spell a path for the wire."""
    text = path.decode("utf-8", "surrogateescape").replace("%", "%25")
    if text.isascii():
        return text
    return "".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in text)


def decode_path(text: str) -> bytes:
    """Read a path of the wire; raises ValueError with words for the caller, which quote nothing."""
    first, *rest = text.split("%")
    out = bytearray(_utf8(first))
    for part in rest:
        digits = part[:2]
        if len(digits) != 2 or not set(digits) <= set("0123456789ABCDEF"):
            raise ValueError("in a path, % is followed by two hex digits in capitals")
        out.append(int(digits, 16))
        out += _utf8(part[2:])
    path = bytes(out)
    if encode_path(path) != text:
        raise ValueError("the path is not spelled as this API spells it")
    return path


def split_path(path: bytes) -> tuple[bytes, ...]:
    """The names in a path; raises ValueError. `..` is refused by whoever resolves it."""
    if len(path) > MAX_PATH_BYTES:
        raise ValueError(f"paths end at {MAX_PATH_BYTES} bytes")
    if not path:
        return ()
    names = tuple(path.split(b"/"))
    if len(names) > MAX_DEPTH:
        raise ValueError(f"paths end at {MAX_DEPTH} names")
    if b"\0" in path or any(name in (b"", b".") for name in names):
        raise ValueError("a path is made of names with / between them, relative to the workspace")
    return names


def shown(name: bytes) -> str:
    """A name for eyes."""
    return name.decode("utf-8", "replace")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("a path is valid text") from None
