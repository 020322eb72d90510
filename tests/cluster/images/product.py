"""The project's own images, built from their Dockerfiles on locally made bases.

`agentctl()` and `operator()` return archives, built once for each state of the sources that go
into them. `agentctl_folder()` is the folder inside the first. The build has no network: what pip
would fetch is fetched before, each file checked against its hash in the lock, and put into the
image that the first stage starts from. By hand, as root: `make images`.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.errors import ControlPlaneError
from cluster.images import buildah, debian, oci
from cluster.images.cache import Recipe, cached
from cluster.node import packages

REPOSITORY = Path(__file__).resolve().parents[3]
AGENTCTL_NAME = "localhost/kandev-agentctl:test"
OPERATOR_NAME = "localhost/kandev-operator:test"

_IMAGES = REPOSITORY / "operator/images"
_SOURCE = REPOSITORY / "operator/kandev_operator"
_PYTHON = "3.11"
_PIP = "pip==25.3"
# From the newest to the oldest C library that a wheel may ask for; the images have glibc 2.36.
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(36, 16, -1)] + [
    "manylinux2014_x86_64"
]
_PATIENCE = 900.0
_HERE = Path(__file__).parent
_CODE = [_HERE / name for name in ("product.py", "buildah.py", "debian.py")]


def agentctl() -> Path:
    """Return the archive of agentctl's image."""
    return cached(_AGENTCTL)


def operator() -> Path:
    """Return the archive of the operator's image."""
    return cached(_OPERATOR)


def agentctl_folder() -> Path:
    """Return the self-contained folder of agentctl, as it lies in the image."""
    archive = agentctl()
    folder = archive.with_suffix("")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            oci.unpack(archive, Path(scratch, "root"))
            Path(scratch, "root/kandev").rename(folder)
    return folder / "agentctl"


def _make_agentctl(archive: Path, scratch: Path) -> None:
    base = builder("agentctl")
    buildah.build(
        _IMAGES / "agentctl.Dockerfile",
        REPOSITORY,
        archive,
        AGENTCTL_NAME,
        bases=[base],
        arguments={"BUILDER": oci.image_name(base)},
    )


def _make_operator(archive: Path, scratch: Path) -> None:
    base = builder("operator")
    buildah.build(
        _IMAGES / "operator.Dockerfile",
        REPOSITORY,
        archive,
        OPERATOR_NAME,
        bases=[debian.python(), base],
        arguments={"BUILDER": oci.image_name(base), "BASE": debian.PYTHON_NAME},
    )


def builder(lock: str) -> Path:
    """Return the archive of a first stage's image: tools, pip, and each wheel of that lock."""
    ingredients = [_PIP, *_PLATFORMS, _IMAGES / f"{lock}.lock", _HERE / "debian.py"]
    recipe = Recipe(
        f"builder-{lock}",
        f"an image to build the {lock} in",
        1,
        lambda archive, scratch: _make_builder(lock, archive, scratch),
        ingredients,
    )
    return cached(recipe)


def _make_builder(lock: str, archive: Path, scratch: Path) -> None:
    root = scratch / "root"
    wheels, site = root / "wheels", root / f"usr/local/lib/python{_PYTHON}/dist-packages"
    platforms = [f"--platform={platform}" for platform in _PLATFORMS]
    only = ["--only-binary=:all:", f"--python-version={_PYTHON}", *platforms]
    locked = ["--require-hashes", "--requirement", str(_IMAGES / f"{lock}.lock")]
    _pip("download", *only, "--no-deps", *locked, "--dest", str(wheels))
    _pip("install", "--no-compile", "--target", str(site), _PIP)
    environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    settings = oci.Settings(f"localhost/builder-{lock}:1", environment=environment)
    oci.pack(root, archive, settings, base=debian.tools())


def _pip(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words],
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
    )
    if done.returncode:
        raise ControlPlaneError(f"pip {words[0]} failed:\n{done.stderr[-2000:]}")


_AGENTCTL = Recipe(
    "agentctl",
    "agentctl's folder and image",
    3,
    _make_agentctl,
    [
        _PIP,
        *_CODE,
        *(_IMAGES / name for name in ("agentctl.Dockerfile", "agentctl.lock", "agentctl.spec")),
        _IMAGES / "start_agentctl.py",
        _SOURCE / "__init__.py",
        _SOURCE / "agentctl",
        _SOURCE / "contract",
    ],
)
_OPERATOR = Recipe(
    "operator",
    "the operator's image",
    3,
    _make_operator,
    [_PIP, *_CODE, _IMAGES / "operator.Dockerfile", _IMAGES / "operator.lock", _SOURCE],
)


def main() -> int:
    """Build both, and lay agentctl's folder into build/agentctl."""
    try:
        packages.ensure()
        folder = REPOSITORY / "build/agentctl"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(agentctl_folder(), folder, symlinks=True)
        print(folder)
        print(agentctl())
        print(operator())
    except (ControlPlaneError, PermissionError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
