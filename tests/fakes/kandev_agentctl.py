"""Kandev's own agentctl as an external process: pinned, from npm, offline on loopback.

It answers where the program is, and runs one: started, killed, frozen, started again on the same
port with the same nonce, as a container would be. Nothing of it is part of this project (it is
AGPL): it is fetched into the user's cache and only ever talked to over its sockets.

    python -m fakes.kandev_agentctl install
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from fakes.node_tools import InstallError, cached, fetch_npm_package

PACKAGE, VERSION = "@kdlbs/runtime-linux-x64", "0.95.1"
PROGRAMS = {"x86_64": "agentctl", "aarch64": "agentctl-linux-arm64"}
PATIENCE = 30.0


def program() -> Path:
    """The program; the first call downloads it."""
    name = PROGRAMS.get(platform.machine())
    if name is None or sys.platform != "linux":
        raise InstallError(f"{PACKAGE} has no program for {sys.platform} {platform.machine()}")

    def bring(folder: Path) -> None:
        fetch_npm_package(PACKAGE, VERSION, folder / "all")
        [found] = (folder / "all").glob(f"node_modules/{PACKAGE}/bin/{name}")
        found.rename(folder / "agentctl")
        shutil.rmtree(folder / "all")  # half a gigabyte for other machines
        (folder / "agentctl").chmod(0o755)

    return cached(f"kandev-agentctl-{VERSION}-{platform.machine()}", bring) / "agentctl"


class KandevAgentctl:
    """One control server, with instances on the ports after its own."""

    def __init__(self, folder: Path, *, nonce: str | None = "", port: int = 0) -> None:
        self.folder = folder
        self.nonce = secrets.token_hex(16) if nonce == "" else nonce
        self.nonce_file = folder / "nonce"
        self.nonce_file.parent.mkdir(parents=True, exist_ok=True)
        self.nonce_file.write_text((self.nonce or "") + "\n")
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)
        self.workspace = folder / "repository"
        self.workspace.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "--quiet", str(self.workspace)], check=True)
        self.port = port or free_ports()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.token: str | None = None

    def start(self) -> KandevAgentctl:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.home),  # it leaves a folder in it at every start
            "AGENTCTL_PORT": str(self.port),
            "AGENTCTL_LISTEN_HOST": "127.0.0.1",
            "AGENTCTL_INSTANCE_PORT_BASE": str(self.port + 1),
            "AGENTCTL_INSTANCE_PORT_MAX": str(self.port + 9),
        }
        if self.nonce is not None:
            env["AGENTCTL_BOOTSTRAP_NONCE"] = self.nonce
        with (self.folder / "kandev.log").open("ab") as log:
            self.process = subprocess.Popen(
                [str(program()), "-workdir", str(self.workspace)],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.said()
            try:
                if self.call("GET", "/health")["status"] == "ok":
                    return self
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"Kandev's agentctl does not answer\n{self.said()}")

    def kill(self) -> None:
        """SIGKILL: its instances are forgotten; its agents see the end of their input."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait(30)

    def freeze(self) -> None:
        """It hangs: its sockets accept and nobody answers."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it gently, with its agents."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self) -> str:
        return (self.folder / "kandev.log").read_text(errors="replace")

    # ---- as Kandev's own backend would -------------------------------------------------

    def handshake(self) -> str:
        """Burn the nonce, as somebody else who knows it."""
        self.token = str(self.call("POST", "/auth/handshake", {"nonce": self.nonce})["token"])
        return self.token

    def call(self, method: str, path: str, body: Any = None, port: int | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port or self.port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def instances(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", "/api/v1/instances")["instances"]
        return found


def free_ports() -> int:
    """A port with nine free ones behind it."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first: int = probe.getsockname()[1]
        if first < 65_000 and all(is_free(first + n) for n in range(1, 10)):
            return first


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main() -> None:
    try:
        print(f"kandev agentctl {VERSION}: {program()}")
    except InstallError as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()
