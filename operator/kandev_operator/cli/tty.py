"""This side's terminal while a shell is in it: raw, measured, read, written, and put back.

Between `raw` and its end every key goes to the shell, also those that would stop this program;
whatever happens within, the terminal is as it was before when it is over. Input is only looked at
when there is some, and the descriptor stays as it is: it is shared with whoever started us.
"""

import asyncio
import os
import shutil
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

READ_BYTES: Final = 4096
QUIET: Final = b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"
"""No mouse, no bracketed paste, a cursor, plain letters: what a program may have left on."""


class Terminal:
    """The terminal on two descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self._source) and os.isatty(self._target)

    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        try:
            found = os.get_terminal_size(self._target)
        except OSError:
            found = shutil.get_terminal_size()
        return max(found.columns, 1), max(found.lines, 1)

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Every key is handed on, until the end."""
        before = termios.tcgetattr(self._source)
        tty.setraw(self._source, termios.TCSADRAIN)
        try:
            yield
        finally:
            termios.tcsetattr(self._source, termios.TCSADRAIN, before)

    @contextmanager
    def reading(self, took: Callable[[bytes], None]) -> Iterator[None]:
        """What is typed goes to `took`; nothing at the end of the input."""
        loop = asyncio.get_running_loop()

        def ready() -> None:
            try:
                data = os.read(self._source, READ_BYTES)
            except OSError:  # the window was closed
                data = b""
            if not data:
                loop.remove_reader(self._source)
            took(data)

        loop.add_reader(self._source, ready)
        try:
            yield
        finally:
            loop.remove_reader(self._source)

    @contextmanager
    def watching_size(self, changed: Callable[[], None]) -> Iterator[None]:
        """Hear of a window that changes its size."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGWINCH, changed)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGWINCH)

    async def write(self, data: bytes) -> None:
        """Show it; waits, off the loop, while the terminal does not take it."""
        await asyncio.to_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._target, view) :]
