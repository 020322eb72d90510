"""One reader of a sidecar's event stream, as a gateway would be one."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from integration.agentctl.harness import Sidecar

PATIENCE = 30.0
Json = dict[str, Any]


class Reader:
    """A reader of the event stream, in a thread of its own."""

    def __init__(self, sidecar: Sidecar, after: str, kinds: str, claims: Json) -> None:
        params = {k: v for k, v in {"after": after, "kinds": kinds}.items() if v}
        token = sidecar.keys.token(**({"term": sidecar.term, "epoch": sidecar.epoch} | claims))
        self._client = httpx.Client(timeout=httpx.Timeout(20.0))
        self._request = self._client.build_request(
            "GET",
            sidecar.run["url"] + "/api/v1/events",
            params=params,
            headers={"X-Kandev-Token": token},
        )
        self._queue: queue.Queue[Json | None] = queue.Queue()
        self._response = self._client.send(self._request, stream=True)
        assert self._response.status_code == 200, self._response.read()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            for line in self._response.iter_lines():
                if line.startswith("data: "):
                    self._queue.put(json.loads(line[6:]))
        except Exception:  # the stream was closed, by either end
            pass
        self._queue.put(None)

    def next(self, patience: float = 0.5) -> Json | None:
        try:
            return self._queue.get(timeout=patience)
        except queue.Empty:
            return None

    def until(self, wanted: Callable[[Json], Any], patience: float = PATIENCE) -> list[Json]:
        """Read up to the first event that is wanted."""
        seen: list[Json] = []
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            event = self.next()
            if event is None:
                continue
            seen.append(event)
            if wanted(event):
                return seen
        raise AssertionError(f"the event never came; last seen {seen[-5:]}")

    def close(self) -> None:
        stream = self._response.extensions["network_stream"]
        with contextlib.suppress(OSError):
            stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._response.close()
        self._client.close()
