"""Where dockerd comes from: the machine's own, else the Debian package, unpacked and not installed.

Installing the package would start an engine on the default socket, with packet filter rules of its
own, and whoever looks for an engine there would find it. Unpacked into the user's cache it is a
program like any other. What it needs beside itself (containerd, runc) a node needs as well.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster import build
from cluster.errors import ControlPlaneError
from cluster.node import packages

_PACKAGE = "docker.io"
_PATIENCE = 600.0


def program_folders() -> str:
    """Return a PATH on which dockerd, docker-proxy and what they need are found.

    Raises ControlPlaneError with the command that would help.
    """
    packages.ensure()
    path = packages.search_path()
    if shutil.which("dockerd", path=path) and shutil.which("docker-proxy", path=path):
        return path
    folder = build.cache_folder() / "docker" / "usr"
    if not (folder / "sbin/dockerd").exists():
        with build.only_one("docker"):
            if not (folder / "sbin/dockerd").exists():
                _unpack(folder.parent)
    return f"{folder / 'sbin'}:{folder / 'bin'}:{path}"


def _unpack(place: Path) -> None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ControlPlaneError(f"a Docker engine is needed: apt-get install {_PACKAGE}")
    print(f"docker: unpacking {_PACKAGE}", file=sys.stderr, flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        _run("apt-get", "--quiet", "update", cwd=scratch)
        # As root in a folder of root's own: apt's user cannot write there, and says so.
        unsandboxed = ("-o", "APT::Sandbox::User=root")
        _run("apt-get", "--quiet", *unsandboxed, "download", _PACKAGE, cwd=scratch)
        archive = next(Path(scratch).glob("*.deb"))
        root = Path(scratch, "root")
        _run("dpkg-deb", "--extract", str(archive), str(root), cwd=scratch)
        missing = _run("ldd", str(root / "usr/sbin/dockerd"), cwd=scratch)
        lacking = [line.split()[0] for line in missing.splitlines() if "not found" in line]
        if lacking:
            raise ControlPlaneError(f"dockerd needs libraries that are not here: {lacking}")
        shutil.rmtree(place, ignore_errors=True)
        root.rename(place)


def _run(*words: str, cwd: str) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=_PATIENCE)
    if done.returncode:
        raise ControlPlaneError(f"{' '.join(words[:3])} failed:\n{done.stderr[-1500:]}")
    return done.stdout
