"""Repositories over plain HTTP, as a pod of the node can clone them from this machine.

git's older way, in which the client reads files, needs no program on the server's side. The
address is the bridge that pods and this machine share; nobody else reaches it.
"""

import functools
import http.server
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

_WHO = ("-c", "user.name=t", "-c", "user.email=t@example.com")


class GitServer:
    """Serves `FOLDER/NAME.git` under `url` while the block lasts."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder / "repositories"
        self.folder.mkdir()
        serve = functools.partial(_Silent, directory=str(self.folder))
        self._server = http.server.ThreadingHTTPServer((address, 0), serve)
        self.url = f"http://{address}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(20)

    def make(self, name: str, files: Mapping[str, str], branch: str = "main") -> None:
        """A repository with one commit."""
        work, bare = self.folder / f"{name}.work", self.folder / f"{name}.git"
        work.mkdir(parents=True)
        for path, text in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_text(text)
        _git(work, "init", "-q", "-b", branch)
        _git(work, "add", ".")
        _git(work, *_WHO, "commit", "-qm", "first")
        _git(self.folder, "clone", "-q", "--bare", str(work), str(bare))
        _git(bare, "update-server-info")


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """The client's own words are what a test looks at."""


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True)
