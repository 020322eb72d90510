"""The real gateway as a process of its own: started, killed, frozen and started again on its port.

Run as a user would run it. Knows nothing of what it serves; `onlooker` is a client for it.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self


class GatewayProcess:
    """One `kandev-gateway run`. The same value can be started again after its end."""

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        *,
        namespaces: Sequence[str],
        operator_namespace: str,
        options: Sequence[str] = ("--no-login",),
        database_url: str | None = None,
    ) -> None:
        self.log = folder / "gateway.log"
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.command = [
            sys.executable,
            "-m",
            "kandev_operator.gateway",
            "run",
            *(f"--namespace={name}" for name in namespaces),
            f"--kubeconfig={kubeconfig}",
            f"--operator-namespace={operator_namespace}",
            f"--listen=127.0.0.1:{self.port}",
            f"--database-url={database_url or f'sqlite:///{folder}/gateway.db'}",
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

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
        assert self._process is not None, "the gateway was started"
        return self._process.pid

    def start(self, *, wait_ready: bool = True) -> Self:
        """Start it; returns when /readyz says so."""
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
            assert self._process is not None
            if self._process.poll() is not None:
                raise AssertionError(f"the gateway ended:\n{self.tail()}")
            with contextlib.suppress(OSError):
                if self.get("/readyz")[0] == 200:
                    return
            time.sleep(0.05)
        raise AssertionError(f"the gateway is not ready after {seconds} s:\n{self.tail()}")

    def wait_welcome(self, operator_log: Path, seconds: float = 60) -> None:
        """Return when the operator has found the gateway's key: agentctls take its tokens then."""
        end = time.monotonic() + seconds
        while "gateways' keys that are listed: 1" not in operator_log.read_text(errors="replace"):
            assert time.monotonic() < end, f"the operator lists no gateway's key:\n{self.tail()}"
            time.sleep(0.1)

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of one of its pages."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        self._end(signal.SIGTERM)
        assert self._process is not None
        return self._process.returncode

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
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
            raise AssertionError(f"the gateway did not end:\n{self.tail()}") from None


def _free_port() -> int:
    """One that nobody has now; it is the gateway's through all its starts."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
