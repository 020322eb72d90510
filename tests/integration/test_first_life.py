"""The main job on a real API server: apply, work, kill, resume."""

import os
import signal

from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, condition, profile, session, task
from stage.talk import talk


def begin(place: Namespace, name: str = "s", **spec: object) -> None:
    place.apply(profile(), task(), session(name, place.worktree(name), **spec))


async def test_a_session_starts_answers_and_says_so(
    place: Namespace, operator: OperatorProcess
) -> None:
    begin(place)
    status = place.wait_idle("s")
    assert condition(status, "Ready")["reason"] == "AgentReady"
    assert status["isResumable"] is True
    assert status["needsResume"] is False
    assert "errorMessage" not in status
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        assert "the first was: alpha" in await s.ask("alpha")
    status = place.wait("s", lambda s: s["resumeTokenRef"]["established"], "established")
    assert status["state"] == "WAITING_FOR_INPUT"


async def test_the_conversation_survives_the_operator_and_the_agent(
    place: Namespace, operator: OperatorProcess
) -> None:
    begin(place)
    first = place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.ask("alpha")
        operator.kill()
        assert "the first was: alpha" in await s.ask("beta")
        operator.start()
        status = place.wait_idle("s")
        assert status["agentExecutionId"] == first["agentExecutionId"]
        assert status["epoch"] == first["epoch"]

        report = await s.status()
        assert report.agent.pid is not None
        os.kill(report.agent.pid, signal.SIGKILL)
        status = place.wait(
            "s",
            lambda now: (
                now.get("isAgentRunning") and now["agentExecutionId"] != first["agentExecutionId"]
            ),
            "resumed in a new execution",
        )
        assert status["epoch"] == first["epoch"] + 1
        assert "the first was: alpha" in await s.ask("gamma")
        assert await s.user_messages() == ["alpha", "beta", "gamma"]
