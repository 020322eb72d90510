"""One running component: started, paused, killed, and asked whether it is ready.

A component runs under a warden (`warden.py`) in a session and process group of its own, so neither
Ctrl-C in a terminal nor a stray signal to the test run's group reaches it, and it dies with the
process that started it. What it says goes to a log file, whose end becomes part of any error.
What the components are, and in which order they start, is `controlplane.py`'s business.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cluster.errors import ControlPlaneError

_WARDEN = Path(__file__).with_name("warden.py")
_LOG_LINES = 20
_LOG_WIDTH = 400


class Component:
    """A program that can be started again after it ended; its log goes on in the same file."""

    def __init__(self, name: str, log: Path, orphaned_folder: Path | None = None) -> None:
        self.name = name
        self.log = log
        self._orphaned_folder = orphaned_folder
        self._warden: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def is_running(self) -> bool:
        return self._warden is not None and self._warden.poll() is None

    @property
    def pid(self) -> int:
        """The component's own process id, not its warden's."""
        if not self.is_running:
            raise ControlPlaneError(f"{self.name} is not running")
        return self._pid

    def start(self, command: Sequence[str | Path]) -> None:
        if self.is_running:
            raise ControlPlaneError(f"{self.name} is running already")
        folder = str(self._orphaned_folder or "")
        warden = [sys.executable, "-I", "-S", str(_WARDEN), str(os.getpid()), folder]
        with self.log.open("ab") as log:
            self._warden = subprocess.Popen(
                [*warden, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert self._warden.stdout is not None
        with self._warden.stdout as stdout:
            answer = stdout.readline()
        if not answer:
            self._warden.wait()
            raise self.failure("could not be started")
        self._pid = int(answer)

    def pause(self) -> None:
        """Stop it in its tracks, and return when every thread of it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        deadline = time.monotonic() + 5
        while not _stands_still(self.pid):
            if time.monotonic() > deadline:
                raise self.failure("did not stand still after SIGSTOP")
            time.sleep(0.005)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill it, paused or not, and return when it is gone and its port is free again."""
        if self._warden is None:
            return
        if self.is_running:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        try:
            # The warden ends after it has reaped the component, so its end proves the other's.
            self._warden.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._warden.pid, signal.SIGKILL)
            self._warden.wait()

    def wait_until(self, is_ready: Callable[[], bool], what: str, timeout: float) -> None:
        """Ask again and again; raise when the program ended or the time is over."""
        deadline = time.monotonic() + timeout
        last = "no answer"
        while True:
            try:
                if is_ready():
                    return
            except OSError as error:
                last = str(error)
            if not self.is_running:
                raise self.failure("ended by itself")
            if time.monotonic() > deadline:
                raise self.failure(f"not {what} after {timeout:g} s ({last})")
            time.sleep(0.03)

    def failure(self, what: str) -> ControlPlaneError:
        """Return an error that carries the end of the log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        tail = [line[:_LOG_WIDTH] for line in lines[-_LOG_LINES:]]
        return ControlPlaneError("\n".join([f"{self.name} {what}; the end of its log:", *tail]))


def _stands_still(pid: int) -> bool:
    """Tell whether all threads are stopped; a signal is only a request until then."""
    if sys.platform != "linux":
        time.sleep(0.1)
        return True
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError):
            # The name in parentheses may hold anything; the state is the first word after it.
            if stat.read_text().rpartition(")")[2].split()[0] not in "TZX":
                return False
    return True
