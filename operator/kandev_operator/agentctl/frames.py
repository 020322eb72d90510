"""Events as they go over the wire, encoded once and shared by every reader.

A frame is made from the text that the journal keeps, so no reader decodes or encodes anything. The
newest frames stay in memory, bounded by number and size: a reader that is up to date never asks
the disk. Which events a reader gets is `stream`'s business.
"""

import json
from collections import deque
from dataclasses import dataclass
from typing import Final

from kandev_operator.contract.events import EventKind, cursor

RECENT: Final = 2_000
RECENT_BYTES: Final = 4 * 1024 * 1024
BATCH_BYTES: Final = 512 * 1024
"""What one reader is given at a time: this much of many readers must fit into memory."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One event, ready to be sent."""

    seq: int
    kind: str
    data: bytes


def encode(
    journal_id: str, session_id: str, seq: int, row: tuple[str, str, str | None, str]
) -> bytes:
    """One event as it goes over the wire; `row` is its kind, time, execution and data as JSON."""
    kind, at, execution_id, data = row
    return (
        f"id: {cursor(journal_id, seq)}\nevent: {kind}\n"
        f'data: {{"journal_id":{json.dumps(journal_id)},"seq":{seq},"kind":"{kind}","at":"{at}",'
        f'"session_id":{json.dumps(session_id)},"execution_id":{json.dumps(execution_id)},'
        f'"data":{data}}}\n\n'
    ).encode()


class Recent:
    """The newest frames, without holes, and all of them newer than what was dropped."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._size = 0

    def add(self, frame: Frame) -> None:
        """The next one; after a hole in the numbers only what follows it is kept."""
        if self._frames and frame.seq != self._frames[-1].seq + 1:
            self.clear()
        self._frames.append(frame)
        self._size += len(frame.data)
        while len(self._frames) > RECENT or (self._size > RECENT_BYTES and len(self._frames) > 1):
            self._size -= len(self._frames.popleft().data)

    def forget(self, before: int) -> None:
        """Retention let go of what is older."""
        while self._frames and self._frames[0].seq < before:
            self._size -= len(self._frames.popleft().data)

    def clear(self) -> None:
        self._frames.clear()
        self._size = 0

    def after(self, seq: int, limit: int) -> list[Frame] | None:
        """The frames that follow a number; None where they do not reach back so far."""
        if not self._frames or seq + 1 < self._frames[0].seq:
            return None
        start = seq + 1 - self._frames[0].seq
        found: list[Frame] = []
        size = 0
        # By index: a deque is quick near its ends, and most readers are near the newest.
        for index in range(start, min(start + limit, len(self._frames))):
            frame = self._frames[index]
            found.append(frame)
            size += len(frame.data)
            if size > BATCH_BYTES:
                break
        return found


def wanted(frame: Frame, *, messages: bool, states: bool) -> bool:
    """A gap is told to every reader."""
    if frame.kind == EventKind.MESSAGE:
        return messages
    return states or frame.kind == EventKind.GAP
