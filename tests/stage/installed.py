"""An operator that was installed by Helm, as its administrator sees it: release, pods, leader.

`Installed` is one release of the chart on a real node, with the images made here. It knows nothing
of sessions; `InstalledScene` plays sessions beside it, whose operator runs under the chart's own
ServiceAccount.
"""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from cluster.errors import KubectlError
from cluster.helm import CHART, Helm
from cluster.images.gateway import GATEWAY_NAME
from cluster.images.product import AGENTCTL_NAME, OPERATOR_NAME
from cluster.node import Node
from stage.nodescene import NodeScene
from stage.pods import fetch
from stage.sessions import Body, Namespace
from stage.talk import Talk, talk

LEASE: Final = "kandev-operator"
EVERYWHERE: Final = "kube-system"
"""Where the Lease of an operator of all namespaces is."""
COMPONENT: Final = "app.kubernetes.io/component=operator"
_PATIENCE: Final = 180.0


def images() -> list[str]:
    """The options that name the images of this run; nothing is ever pulled."""
    options = ["--set=image.registry=localhost", "--set=image.pullPolicy=Never"]
    for part, name in (
        ("operator", OPERATOR_NAME),
        ("agentctl", AGENTCTL_NAME),
        ("gateway", GATEWAY_NAME),
    ):
        repository, _, tag = name.removeprefix("localhost/").partition(":")
        options += [f"--set=image.{part}.repository={repository}", f"--set=image.{part}.tag={tag}"]
    return [*options, "--set=executors.agentctlPullPolicy=Never"]


class Installed:
    """One release of the chart."""

    def __init__(self, node: Node, helm: Helm, namespace: str, name: str = "kandev") -> None:
        self.node, self.helm, self.namespace, self.name = node, helm, namespace, name

    def install(self, *options: str) -> float:
        """Install it; the seconds until all replicas are ready."""
        began = time.monotonic()
        self._release("install", "--wait", *options)
        return time.monotonic() - began

    def install_unready(self, *options: str) -> None:
        """Install it, and return when its pods run, ready or not."""
        self._release("install", *options)
        self._wait(lambda: self.pods() and all(map(_runs, self.pods())), "running")

    def upgrade(self, *options: str) -> None:
        """Upgrade it, and return when the new pods are ready and the old ones gone."""
        old = {pod["metadata"]["name"] for pod in self.pods()}
        self._release("upgrade", "--wait", *options)
        self._wait(lambda: not old & {pod["metadata"]["name"] for pod in self.pods()}, "renewed")

    def test(self) -> str:
        """What `helm test` says; HelmError where it fails."""
        return self.helm("test", self.name, "--namespace", self.namespace, "--logs")

    def uninstall(self, *options: str) -> None:
        self.helm("uninstall", self.name, "--namespace", self.namespace, "--wait", *options)

    def _release(self, verb: str, *options: str) -> None:
        where = ["--namespace", self.namespace, "--timeout=180s"]
        self.helm(verb, self.name, CHART, *where, *images(), *options)

    def kubectl(self, *words: str, timeout: float = 100) -> str:
        return self.node.kubectl("-n", self.namespace, *words, timeout=timeout)

    def pods(self) -> list[Body]:
        """Its operator's pods."""
        chosen = f"{COMPONENT},app.kubernetes.io/instance={self.name}"
        found: list[Body] = json.loads(
            self.kubectl("get", "pods", f"--selector={chosen}", "--output=json")
        )["items"]
        return found

    def leader(self, namespace: str = EVERYWHERE) -> str:
        """The name of the pod that holds this Lease; empty where nobody does."""
        try:
            lease = json.loads(
                self.node.kubectl(*("-n", namespace, "get", "lease", LEASE, "--output=json"))
            )
        except KubectlError:
            return ""
        holder: str = lease["spec"].get("holderIdentity") or ""
        return holder.rpartition("_")[0].rpartition("/")[2]

    def wait_leader(self, namespace: str = EVERYWHERE, *, other_than: str = "") -> str:
        """Wait until one of its pods leads."""

        def leads() -> bool:
            names = {pod["metadata"]["name"] for pod in self.pods()}
            return self.leader(namespace) in names - {other_than}

        self._wait(leads, "led by one of its pods")
        return self.leader(namespace)

    def says(self, words: str) -> str:
        """Wait until each of its pods has these words in its answer to the readiness probe."""

        said: list[str] = []

        def all_do() -> bool:
            said.clear()
            for pod in self.pods():
                try:
                    status, body = fetch(pod["status"]["podIP"], 8080, "/readyz")
                except OSError:
                    return False
                said.append(f"{status} {body.decode()}")
            return bool(said) and all(each[:3] == "503" and words in each for each in said)

        self._wait(all_do, f"saying {words!r}")
        return said[0]

    def tail(self, lines: int = 60) -> str:
        """The end of its pods' logs, for a failure's text."""
        chosen = f"--selector=app.kubernetes.io/instance={self.name}"
        try:
            return self.kubectl("logs", chosen, "--prefix", f"--tail={lines}")
        except KubectlError as error:
            return str(error)

    def _wait(self, is_so: Any, what: str) -> None:
        end = time.monotonic() + _PATIENCE
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError(f"{self.name} is not {what}\n{self.tail()}")
            time.sleep(0.2)


def _runs(pod: Body) -> bool:
    return bool(pod["status"].get("phase") == "Running")


class InstalledScene(NodeScene):
    """Sessions of one namespace beside an installed operator."""

    def __init__(self, release: Installed, place: Namespace, image: str) -> None:
        self.place, self.image, self.release = place, image, release

    @asynccontextmanager
    async def talk(self, name: str) -> AsyncIterator[Talk]:
        place, home = self.place, self.release.namespace
        async with talk(place.cluster.kubeconfig, place.name, name, operator_namespace=home) as it:
            yield it
