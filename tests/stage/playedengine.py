"""Plays a Docker engine for the integration ring: containers are local processes, volumes folders.

It speaks as much of the engine's API as the operator asks of it, on a unix socket, and can fall
silent while its containers live on. What a container mounts lies in folders, and paths in its
command are translated to where they are. What a real engine does is tried in `e2e/`.
"""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tarfile
import threading
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from cluster.docker import wire

Body = dict[str, Any]
SOURCE: Final = Path(__file__).resolve().parents[2] / "operator"
_MARK: Final = "PLAYED_CONTAINER"
"""Whatever runs in a container carries this in its environment."""
_ROOTS: Final = re.compile(r"(/workspace|/target|/kandev|/etc/kandev|/var/cache/kandev)\b")


class No(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@dataclass
class Box:
    """One container."""

    id: str
    name: str
    config: Body
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    started: str = "0001-01-01T00:00:00Z"
    code: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def state(self) -> str:
        if self.process is None:
            return "created"
        code = self.process.poll()
        if code is None:
            return "running"
        self.code = 128 - code if code < 0 else code
        return "exited"

    def inspected(self) -> Body:
        up = self.state == "running"
        ports = {
            inside: [{"HostIp": "127.0.0.1", "HostPort": str(self.port)}] if up else None
            for inside in self.config["HostConfig"].get("PortBindings") or {}
        }
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Config": {**self.config, "Tty": True},
            "HostConfig": self.config["HostConfig"],
            "State": {
                "Status": self.state,
                "Running": up,
                "ExitCode": self.code,
                "OOMKilled": False,
                "Error": "",
                "StartedAt": self.started,
            },
            "NetworkSettings": {"IPAddress": "", "Ports": ports},
        }


