"""Runs one component and sees to it that the component does not outlive its owner.

Started as a script, by `processes.py`: `warden.py OWNER_PID FOLDER COMMAND...`. It writes the
component's process id on its standard output, then watches two things: when the component ends, so
does the warden; when the owner is gone, however it went, the component is killed and FOLDER (if
not empty words) is removed.

A process between the two is the one arrangement that survives everything. The kernel's own
"signal me when my parent dies" means the parent's thread, so a component started from a short-lived
thread would be shot with it; and `atexit` or `finally` never run in a process that was killed. For
the warden, whose only thread lives as long as itself, the kernel's way is right, and it is used.
Standard library only; the interpreter starts it without site-packages.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LOOK_EVERY = 0.1


def main(arguments: list[str]) -> int:
    owner, folder, *command = arguments
    component = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=_die_with_parent(),
    )
    # Only now: a component would inherit the ignored signals, and could not be asked to stop.
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), f"{component.pid}\n".encode())
    os.close(sys.stdout.fileno())
    while component.poll() is None:
        if os.getppid() != int(owner):
            component.kill()
            component.wait()
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            break
        time.sleep(_LOOK_EVERY)
    return component.returncode


def _die_with_parent() -> Callable[[], None] | None:
    """Return what a child calls to be killed with its warden, where the kernel can do that."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) != 0)
