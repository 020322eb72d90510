"""What the demo plays on: a folder, a control plane, the CRDs, and the operator as a process.

All of it lies in one temporary folder and ends with `tear_down`, whatever happened before. The
agent is the small one of our own unless AGENT names a real one; a real one whose key is not in
the environment talks to a scripted model, so that it can be seen without an account.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from cluster.choice import find_control_plane
from cluster.interface import Cluster
from demo.show import Broken, Show
from fakes.model_server import ModelServer
from fakes.real_agents import install
from kandev_operator.clients.local import LocalHost
from stage.operatorprocess import OperatorProcess
from stage.sessions import fake_agent

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLE = REPOSITORY / "manifests" / "examples" / "01-local-session.yaml"
NAMESPACE = "default"
OPERATOR_NAMESPACE = "kandev-system"


@dataclass(frozen=True)
class Agent:
    """What the demo's AgentProfile says."""

    name: str
    command: Sequence[str]
    env: dict[str, str]
    words: str


class Scenery:
    """Everything that has to be there before the story begins."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="kandev-demo-"))
        self.root = self.folder / "worktrees"
        self.worktree = self.root / "demo"
        self.worktree.mkdir(parents=True)
        # What a killed process or a real agent leaves in its temporary folder goes with ours.
        scratch = self.folder / "tmp"
        scratch.mkdir()
        os.environ["TMPDIR"] = str(scratch)
        self.cluster: Cluster = find_control_plane()
        self.operator: OperatorProcess | None = None
        self._model: ModelServer | None = None

    def environment(self) -> dict[str, str]:
        """A shell in which kubectl and its plugin work on the demo's cluster."""
        tools = self.folder / "bin"
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        return {"KUBECONFIG": str(self.cluster.kubeconfig), "PATH": path, "NO_COLOR": "1"}

    def raise_cluster(self) -> None:
        """Start the control plane; kubectl gets a name in the demo's folder."""
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
            self.operator = OperatorProcess(
                self.cluster.kubeconfig,
                self.folder / "operator.log",
                roots={NAMESPACE: self.root},
                lease_namespace=OPERATOR_NAMESPACE,
            )
        return self.operator.start()

    def choose_agent(self, show: Show) -> Agent:
        """The agent that AGENT names."""
        name = os.environ.get("AGENT", "").strip().lower()
        if name in ("", "fake", "demo"):
            words = "a small agent of our own, with its memory on disk"
            return Agent("demo", fake_agent("--word-delay=0.02"), {}, words)
        if name not in ("opencode", "claude", "codex", "gemini"):
            raise Broken(f"AGENT={name}: choose opencode, claude, codex or gemini")
        agent = install(name)
        home = self.folder / "agent-home"
        home.mkdir(exist_ok=True)
        keys = {key: os.environ[key] for key in agent.online_env if os.environ.get(key)}
        if keys:
            return Agent(name, agent.command, {**keys, "HOME": str(home)}, f"{name}, online")
        needs = " or ".join(agent.online_env)
        show.say(f"{needs or 'No key'} is not set: {name} talks to a scripted model instead.")
        self._model = ModelServer().start()
        env = {**agent.furnish(home, self._model.url), "HOME": str(home)}
        return Agent(name, agent.command, env, f"the real {name}, with a scripted model")

    def manifest(self, agent: Agent) -> Path:
        """The example, with this demo's worktree and agent."""
        bodies = [each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each]
        for body in bodies:
            if body["kind"] == "AgentProfile":
                body["spec"]["displayName"] = agent.name
                body["spec"]["command"] = list(agent.command)
                body["spec"]["env"] = [{"name": k, "value": v} for k, v in agent.env.items()]
            if body["kind"] == "TaskSession":
                local = body["spec"]["executor"]["template"]["spec"]["localStandalone"]
                local["worktreePath"] = str(self.worktree)
        path = self.folder / "demo.yaml"
        path.write_text(yaml.safe_dump_all(bodies, sort_keys=False))
        return path

    def tear_down(self) -> None:
        """End every process of the demo and remove its folder."""
        if self.operator is not None and self.operator.is_running:
            self.operator.stop()
        asyncio.run(self._end_agentctls())
        if self._model is not None:
            self._model.stop()
        self.cluster.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _end_agentctls(self) -> None:
        host = LocalHost({})
        for state in (self.root / ".kandev").glob("*"):
            found = host.find(state)
            if found is not None:
                await host.stop(found, 5.0)
            await host.sweep(state)
