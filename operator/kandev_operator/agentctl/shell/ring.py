"""The scroll-back: the last bytes that a terminal wrote, found by their number.

Bytes are numbered from 0 in the order of writing, for ever; the newest `capacity` of them are
kept. A reader has a number and asks for what follows it, so any number of readers at any pace
costs nothing here. Memory grows with what is written, up to the capacity.
"""


class Ring:
    """Keeps the end of an endless run of bytes."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError("a ring keeps at least one byte")
        self._capacity = capacity
        self._kept = bytearray()
        self._end = 0

    @property
    def start(self) -> int:
        """The number of the oldest byte that is kept."""
        return self._end - len(self._kept)

    @property
    def end(self) -> int:
        """The number that the next byte will have."""
        return self._end

    def write(self, data: bytes) -> None:
        """Append; what does not fit any more is forgotten, the oldest first."""
        self._end += len(data)
        if len(data) >= self._capacity:
            turn = self._capacity - self._end % self._capacity
            newest = data[-self._capacity :]
            self._kept = bytearray(newest[turn:] + newest[:turn])
            return
        grown = min(self._capacity - len(self._kept), len(data))
        self._kept += data[:grown]
        if rest := data[grown:]:
            # Full: byte N lies at N modulo the capacity, as it did while the ring grew.
            at = (self._end - len(rest)) % self._capacity
            head = min(len(rest), self._capacity - at)
            self._kept[at : at + head] = rest[:head]
            self._kept[: len(rest) - head] = rest[head:]

    def read(self, cursor: int, most: int) -> bytes:
        """At most so many bytes from this number on; nothing at the end.

        Raises ValueError for a number that is not kept any more, or not written yet.
        """
        if not self.start <= cursor <= self._end:
            raise ValueError("no such byte is kept")
        size = min(most, self._end - cursor)
        at = cursor % self._capacity
        head = bytes(self._kept[at : at + size])
        return head + bytes(self._kept[: size - len(head)])
