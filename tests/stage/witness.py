"""What really happened, from those who saw it: the agent's own diary and agentctl's report.

A status is right when it says what agentctl says at the same moment; the diary of the scripted
agent (`--log`) says which prompts reached it, in which process, and how a conversation was opened.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kandev_operator.contract.status import AgentStatus, StatusReport
from stage.sessions import Namespace, fake_agent
from stage.talk import Talk

_STATES = {AgentStatus.RUNNING: "RUNNING", AgentStatus.IDLE: "WAITING_FOR_INPUT"}


class Diary:
    """What a scripted agent wrote down, over all of its processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def agent(self, *options: str) -> list[str]:
        """The command line of a scripted agent that writes this diary."""
        return fake_agent("--log", str(self.path), *options)

    def _rows(self, event: str) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        for line in self.path.read_text().splitlines():
            row = json.loads(line)
            if row["event"] == event:
                yield row

    @property
    def processes(self) -> list[int]:
        """The pid of every process of it that was started."""
        return [row["pid"] for row in self._rows("start")]

    def calls(self, *methods: str) -> list[str]:
        """The methods of the protocol that it was asked, of these."""
        return [row["method"] for row in self._rows("message") if row["method"] in methods]

    @property
    def openings(self) -> list[str]:
        """How its conversation was opened, each time."""
        return self.calls("session/new", "session/load", "session/resume")

    @property
    def prompts(self) -> list[str]:
        """The text of every prompt that reached it, in order."""
        return [
            "".join(part.get("text", "") for part in row["params"]["prompt"])
            for row in self._rows("message")
            if row["method"] == "session/prompt"
        ]


def differences(status: dict[str, Any], report: StatusReport) -> list[str]:
    """What a session's status says otherwise than agentctl; only for a live agent."""
    expected = {
        "state": _STATES.get(report.agent.status),
        "isAgentRunning": True,
        "agentExecutionId": report.agent.execution_id,
        "executorStatus": "ready",
        "needsResume": False,
    }
    said = {name: status.get(name) for name in expected}
    expected["turn"] = report.turn.prompt_id if report.turn else None
    said["turn"] = (status.get("turn") or {}).get("promptId")
    return [
        f"{name}: {said[name]!r}, agentctl says {wanted!r}"
        for name, wanted in expected.items()
        if said[name] != wanted
    ]


async def agreed(place: Namespace, name: str, talk: Talk, seconds: float = 30) -> dict[str, Any]:
    """Wait until status says what agentctl says; the status that did."""
    found: list[str] = []
    status: dict[str, Any] = {}
    try:
        async with asyncio.timeout(seconds):
            while True:
                before = await talk.status()
                status = await asyncio.to_thread(place.status, name)
                after = await talk.status()
                same = (before.agent, before.turn) == (after.agent, after.turn)
                found = differences(status, after)
                if same and not found:
                    return status
    except TimeoutError:
        shown = "; ".join(found) or "agentctl changes all the time"
        raise AssertionError(
            f"{name} says something else than agentctl for {seconds} s: {shown}\n"
            f"{json.dumps(status, indent=1)}\n--- operator ---\n{place.tail()}"
        ) from None
