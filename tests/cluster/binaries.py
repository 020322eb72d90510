"""Which programs make up a control plane, and where they lie on this machine.

`KUBEBUILDER_ASSETS` may name a folder that holds them, as it does for every other operator's tests;
else they are the one executable that `build.py` makes, which has a link for each of them.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cluster import build
from cluster.errors import ControlPlaneError


@dataclass(frozen=True, slots=True)
class Binaries:
    etcd: Path
    apiserver: Path
    kubectl: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Self:
        paths = [folder / name for name in build.CONTROL_PLANE.components]
        missing = [path.name for path in paths if not os.access(path, os.X_OK)]
        if missing:
            raise ControlPlaneError(f"{folder} lacks {', '.join(missing)}")
        return cls(*paths)


def assets() -> Path | None:
    """Return the folder that the user names, if one is named."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    return Path(folder) if folder else None


def find() -> Binaries:
    """Return the programs to run; building them takes minutes, once per machine."""
    return Binaries.in_folder(assets() or build.ensure().parent)