class PlayedEngine:
    """The engine. `images` are those that it has; all others cannot be pulled."""

    def __init__(self, folder: Path, images: set[str]) -> None:
        self.folder, self.images = folder, images
        self.socket = folder / "d.sock"
        self.log = folder / "engine.log"
        self.id = "played-1"
        self._boxes: dict[str, Box] = {}
        self._volumes: dict[str, Body] = {}
        self._lock = threading.RLock()
        self._server: socketserver.ThreadingUnixStreamServer | None = None

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    def start_daemon(self) -> None:
        """Answer from now on."""
        self.socket.unlink(missing_ok=True)
        self._server = _Server(str(self.socket), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop_daemon(self, number: int = signal.SIGTERM) -> None:
        """Fall silent; containers live on."""
        assert number, "how it ends makes no difference here"
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self.socket.unlink(missing_ok=True)
        self._server = None

    def stop(self) -> None:
        """End everything."""
        self.stop_daemon()
        for box in list(self._boxes.values()):
            self._end(box, signal.SIGKILL)

    def hold(self, container: str) -> None:
        """Have nobody reach this container, which lives on."""
        self._signal(container, signal.SIGSTOP)

    def let_go(self, container: str) -> None:
        """Have it go on."""
        self._signal(container, signal.SIGCONT)

    def _signal(self, container: str, number: signal.Signals) -> None:
        process = self._boxes[container].process
        assert process is not None, "it was started"
        os.kill(process.pid, number)

    def call(self, method: str, url: str, body: Any = None) -> Any:
        """As a person would ask it."""
        return wire.call(self.socket, method, url, body)

    def containers(self, label: str = "") -> list[Body]:
        with self._lock:
            return [each.inspected() for each in self._boxes.values() if _has(each.config, label)]

    def volumes(self, label: str = "") -> list[str]:
        with self._lock:
            return sorted(name for name, each in self._volumes.items() if _has(each, label))

    # ---- the API -------------------------------------------------------------------------

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        """One request of the operator's, or a test's."""
        parts = urlsplit(target)
        path = re.sub(r"^/v[0-9.]+", "", parts.path)
        query = {key: each[0] for key, each in parse_qs(parts.query).items()}
        kind, _, rest = path.lstrip("/").partition("/")
        with self._lock:
            match kind:
                case "version":
                    return 200, {"ApiVersion": "1.41"}
                case "info":
                    return 200, {"ID": self.id}
                case "images":
                    return self._image(method, rest)
                case "volumes":
                    return self._volume(method, rest, query, body)
                case "containers" if rest == "json":
                    label = _label(query)
                    return 200, list(self.containers(label))
                case "containers" if rest == "create":
                    return self._create(query["name"], json.loads(body))
                case "containers":
                    return self._container(method, rest, query, body)
        raise No(404, f"page not found: {path}")

    def _image(self, method: str, rest: str) -> tuple[int, Any]:
        if rest == "create" and method == "POST":
            return 200, {"errorDetail": {"message": "no such host"}, "error": "no such host"}
        name = rest.removesuffix("/json")
        if name not in self.images:
            raise No(404, f"No such image: {name}")
        return 200, {"Id": f"sha256:{name}"}

    def _volume(self, method: str, rest: str, query: Body, body: bytes) -> tuple[int, Any]:
        if method == "POST":
            wanted = json.loads(body)
            self._volumes.setdefault(wanted["Name"], wanted)
            (self.folder / "volumes" / wanted["Name"]).mkdir(parents=True, exist_ok=True)
            return 201, self._volumes[wanted["Name"]]
        if method == "DELETE":
            if rest not in self._volumes:
                raise No(404, "no such volume")
            mounts = [m for box in self._boxes.values() for m in box.config["HostConfig"]["Mounts"]]
            if rest in [each["Source"] for each in mounts]:
                raise No(409, "volume is in use")
            del self._volumes[rest]
            shutil.rmtree(self.folder / "volumes" / rest)
            return 204, None
        label = _label(query)
        return 200, {"Volumes": [each for each in self._volumes.values() if _has(each, label)]}

    def _create(self, name: str, config: Body) -> tuple[int, Any]:
        if any(each.name == name for each in self._boxes.values()):
            raise No(409, f"the name {name} is taken")
        if config["Image"] not in self.images:
            raise No(404, f"No such image: {config['Image']}")
        known = uuid.uuid4().hex * 2
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        box = Box(known, name, config, self.folder / "containers" / known[:12], port)
        box.folder.mkdir(parents=True)
        self._boxes[known] = box
        return 201, {"Id": known}

    def _container(self, method: str, rest: str, query: Body, body: bytes) -> tuple[int, Any]:
        name, _, verb = rest.partition("/")
        found = [each for each in self._boxes.values() if name in (each.id, each.name)]
        if not found:
            raise No(404, f"No such container: {name}")
        box = found[0]
        match (method, verb):
            case ("GET", "json"):
                return 200, box.inspected()
            case ("GET", "logs"):
                return 200, (box.folder / "log").read_text() if box.process else ""
            case ("PUT", "archive"):
                self._unpack(box, body)
                return 200, None
            case ("POST", "start"):
                return self._start(box)
            case ("POST", "stop" | "kill"):
                self._end(box, signal.SIGTERM if verb == "stop" else signal.SIGKILL)
                return 204, None
            case ("DELETE", ""):
                self._end(box, signal.SIGKILL)
                del self._boxes[box.id]
                return 204, None
        raise No(404, f"page not found: {method} {verb}")

    # ---- containers as processes ---------------------------------------------------------

    def _here(self, box: Box, path: str) -> str:
        """Where a path of a container is on this machine."""
        for mount in box.config["HostConfig"]["Mounts"]:
            if path == mount["Target"] or path.startswith(mount["Target"] + "/"):
                volume = mount["Type"] == "volume"
                root = self.folder / "volumes" / mount["Source"] if volume else mount["Source"]
                return f"{root}{path.removeprefix(mount['Target'])}"
        return f"{box.folder}{path}"

    def _told(self, box: Box, word: str) -> str:
        flag, sign, value = word.partition("=")
        text = value if sign else flag
        if _ROOTS.match(text):
            text = self._here(box, text)
        return f"{flag}={text}" if sign else text

    def _unpack(self, box: Box, packed: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
            for member in tar.getmembers():
                place = Path(self._here(box, f"/{member.name}"))
                if member.isdir():
                    place.mkdir(parents=True, exist_ok=True)
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                content = tar.extractfile(member)
                assert content is not None, f"{member.name} is a file"
                part = place.with_name(f".{place.name}")
                part.write_bytes(content.read())
                part.replace(place)

    def _start(self, box: Box) -> tuple[int, Any]:
        if box.state == "running":
            return 304, None
        words = [self._told(box, each) for each in box.config["Cmd"]]
        changed = {"--host": "127.0.0.1", "--port": str(box.port)}
        words = [
            f"{flag}={changed[flag]}" if (flag := each.partition("=")[0]) in changed else each
            for each in words
        ]
        own = dict(each.split("=", 1) for each in box.config.get("Env") or [])
        kept = {key: value for key, value in own.items() if key.startswith("KANDEV_")}
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), _MARK: box.id, **kept}
        with (box.folder / "log").open("ab") as log:
            box.process = subprocess.Popen(
                [sys.executable, "-m", "kandev_operator.agentctl", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=box.folder,
                env=environment,
                start_new_session=True,
            )
        box.started = datetime.now(UTC).isoformat()
        return 204, None

    def _end(self, box: Box, number: signal.Signals) -> None:
        """The whole container: what its process left behind dies with it."""
        if box.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(box.process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            box.process.wait(20)
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                told = (folder / "environ").read_bytes()
                if f"{_MARK}={box.id}".encode() in told:
                    os.kill(int(folder.name), signal.SIGKILL)
        box.process.wait(20)


def _label(query: Body) -> str:
    return str((json.loads(query.get("filters", "{}")).get("label") or [""])[0])


def _has(thing: Body, label: str) -> bool:
    key, _, value = label.partition("=")
    return not label or (thing.get("Labels") or {}).get(key) == value


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False


def _handler(engine: PlayedEngine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "socket"

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                status, told = engine.answer(self.command, self.path, body)
            except No as no:
                status, told = no.status, {"message": str(no)}
            data = b"" if told is None else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if status not in (204, 304):
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _any

    return Handler
