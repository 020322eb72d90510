"""Builds a Dockerfile from images that lie on this machine, with no registry and no network.

`build` gives buildah a store of its own for each build, brings the bases into it from archives, and
takes the result out as an archive. Nothing stays behind: a store is mounts and layers, and both
are gone with it. Needs root, for the isolation that needs no container runtime (chroot).
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.errors import ControlPlaneError
from cluster.images import oci
from cluster.node.packages import search_path

_PATIENCE = 1800.0
# What may be brought in and taken out is what we name; there are no signatures on this machine.
_POLICY = {"default": [{"type": "insecureAcceptAnything"}]}


def build(
    dockerfile: Path,
    context: Path,
    archive: Path,
    name: str,
    *,
    bases: Sequence[Path],
    arguments: Mapping[str, str],
) -> None:
    """Write `archive`: the image of a Dockerfile, called `name`."""
    with tempfile.TemporaryDirectory(prefix="kandev-buildah-") as folder:
        store = _Store(Path(folder))
        try:
            for base in bases:
                store.bring(base)
            told = [f"--build-arg={key}={value}" for key, value in arguments.items()]
            store.run(
                *("build", "--isolation", "chroot", "--pull-never", "--layers=false"),
                *("--timestamp", "0"),
                *(*told, "--file", dockerfile, "--tag", name, context),
            )
            store.take(name, archive)
        finally:
            store.discard()


class _Store:
    """A store of images in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._policy = folder / "policy.json"
        self._policy.write_text(json.dumps(_POLICY))
        self._driver = "overlay" if self._can("overlay") else "vfs"

    def bring(self, archive: Path) -> None:
        name = oci.image_name(archive)
        pulled = self.run(
            "pull", "--quiet", "--signature-policy", self._policy, f"oci-archive:{archive}"
        )
        self.run("tag", pulled.split()[-1], name)

    def take(self, name: str, archive: Path) -> None:
        unfinished = self._folder / "image.tar"
        self.run(
            *("push", "--quiet", "--signature-policy", self._policy, "--disable-compression"),
            *(name, f"oci-archive:{unfinished}:{name}"),
        )
        archive.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(unfinished, archive)

    def run(self, *words: str | Path) -> str:
        return self._buildah(self._driver, *words)

    def discard(self) -> None:
        """Remove all images and what is mounted of them."""
        for words in (("rm", "--all"), ("rmi", "--all", "--force")):
            try:
                self.run(*words)
            except ControlPlaneError:
                continue  # the folder goes, with what is in it
        shutil.rmtree(self._folder / "store", ignore_errors=True)

    def _can(self, driver: str) -> bool:
        try:
            self._buildah(driver, "images")
        except ControlPlaneError:
            return False
        return True

    def _buildah(self, driver: str, *words: str | Path) -> str:
        places = ["--root", self._folder / "store", "--runroot", self._folder / "run"]
        done = subprocess.run(
            # The chroot isolation shares our network, so we have none.
            ["unshare", "--net", "buildah", *places, "--storage-driver", driver, *words],
            env=os.environ | {"PATH": search_path(), "TMPDIR": str(self._folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
        )
        if done.returncode:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
            raise ControlPlaneError(f"buildah {words[0]} failed:\n{tail}")
        return done.stdout
