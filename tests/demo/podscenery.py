"""Sessions in pods: a node, images without a registry, and the operator beside it.

The agent is the small one of our own unless AGENT names a real one, which then talks to a scripted
model on this machine: pods of the demo have no way into the world, and need no key.
"""

import json
from pathlib import Path

from cluster.images import agents
from demo import podground
from demo.scenery import NAMESPACE, OPERATOR_NAMESPACE, Agent, Body, Scenery, wanted_agent
from demo.show import Broken, Show
from stage import podagents
from stage.operatorprocess import OperatorProcess

_REAL = ("opencode", "claude", "codex")
_LEVEL = "pod-security.kubernetes.io/enforce=restricted"


class PodScenery(Scenery):
    """A node, with our images on it."""

    suggestions = (
        "kubectl get executors,pods,pvc -o wide",
        "kubectl delete pod -l kandev.dev/session-uid && kubectl get tasksessions --watch",
        "kubectl kandev shell demo",
    )

    def __init__(self) -> None:
        self.ground = podground.find()
        super().__init__(self.ground.cluster)
        self.title = self.ground.title
        self._agentctl_image = self._agent_image = ""
        self._overlay: Body = {}

    def install_images(self, show: Show) -> None:
        """Bring agentctl's image and the agent's onto the node."""
        self._agentctl_image, self._agent_image = self.ground.bring_images(show.say)
        show.good(f"{self._agentctl_image} and {self._agent_image} are on the node")

    def install_crds(self) -> None:
        super().install_crds()
        self.cluster.kubectl("label", "--overwrite", "namespace", NAMESPACE, _LEVEL)

    def choose_agent(self, show: Show) -> Agent:
        name = wanted_agent(_REAL)
        if name is None:
            return Agent("demo", agents.SCRIPTED_COMMAND, spec={"image": self._agent_image})
        host = self.ground.model_host
        if host is None:
            raise Broken(f"AGENT={name} needs the real node: as root, without a Docker engine")
        show.say(f"{name} talks to a scripted model on this machine: no key is needed.")
        agent = podagents.furnished(name, self._scripted_model(host))
        image = self.ground.bring(agent.archive)
        if agent.settings is not None:
            self.cluster.kubectl(
                "-n", NAMESPACE, "apply", "-f", "-", stdin=json.dumps(agent.settings)
            )
        self._overlay = agent.overlay
        words = f"the real {name}, with a scripted model"
        return Agent(name, agent.command, agent.env, words, {"image": image})

    def _operator(self, log: Path) -> OperatorProcess:
        return OperatorProcess(
            self.cluster.kubeconfig,
            log,
            lease_namespace=OPERATOR_NAMESPACE,
            options=[
                f"--agentctl-image={self._agentctl_image}",
                "--agentctl-pull-policy=Never",
                f"--pod-access={self.ground.access}",
            ],
        )

    def _place(self, session: Body) -> None:
        pod: Body = {"template": {"spec": self._overlay}} if self._overlay else {}
        session["executor"] = {"template": {"spec": {"runtime": "Pod", "pod": pod}}}
        session["workspace"] = {"size": "256Mi"}

    def _clear(self) -> None:
        """Pods and volumes go with the node."""
