"""A viewer of a shell, over a real WebSocket: what it sees, what it types, how it is refused.

Made for tests of agentctl's own side, so it is written on the websockets library's client and not
on the one that the plugin uses.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from integration.agentctl.harness import Json, Sidecar

PATIENCE = 45.0
SHELL = "/api/v1/shell"
SCOPES = ["shell"]


def make(sidecar: Sidecar, name: str = "main", **more: Any) -> Json:
    answer: Json = sidecar.call("POST", SHELL, {"name": name, **more}, scopes=SCOPES)
    return answer


def shells(sidecar: Sidecar) -> list[Json]:
    found: list[Json] = sidecar.call("GET", SHELL, scopes=SCOPES)["shells"]
    return found


def show(sidecar: Sidecar, shell_id: str) -> Json:
    answer: Json = sidecar.call("GET", f"{SHELL}/{shell_id}", scopes=SCOPES)
    return answer


def close(sidecar: Sidecar, shell_id: str) -> Json:
    answer: Json = sidecar.call("DELETE", f"{SHELL}/{shell_id}", scopes=SCOPES)
    return answer


class Viewer:
    """One viewer, its socket open. Reads only when asked to."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen = bytearray()
        """Bytes of the terminal, as they came."""
        self.told: list[Json] = []
        """Control frames, as they came."""
        self.cursor = 0
        self.close_code: int | None = None

    def step(self, patience: float = PATIENCE) -> bytes | Json | None:
        """The next frame; None once the socket is closed."""
        try:
            frame = self.socket.recv(timeout=patience)
        except ConnectionClosed as closed:
            self.close_code = closed.rcvd.code if closed.rcvd else 1006
            return None
        if isinstance(frame, bytes):
            self.seen += frame
            self.cursor += len(frame)
            return frame
        told: Json = json.loads(frame)
        self.told.append(told)
        if told["type"] == "attached":
            self.cursor = told["cursor"]
        if told["type"] == "gap":
            assert told["start"] == self.cursor, "a gap begins where the bytes ended"
            self.cursor = told["end"]
        return told

    def until(self, done: Callable[[], Any], what: str = "", patience: float = PATIENCE) -> Any:
        """Read until it holds."""
        deadline = time.monotonic() + patience
        while not (found := done()):
            left = deadline - time.monotonic()
            try:
                assert left > 0
                assert self.step(left) is not None, "the socket is closed"
            except (TimeoutError, AssertionError) as error:
                text = f"{what}: {error}; seen {bytes(self.seen[-2000:])!r}, told {self.told[-5:]}"
                raise AssertionError(text) from None
        return found

    def sees(self, text: str | bytes, patience: float = PATIENCE) -> None:
        """Read until this was shown."""
        wanted = text.encode() if isinstance(text, str) else text
        self.until(lambda: wanted in self.seen, f"sees {wanted!r}", patience)

    def hears(self, kind: str, patience: float = PATIENCE, **fields: Any) -> Json:
        """Read until a control frame of this kind, with these fields, came."""

        def found() -> Json | None:
            for told in self.told:
                if told["type"] == kind and fields.items() <= told.items():
                    return told
            return None

        answer: Json = self.until(found, f"hears {kind} {fields}", patience)
        return answer

    def types(self, text: str | bytes) -> None:
        self.socket.send(text.encode() if isinstance(text, str) else text)

    def runs(self, command: str, mark: str) -> None:
        """Type a command whose output, and not its echo, shows the mark."""
        half = len(mark) // 2
        self.types(f"{command}; printf '%s\\n' {mark[:half]}''{mark[half:]}\n")
        self.sees(mark)

    def controls(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def rest(self, patience: float = PATIENCE) -> None:
        """Read until the socket is closed."""
        deadline = time.monotonic() + patience
        while self.step(max(deadline - time.monotonic(), 0.001)) is not None:
            pass


class NotAdmitted(Exception):
    """The upgrade was refused."""

    def __init__(self, refused: InvalidStatus) -> None:
        self.status = refused.response.status_code
        body = json.loads(refused.response.body or b"{}")
        self.code, self.details = body.get("code"), body.get("details")
        super().__init__(f"{self.status} {body}")


@contextlib.contextmanager
def viewing(
    sidecar: Sidecar,
    shell_id: str,
    *,
    query: str = "",
    headers: Json | None = None,
    subprotocols: list[str] | None = None,
    **claims: Any,
) -> Iterator[Viewer]:
    """Attach; raises NotAdmitted."""
    if headers is None:
        headers = {"X-Kandev-Token": sidecar.keys.token(**{"scopes": SCOPES, **claims})}
    url = f"{sidecar.run['url'].replace('http', 'ws', 1)}{SHELL}/{shell_id}"
    try:
        socket = connect(
            url + (f"?{query}" if query else ""),
            additional_headers=headers,
            subprotocols=subprotocols,  # type: ignore[arg-type]
            compression=None,
            proxy=None,
            max_size=None,
            close_timeout=2,
        )
    except InvalidStatus as refused:
        raise NotAdmitted(refused) from None
    with socket:
        yield Viewer(socket)
