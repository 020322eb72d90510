"""A Git server on loopback: git's own http-backend behind Basic authentication.

It keeps what clients sent it in the way of credentials, and refuses those it does not know.
"""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

USER, PASSWORD = "ann", "very-secret-password"


class GitServer:
    """Serves the bare repositories in a folder."""

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        self.folder = folder
        self.seen: list[str] = []
        """The Authorization headers that came, decoded; "" for a call without one."""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.answer(self)

            def do_POST(self) -> None:
                server.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._http.server_address[1]}"

    def url(self, name: str) -> str:
        return f"http://{self.host}/{name}"

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        told = call.headers.get("Authorization", "").removeprefix("Basic ")
        who = base64.b64decode(told).decode() if told else ""
        self.seen.append(who)
        if who != f"{USER}:{PASSWORD}":
            call.send_response(401)
            call.send_header("WWW-Authenticate", 'Basic realm="git"')
            call.send_header("Content-Length", "0")
            call.end_headers()
            return
        path, _, query = call.path.partition("?")
        length = int(call.headers.get("Content-Length", "0"))
        done = subprocess.run(
            ["git", "http-backend"],
            input=call.rfile.read(length),
            capture_output=True,
            check=False,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.folder),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REMOTE_USER": USER,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": call.command,
                "CONTENT_TYPE": call.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(length),
                "HTTP_CONTENT_ENCODING": call.headers.get("Content-Encoding", ""),
            },
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        status, headers = 200, []
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(": ")
            if name.lower() == "status":
                status = int(value.split()[0])
            else:
                headers.append((name, value))
        call.send_response(status)
        for name, value in headers:
            call.send_header(name, value)
        call.send_header("Content-Length", str(len(body)))
        call.end_headers()
        call.wfile.write(body)

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[GitServer]:
    server = GitServer(folder)
    try:
        yield server
    finally:
        server.close()
