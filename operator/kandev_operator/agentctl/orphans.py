"""Finding and ending what an execution, or a shell, left behind: one writer, always.

Every process of an agent carries KANDEV_STATE and KANDEV_EXECUTION_ID in its environment, children
too, whatever group or session they moved to (the first alone may be anybody's: agentctl itself can
be told its state folder that way). A shell's carry KANDEV_SHELL_ID instead of the second. And since
agentctl is the subreaper, what loses its parent becomes its child; those are killed, too, unless
agentctl is the first process of a container, which adopts everybody's orphans. What agentctl
launched itself is left to whoever did so, and at an agent's end, what belongs to a living shell to
that shell. Nobody else is ever touched.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

PR_SET_PDEATHSIG: Final = 1
PR_SET_CHILD_SUBREAPER: Final = 36
STATE_MARK: Final = "KANDEV_STATE"
EXECUTION_MARK: Final = "KANDEV_EXECUTION_ID"
SHELL_MARK: Final = "KANDEV_SHELL_ID"
NAMED: Final = 3
"""Processes that a refusal names."""

_libc = ctypes.CDLL(None, use_errno=True)
_launched: set[int] = set()
"""Processes that agentctl launched, until whoever launched them has collected them."""
_shells: dict[int, str] = {}
"""Those among them that are shells: pid, which is also the session's number, and id."""
_looking = threading.Lock()
"""Held while one is launched and while orphans are looked for: a child that is not known yet would
be taken for one."""


def launch(
    make: "Callable[[], subprocess.Popen[bytes]]", shell_id: str | None = None
) -> "subprocess.Popen[bytes]":
    """Make a process that is known from its first moment, and as which shell, if it is one."""
    with _looking:
        made = make()
        _launched.add(made.pid)
        if shell_id is not None:
            _shells[made.pid] = shell_id
    return made


def collected(pid: int) -> None:
    """Its end was waited for: the number may belong to anybody from now on."""
    _launched.discard(pid)
    _shells.pop(pid, None)


def _living_shells() -> tuple[set[str], set[str]]:
    """Numbers and ids of the shells. Ask after the processes were looked at, not before: one that
    was seen is known by then."""
    with _looking:
        return {str(pid) for pid in _shells}, set(_shells.values())


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
    """Living processes that carry the marks of this state folder: an execution's, or those of a
    shell that is over. Not this process."""
    found = _carriers(state)
    _, shells = _living_shells()
    return [pid for pid, environ in found if _is_meant(environ, shells)]


def _is_meant(environ: bytes, living: set[str]) -> bool:
    shell = value(environ, SHELL_MARK)
    if shell is not None:
        return shell not in living
    return value(environ, EXECUTION_MARK) is not None


def of_shell(state: str, shell_id: str, leader: int) -> list[int]:
    """Living processes of one shell: in its session, or carrying its mark anywhere else."""
    found = {pid for pid, environ in _carriers(state) if value(environ, SHELL_MARK) == shell_id}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            # A number that a session still has is given to no other process.
            if len(fields) > 3 and fields[3] == str(leader) and fields[0] not in ("Z", "X"):
                found.add(int(name))
    return sorted(found)


def _carriers(state: str) -> list[tuple[int, bytes]]:
    """Living processes that were told this state folder, with their environments."""
    own = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == own:
            continue
        environ = _environ(int(name))
        if value(environ, STATE_MARK) == state and not is_zombie(int(name)):
            found.append((int(name), environ))
    return found


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read() + b"\0"
    except OSError:
        return b""


def value(environ: bytes, name: str) -> str | None:
    """A variable's value, in an environment whose entries have a NUL before and after them."""
    _, sep, rest = environ.partition(f"\0{name}=".encode())
    return os.fsdecode(rest.partition(b"\0")[0]) if sep else None


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
    found = [(pid, stat_fields(pid), _environ(pid)) for pid in _strangers(keep)]
    sessions, shells = _living_shells()
    return [
        pid
        for pid, fields, environ in found
        if len(fields) > 3
        and fields[0] not in ("Z", "X")
        and fields[3] not in sessions
        and value(environ, SHELL_MARK) not in shells
    ]


def reap(keep: frozenset[int]) -> None:
    """Collect dead orphans; those in `keep` are collected by whoever launched them."""
    for pid in _strangers(keep):
        if is_zombie(pid):
            with contextlib.suppress(OSError):
                os.waitpid(pid, os.WNOHANG)


def kill_leftovers(state: str, keep: frozenset[int] = frozenset(), timeout: float = 5.0) -> int:
    """Kill every marked process and wait until they are gone; gives how many there were.

    A process may fork while it is being killed: looked at again until none is found. Raises
    Lingering where some do not end in time: one that became another user's cannot be signalled.
    """

    def left() -> set[int]:
        return {pid for pid in marked(state) if pid not in keep} | set(adopted(keep))

    return _kill(left, keep, timeout)


def kill_shell(state: str, shell_id: str, leader: int, timeout: float = 5.0) -> int:
    """The same for one shell, whose own process is its session's leader."""
    return _kill(lambda: set(of_shell(state, shell_id, leader)), frozenset(), timeout)


def _kill(find: Callable[[], set[int]], keep: frozenset[int], timeout: float) -> int:
    killed: set[int] = set()
    denied: set[int] = set()
    left: set[int] = set()
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        left = find()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError:
                denied.add(pid)
            except OSError:
                continue
            killed.add(pid)
        reap(keep)
        if not left:
            return len(killed)
        time.sleep(0.01)
    raise Lingering(sorted(left), frozenset(denied))


class Lingering(TimeoutError):
    """Processes that do not end; the text names some of them, and says what helps."""

    def __init__(self, pids: Sequence[int], denied: frozenset[int]) -> None:
        self.pids = pids
        names = ", ".join(map(_described, pids[:NAMED]))
        more = f" and {len(pids) - NAMED} more" if len(pids) > NAMED else ""
        if denied.intersection(pids):
            why = (
                f"agentctl (uid {os.geteuid()}) may not end what belongs to another user: end it "
                "as that user or as root, or replace the pod or container"
            )
        else:
            why = "killed, and not gone: the kernel waits for something, often a file system"
        super().__init__(f"left by an earlier execution: {names}{more}; {why}")


def _described(pid: int) -> str:
    """A process for people: its program alone, since arguments may hold a secret."""
    told = {"Name": "unknown", "Uid": "unknown"}
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            told |= dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except OSError:
        return f"process {pid}, which has just ended"
    return f"process {pid} ({told['Name']}, uid {' '.join(told['Uid'].split()[:1])})"
