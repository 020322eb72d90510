"""The keys that leave a shell, found among all others as they come, byte by byte.

Pure. A beginning of the keys is held back until it is known whether they follow; if not, it goes
on its way with what came after it. So the first key alone is sent by the next one.
"""


class DetachKeys:
    """Looks for one sequence in what is typed."""

    def __init__(self, keys: bytes) -> None:
        if not keys:
            raise ValueError("at least one key")
        self._keys = keys
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Take what was typed; gives what is to be sent, and whether the keys were pressed.

        What follows the keys is dropped: whoever typed it has left.
        """
        pending = self._held + data
        at = pending.find(self._keys)
        if at >= 0:
            self._held = b""
            return pending[:at], True
        held = next(
            (n for n in range(len(self._keys) - 1, 0, -1) if pending.endswith(self._keys[:n])), 0
        )
        cut = len(pending) - held
        self._held = pending[cut:]
        return pending[:cut], False
