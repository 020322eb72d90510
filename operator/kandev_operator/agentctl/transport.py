"""Lines of JSON from the agent, bounded, as messages; and messages to it.

An agent may write anything on its stdout. A line that is no JSON object is counted and handed to
`on_noise`; a line over the limit is never kept whole: a notification is dropped and told as a
fault, anything else (an answer or a request that somebody waits for) breaks the connection, since
both sides would wait for each other for ever. The shape is the one the ACP library wants of a
transport, but it is not imported here.
"""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

CHUNK: Final = 64 * 1024
HEAD: Final = 4096
YIELD_EVERY: Final = 32
"""Messages between two looks at the event loop: a long replay must not hold up /health."""
NOTIFICATION: Final = re.compile(rb'"method"\s*:\s*"session/update"')
HAS_ID: Final = re.compile(rb'"id"\s*:')
SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Oversize:
    """A line over the limit: how it began, and how long it was."""

    head: bytes
    size: int

    @property
    def is_update(self) -> bool:
        """It was a mere update, which nobody waits for."""
        before = self.head.partition(b'"params"')[0]
        return bool(NOTIFICATION.search(before)) and not HAS_ID.search(before)


class LineSplitter:
    """Cuts a byte stream into lines, keeping no more than `limit` bytes of any."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes | Oversize]:
        lines: list[bytes | Oversize] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            lines.append(self._take())
            start = end + 1
        if start < len(data):
            self._add(data[start:])
        return lines

    def rest(self) -> list[bytes | Oversize]:
        """What came after the last line end."""
        return [self._take()] if self._size else []

    def _add(self, part: bytes) -> None:
        was_over = self._size > self.limit
        self._size += len(part)
        if self._size <= self.limit:
            self._parts.append(part)
        elif not was_over:
            self._parts = [b"".join((*self._parts, part[:HEAD]))[:HEAD]]

    def _take(self) -> bytes | Oversize:
        line = b"".join(self._parts)
        size, self._parts, self._size = self._size, [], 0
        return line if size <= self.limit else Oversize(line, size)


class Output(Protocol):
    """Where lines to the agent go."""

    async def write(self, data: bytes) -> None: ...


class JsonLines:
    """The transport of one connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        output: Output,
        *,
        limit: int,
        on_noise: Callable[[bytes], None],
        on_oversize: Callable[[Oversize], None],
    ) -> None:
        self._reader, self._output = reader, output
        self._splitter = LineSplitter(limit)
        self._on_noise, self._on_oversize = on_noise, on_oversize
        self._ready: list[bytes | Oversize] = []
        self._taken = 0
        self._sending = asyncio.Lock()
        self.ended = asyncio.Event()
        self.messages = 0
        self.noise = 0

    async def send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._sending:
            await self._output.write(data)

    async def receive(self) -> dict[str, Any] | None:
        while True:
            line = await self._next_line()
            if line is None:
                self.ended.set()
                return None
            if isinstance(line, Oversize):
                self._on_oversize(line)
                continue
            if message := self._parse(line):
                self.messages += 1
                if self.messages % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
                return message

    async def close(self) -> None:
        """The process's pipes belong to whoever launched it."""

    async def _next_line(self) -> bytes | Oversize | None:
        while self._taken >= len(self._ready):
            try:
                data = await self._reader.read(CHUNK)
            except OSError:
                data = b""  # a broken pipe says no more than a closed one
            self._ready = self._splitter.feed(data) if data else self._splitter.rest()
            self._taken = 0
            if not data and not self._ready:
                return None
        self._taken += 1
        return self._ready[self._taken - 1]

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        if not line.strip():
            return None
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self.noise += 1
            self._on_noise(line[:HEAD])
            return None
        if SURROGATE.search(line):
            cleaned: dict[str, Any] = without_surrogates(message)
            return cleaned
        return message


def without_surrogates(value: Any) -> Any:
    """Replace half characters, which JSON can escape but no UTF-8 text can hold."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list():
            return [without_surrogates(v) for v in value]
        case dict():
            return {without_surrogates(k): without_surrogates(v) for k, v in value.items()}
        case _:
            return value
