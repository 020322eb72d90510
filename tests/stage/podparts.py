"""What a played node is made of: its connection, a pod and its containers, and rows of a status."""

import base64
import contextlib
import http.client
import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kandev_operator.core.pods import layout
from stage.reader import Reader

Body = dict[str, Any]
OWN: Final = "kandev.dev/executor-uid"
PORT: Final = layout.PORT


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Hand(Reader):
    """Reads and writes as the administrator, over one connection."""

    def get(self, path: str) -> Body:
        """As a kubelet reads: an API server that is busy is asked again later."""
        status, body = self._ask(path)
        if status in (429, 500, 503):
            raise OSError(f"GET {path}: {status}")
        if status == 404:
            raise LookupError(path)
        assert status == 200, f"GET {path}: {status} {body[:500]!r}"
        found: Body = json.loads(body)
        return found

    def send(
        self, method: str, path: str, body: Any = None, content: str = "application/json"
    ) -> tuple[int, Body]:
        """One request; its code and answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, "Content-Type": content}
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        told = answer.read()
        return answer.status, json.loads(told) if told else {}


@dataclass
class Container:
    """One container of a pod, as this node keeps it."""

    spec: Body
    process: subprocess.Popen[bytes] | None = None
    state: Body = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last: Body | None = None
    restarts: int = 0
    starts_at: float = 0.0
    began: str = ""
    ready: bool = False
    oom: bool = False

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    @property
    def has_ended(self) -> bool:
        return "terminated" in self.state


@dataclass
class Pod:
    """One pod on this node."""

    body: Body
    address: str
    folder: Path
    inits: list[Container]
    containers: list[Container]
    conditions: dict[str, Body] = field(default_factory=dict)
    told: str = ""
    ends_at: float | None = None
    over: Body | None = None
    """phase, reason and message, once it has failed."""

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def agent(self) -> Container:
        return next(each for each in self.containers if each.name == "agent")


def row(type_: str, word: str, reason: str = "", message: str = "") -> Body:
    row = {"type": type_, "status": word, "lastTransitionTime": now()}
    return {**row, **({"reason": reason} if reason else {}), "message": message}


def status_of(container: Container) -> Body:
    own: Body = {
        "name": container.name,
        "image": container.spec["image"],
        "imageID": "",
        "ready": container.ready or (container.is_running and container.name != "agent"),
        "restartCount": container.restarts,
        "state": container.state,
    }
    return {**own, "lastState": {"terminated": container.last}} if container.last else own


def signal_to(container: Container, number: signal.Signals) -> None:
    if container.process is not None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(container.process.pid, number)


def is_healthy(address: str) -> bool:
    connection = http.client.HTTPConnection(address, PORT, timeout=2)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def decoded(text: str) -> bytes:
    return base64.b64decode(text)
