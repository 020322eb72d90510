"""What the scripted agent remembers: a session is one JSON file, whole or not there at all.

It answers which sessions exist and what was said in them, and when a finished turn reaches the
disk. It refuses to know the protocol; its folder is under HOME, as with any real agent.
"""

from __future__ import annotations

import copy
import fcntl
import hashlib
import json
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

from fakes.scripted.wire import Json, RefusedError


class Store:
    def __init__(self, folder: Path, save_delay: float = 0.0) -> None:
        self.folder, self.save_delay = folder, save_delay
        self.saving = threading.Lock()
        self.unsaved: dict[str, Json] = {}
        self.locks: dict[str, Any] = {}

    def path(self, session_id: str) -> Path:
        # The id comes from the client, or was made up to be awkward, and becomes a file name.
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,120}", session_id):
            return self.folder / f"~{hashlib.sha256(session_id.encode()).hexdigest()}.json"
        return self.folder / f"{session_id}.json"

    def read(self, session_id: str) -> Json | None:
        try:
            found: Json = json.loads(self.path(session_id).read_bytes())
        except FileNotFoundError:
            return None
        return found

    def every(self) -> list[Json]:
        found = [json.loads(path.read_bytes()) for path in self.folder.glob("*.json")]
        return sorted(found, key=lambda session: (session["updatedAt"], session["sessionId"]))

    def forget(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def save(self, session: Json) -> None:
        """Store now, or after the delay that real agents have between word and deed."""
        with self.saving:
            if not self.save_delay:
                self.write(session)
                return
            self.unsaved[session["sessionId"]] = copy.deepcopy(session)
        timer = threading.Timer(self.save_delay, self.flush)
        timer.daemon = True
        timer.start()

    def flush(self) -> None:
        with self.saving:
            while self.unsaved:
                self.write(self.unsaved.popitem()[1])

    def write(self, session: Json) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(session["sessionId"])
        part = path.with_suffix(".part")
        with part.open("w") as file:
            json.dump(session, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)  # else the new name may be lost with the machine
        finally:
            os.close(folder)

    def lock(self, session_id: str) -> None:
        """Hold the session for this process; the lock falls with the process, however it ends."""
        if session_id in self.locks:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.path(session_id).with_suffix(".lock").open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as busy:
            file.close()
            facts = {"reason": "thread_active_writer", "threadId": session_id}
            message = "Invalid request: this session is in use by another process"
            raise RefusedError(-32600, message, facts) from busy
        self.locks[session_id] = file
