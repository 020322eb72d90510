"""How the agent is lost, in either runtime, and what has to come of it.

A local agent's process is killed under its agentctl. A pod is deleted with agentctl, agent and all:
the next one must be another pod on the same volume.
"""

import asyncio
import os
import signal

from demo.scenery import NAMESPACE, OPERATOR_NAMESPACE
from demo.show import Broken
from demo.story import SESSION, Status, Story
from kandev_operator.contract.status import StatusReport
from stage.talk import talk

_LOOK = ("kubectl", "get", "pods,pvc", "-l", "kandev.dev/session-uid")


class LocalStory(Story):
    """The agent's process is killed."""

    def _accident(self) -> None:
        show = self._show
        show.scene("The agent process itself is killed")
        before = self._status()
        report = asyncio.run(self._report())
        if report.agent.pid is None:
            raise Broken("agentctl names no process of the agent")
        os.kill(report.agent.pid, signal.SIGKILL)
        show.say(f"$ kill -9 {report.agent.pid}   (the conversation's process is gone)")
        self._resumed(before, 120)
        show.run("kubectl", "get", "tasksessions", "-o", "wide")
        show.good("resumed with its token, in a new process")

    async def _report(self) -> StatusReport:
        kubeconfig = self._scenery.cluster.kubeconfig
        async with talk(
            kubeconfig, NAMESPACE, SESSION, operator_namespace=OPERATOR_NAMESPACE
        ) as session:
            return await session.status()


class PodStory(Story):
    """The pod is deleted."""

    def _accident(self) -> None:
        show = self._show
        show.scene("The pod is deleted, with everything that runs in it")
        show.run(*_LOOK)
        before, lost = self._status(), self._pod()
        show.run("kubectl", "delete", "pod", lost["name"], "--wait=false")
        self._resumed(before, 180)
        show.run(*_LOOK)
        now = self._pod()
        if now["uid"] == lost["uid"]:
            raise Broken("the session is still in the pod that was deleted")
        if self._status()["workspaceRef"]["uid"] != before["workspaceRef"]["uid"]:
            raise Broken("the session got another volume")
        show.good(f"resumed with its token, in pod {now['name']}, on the same volume")

    def _pod(self) -> Status:
        executor = self._get("executor", self._status()["executorRef"]["name"])
        pod: Status = executor["podRef"]
        return pod
