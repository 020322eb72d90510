"""A process on a pseudo-terminal: made as the leader of its session, read, fed, sized, ended.

It reads as fast as the process writes, in portions small enough that the loop stays free for
others, and hands on what it reads at once; nobody's slowness comes back to here. Input that the
process does not take yet is kept up to a bound, and whoever brings more waits for `room`. The end
is told by the kernel (a pidfd); what still lies in the terminal then is read out first.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kandev_operator.agentctl import exits, orphans
from kandev_operator.agentctl.shell.viewers import Size

READ_BYTES: Final = 16 * 1024
PORTION: Final = 64 * 1024
"""So much is read before others on the loop get their turn."""
BREATH: Final = 0.001
"""And so long, in seconds, is waited where there was more: at most some 60 MB a second."""
PENDING_BYTES: Final = 64 * 1024
"""Input beyond this waits with whoever brings it."""
IUTF8: Final = 0o40000
_RESET: Final = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD),
    *(signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2),
)


class LaunchFailed(Exception):
    """The process could not be made; the text says why and quotes no argument."""


class PtyProcess:
    """One process and its terminal. `on_output` takes what it writes; close it at the end."""

    def __init__(self, popen: "subprocess.Popen[bytes]", master: int, slave: int) -> None:
        self._popen, self._master, self._slave = popen, master, slave
        self.pid = popen.pid
        self.gone = asyncio.Event()
        """The process itself has ended."""
        self.drained = asyncio.Event()
        """Nothing more can come from the terminal."""
        self.room = asyncio.Event()
        """More input may be brought."""
        self.room.set()
        self._pending = bytearray()
        self._on_output: Callable[[bytes], None] = lambda _: None
        self._loop = asyncio.get_running_loop()
        self._breath: asyncio.TimerHandle | None = None

    @classmethod
    def launch(
        cls, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, size: Size, shell_id: str
    ) -> "PtyProcess":
        """Start it; raises LaunchFailed."""
        try:
            master, slave = os.openpty()
        except OSError as exc:
            raise LaunchFailed(f"no terminal is to be had: {exc.strerror}") from None
        try:
            _prepare(master, slave, size)
            popen = orphans.launch(lambda: _popen(argv, env, cwd, slave), shell_id)
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            os.close(master)
            os.close(slave)
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "not launchable"
            raise LaunchFailed(f"the shell's command cannot be run: {why}") from None
        return cls(popen, master, slave)

    def start(self, on_output: Callable[[bytes], None]) -> None:
        """Begin to read, and to watch for its end."""
        self._on_output = on_output
        self._loop.add_reader(self._master, self._readable)
        pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(pidfd, self._ended, pidfd)

    # ---- what it writes ----------------------------------------------------------------

    def _readable(self) -> None:
        parts, left = [], PORTION
        while left > 0:
            try:
                data = os.read(self._master, READ_BYTES)
            except BlockingIOError:
                break
            except OSError:  # EIO: nobody holds the other end any more
                data = b""
            if not data:
                self._stop_reading()
                self.drained.set()
                break
            parts.append(data)
            left -= len(data)
        if parts:
            self._on_output(b"".join(parts))
        if left <= 0:
            self._loop.remove_reader(self._master)
            self._breath = self._loop.call_later(BREATH, self._go_on)

    def _go_on(self) -> None:
        self._breath = None
        self._loop.add_reader(self._master, self._readable)

    def _stop_reading(self) -> None:
        if self._breath is not None:
            self._breath.cancel()
            self._breath = None
        self._loop.remove_reader(self._master)

    def _ended(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._popen.poll()
        orphans.collected(self.pid)
        # While this end was held, the process could leave its terminal and come back to it.
        os.close(self._slave)
        self._slave = -1
        self.gone.set()

    # ---- what it is told ---------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Give it input, as soon as it takes it. Wait for `room` before the next."""
        if self._master < 0:
            return
        if not self._pending:
            data = data[self._write_now(data) :]
        if data:
            self._pending += data
            self._loop.add_writer(self._master, self._writable)
        if len(self._pending) >= PENDING_BYTES:
            self.room.clear()

    def _write_now(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:  # it is gone, and so is whoever would have read this
            return len(data)

    def _writable(self) -> None:
        del self._pending[: self._write_now(self._pending)]
        if len(self._pending) < PENDING_BYTES:
            self.room.set()
        if not self._pending:
            self._loop.remove_writer(self._master)

    def resize(self, size: Size) -> None:
        """Its terminal has another size; the kernel tells whoever is in the foreground."""
        if self._master >= 0:
            with contextlib.suppress(OSError):
                _set_size(self._master, size)

    # ---- the end -----------------------------------------------------------------------

    @property
    def exit_code(self) -> int | None:
        return exits.code_of(self._popen.returncode)

    @property
    def exit_signal(self) -> str | None:
        return exits.signal_of(self._popen.returncode)

    def hang_up(self) -> None:
        """What a terminal does whose window is closed: to everybody in the foreground, and to the
        leader, which tells its jobs."""
        for group in {self.pid, self._foreground()}:
            for number in (signal.SIGHUP, signal.SIGCONT):
                with contextlib.suppress(OSError):
                    os.killpg(group, number)

    def _foreground(self) -> int:
        try:
            group = os.tcgetpgrp(self._master)
        except OSError:
            return self.pid
        return group if group > 1 else self.pid

    def kill(self) -> None:
        """Kill the process itself; what it left is the sweep's business."""
        if not self.gone.is_set():
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of the terminal. What is still on it gets a hang-up from the kernel."""
        if self._master < 0:
            return
        self._stop_reading()
        self._loop.remove_writer(self._master)
        for descriptor in (self._master, self._slave):
            if descriptor >= 0:
                os.close(descriptor)
        self._master = self._slave = -1
        self._pending.clear()
        self.drained.set()
        self.room.set()


def _prepare(master: int, slave: int, size: Size) -> None:
    os.set_blocking(master, False)
    _set_size(master, size)
    modes = termios.tcgetattr(slave)
    modes[0] |= IUTF8  # so that a whole character is rubbed out, not one byte of it
    termios.tcsetattr(slave, termios.TCSANOW, modes)


def _set_size(descriptor: int, size: Size) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.cols, 0, 0))


def _popen(
    argv: Sequence[str], env: Mapping[str, str], cwd: str, slave: int
) -> "subprocess.Popen[bytes]":
    follow_parent = orphans.die_with_parent(os.getpid())

    def in_child() -> None:
        follow_parent()
        # An agentctl in the background may ignore the keyboard's signals; a shell must not.
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    return subprocess.Popen(
        list(argv),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
        # Threads are few here and none holds a lock that the child needs before exec.
        preexec_fn=in_child,
    )
