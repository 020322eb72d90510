"""One PostgreSQL server below a folder of its own, reached through a socket in it and no port.

It never runs as root: where the tests do, the server is nobody's. Its folder lies beside the run's
other folders, because nobody may not enter those; it goes with the server, and with the process
that started it, however that ends. Nothing is synced to the disk: servers are killed here, machines
are not.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import ControlPlaneError
from cluster.postgres.package import Programs, programs
from cluster.processes import Component

USER = "kandev"
_PATIENCE = 60.0
_UNSAFE_AND_QUICK = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", "jit=off")


class PostgresServer:
    """Made once, started and stopped as often as one likes; `close` removes what it had."""

    def __init__(self, found: Programs | None = None) -> None:
        self._programs = found or programs()
        # Not below the run's folder, which is closed to others. Short: a socket lies in it.
        self.folder = Path(tempfile.mkdtemp(prefix="k-pg-", dir=_outside()))
        self._data = self.folder / "data"
        self._server = Component("postgres", self.folder / "server.log", self.folder)
        if os.geteuid() == 0:
            shutil.chown(self.folder, "nobody", _nobodys_group())
        self.folder.chmod(0o700)
        self._run("initdb", "-D", self._data, "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8")

    @property
    def is_running(self) -> bool:
        return self._server.is_running

    def url(self, database: str) -> str:
        """What a gateway takes."""
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def start(self) -> None:
        """Start it; returns when it answers."""
        settings = [f"-c{each}" for each in (*_UNSAFE_AND_QUICK, "listen_addresses=")]
        command = [self._program("postgres"), "-D", self._data, "-k", self.folder, *settings]
        self._server.start([*self._as_nobody(), *map(str, command)])
        self._server.wait_until(self._answers, "answering", _PATIENCE)

    def stop(self, number: int = signal.SIGINT) -> None:
        """End it at once (SIGINT: cuts connections, SIGQUIT: as if it had crashed)."""
        if not self._server.is_running:
            return
        os.kill(self._server.pid, number)
        deadline = time.monotonic() + _PATIENCE
        while self._server.is_running:
            if time.monotonic() > deadline:
                raise self._server.failure("did not end")
            time.sleep(0.02)

    def close(self) -> None:
        """End it, and remove all that it had."""
        try:
            self.stop()
        finally:
            self._server.kill()
            shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def database(self) -> Iterator[str]:
        """An empty database; gives its URL."""
        name = f"d{uuid.uuid4().hex[:12]}"
        self.ask("postgres", f"CREATE DATABASE {name} STRATEGY file_copy")
        try:
            yield self.url(name)
        finally:
            if self._server.is_running:
                self.ask("postgres", f"DROP DATABASE {name} WITH (FORCE)")

    def ask(self, database: str, statement: str) -> str:
        """One statement, asked by psql; its answer as bare text."""
        return self._run(
            "psql", "-h", self.folder, "-U", USER, "-XAtc", statement, "-d", database
        ).strip()

    def _answers(self) -> bool:
        try:
            return self.ask("postgres", "SELECT 1") == "1"
        except ControlPlaneError:
            return False

    def _program(self, name: str) -> Path:
        own = self._programs.folder / name
        return own if own.exists() else Path(shutil.which(name) or own)

    def _as_nobody(self) -> list[str]:
        words = [f"{name}={value}" for name, value in self._programs.environment.items()]
        if os.geteuid() == 0:
            user = ["setpriv", "--reuid=nobody", f"--regid={_nobodys_group()}", "--clear-groups"]
            return [*user, "env", "-C", str(self.folder), *words]
        return ["env", "-C", str(self.folder), *words]

    def _run(self, name: str, *words: str | Path) -> str:
        command = [*self._as_nobody(), str(self._program(name)), *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE)
        if done.returncode:
            raise ControlPlaneError(f"{name} failed:\n{done.stderr[-1500:]}")
        return done.stdout


def _nobodys_group() -> str:
    return "nogroup" if Path("/etc/debian_version").exists() else "nobody"


def _outside() -> str | None:
    """A folder for temporary things that anybody may enter; None: the usual one."""
    return "/tmp" if os.geteuid() == 0 else None
