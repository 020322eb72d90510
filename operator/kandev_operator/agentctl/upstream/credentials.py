"""The token that the upstream gave us, on disk before it is used for the first time.

Their bootstrap nonce buys one token and is burned by it; a token that was lost can be had again
only when their process restarts (it reads the same nonce then and makes another token). So the
token is kept in a file of mode 0600, synced, before any call carries it. The nonce is read from
its file each time it is needed, so a Secret may change under us. Neither is ever logged.
"""

import json
import os
from pathlib import Path
from typing import Final

NAME: Final = "upstream-token.json"


class Credentials:
    """What opens one upstream."""

    def __init__(self, state: Path, url: str, nonce_file: Path | None) -> None:
        self._path = state / NAME
        self._url = url
        self._nonce_file = nonce_file
        self._token = self._read()

    def __repr__(self) -> str:
        return f"Credentials({self._url!r})"

    @property
    def token(self) -> str | None:
        return self._token

    def nonce(self) -> str | None:
        """The nonce as its file holds it now; None without one."""
        if self._nonce_file is None:
            return None
        try:
            return self._nonce_file.read_text().strip() or None
        except (OSError, UnicodeDecodeError):
            return None

    def keep(self, token: str) -> None:
        """Store a token durably; only then is it given to anybody. Raises OSError."""
        part = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(file, 0o600)
            os.write(file, json.dumps({"url": self._url, "token": token}).encode())
            os.fsync(file)
        finally:
            os.close(file)
        part.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._token = token

    def _read(self) -> str | None:
        try:
            found = json.loads(self._path.read_bytes())
        except (OSError, ValueError):
            return None
        if not isinstance(found, dict) or found.get("url") != self._url:
            return None  # another upstream's
        token = found.get("token")
        return token if isinstance(token, str) and token else None
