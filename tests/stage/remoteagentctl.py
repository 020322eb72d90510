"""An agentctl that somebody else runs, at an address of its own: what a Remote executor points at.

Started by its console module, with the operator's public keys as its owner would copy them from
the ConfigMap; killed, started again on its state, replaced by a stranger at the same port.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from stage.sessions import Body, Namespace

_MODULE = "kandev_operator.agentctl"
_SKEWED = f"""
import runpy, sys, time
real, skew = time.time, float(sys.argv.pop(1))
time.time = lambda: real() + skew
runpy.run_module({_MODULE!r}, run_name="__main__", alter_sys=True)
"""


class RemoteAgentctl:
    """One agentctl on one state folder and one port."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        audience: str = "remote-one",
        options: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.options = options
        self.audience = audience
        self.port = port or _free_port()
        self.workspace = folder / "workspace"
        self.workspace.mkdir(parents=True)
        self.jwks = folder / "jwks.json"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def trust(self, place: Namespace) -> None:
        """Take over the public keys of the operator whose Lease is in this namespace."""
        found = place.get("configmap", "kandev-agentctl-jwks")
        part = self.jwks.with_suffix(".part")
        part.write_text(found["data"]["jwks.json"])
        part.replace(self.jwks)

    def trust_nobody(self) -> None:
        self.jwks.write_text(json.dumps({"keys": []}))

    def start(self, *, skew_seconds: float = 0.0) -> "RemoteAgentctl":
        """Start it; returns when it answers."""
        module = ["-m", _MODULE] if not skew_seconds else ["-c", _SKEWED, str(skew_seconds)]
        words = ["run", "--state", self.folder / "state", "--workspace", self.workspace]
        words += ["--audience", self.audience, "--jwks", self.jwks, "--port", str(self.port)]
        words += self.options  # of an option given twice, the last counts
        with (self.folder / "agentctl.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *module, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + 30
        while time.monotonic() < end:
            assert self._process.poll() is None, self.said()
            try:
                if self.health()["instance_id"]:
                    return self
            except (OSError, urllib.error.URLError):
                time.sleep(0.05)
        raise AssertionError(f"agentctl does not answer\n{self.said()}")

    def health(self) -> Any:
        with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
            return json.load(answer)

    def kill(self) -> None:
        """SIGKILL, and wait for its end; its agent loses its stdin and ends too."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(10)

    def close(self) -> None:
        """End it and its agent."""
        if self._process is None or self._process.poll() is not None:
            return
        os.kill(self._process.pid, signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self) -> str:
        return (self.folder / "agentctl.log").read_text(errors="replace")[-3000:]

    def executor(self, name: str = "far", **remote: Any) -> Body:
        """The Executor that points at it."""
        return {
            "apiVersion": "kandev.dev/v1alpha1",
            "kind": "Executor",
            "metadata": {"name": name},
            "spec": {
                "runtime": "Remote",
                "remote": {"url": self.url, "audience": self.audience, **remote},
            },
        }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
