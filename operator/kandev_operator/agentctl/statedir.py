"""The state folder: who owns it, who is served from it, and the folder of each session.

    DIR/.gitignore     everything: what is here is nobody's commit
    DIR/lock           held exclusively while an agentctl runs
    DIR/instance-id    who this is, across restarts
    DIR/run.json       where it listens now
    DIR/owner.json     who owns the folder, with a heartbeat (see `owner`)
    DIR/served.json    the session served last, and the highest term seen
    DIR/sessions/ID/   journal.db, marker.json, home/ (the agent's HOME)

Every file is replaced by rename, so a reader sees the old one or the new one. What is in the
journals is not known here.
"""

import contextlib
import fcntl
import json
import os
import re
import uuid
from hashlib import sha256
from pathlib import Path
from typing import Any

PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class AlreadyRunning(Exception):
    """Another agentctl holds the lock of this state folder."""


def write_json(path: Path, content: dict[str, Any], *, sync: bool = True) -> None:
    """Replace a file as a whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("w") as file:
            json.dump(content, file, separators=(",", ":"))
            if sync:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def overwrite_json(path: Path, content: dict[str, Any]) -> None:
    """Change a file where it lies: all that a disk without room for another one allows."""
    data = json.dumps(content, separators=(",", ":")).encode()
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.pwrite(file, data.ljust(os.fstat(file).st_size), 0)
    finally:
        os.close(file)


def read_json(path: Path) -> dict[str, Any]:
    """Read a file; what is missing or unreadable is empty."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class SessionFolder:
    """The folder of one session."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = path / "journal.db"
        self.home = path / "home"

    def marker(self) -> dict[str, Any]:
        return read_json(self.path / "marker.json")

    def mark(self, session_id: str, namespace: str, name: str) -> None:
        content = {"session_id": session_id, "namespace": namespace, "name": name}
        if self.marker() != content:
            write_json(self.path / "marker.json", content)


class StateDir:
    """The state folder of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sessions = path / "sessions"
        self._lock: int | None = None

    def own(self) -> None:
        """Make the folder and take its lock; raises AlreadyRunning."""
        self.sessions.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise AlreadyRunning(str(self.path)) from None
        self._lock = lock
        # Where the folder lies in a repository, nobody commits what is in it.
        (self.path / ".gitignore").write_text("*\n")
        # What a dead owner wrote about itself is not true any more.
        with contextlib.suppress(FileNotFoundError):
            (self.path / "run.json").unlink()

    def instance_id(self) -> str:
        """The id kept on disk; made at the first start."""
        path = self.path / "instance-id"
        with contextlib.suppress(OSError):
            if found := path.read_text().strip():
                return found
        fresh = str(uuid.uuid4())
        path.write_text(fresh + "\n")
        return fresh

    # ---- what is served ----------------------------------------------------------------

    def served(self) -> tuple[str | None, int]:
        """(session served last, highest term)."""
        found = read_json(self.path / "served.json")
        session_id, term = found.get("session_id"), found.get("term")
        return (
            session_id if isinstance(session_id, str) else None,
            term if isinstance(term, int) else 0,
        )

    def serve(self, session_id: str | None, term: int) -> None:
        content: dict[str, Any] = {"session_id": session_id, "term": term}
        if read_json(self.path / "served.json") != content:
            write_json(self.path / "served.json", content)

    # ---- sessions ----------------------------------------------------------------------

    def folder(self, session_id: str) -> SessionFolder:
        """Where the session's folder is, whether or not it exists."""
        plain = PLAIN.fullmatch(session_id) is not None
        name = session_id if plain else "~" + sha256(session_id.encode()).hexdigest()[:32]
        return SessionFolder(self.sessions / name)

    def prepare(
        self, session_id: str, namespace: str, name: str, adopt_from: str | None
    ) -> SessionFolder:
        """Find, adopt or make the session's folder, and write its marker.

        Adoption wants the old folder to name the same namespace and name: another session's
        history is never taken.
        """
        folder = self.folder(session_id)
        if not folder.path.exists() and adopt_from:
            old = self.folder(adopt_from)
            marker = old.marker()
            if (marker.get("namespace"), marker.get("name")) == (namespace, name):
                old.path.rename(folder.path)
        folder.home.mkdir(parents=True, exist_ok=True)
        folder.mark(session_id, namespace, name)
        return folder
