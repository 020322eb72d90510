"""Finding and ending what an execution left behind: one writer, always.

Every process of an agent carries KANDEV_STATE and KANDEV_EXECUTION_ID in its environment, children
too, whatever group or session they moved to (the first alone may be anybody's: agentctl itself can
be told its state folder that way). And since agentctl is the subreaper, what loses its parent
becomes its child; those are killed, too, unless agentctl is the first process of a container, which
adopts everybody's orphans. What agentctl launched itself is left to whoever did so. Nobody else is
ever touched.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
STATE_MARK: Final = "KANDEV_STATE"
EXECUTION_MARK: Final = "KANDEV_EXECUTION_ID"

_libc = ctypes.CDLL(None, use_errno=True)
_launched: set[int] = set()
"""Processes that agentctl launched, until whoever launched them has collected them."""
_looking = threading.Lock()
"""Held while one is launched and while orphans are looked for: a child that is not known yet would
be taken for one."""


def launch(make: "Callable[[], subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes]":
    """Make a process that is known from its first moment."""
    with _looking:
        made = make()
        _launched.add(made.pid)
    return made


def collected(pid: int) -> None:
    """Its end was waited for: the number may belong to anybody from now on."""
    _launched.discard(pid)


def become_subreaper() -> bool:
    """Orphans of this process's tree become its children from now on."""
    return bool(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def die_with_parent(parent: int) -> Callable[[], None]:
    """What a child does between fork and exec so that it cannot outlive its parent."""

    def in_child() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return in_child


def marked(state: str) -> list[int]:
    """Living processes that carry the mark of this state folder, but not this process."""
    wanted = b"\0" + f"{STATE_MARK}={state}".encode() + b"\0"
    execution = f"\0{EXECUTION_MARK}=".encode()
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environ = b"\0" + file.read() + b"\0"
            if wanted in environ and execution in environ and not is_zombie(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


def is_zombie(pid: int) -> bool:
    fields = stat_fields(pid)
    return not fields or fields[0] in ("Z", "X")


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name, the state first; empty if gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def birth(pid: int) -> int:
    """The start time of a process, in clock ticks since the machine's: tells reused pids apart."""
    fields = stat_fields(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def children() -> list[int]:
    """The living children of this process, adopted ones too."""
    own = str(os.getpid())
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if len(fields) > 1 and fields[1] == own:
                found.append(int(name))
    return found


def _strangers(keep: frozenset[int]) -> list[int]:
    """Children that agentctl did not launch."""
    with _looking:
        return [pid for pid in children() if pid not in keep and pid not in _launched]


def adopted(keep: frozenset[int]) -> list[int]:
    """Living children that this process never launched: what lost its parent in the agent's tree.

    The first process of a container gets orphans of other origins as well; none is told there.
    """
    if os.getpid() == 1:
        return []
    return [pid for pid in _strangers(keep) if not is_zombie(pid)]


def reap(keep: frozenset[int]) -> None:
    """Collect dead orphans; those in `keep` are collected by whoever launched them."""
    for pid in _strangers(keep):
        if is_zombie(pid):
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def kill_leftovers(state: str, keep: frozenset[int] = frozenset(), timeout: float = 5.0) -> int:
    """Kill every marked process and wait until they are gone; gives how many there were.

    A process may fork while it is being killed: looked at again until none is found.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        left = {pid for pid in marked(state) if pid not in keep} | set(adopted(keep))
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        reap(keep)
        if not left:
            return len(killed)
        time.sleep(0.01)
    raise TimeoutError(f"{len(killed)} processes of an earlier execution do not end")
