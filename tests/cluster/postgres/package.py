"""Where PostgreSQL comes from: the machine's own, else Debian's packages, unpacked, not installed.

Installing the package would make a cluster and start a server on the default port, and whoever
looks for one there would find it. Unpacked into a cache, with the libraries that this machine lacks
beside it, it is a program like any other. The cache is the machine's, for only root unpacks, and
the server runs as nobody, who may not enter root's own.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cluster import build
from cluster.errors import ControlPlaneError

_PACKAGE = "postgresql"
_NEEDED = ("postgres", "initdb", "pg_ctl")
_INSTALLED = Path("/usr/lib/postgresql")
_CACHE = Path("/var/cache/kandev-operator/postgres")
_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder with the server's programs, and what they need in their environment."""

    folder: Path
    environment: dict[str, str]


def programs() -> Programs:
    """PostgreSQL's programs. Raises ControlPlaneError with the command that would help."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(_INSTALLED.glob("*/bin"), key=_version, reverse=True)
    for folder in folders:
        if all((folder / name).exists() for name in _NEEDED):
            return Programs(folder, {})
    with build.only_one("postgres"):
        if not list(_CACHE.glob("usr/lib/postgresql/*/bin/postgres")):
            unpack(_CACHE)
    return unpacked(_CACHE)


def unpacked(root: Path) -> Programs:
    """The programs below a folder that `unpack` has filled."""
    folder = max(root.glob("usr/lib/postgresql/*/bin"), key=_version)
    return Programs(folder, {"LD_LIBRARY_PATH": ":".join(map(str, _libraries(root)))})


def unpack(place: Path) -> None:
    """Bring the package and the libraries it names into a folder; all of it, or nothing."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ControlPlaneError(f"a PostgreSQL server is needed: apt-get install {_PACKAGE}")
    print(f"postgres: unpacking {_PACKAGE}", file=sys.stderr, flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        _run("apt-get", "--quiet", "update", cwd=scratch)
        found = re.findall(r"Depends: (postgresql-\d+)$", _depends(_PACKAGE, scratch), re.M)
        if not found:
            raise ControlPlaneError(f"package {_PACKAGE} names no server of a version")
        # LLVM is for compiling queries, which is switched off; it would be the biggest of all.
        wanted = r"Depends: (lib(?!llvm|c6)\S+|postgresql-client-\d+)$"
        beside = re.findall(wanted, _depends(found[0], scratch), re.M)
        # As root in a folder of root's own: apt's user cannot write there, and says so.
        unsandboxed = ("-o", "APT::Sandbox::User=root")
        packages = sorted({found[0], *beside})
        _run("apt-get", "--quiet", *unsandboxed, "download", *packages, cwd=scratch)
        root = Path(scratch, "root")
        for archive in Path(scratch).glob("*.deb"):
            _run("dpkg-deb", "--extract", str(archive), str(root), cwd=scratch)
        server = max(root.glob("usr/lib/postgresql/*/bin"), key=_version) / "postgres"
        path = ":".join(map(str, _libraries(root)))
        lacking = _run("env", f"LD_LIBRARY_PATH={path}", "ldd", str(server), cwd=scratch)
        missing = [line.split()[0] for line in lacking.splitlines() if "not found" in line]
        if missing:
            raise ControlPlaneError(f"postgres needs libraries that are not here: {missing}")
        shutil.rmtree(place, ignore_errors=True)
        root.rename(place)
        place.chmod(0o755)


def _libraries(root: Path) -> list[Path]:
    return sorted({path.parent for path in root.glob("**/lib*.so.*") if "llvm" not in path.name})


def _version(folder: Path) -> int:
    name = folder.parent.name
    return int(name) if name.isdigit() else 0


def _depends(package: str, scratch: str) -> str:
    return _run("apt-cache", "depends", package, cwd=scratch)


def _run(*words: str, cwd: str) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=_PATIENCE)
    if done.returncode:
        raise ControlPlaneError(f"{' '.join(words[:3])} failed:\n{done.stderr[-1500:]}")
    return done.stdout
