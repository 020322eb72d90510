"""Where pods can run on this machine, and how our images come there.

`find()` takes kind where a Docker engine answers, else the real node of `cluster/node` where it can
be started: as root, on Debian or Ubuntu. Where neither is possible it says what is missing and how
to get it. Nothing is ever pushed to a registry: images are built here and loaded. Knows nothing of
sessions.
"""

import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from cluster.errors import ControlPlaneError
from cluster.foreign import KindCluster, engine_answers
from cluster.images import agents, oci, product
from cluster.interface import Cluster
from cluster.node import Node, packages
from demo.show import Broken

_DOCKERFILES = {
    "localhost/kandev-agentctl:demo": product.REPOSITORY / "operator/images/agentctl.Dockerfile",
    "localhost/agent-scripted:demo": Path(agents.__file__).with_name("scripted_agent.Dockerfile"),
}
_FAKES = product.REPOSITORY / "tests/fakes"
_BUILD_PATIENCE = 1800.0


class PodGround(ABC):
    """A cluster with a node of our own, and the two images that the demo needs."""

    title: str
    cluster: Cluster
    access: str
    """How an operator on this machine reaches a pod's agentctl, as its option says it."""
    model_host: str | None = None
    """An address of this machine that pods reach; none where there is no such thing."""

    @abstractmethod
    def bring_images(self, say: Callable[[str], None]) -> tuple[str, str]:
        """Load agentctl's image and the scripted agent's; their names."""

    def bring(self, archive: Path) -> str:
        """Load one more image from an archive; its name."""
        raise Broken("real agents in pods need the real node: as root, without a Docker engine")


class NodeGround(PodGround):
    """A kubelet and a containerd on this machine, for as long as the demo lasts."""

    title = "A real node: kubelet, containerd and a control plane on this machine"
    access = "direct"

    def __init__(self) -> None:
        self._node = Node()
        self.cluster = self._node
        self.model_host = Node.host

    def bring_images(self, say: Callable[[str], None]) -> tuple[str, str]:
        say("images are built here and loaded; nothing is pulled")
        return self.bring(product.agentctl()), self.bring(agents.scripted())

    def bring(self, archive: Path) -> str:
        self._node.load(archive)
        return oci.image_name(archive)


class KindGround(PodGround):
    """A kind cluster in Docker, deleted at the end."""

    title = "A kind cluster: one node in Docker"
    access = "proxy"

    def __init__(self) -> None:
        self._kind = KindCluster()
        self.cluster = self._kind

    def bring_images(self, say: Callable[[str], None]) -> tuple[str, str]:
        for name, dockerfile in _DOCKERFILES.items():
            say(f"$ docker build -f {dockerfile.relative_to(product.REPOSITORY)} -t {name} .")
            _docker_build(dockerfile, name)
        say("$ kind load docker-image …")
        self._kind.load(*_DOCKERFILES)
        agentctl, agent = _DOCKERFILES
        return agentctl, agent


def find() -> PodGround:
    """The first that this machine has; Broken with what to do where it has none."""
    if os.environ.get("KANDEV_KUBECONFIG"):
        raise Broken("KANDEV_KUBECONFIG names a cluster, and images cannot be brought there: unset")
    lacks_kind, lacks_node = kind_lacks(), node_lacks()
    if lacks_kind is None:
        return KindGround()
    if lacks_node is None:
        return NodeGround()
    raise Broken(
        "pods need a node. There are two ways:\n"
        f"   - kind in Docker: {lacks_kind}\n"
        f"   - a node on this machine: {lacks_node}\n"
        "   `make demo` without RUNTIME=pod needs neither."
    )


def kind_lacks() -> str | None:
    """What a person has to do before kind can be used; None if nothing."""
    if not engine_answers():
        return "start a Docker engine (`docker version` names no server), and install kind"
    if shutil.which("kind") is None:
        return "the engine answers; install kind: go install sigs.k8s.io/kind@latest"
    return None


def node_lacks() -> str | None:
    """The same for a node of our own."""
    if os.geteuid() != 0:
        return "run `sudo make demo RUNTIME=pod`, on Debian or Ubuntu"
    missing = packages.missing_packages()
    if missing and shutil.which("apt-get") is None:
        return f"install what these Debian packages hold: {' '.join(missing)}"
    return None


def _docker_build(dockerfile: Path, name: str) -> None:
    # What the scripted agent is made of is no part of the project's images, so it has a context
    # of its own.
    context = _FAKES if "agent-scripted" in name else product.REPOSITORY
    done = subprocess.run(
        ["docker", "build", "--quiet", "--file", dockerfile, "--tag", name, context],
        capture_output=True,
        text=True,
        timeout=_BUILD_PATIENCE,
    )
    if done.returncode:
        raise ControlPlaneError(f"docker build of {name}:\n{done.stderr[-2000:]}")
