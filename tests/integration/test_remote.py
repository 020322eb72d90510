"""Executors of runtime Remote: an agentctl that somebody else starts, kills and replaces."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stage.operatorprocess import OperatorProcess
from stage.remoteagentctl import RemoteAgentctl
from stage.sessions import Body, Namespace, condition, profile, session, task
from stage.talk import talk
from stage.witness import Diary, agreed

FAR = {"ref": {"name": "far"}}


@pytest.fixture
def diary(tmp_path: Path) -> Diary:
    return Diary(tmp_path / "agent.jsonl")


@pytest.fixture
def operator(make_operator: Callable[..., OperatorProcess]) -> OperatorProcess:
    return make_operator("--probe-seconds=1", "--allow-remote-host=127.0.0.1").start()


@pytest.fixture
def make_remote(
    place: Namespace, operator: OperatorProcess, tmp_path: Path
) -> Iterator[Callable[..., RemoteAgentctl]]:
    made: list[RemoteAgentctl] = []

    def make(**options: object) -> RemoteAgentctl:
        remote = RemoteAgentctl(tmp_path / f"remote-{len(made)}", **options)  # type: ignore[arg-type]
        made.append(remote)
        remote.trust(place)
        return remote

    yield make
    for remote in made:
        remote.close()


@pytest.fixture
def remote(make_remote: Callable[..., RemoteAgentctl]) -> RemoteAgentctl:
    return make_remote().start()


def agentctl_ready(reason: str) -> Callable[[Body], bool]:
    return lambda status: condition(status, "AgentctlReady").get("reason") == reason


async def test_it_works_and_survives_every_restart(
    place: Namespace, operator: OperatorProcess, remote: RemoteAgentctl, diary: Diary
) -> None:
    place.apply(profile(command=diary.agent("--tick", "0.3")), task(), remote.executor())
    place.apply(session("s", executor=FAR))
    first = place.wait_idle("s")
    pinned = place.get("executor", "far")["status"]["instanceId"]
    assert pinned == remote.health()["instance_id"]
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        assert "the first was: alpha" in await s.ask("alpha")
        operator.kill()
        operator.start()
        status = await agreed(place, "s", s)
        assert status["agentExecutionId"] == first["agentExecutionId"]
        # agentctl dies while idle; its owner starts it again on the same state.
        remote.kill()
        remote.start()
        place.wait("s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "resumed")
        assert "the first was: alpha" in await s.ask("beta")
        # And in the middle of a turn: the prompt was delivered, so it is not sent again.
        await s.prompt("slow 20", "cut-off")
        place.wait_state("s", "RUNNING")
        remote.kill()
        remote.start()
        status = place.wait(
            "s", lambda now: now.get("epoch") == 3 and now["isAgentRunning"], "resumed"
        )
        assert status["interruptedTurn"]["promptId"] == "cut-off"
        assert "the first was: alpha" in await s.ask("gamma")
        assert await s.user_messages() == ["alpha", "beta", "slow 20", "gamma"]
    assert diary.prompts == ["alpha", "beta", "slow 20", "gamma"]
    assert diary.openings == ["session/new", "session/resume", "session/resume"]
    assert place.get("executor", "far")["status"]["instanceId"] == pinned, "kept on its disk"


async def test_a_stranger_at_the_remembered_address(
    place: Namespace, make_remote: Callable[..., RemoteAgentctl], diary: Diary
) -> None:
    ours = make_remote().start()
    place.apply(profile(command=diary.agent()), task(), ours.executor())
    place.apply(session("s", executor=FAR))
    place.wait_idle("s")
    async with talk(place.cluster.kubeconfig, place.name, "s", operator_namespace=place.name) as s:
        await s.ask("alpha")
        await agreed(place, "s", s)
    ours.kill()
    stranger = make_remote(port=ours.port).start()
    place.wait("far", agentctl_ready("ForeignAgentctl"), "foreign", kind="executor")
    status = place.wait_state("s", "ERROR")
    assert "foreign_agentctl" in status["errorMessage"]
    assert condition(status, "Ready")["reason"] == "ForeignAgentctl"
    assert stranger.health()["session_id"] is None, "nothing was asked of the stranger"
    assert len(diary.processes) == 1
    stranger.close()
    ours.start()
    place.wait("s", lambda now: now.get("epoch") == 2 and now["isAgentRunning"], "back")
    place.wait("far", agentctl_ready("AgentctlReady"), "ready", kind="executor")
    assert "errorMessage" not in place.wait_idle("s")
    assert diary.openings == ["session/new", "session/resume"]


async def test_keys_audience_and_clock_are_named_when_they_do_not_fit(
    place: Namespace, make_remote: Callable[..., RemoteAgentctl], diary: Diary
) -> None:
    unknown, late = make_remote(), make_remote(audience="remote-two")
    unknown.trust_nobody()
    unknown.start()
    late.start(skew_seconds=3600)
    place.apply(profile(command=diary.agent()), task())
    place.apply(unknown.executor("far"), late.executor("late"))
    place.apply(late.executor("misnamed", audience="somebody-else"))
    place.apply(session("s", executor=FAR))
    status = place.wait("far", agentctl_ready("AuthenticationFailed"), "refused", kind="executor")
    assert "JWKS" in status["errorMessage"]
    place.wait("misnamed", agentctl_ready("AuthenticationFailed"), "refused", kind="executor")
    status = place.wait("late", agentctl_ready("ClockSkew"), "skewed", kind="executor")
    assert "five minutes" in status["errorMessage"]
    status = place.wait_state("s", "ERROR")
    assert condition(status, "Ready")["reason"] == "AuthenticationFailed"
    # Each recovers when its owner mends it, and nobody touches the objects.
    unknown.trust(place)
    late.kill()
    late.start()
    place.wait("late", agentctl_ready("AgentctlReady"), "ready", kind="executor")
    status = place.wait_idle("s")
    assert "errorMessage" not in status


async def test_hosts_are_allowed_by_an_option(place: Namespace, operator: OperatorProcess) -> None:
    def far(name: str, url: str) -> Body:
        spec = {"runtime": "Remote", "remote": {"url": url, "audience": "x"}}
        metadata = {"name": name}
        kind = {"apiVersion": "kandev.dev/v1alpha1", "kind": "Executor"}
        return {**kind, "metadata": metadata, "spec": spec}

    place.apply(far("elsewhere", "https://agents.example.com:8443"))
    status = place.wait("elsewhere", agentctl_ready("NotAllowed"), "refused", kind="executor")
    assert "--allow-remote-host does not include agents.example.com" in status["errorMessage"]
    # An allowed host is tried, whatever comes of it: nobody listens there.
    place.apply(far("allowed", "https://127.0.0.1:1"))
    status = place.wait("allowed", agentctl_ready("Starting"), "tried", kind="executor")
    assert status["agentctlURL"] == "https://127.0.0.1:1"


async def test_a_second_session_waits_for_its_turn(
    place: Namespace, remote: RemoteAgentctl, diary: Diary
) -> None:
    place.apply(profile(command=diary.agent()), task(), remote.executor())
    place.apply(session("first", executor=FAR))
    place.wait_idle("first")
    place.apply(session("second", executor=FAR))
    status = place.wait(
        "second",
        lambda now: condition(now, "ExecutorReady").get("reason") == "ExecutorBusy",
        "waiting",
    )
    assert status["state"] == "CREATED"
    assert "errorMessage" not in status
    async with talk(
        place.cluster.kubeconfig, place.name, "first", operator_namespace=place.name
    ) as s:
        await s.ask("alpha")
        place.patch("tasksession", "first", {"spec": {"operatingMode": "Finished"}})
    place.wait_state("first", "COMPLETED")
    place.wait_idle("second")
    async with talk(
        place.cluster.kubeconfig, place.name, "second", operator_namespace=place.name
    ) as s:
        assert "the first was: beta" in await s.ask("beta")
        assert await s.user_messages() == ["beta"], "a conversation of its own"
    assert diary.openings == ["session/new", "session/new"]


async def test_why_an_address_does_not_answer_is_told_while_there_is_time(
    place: Namespace, make_remote: Callable[..., RemoteAgentctl], diary: Diary
) -> None:
    remote = make_remote()
    place.apply(profile(command=diary.agent()), task(), remote.executor())
    place.apply(session("s", executor=FAR))

    def refused(status: Body) -> bool:
        told = condition(status, "AgentctlReady") or condition(status, "ExecutorReady")
        return told.get("reason") == "Starting" and "Connection refused" in told["message"]

    status = place.wait("far", refused, "refused, and said so", kind="executor")
    assert (status["state"], "errorMessage" in status) == ("starting", False)
    status = place.wait("s", refused, "refused, and said so")
    assert (status["state"], "errorMessage" in status) == ("STARTING", False)
    assert condition(status, "AgentReady")["reason"] in ("AgentUnknown", "WaitingForExecutor")
    remote.start()
    place.wait_idle("s")


async def test_b034_an_address_that_never_answers(
    place: Namespace, make_remote: Callable[..., RemoteAgentctl], diary: Diary
) -> None:
    remote = make_remote()
    place.apply(profile(command=diary.agent()), task(), remote.executor())
    place.apply(session("s", executor=FAR, lifecycle={"startTimeoutSeconds": 4}))
    status = place.wait("far", agentctl_ready("Starting"), "starting", kind="executor")
    assert status["state"] == "starting"
    status = place.wait("far", lambda now: now.get("state") == "error", "error", kind="executor")
    assert condition(status, "AgentctlReady")["reason"] == "AgentctlUnreachable"
    assert "never reachable" in status["errorMessage"]
    assert f"127.0.0.1:{remote.port}" in status["errorMessage"]
    assert "lastSeenAt" not in status
    status = place.wait_state("s", "ERROR")
    assert "never reachable" in status["errorMessage"]
    assert "lastSeenAt" not in status
    remote.start()
    status = place.wait_idle("s")
    assert status["lastSeenAt"]
