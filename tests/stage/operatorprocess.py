"""The real operator as a process of its own, to be started, frozen, killed and started again.

It is run as a user would run it: the console module, options, a kubeconfig. Its log goes to a
file whose tail is part of every failure. Knows nothing of what the operator does.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_PORT = re.compile(r"on port (\d+)")


class OperatorProcess:
    """One `kandev-operator run`. The same value can be started again after its end."""

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        *,
        namespaces: Sequence[str] = (),
        roots: Mapping[str, Path] | None = None,
        lease_namespace: str = "kandev-system",
        options: Sequence[str] = (),
    ) -> None:
        self.log = log
        scope = [f"--namespace={name}" for name in namespaces] or ["--all-namespaces"]
        local = [f"--allow-local-executors={name}={root}" for name, root in (roots or {}).items()]
        self.command = [
            sys.executable,
            "-m",
            "kandev_operator.controller",
            "run",
            *scope,
            *local,
            f"--kubeconfig={kubeconfig}",
            f"--lease-namespace={lease_namespace}",
            "--listen=127.0.0.1:0",
            "--log-format=text",
            "--lease-seconds=5",
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._offset = 0

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the operator was started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait_ready: bool = True) -> Self:
        """Start it; returns when /readyz says so."""
        self._offset = self.log.stat().st_size if self.log.exists() else 0
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        if wait_ready:
            self.wait_ready()
        return self

    def wait_ready(self, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.is_running:
                raise AssertionError(f"the operator ended:\n{self.tail()}")
            with contextlib.suppress(OSError, LookupError):
                if self.get("/readyz")[0] == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"the operator is not ready after {seconds} s:\n{self.tail()}")

    @property
    def port(self) -> int:
        """Where it serves health and metrics; LookupError while it has not said so."""
        with self.log.open("rb") as log:
            log.seek(self._offset)
            said = _PORT.findall(log.read().decode(errors="replace"))
        if not said:
            raise LookupError("no port was logged yet")
        return int(said[-1])

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of one of its own pages."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            if not line.startswith((f"{name} ", f"{name}{{")):
                continue
            if all(f'{key}="{value}"' in line for key, value in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self._end(signal.SIGTERM)
        assert self._process is not None
        return self._process.returncode

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tail(self, lines: int = 60) -> str:
        """The end of its log, for a failure's text."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        if number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)  # a frozen process dies only when it wakes
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise AssertionError(f"the operator did not end:\n{self.tail()}") from None
