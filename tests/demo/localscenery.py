"""Sessions as processes beside the operator: a control plane without a node is all they need.

The agent is the small one of our own unless AGENT names a real one; a real one whose key is not in
the environment talks to a scripted model, so that it can be seen without an account.
"""

import asyncio
import os
from pathlib import Path

from cluster.choice import find_control_plane
from demo.scenery import NAMESPACE, OPERATOR_NAMESPACE, Agent, Body, Scenery, wanted_agent
from demo.show import Show
from fakes.real_agents import install
from kandev_operator.clients.local import LocalHost
from stage.operatorprocess import OperatorProcess
from stage.sessions import fake_agent


class LocalScenery(Scenery):
    """A control plane, and one folder to work in."""

    title = "A control plane: etcd and kube-apiserver on this machine"

    def __init__(self) -> None:
        super().__init__(find_control_plane())
        self.root = self.folder / "worktrees"
        self.worktree = self.root / "demo"
        self.worktree.mkdir(parents=True)

    def choose_agent(self, show: Show) -> Agent:
        name = wanted_agent()
        if name is None:
            return Agent("demo", fake_agent("--word-delay=0.02"))
        agent = install(name)
        home = self.folder / "agent-home"
        home.mkdir(exist_ok=True)
        keys = {key: os.environ[key] for key in agent.online_env if os.environ.get(key)}
        if keys:
            return Agent(name, agent.command, {**keys, "HOME": str(home)}, f"{name}, online")
        needs = " or ".join(agent.online_env)
        show.say(f"{needs or 'No key'} is not set: {name} talks to a scripted model instead.")
        env = agent.furnish(home, self._scripted_model())
        return Agent(name, agent.command, env, f"the real {name}, with a scripted model")

    def _operator(self, log: Path) -> OperatorProcess:
        return OperatorProcess(
            self.cluster.kubeconfig,
            log,
            roots={NAMESPACE: self.root},
            lease_namespace=OPERATOR_NAMESPACE,
        )

    def _place(self, session: Body) -> None:
        local = session["executor"]["template"]["spec"]["localStandalone"]
        local["worktreePath"] = str(self.worktree)

    def _clear(self) -> None:
        asyncio.run(self._end_agentctls())

    async def _end_agentctls(self) -> None:
        host = LocalHost({})
        for state in (self.root / ".kandev").glob("*"):
            found = host.find(state)
            if found is not None:
                await host.stop(found, 5.0)
            await host.sweep(state)
