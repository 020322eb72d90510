"""What every demo plays on: a folder, a cluster, the CRDs, and the operator as a process.

All of it lies in one temporary folder and ends with `tear_down`, whatever happened before. What a
session's agent is and where it runs is the business of the two that fill this in: `localscenery`
(a process beside the operator) and `podscenery` (a pod). Knows nothing of the story.
"""

import os
import shutil
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cluster.interface import Cluster
from demo.show import Broken, Show
from fakes.model_server import ModelServer
from stage.gatewayprocess import GatewayProcess
from stage.operatorprocess import OperatorProcess

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "manifests" / "examples" / "01-local-session.yaml"
NAMESPACE = "default"
OPERATOR_NAMESPACE = "kandev-system"
REAL = ("opencode", "claude", "codex", "gemini")
_OURS = ("", "fake", "demo")
Body = dict[str, Any]


@dataclass(frozen=True)
class Agent:
    """What the demo's AgentProfile says."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    words: str = "a small agent of our own, with its memory on disk"
    spec: Mapping[str, Any] = field(default_factory=dict)
    """More of the profile's spec."""


class Scenery(ABC):
    """Everything that has to be there before the story begins."""

    def __init__(self, cluster: Cluster) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kandev-demo-"))
        # What a killed process or a real agent leaves in its temporary folder goes with ours.
        scratch = self.folder / "tmp"
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)
        self.cluster = cluster
        self.operator: OperatorProcess | None = None
        self.gateway: GatewayProcess | None = None
        self._model: ModelServer | None = None

    # What differs.

    title: str
    """The first scene's, about the cluster."""
    suggestions: Sequence[str] = ()
    """More for a person to try."""

    @abstractmethod
    def choose_agent(self, show: Show) -> Agent:
        """The agent that AGENT names."""

    @abstractmethod
    def _operator(self, log: Path) -> OperatorProcess: ...

    @abstractmethod
    def _place(self, session: Body) -> None:
        """Say in a session's spec where it runs."""

    @abstractmethod
    def _clear(self) -> None:
        """End what else was started, while the cluster is still there."""

    # What is the same.

    def environment(self) -> dict[str, str]:
        """A shell in which kubectl and its plugin work on the demo's cluster."""
        tools = self.folder / "bin"
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {"KUBECONFIG": str(self.cluster.kubeconfig), "PATH": path, "NO_COLOR": "1"}

    def raise_cluster(self) -> None:
        """Start the cluster; kubectl gets a name in the demo's folder."""
        self.cluster.prepare()
        self.cluster.start()
        tools = self.folder / "bin"
        tools.mkdir()
        kubectl = tools / "kubectl"
        binary = self.cluster.kubectl_command
        # What it learns of the demo's cluster is of no use to anybody later.
        learns = f'export KUBECACHEDIR="{tools}/kubectl-cache"'
        named = "" if binary.name == "kubectl" else " kubectl"
        kubectl.write_text(f'#!/bin/sh\n{learns}\nexec "{binary}"{named} "$@"\n')
        kubectl.chmod(0o755)

    def install_crds(self) -> None:
        """Install the CRDs and the operator's namespace."""
        folder = str(REPOSITORY / "crds")
        self.cluster.kubectl("apply", "--server-side", "-f", folder)
        self.cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", folder)
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        body = {**namespace, "metadata": {"name": OPERATOR_NAMESPACE}}
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))

    def start_operator(self) -> OperatorProcess:
        """Start the operator; its log lies in the demo's folder."""
        if self.operator is None:
            self.operator = self._operator(self.folder / "operator.log")
        return self.operator.start()

    def start_gateway(self) -> GatewayProcess:
        """Start the gateway: whoever is at this machine needs no login. Its log lies beside."""
        self.gateway = GatewayProcess(
            self.cluster.kubeconfig,
            self.folder,
            namespaces=[NAMESPACE],
            operator_namespace=OPERATOR_NAMESPACE,
        )
        return self.gateway.start()

    def manifest(self, agent: Agent) -> Path:
        """The example, with this demo's agent and place."""
        bodies = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each]
        for body in bodies:
            if body["kind"] == "AgentProfile":
                body["spec"]["displayName"] = agent.name
                body["spec"]["command"] = list(agent.command)
                body["spec"]["env"] = [{"name": k, "value": v} for k, v in agent.env.items()]
                body["spec"] |= agent.spec
            if body["kind"] == "TaskSession":
                self._place(body["spec"])
        path = self.folder / "demo.yaml"
        path.write_text(yaml.safe_dump_all(bodies, sort_keys=False))
        return path

    def tear_down(self) -> None:
        """End every process of the demo and remove its folder."""
        ends = (self._end_gateway, self._end_operator, self._clear, self.cluster.stop)
        steps: list[Callable[[], object]] = [*ends]
        try:
            _each(steps)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _end_gateway(self) -> None:
        if self.gateway is not None:
            self.gateway.stop()

    def _end_operator(self) -> None:
        if self.operator is not None and self.operator.is_running:
            self.operator.stop()
        if self._model is not None:
            self._model.stop()

    def _scripted_model(self, host: str = "127.0.0.1") -> str:
        """The address of a model that needs no key."""
        self._model = ModelServer(host=host).start()
        return self._model.url


def wanted_agent(known: Sequence[str] = REAL) -> str | None:
    """The real agent that AGENT names; None for our own."""
    name = os.environ.get("AGENT", "").strip().lower()
    if name in _OURS:
        return None
    if name not in known:
        raise Broken(f"AGENT={name}: choose one of {', '.join(known)}")
    return name


def _each(steps: Iterable[Callable[[], object]]) -> None:
    """Take every step, whatever became of the one before; raise the first trouble at the end."""
    trouble: Exception | None = None
    for step in steps:
        try:
            step()
        except Exception as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
