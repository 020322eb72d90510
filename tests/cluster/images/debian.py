"""The base images: the smallest Debian with git, the same with Python, and with tools to build.

`glibc()` is what an image of the user's may look like: a C library, git, certificates, no Python.
`python()` is a layer on top of it, so a node that has one takes little for the other; `tools()` is
one on top of that, for the first stages of the Dockerfiles in `operator/images`. All are made by
mmdebstrap from the distribution's packages, once, and kept in the user's cache. Needs root, as
unpacking packages does. What is put on top of them is `agents.py`'s business.
"""

import filecmp
import os
import shutil
import stat
import subprocess
from pathlib import Path

from cluster.errors import ControlPlaneError
from cluster.images import oci
from cluster.images.cache import Recipe, cached
from cluster.node.packages import search_path

SUITE = "bookworm"
GLIBC_NAME = "localhost/glibc:1"
PYTHON_NAME = "localhost/python:1"
TOOLS_NAME = "localhost/tools:1"

_GLIBC_PACKAGES = ("ca-certificates", "git")
_PYTHON_PACKAGES = (*_GLIBC_PACKAGES, "python3")
_TOOLS_PACKAGES = (*_PYTHON_PACKAGES, "binutils", "libpython3.11")
_DROPPED = (
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/lintian/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
)
_PATIENCE = 1200.0


def glibc() -> Path:
    """Return the archive of the image without Python."""
    return cached(_GLIBC)


def python() -> Path:
    """Return the archive of the image with Python 3.11 and its standard library."""
    return cached(_PYTHON)


def tools() -> Path:
    """Return the archive of the image that has what PyInstaller needs beside Python."""
    return cached(_TOOLS)


def _make_glibc(archive: Path, scratch: Path) -> None:
    root = scratch / "root"
    _install(_GLIBC_PACKAGES, root)
    oci.pack(root, archive, oci.Settings(GLIBC_NAME, command=("bash",)))


def _make_python(archive: Path, scratch: Path) -> None:
    _make_on(glibc(), _PYTHON_PACKAGES, PYTHON_NAME, archive, scratch)


def _make_tools(archive: Path, scratch: Path) -> None:
    _make_on(python(), _TOOLS_PACKAGES, TOOLS_NAME, archive, scratch)


def _make_on(
    base: Path, packages: tuple[str, ...], name: str, archive: Path, scratch: Path
) -> None:
    """Make an image of packages whose last layer is what the base lacks of them."""
    root, below = scratch / "root", scratch / "below"
    _install(packages, root)
    oci.unpack(base, below)
    _drop_same(root, below)
    oci.pack(root, archive, oci.Settings(name), base=base)


def _install(packages: tuple[str, ...], root: Path) -> None:
    words = ["mmdebstrap", "--mode=root", "--variant=essential", f"--include={','.join(packages)}"]
    words += [f"--dpkgopt=path-exclude={pattern}" for pattern in _DROPPED]
    done = subprocess.run(
        [*words, SUITE, root],
        env=os.environ | {"PATH": search_path()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE,
    )
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise ControlPlaneError(f"mmdebstrap failed:\n{tail}")
    # What the installation left for the next one.
    for leftover in ("var/cache/apt", "var/lib/apt/lists", "var/log"):
        shutil.rmtree(root / leftover, ignore_errors=True)


def _drop_same(root: Path, below: Path) -> None:
    """Remove from `root` what `below` has in the same form; folders stay, for their modes."""
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            if _is_same(path, below / path.relative_to(root)):
                path.unlink()


def _is_same(one: Path, other: Path) -> bool:
    if not os.path.lexists(other):
        return False
    left, right = one.lstat(), other.lstat()
    if (left.st_mode, left.st_uid, left.st_gid) != (right.st_mode, right.st_uid, right.st_gid):
        return False
    if stat.S_ISLNK(left.st_mode):
        return one.readlink() == other.readlink()
    return stat.S_ISREG(left.st_mode) and filecmp.cmp(one, other, shallow=False)


_GLIBC = Recipe(
    "glibc", "a Debian image without Python", 2, _make_glibc, (SUITE, *_GLIBC_PACKAGES, *_DROPPED)
)
_PYTHON = Recipe(
    "python",
    "a Debian image with Python",
    2,
    _make_python,
    (SUITE, *_PYTHON_PACKAGES, *_DROPPED),
)
_TOOLS = Recipe(
    "tools",
    "a Debian image to build in",
    3,
    _make_tools,
    (SUITE, *_TOOLS_PACKAGES, *_DROPPED),
)
