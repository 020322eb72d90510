"""Where Chromium comes from: the machine's own, else Debian's package, unpacked and not installed.

The package and what it needs beside this machine's libraries lie in the user's cache, with fonts,
so that pages look alike wherever the tests run. It refuses to know what is opened with it.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cluster.build import cache_folder

_PACKAGES = ("chromium", "fonts-dejavu-core", "fonts-liberation2")
_PATIENCE = 600.0
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FONTS = """\
<?xml version="1.0"?>
<fontconfig>
<dir>{root}/usr/share/fonts</dir>
<dir>/usr/share/fonts</dir>
<cachedir>{root}/fontcache</cachedir>
<alias><family>sans-serif</family><prefer><family>Liberation Sans</family></prefer></alias>
<alias><family>system-ui</family><prefer><family>Liberation Sans</family></prefer></alias>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


class NoBrowser(Exception):
    """No Chromium, and none can be had; the message says what would help."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """A program, and the environment that it needs."""

    program: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """Containers have a small /dev/shm. (Playwright leaves the sandbox out: root has none.)"""
        return ["--disable-dev-shm-usage", "--disable-gpu"]


def find() -> Chromium:
    """A Chromium that starts. Raises NoBrowser."""
    given = os.environ.get("KANDEV_CHROMIUM")
    if given:
        return Chromium(given)
    own = next((path for path in map(shutil.which, _PROGRAMS) if path), None)
    if own is not None:
        return Chromium(own)
    root = cache_folder() / "chromium"
    with _locked(root.with_name("chromium.lock")):
        if not root.exists():
            _unpack(root)
    found = root.glob("usr/lib/*-linux-gnu*/**/*.so*")
    libraries = sorted({str(each.parent) for each in found})
    environment = {
        "LD_LIBRARY_PATH": ":".join(libraries),
        "FONTCONFIG_FILE": str(root / "fonts.conf"),
    }
    return Chromium(str(root / "usr/lib/chromium/chromium"), environment)


def _unpack(place: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoBrowser("Chromium is needed: install it, or name one in KANDEV_CHROMIUM")
    print("chromium: unpacking Debian's package, once", file=sys.stderr, flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        if os.geteuid() == 0:
            _run("apt-get", "--quiet", "update", cwd=scratch)
        # As root in a folder of root's own: apt's user cannot write there, and says so.
        unsandboxed = ("-o", "APT::Sandbox::User=root")
        _run("apt-get", "--quiet", *unsandboxed, "download", *_lacking(scratch), cwd=scratch)
        root = Path(scratch, "root")
        for archive in sorted(Path(scratch).glob("*.deb")):
            _run("dpkg-deb", "--extract", str(archive), str(root), cwd=scratch)
        (root / "fonts.conf").write_text(_FONTS.format(root=place))
        root.rename(place)


def _lacking(scratch: str) -> list[str]:
    """The packages that an installation would bring to this machine."""
    plan = ("apt-get", "--simulate", "--no-install-recommends", "install", *_PACKAGES)
    told = _run(*plan, cwd=scratch)
    brought = [line.split()[1] for line in told.splitlines() if line.startswith("Inst ")]
    return sorted({*brought, *_PACKAGES})


def _run(*words: str, cwd: str) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=_PATIENCE)
    if done.returncode:
        raise NoBrowser(f"{' '.join(words[:3])} failed:\n{done.stderr[-1500:]}")
    return done.stdout


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # falls with the process
        yield
