"""The gateway's image with its page, built from its Dockerfile as the other ones are.

`gateway()` returns the archive, built once for each state of what goes into it: the rooms it is
made of, and the page, which is compiled before, since the build has no network. It is no part of
`product`, so a change here makes no other image anew. By hand, as root: `make images`.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from cluster.errors import ControlPlaneError
from cluster.images import buildah, debian, oci, product
from cluster.images.cache import Recipe, cached
from cluster.node import packages

GATEWAY_NAME = "localhost/kandev-gateway:test"

_IMAGES = product.REPOSITORY / "operator/images"
_SOURCE = product.REPOSITORY / "operator/kandev_operator"
_ROOM = _SOURCE / "gateway"
_WEB = _ROOM / "web"
_HERE = Path(__file__).parent


def gateway() -> Path:
    """Return the archive of the gateway's image."""
    _page()
    return cached(_recipe())


def _page() -> None:
    """Compile the page, where it is not that of these very sources."""
    builder = _builder_of_the_page()
    try:
        builder.ensure()
    except builder.PageNotBuilt as error:
        raise ControlPlaneError(str(error)) from None


def _builder_of_the_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_build", _WEB / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _recipe() -> Recipe:
    # The page's sources are not in the image; what was made of them is, and lies in `pages`.
    rooms = sorted(each for each in _ROOM.iterdir() if each not in (_WEB, _ROOM / "__pycache__"))
    return Recipe(
        "gateway",
        "the gateway's image",
        2,
        _make,
        [
            *(_HERE / name for name in ("gateway.py", "product.py", "buildah.py", "debian.py")),
            *(_IMAGES / name for name in ("gateway.Dockerfile", "gateway.lock")),
            _IMAGES / "compile_imported.py",
            _SOURCE / "__init__.py",
            *(_SOURCE / name for name in ("api", "clients", "contract")),
            *rooms,
        ],
    )


def _make(archive: Path, scratch: Path) -> None:
    base = product.builder("gateway")
    buildah.build(
        _IMAGES / "gateway.Dockerfile",
        product.REPOSITORY,
        archive,
        GATEWAY_NAME,
        bases=[debian.python(), base],
        arguments={"BUILDER": oci.image_name(base), "BASE": debian.PYTHON_NAME},
    )


def main() -> int:
    """Build it."""
    try:
        packages.ensure()
        print(gateway())
    except (ControlPlaneError, PermissionError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
