"""A dockerd with nothing of the machine but a bridge: socket, data, mounts, processes are its own.

It runs in a mount and a process namespace of its own, which end with the process that asked for
it, however that ends: containers, shims and mounts go with them. It has no packet filter rules:
ports are published by docker-proxy, and containers are reached through a bridge that bears its
owner's process id, so that the next run finds and removes what a killed one has left. The same is
true of its control group.
"""

import ipaddress
import itertools
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cluster.docker import package, wire
from cluster.errors import ControlPlaneError
from cluster.images import oci
from cluster.processes import Component

_START_SECONDS = 90.0
_STOP_SECONDS = 60.0
PREFIX = "kdk"
_CGROUPS = Path("/sys/fs/cgroup")
_NUMBERS = itertools.count(1)
_NETWORKS = [ipaddress.ip_network(f"10.251.{number}.0/24") for number in range(1, 250)]


class Engine:
    """One engine below a folder. Its path must be short: a socket lies in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "d.sock"
        self.log = folder / "dockerd.log"
        self.name = f"{PREFIX}{os.getpid()}-{next(_NUMBERS)}"
        self._room = Component("docker-room", folder / "room.log")
        self._daemon = Component("dockerd", self.log)
        self._path = ""
        self.gateway = ""
        """This machine's address, as containers see it."""

    @property
    def host(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it; returns when it answers."""
        self._path = package.program_folders()
        remove_leftovers()
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {"deprecated-key-path": str(self.folder / "key.json")}
        (self.folder / "daemon.json").write_text(json.dumps(config))
        self.gateway = _lay_bridge(self.name)
        unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._room.start([*unshare, "--propagation=private", "sleep", "infinity"])
        self.start_daemon()

    def stop(self) -> None:
        """End it and all that it made. Raises ControlPlaneError with what stays."""
        with suppress(ControlPlaneError):
            self.stop_daemon(signal.SIGKILL)
        if self._room.is_running:
            os.kill(self._room.pid, signal.SIGKILL)
            _wait(lambda: not self._room.is_running, "the namespaces end")
        _clear(self.name)
        shutil.rmtree(self.folder, ignore_errors=True)
        left = _left(self.name)
        if left:
            raise ControlPlaneError(f"the Docker engine left something behind: {left}")

    def start_daemon(self) -> None:
        """Start dockerd alone, on what the last one left."""
        folder = self.folder
        inside = _child_of(self._room.pid)
        enter = ["nsenter", f"--target={inside}", "--mount", "--pid"]
        (folder / "pid").unlink(missing_ok=True)
        self._daemon.start(
            [
                *enter,
                *("env", f"PATH={self._path}", "dockerd"),
                f"--config-file={folder / 'daemon.json'}",
                f"--data-root={folder / 'data'}",
                f"--exec-root={folder / 'exec'}",
                f"--pidfile={folder / 'pid'}",
                f"--host={self.host}",
                f"--bridge={self.name}",
                f"--cgroup-parent=/{self.name}",
                *("--iptables=false", "--ip6tables=false", "--ip-masq=false"),
                *("--ip-forward=false", "--live-restore", "--oom-score-adjust=0"),
            ]
        )
        _wait(self.answers, "dockerd answers", self.log, _START_SECONDS)

    def stop_daemon(self, number: int = signal.SIGTERM) -> None:
        """End dockerd alone: containers live on."""
        if not self._daemon.is_running:
            return
        with suppress(ProcessLookupError):
            os.kill(_child_of(self._daemon.pid), number)
        _wait(lambda: not self._daemon.is_running, "dockerd ends", self.log)

    def answers(self) -> bool:
        try:
            return bool(self.call("GET", "/_ping") == "OK")
        except (OSError, wire.EngineSaidNo):
            return False

    def call(self, method: str, url: str, body: Any = None) -> Any:
        """One call of its API."""
        return wire.call(self.socket, method, url, body)

    def containers(self, label: str = "") -> list[dict[str, Any]]:
        """All containers with this label, inspected."""
        filters = json.dumps({"label": [label]} if label else {})
        query = f"/containers/json?all=1&filters={quote(filters)}"
        found = self.call("GET", query)
        return [self.call("GET", f"/containers/{each['Id']}/json") for each in found]

    def volumes(self, label: str = "") -> list[str]:
        """The names of all volumes with this label."""
        filters = json.dumps({"label": [label]} if label else {})
        found = self.call("GET", f"/volumes?filters={quote(filters)}")
        return sorted(each["Name"] for each in found["Volumes"] or ())

    def load(self, archive: Path) -> str:
        """Have the engine know an image of `cluster.images`; returns its name."""
        name = oci.image_name(archive)
        with suppress(wire.EngineSaidNo):
            self.call("GET", f"/images/{name}/json")
            return name
        with _as_docker_archive(archive, name, self.folder) as ready, ready.open("rb") as file:
            self.call("POST", "/images/load?quiet=1", file)
        self.call("GET", f"/images/{name}/json")
        return name


def remove_leftovers() -> None:
    """Clear away what engines of dead processes have left."""
    names = {path.name for path in Path("/sys/class/net").glob(f"{PREFIX}*")}
    names |= {path.name for path in _CGROUPS.glob(f"*/{PREFIX}*")}
    for name in names:
        owner = name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", owner).exists():
            _clear(name)


@contextmanager
def _as_docker_archive(archive: Path, name: str, scratch: Path) -> Iterator[Path]:
    """The same layers with the table of contents that `docker load` reads."""
    ready = scratch / "load.tar"
    try:
        with tarfile.open(archive) as source, tarfile.open(ready, "w") as out:
            members = {each.name: each for each in source.getmembers()}

            def read(path: str) -> Any:
                file = source.extractfile(members[path])
                assert file is not None, f"{path} is a file"
                return json.loads(file.read())

            def blob(descriptor: dict[str, Any]) -> str:
                return "blobs/" + str(descriptor["digest"]).replace(":", "/")

            manifest = read(blob(read("index.json")["manifests"][0]))
            contents = [
                {
                    "Config": blob(manifest["config"]),
                    "RepoTags": [name],
                    "Layers": [blob(each) for each in manifest["layers"]],
                }
            ]
            for path in {contents[0]["Config"], *contents[0]["Layers"]}:
                out.addfile(members[path], source.extractfile(members[path]))
            listed = scratch / "manifest.json"
            listed.write_text(json.dumps(contents))
            out.add(listed, "manifest.json")
        yield ready
    finally:
        ready.unlink(missing_ok=True)


def _lay_bridge(name: str) -> str:
    """The machine's own address in the bridge."""
    routes = json.loads(_run("ip", "-json", "-4", "route", "show", "table", "all"))
    taken = []
    for route in routes:
        with suppress(ValueError):
            taken.append(ipaddress.ip_network(route["dst"]))
    free = (net for net in _NETWORKS if not any(net.overlaps(each) for each in taken))
    network = next(each for each in free)
    _run("ip", "link", "add", name, "type", "bridge")
    _run("ip", "address", "add", f"{network[1]}/{network.prefixlen}", "dev", name)
    _run("ip", "link", "set", name, "up")
    return str(network[1])


def _clear(name: str) -> None:
    with suppress(ControlPlaneError):
        _run("ip", "link", "delete", name)
    for folder in _CGROUPS.glob(f"*/{name}"):
        for path in sorted(folder.rglob("*"), reverse=True):
            if path.is_dir():
                _wait(lambda path=path: _is_removed(path), f"{path} goes")
        _wait(lambda folder=folder: _is_removed(folder), f"{folder} goes")


def _is_removed(path: Path) -> bool:
    """A control group can be removed as soon as the kernel has forgotten its last process."""
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _left(name: str) -> list[str]:
    found = [str(path) for path in _CGROUPS.glob(f"*/{name}")]
    return found + [str(path) for path in Path("/sys/class/net").glob(name)]


def _child_of(pid: int) -> int:
    """The one child of a process; it may take a moment until it is there."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    _wait(lambda: path.read_text().split(), f"process {pid} has a child")
    return int(path.read_text().split()[0])


def _wait(holds: Any, what: str, log: Path | None = None, seconds: float = _STOP_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            tail = log.read_text(errors="replace")[-2000:] if log is not None else ""
            raise ControlPlaneError(f"not so after {seconds:g} s: {what}\n{tail}")
        time.sleep(0.05)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise ControlPlaneError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
