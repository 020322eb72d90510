"""Clusters that somebody else runs: one that the user names, or one that kind makes in Docker.

They are whole clusters, with controllers and nodes, and their processes and data are out of reach:
what needs those is refused by `interface.py`. A cluster that the user names is used as it is,
nothing in it is started or stopped; a kind cluster is made for the run, under a name of its own and
a kubeconfig of its own, so the user's current context never changes.
"""

import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from cluster import binaries
from cluster.errors import ControlPlaneError
from cluster.interface import Cluster

_ANSWERS_WITHIN = 5.0
_KIND_PATIENCE = 600.0


class _Foreign(Cluster):
    """What both have in common: a kubectl from somewhere, and a scratch folder."""

    def __init__(self) -> None:
        self._scratch: Path | None = None
        self._kubectl: Path | None = None

    def prepare(self) -> None:
        if self._kubectl is None:
            on_path = None if binaries.assets() else shutil.which("kubectl")
            self._kubectl = Path(on_path) if on_path else binaries.find().kubectl

    @property
    def kubectl_command(self) -> Path:
        self.prepare()
        assert self._kubectl is not None
        return self._kubectl

    @property
    def scratch(self) -> Path:
        if self._scratch is None:
            raise ControlPlaneError(f"{self.description} is not started")
        return self._scratch

    def _take_scratch(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="kandev-cluster-"))

    def _drop_scratch(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


class GivenCluster(_Foreign):
    """The cluster behind a kubeconfig that was given on purpose."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__()
        self._kubeconfig = kubeconfig
        self.description = f"the cluster of {kubeconfig}"

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def start(self) -> None:
        if not self._kubeconfig.is_file():
            raise ControlPlaneError(f"KANDEV_KUBECONFIG names no file: {self._kubeconfig}")
        self._take_scratch()
        try:
            self.kubectl("version", "--request-timeout=10s")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        self._drop_scratch()


class KindCluster(_Foreign):
    """A cluster of one node in Docker, deleted when the run ends."""

    def __init__(self) -> None:
        super().__init__()
        self._name = f"kandev-test-{uuid.uuid4().hex[:8]}"
        self.description = f"the kind cluster {self._name}"

    @property
    def kubeconfig(self) -> Path:
        return self.scratch / "admin.kubeconfig"

    def prepare(self) -> None:
        super().prepare()
        if self._scratch is not None:
            return
        self._take_scratch()
        try:
            self._kind("create", "cluster", "--wait=180s")
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        self.prepare()

    def stop(self) -> None:
        if self._scratch is None:
            return
        try:
            self._kind("delete", "cluster")
        finally:
            self._drop_scratch()

    def load(self, *images: str) -> None:
        """Bring images of the Docker engine onto the node."""
        _run_kind("load", "docker-image", *images, "--name", self._name)

    def _kind(self, *words: str) -> None:
        _run_kind(*words, "--name", self._name, "--kubeconfig", str(self.kubeconfig))


def _run_kind(*words: str) -> None:
    done = subprocess.run(["kind", *words], capture_output=True, text=True, timeout=_KIND_PATIENCE)
    if done.returncode:
        raise ControlPlaneError(f"kind {' '.join(words)}: {done.stderr.strip()}")


def kind_is_usable() -> bool:
    """Tell whether kind is installed and a Docker engine answers; a client alone is not enough."""
    return shutil.which("kind") is not None and engine_answers()


def engine_answers() -> bool:
    """Tell whether a Docker engine answers."""
    if shutil.which("docker") is None:
        return False
    question = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(question, capture_output=True, text=True, timeout=_ANSWERS_WITHIN)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and bool(done.stdout.strip())
