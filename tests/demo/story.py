"""The main job, played: apply, talk, kill the operator, lose the agent; nothing is forgotten.

Each scene does what a person would do and checks what had to come of it. A word that only the
first prompt contains is the proof of memory: it must come back after each accident. How the agent
is lost is told in `accidents.py`.
"""

import json
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from demo.scenery import NAMESPACE, Scenery
from demo.show import Broken, Show

SESSION = "demo"
Status = dict[str, Any]


class Story(ABC):
    """Plays on a scenery, tells through a show."""

    def __init__(self, scenery: Scenery, show: Show) -> None:
        self._scenery = scenery
        self._show = show
        self._word = f"kiwi-{secrets.token_hex(3)}"

    def play(self) -> None:
        """The whole story. Raises Broken where something is not as it has to be."""
        self._apply()
        self._first_turn()
        self._operator_dies()
        self._accident()
        self._prompt("And which word was it?", proves=self._word)
        self._show.run("kubectl", "kandev", "why", SESSION)

    @abstractmethod
    def _accident(self) -> None:
        """Lose the agent, and wait until its conversation goes on."""

    def _apply(self) -> None:
        show, scenery = self._show, self._scenery
        show.scene("A person applies a TaskSession")
        agent = scenery.choose_agent(show)
        show.say(f"The agent is {agent.words}.")
        show.run("kubectl", "apply", "-f", str(scenery.manifest(agent)))
        self._wait("the agent is ready", _is_idle, 180)
        show.run("kubectl", "get", "tasksessions")
        show.good("WAITING_FOR_INPUT: executor, agentctl and agent are up")
        if (gateway := scenery.gateway) is not None:
            show.say(f"It is on the page, too: {gateway.url}/sessions/{self._uid()}")

    def _first_turn(self) -> None:
        self._show.scene("A conversation begins")
        self._prompt(f"Please remember this word: {self._word}", proves=None)
        self._wait("the turn is over", _is_established, 60)
        self._show.good("the turn is stored: from now on there is a history that could be lost")

    def _operator_dies(self) -> None:
        show, scenery = self._show, self._scenery
        before = self._status()
        show.scene("The operator is killed (SIGKILL) and started again")
        operator = scenery.operator
        assert operator is not None
        pid = operator.pid
        operator.kill()
        show.say(f"$ kill -9 {pid}   (agentctl and the agent live on)")
        scenery.start_operator()
        end = time.monotonic() + 30
        while operator.metric("kandev_operator_sessions_verified") < 1:
            if time.monotonic() > end:
                raise Broken("the new operator did not look at the session")
            time.sleep(0.1)
        after = self._status()
        if after.get("agentExecutionId") != before.get("agentExecutionId"):
            raise Broken("the agent was started a second time")
        resumes = operator.metric("kandev_operator_resumes_total")
        show.good(f"verified again: same agent, {resumes:.0f} resume calls")
        self._prompt("Which word did I ask you to remember?", proves=self._word)

    def _prompt(self, text: str, proves: str | None) -> None:
        said = self._show.run("kubectl", "kandev", "prompt", SESSION, text)
        if proves is None:
            return
        if proves not in said:
            raise Broken("the agent forgot what it was told")
        self._show.good(f"it remembers: {proves}")

    def _uid(self) -> str:
        of_session = ("-n", NAMESPACE, "get", "tasksession", SESSION)
        return self._scenery.cluster.kubectl(*of_session, "-o", "jsonpath={.metadata.uid}").strip()

    def _get(self, kind: str, name: str) -> Status:
        """The status of an object."""
        text = self._scenery.cluster.kubectl("-n", NAMESPACE, "get", kind, name, "-o", "json")
        status: Status = json.loads(text).get("status") or {}
        return status

    def _status(self) -> Status:
        return self._get("tasksession", SESSION)

    def _resumed(self, before: Status, seconds: float) -> None:
        """Wait until the conversation goes on in another execution than before."""

        def goes_on(status: Status) -> bool:
            known = before.get("agentExecutionId")
            return _is_idle(status) and status.get("agentExecutionId") != known

        self._wait("the conversation is resumed", goes_on, seconds)

    def _wait(self, what: str, holds: Callable[[Status], bool], seconds: float) -> None:
        """Wait for a status, telling each change of state on the way."""
        end, told = time.monotonic() + seconds, ""
        while time.monotonic() < end:
            status = self._status()
            ready = next((c for c in status.get("conditions") or [] if c["type"] == "Ready"), {})
            line = f"{status.get('state', 'CREATED')} ({ready.get('reason', 'Pending')})"
            if line != told:
                self._show.say(line)
                told = line
            if holds(status):
                return
            time.sleep(0.1)
        operator = self._scenery.operator
        tail = operator.tail(20) if operator else ""
        raise Broken(f"not reached in {seconds:.0f} s: {what}\n{tail}")


def _is_idle(status: Status) -> bool:
    return status.get("state") == "WAITING_FOR_INPUT" and status.get("isAgentRunning") is True


def _is_established(status: Status) -> bool:
    return bool((status.get("resumeTokenRef") or {}).get("established")) and _is_idle(status)
