"""Plain calls of a Docker engine over its socket, for tests: nothing of the product's client is in
the way. An answer that is no success is an `EngineSaidNo` with the engine's words.
"""

import http.client
import json
import socket
from pathlib import Path
from typing import IO, Any

_PATIENCE = 120.0


class EngineSaidNo(Exception):
    """The status and the words of an answer that is no success."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("docker", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def call(path: Path, method: str, url: str, body: IO[bytes] | bytes | None = None) -> Any:
    """One call; the answer's JSON, or its text. Raises OSError where nobody answers."""
    kind = "application/x-tar" if body is not None and not isinstance(body, bytes) else None
    headers = {"Content-Type": kind or "application/json"}
    connection = _Connection(path)
    try:
        connection.request(method, url, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
    finally:
        connection.close()
    if answer.status >= 400:
        raise EngineSaidNo(answer.status, text)
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
