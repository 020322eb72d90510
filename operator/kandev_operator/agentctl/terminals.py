"""Terminals that the agent has its client run: a command each, in a process group of its own.

Both outputs go into one bounded tail, cut at whole characters. A terminal is known until it is
released; killing it leaves it known, with its exit. All of them carry the agent's marks and end
with the agent at the latest, with whatever they started. They are no shells of a person: nobody
types into them.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kandev_operator.agentctl import exits, orphans

MAX_TERMINALS: Final = 32
DEFAULT_OUTPUT: Final = 256 * 1024
MAX_OUTPUT: Final = 4 * 1024 * 1024
CHUNK: Final = 64 * 1024
TERM_GRACE: Final = 1.0
DRAIN: Final = 0.5
"""After the end of a command its last words are waited for so long; a child may hold the pipe."""


class TerminalRefused(Exception):
    """The agent asked for a terminal that cannot be; the text says why."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int | None
    signal: str | None


class Terminal:
    """One running, or ended, command."""

    def __init__(
        self,
        terminal_id: str,
        popen: "subprocess.Popen[bytes]",
        limit: int,
        on_end: "Callable[[Terminal], None]",
    ) -> None:
        self.terminal_id = terminal_id
        self._popen, self._limit, self._on_end = popen, limit, on_end
        self._parts: deque[bytes] = deque()
        self._kept = 0
        self.truncated = False
        self.ended: Ended | None = None
        self._gone = asyncio.Event()
        self._quiet = asyncio.Event()
        assert popen.stdout is not None
        self._pipe = popen.stdout.fileno()
        os.set_blocking(self._pipe, False)
        loop = asyncio.get_running_loop()
        loop.add_reader(self._pipe, self._read)
        pidfd = os.pidfd_open(popen.pid)
        loop.add_reader(pidfd, self._exited, pidfd)

    def _read(self) -> None:
        try:
            data = os.read(self._pipe, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._pipe)
            self._quiet.set()
            return
        self._parts.append(data)
        self._kept += len(data)
        while self._kept - len(self._parts[0]) >= self._limit and len(self._parts) > 1:
            self._kept -= len(self._parts.popleft())
            self.truncated = True

    def _exited(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        os.close(pidfd)
        code = self._popen.poll()
        orphans.collected(self._popen.pid)
        if code is None or code >= 0:
            self.ended = Ended(code, None)
        else:
            self.ended = Ended(None, exits.name_of(-code))
        self._gone.set()
        self._on_end(self)

    def output(self) -> str:
        """What it wrote, from the end backwards as much as is kept, cut at a whole character."""
        data = b"".join(self._parts)
        if len(data) > self._limit:
            self.truncated = True
            data = data[-self._limit :]
            while data and data[0] & 0xC0 == 0x80:
                data = data[1:]
        return data.decode("utf-8", "replace").replace("\0", "")

    async def wait(self) -> Ended:
        """Wait until it has ended and its last words are read."""
        await self._gone.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN):
                await self._quiet.wait()
        assert self.ended is not None
        return self.ended

    async def kill(self) -> None:
        """TERM to its group, and KILL to what is left after a moment."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TERM_GRACE):
                await self._gone.wait()
        self.kill_at_once()
        await self._gone.wait()

    def kill_at_once(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # Its own number stays taken for as long as anybody of the group lives.
        with contextlib.suppress(OSError):
            os.killpg(self._popen.pid, number)

    def close(self) -> None:
        """Let go of the pipe, whoever else holds it."""
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._pipe)
        if self._popen.stdout is not None:
            self._popen.stdout.close()
        self._quiet.set()


class Terminals:
    """All terminals of one agent process."""

    def __init__(self, on_end: Callable[[Terminal], None]) -> None:
        self._known: dict[str, Terminal] = {}
        self._made = 0
        self._on_end = on_end

    def create(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, limit: int | None
    ) -> Terminal:
        """Start a command; raises TerminalRefused."""
        if len(self._known) >= MAX_TERMINALS:
            raise TerminalRefused(f"{MAX_TERMINALS} terminals are open already: release some")
        kept = DEFAULT_OUTPUT if limit is None else min(limit, MAX_OUTPUT)
        try:
            popen = orphans.launch(lambda: _popen(argv, env, cwd))
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            why = exc.strerror if isinstance(exc, OSError) and exc.strerror else "not launchable"
            raise TerminalRefused(f"{argv[0][:200]}: {why}") from None
        self._made += 1
        terminal = Terminal(f"term-{self._made}", popen, kept, self._on_end)
        self._known[terminal.terminal_id] = terminal
        return terminal

    def get(self, terminal_id: str) -> Terminal:
        """One that was not released yet; raises TerminalRefused."""
        try:
            return self._known[terminal_id]
        except KeyError:
            raise TerminalRefused("no such terminal is open") from None

    async def release(self, terminal_id: str) -> None:
        """End it if it runs, and forget it."""
        terminal = self.get(terminal_id)
        del self._known[terminal_id]
        try:
            if terminal.ended is None:
                await terminal.kill()
            terminal.kill_at_once()  # what it left in its group
        finally:
            terminal.close()

    async def end(self) -> None:
        """The agent is gone: none of them stays."""
        for terminal in self._known.values():
            terminal.kill_at_once()
        for terminal in self._known.values():
            await terminal.wait()
            terminal.close()
        self._known.clear()


def argv_of(command: str, args: Sequence[str], path: str | None) -> tuple[str, ...]:
    """The words to run. Some agents put a whole shell line into the command's place."""
    if args or shutil.which(command, path=path) is not None:
        return (command, *args)
    return ("/bin/sh", "-c", command)


def _popen(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
        preexec_fn=orphans.die_with_parent(os.getpid()),
    )
