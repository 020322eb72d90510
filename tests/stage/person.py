"""A person at a terminal: a program on a real pty, its screen, the keys, the window's size.

What the program shows is kept as bytes; waiting is looking until it is there. Blocking calls are
short, so it can be used beside a loop that serves something to the program.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

PATIENCE = 60.0


class Person:
    """Runs a program. Use it as a context: the program is gone afterwards."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (80, 24)
    ) -> None:
        self.shown = bytearray()
        self._master, slave = os.openpty()
        os.set_blocking(self._master, False)
        self.resize(*size)
        self._slave = slave
        self.modes: list[Any] = termios.tcgetattr(slave)

        def in_child() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(env),
            start_new_session=True,
            preexec_fn=in_child,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    def look(self) -> None:
        """Take what was shown since the last look."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._master, 65536):
                self.shown += data

    async def until(self, done: Callable[[], Any], what: str) -> None:
        """Look until it holds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            self.look()
            if done():
                return
            assert time.monotonic() < deadline, f"{what}: {bytes(self.shown[-3000:])!r}"
            await asyncio.sleep(0.02)

    async def sees(self, text: str) -> None:
        """Look until this is shown."""
        await self.until(lambda: text.encode() in self.shown, f"sees {text!r}")

    def types(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def runs(self, command: str, mark: str) -> None:
        """Type a command whose output, and not its echo, shows the mark."""
        half = len(mark) // 2
        self.types(f"{command}; printf '%s\\n' {mark[:half]}''{mark[half:]}\r")
        await self.sees(mark)

    def resize(self, cols: int, rows: int) -> None:
        """Change the window's size, as its frame is drawn by hand."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    @property
    def is_raw(self) -> bool:
        """Whether keys go to the program one by one."""
        local: int = termios.tcgetattr(self._slave)[3]
        return not local & termios.ICANON

    async def ends(self) -> int:
        """Wait for the program's end; gives its exit code."""
        await self.until(lambda: self.process.poll() is not None, "it ends")
        self.look()
        return int(self.process.returncode)

    def kill(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
