"""Server-sent events out of bytes, with a limit on everything a peer could grow.

Sans I/O: chunks go in as they come, messages come out when they are whole. Line ends may be any
of the three that the format allows and may be cut by a chunk. What a message means is not known
here; `agentctl` reads it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class StreamTooLong(Exception):
    """A line, or the lines of one message, went over the limit."""


@dataclass(frozen=True)
class Message:
    """One message of a stream. `data` is the bytes between the field's name and the line end."""

    event: str
    id: str
    data: bytes = field(repr=False)


class Parser:
    """Turns the chunks of one stream into messages. Not reusable after an error."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._at_start = True
        self._after_cr = False
        self._event = ""
        self._id = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Give in the next bytes; yields each message that they complete."""
        for line in self._lines(chunk):
            if line:
                self._field(line)
            elif (message := self._dispatch()) is not None:
                yield message

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        if self._after_cr and chunk:
            # The CR at the end of the last chunk has ended its line already.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        # Only the new bytes are searched: a peer that sends one at a time costs no more for it.
        start = 0
        for end in _LINE_END.finditer(chunk):
            yield self._take(chunk[start : end.start()])
            start = end.end()
        self._after_cr = chunk.endswith(b"\r")
        self._keep(chunk[start:])

    def _take(self, last: bytes) -> bytes:
        """The line that these bytes complete."""
        self._keep(last)
        line = bytes(self._rest)
        self._rest.clear()
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        return line

    def _keep(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > self._limit:
            raise StreamTooLong(f"a line of more than {self._limit} bytes")

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._size += len(value) + 1
            if self._size > self._limit:
                raise StreamTooLong(f"a message of more than {self._limit} bytes")
            self._data.append(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")
        # Anything else is a comment (an empty name) or a field to be ignored.

    def _dispatch(self) -> Message | None:
        event, data = self._event or "message", self._data
        self._event, self._data, self._size = "", [], 0
        return Message(event, self._id, b"\n".join(data)) if data else None
