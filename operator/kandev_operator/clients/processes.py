"""Processes of this machine, told apart for certain: what lives, since when, and how it is ended.

A pid alone means nothing, because pids are used again; a pid with its birth (the start time in
/proc) names one process for ever. A signal is sent through a pidfd that was opened before the
birth was compared, so it can never hit a stranger. Reads /proc, so Linux only.
"""

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_DEAD: Final = ("Z", "X", "x")
_MODULE: Final = "kandev_operator.agentctl"


def birth_of(pid: int) -> int | None:
    """When the process started, in the kernel's ticks; None for one that is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            content = file.read()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything, so count from its end.
    fields = content.rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0].decode("ascii", "replace") in _DEAD:
        return None
    return int(fields[19])


def carrying(entry: str) -> list[int]:
    """Living processes, but this one, whose environment holds exactly this NAME=VALUE."""
    wanted = f"\0{entry}\0".encode()
    own = os.getpid()
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own]
    return [pid for pid in pids if wanted in _environment(pid) and birth_of(pid) is not None]


def instances(prefix: str, state: Path | None = None) -> list[tuple[int, int, Path]]:
    """Living agentctls by their command lines: pid, birth and state folder of each whose instance
    id begins with `prefix` (and that serves `state`, where that is given)."""
    found = []
    for name in os.listdir("/proc"):
        words = _command_line(int(name)) if name.isdigit() else []
        if _MODULE not in words or "--state" not in words:
            continue
        folder = Path(words[words.index("--state") + 1])
        named = words[words.index("--instance-id") + 1] if "--instance-id" in words else ""
        birth = birth_of(int(name))
        wanted = named.startswith(prefix) and state in (None, folder)
        if wanted and birth is not None:
            found.append((int(name), birth, folder))
    return found


def _command_line(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().decode(errors="replace").split("\0")
    except OSError:
        return []
    return [*words, ""]  # so that an option at the end has an empty value


def _environment(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read() + b"\0"
    except OSError:
        return b""


@dataclass(frozen=True)
class Handle:
    """One process, held open: its pid cannot become somebody else's behind our back."""

    pid: int
    pidfd: int

    @classmethod
    def open(cls, pid: int, birth: int) -> Self | None:
        """Hold the process that has this pid and birth; None when it is gone."""
        try:
            handle = cls(pid, os.pidfd_open(pid))
        except OSError:
            return None
        if birth_of(pid) != birth:
            handle.close()
            return None
        return handle

    def close(self) -> None:
        """Let go of it. If it was our child and has died, it does not stay as a zombie."""
        os.close(self.pidfd)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; one that has died in the meantime does not mind."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, number)

    async def ended(self, timeout: float) -> bool:
        """Wait for its end; False when it still lives after the timeout."""
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.add_reader(self.pidfd, over.set)
        try:
            async with asyncio.timeout(timeout):
                await over.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self.pidfd)
        return True
