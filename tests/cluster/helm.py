"""Helm, as a test uses it: one command on one cluster, with files of its own.

Nothing of the user's is read or written: no kubeconfig, no repositories, no cache. The program is
the one that `build.py` makes.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cluster import build
from cluster.errors import ControlPlaneError

CHART = Path(__file__).resolve().parents[2] / "helm/kandev-operator"


class HelmError(ControlPlaneError):
    """Helm refused, in its own words."""


class Helm:
    """Runs Helm; with a kubeconfig against that cluster, else against none."""

    def __init__(self, scratch: Path, kubeconfig: Path | None = None) -> None:
        self._scratch = scratch
        self._kubeconfig = kubeconfig
        self._program = build.ensure(recipe=build.HELM)

    def __call__(self, *words: str | Path, timeout: float = 300) -> str:
        """Run it and return what it printed. Raises HelmError."""
        cluster = ["--kubeconfig", self._kubeconfig] if self._kubeconfig else []
        done = subprocess.run(
            [self._program, *words, *cluster],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if done.returncode:
            said = f"{done.stderr.strip()}\n{done.stdout.strip()}"
            raise HelmError(f"helm {' '.join(map(str, words))}: {said}")
        return done.stdout

    def _environment(self) -> Mapping[str, str]:
        hidden = ("KUBECONFIG", "HELM_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        folders = ("CACHE", "CONFIG", "DATA")
        return kept | {f"HELM_{each}_HOME": str(self._scratch / each.lower()) for each in folders}
