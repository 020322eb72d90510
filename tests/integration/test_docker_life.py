"""A session's life in containers of a Docker engine that is played by local processes.

What a real engine does with the same containers is tried in the e2e ring.
"""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.interface import Cluster
from stage.dockerstage import DockerStage, until
from stage.operatorprocess import OperatorProcess
from stage.playedengine import PlayedEngine
from stage.sessions import Namespace, condition, fake_agent

AGENTCTL, IMAGE = "localhost/agentctl:1", "localhost/agent:1"


@pytest.fixture
def engine() -> Iterator[PlayedEngine]:
    # Not in the test's own folder: the path of its socket would be too long.
    with tempfile.TemporaryDirectory(prefix="e-") as folder:
        played = PlayedEngine(Path(folder), {AGENTCTL, IMAGE})
        played.start_daemon()
        yield played
        played.stop()


@pytest.fixture
def make_stage(
    engine: PlayedEngine, crds: Cluster, namespace: str, tmp_path: Path
) -> Iterator[Callable[..., DockerStage]]:
    made: list[OperatorProcess] = []

    def make(*options: str) -> DockerStage:
        operator = OperatorProcess(
            crds.kubeconfig,
            tmp_path / "operator.log",
            namespaces=[namespace],
            lease_namespace=namespace,
            options=[
                f"--allow-docker-executors={namespace}",
                f"--docker-host={engine.host}",
                f"--agentctl-image={AGENTCTL}",
                "--agentctl-pull-policy=Never",
                "--probe-seconds=1",
                *options,
            ],
        )
        made.append(operator)
        place = Namespace(crds, namespace, tmp_path, operator.tail)
        return DockerStage(place, operator.start(), engine, IMAGE, fake_agent())

    yield make
    for operator in made:
        operator.kill()


@pytest.fixture
def stage(make_stage: Callable[..., DockerStage]) -> DockerStage:
    return make_stage()


async def test_a_container_is_killed_then_removed_and_the_conversation_goes_on(
    stage: DockerStage,
) -> None:
    stage.born("s")
    status = stage.idle("s")
    await stage.ask("s", "alpha")
    first = stage.container("s")
    stage.engine.call("POST", f"/containers/{first['Id']}/kill")
    status = stage.idle_again("s", status)
    assert stage.container("s")["Id"] == first["Id"], "started again in place"
    await stage.remembers("s")
    instance = stage.executor("s")["instanceId"]
    stage.engine.call("DELETE", f"/containers/{first['Id']}?force=1")
    stage.idle_again("s", status)
    assert stage.container("s")["Id"] != first["Id"]
    assert stage.executor("s")["instanceId"] != instance
    await stage.remembers("s")


async def test_an_operator_that_was_killed_starts_nothing_twice(stage: DockerStage) -> None:
    stage.born("s")
    before = stage.idle("s")
    known = stage.container("s")
    stage.operator.kill()
    stage.operator.start()
    after = stage.idle("s")
    assert after["agentExecutionId"] == before["agentExecutionId"]
    again = stage.container("s")
    assert (again["Id"], again["State"]) == (known["Id"], known["State"])


async def test_an_engine_and_an_agentctl_that_are_silent_are_not_dead(stage: DockerStage) -> None:
    """As on a machine where ports are published by the engine's own processes."""
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    known = stage.container("s")
    assert isinstance(stage.engine, PlayedEngine)
    stage.engine.stop_daemon()
    stage.engine.hold(known["Id"])
    try:
        told = stage.executor_when(
            "s",
            lambda now: condition(now, "AgentctlReady").get("reason") == "DockerUnavailable",
            "DockerUnavailable",
        )
        assert (condition(told, "AgentctlReady")["status"], told["state"]) == ("Unknown", "ready")
        assert stage.place.status("s")["state"] == "WAITING_FOR_INPUT"
    finally:
        stage.engine.let_go(known["Id"])
        stage.engine.start_daemon()
    stage.executor_when(
        "s", lambda now: condition(now, "AgentctlReady").get("status") == "True", "verified again"
    )
    assert stage.idle("s")["agentExecutionId"] == before["agentExecutionId"]
    assert stage.container("s")["Id"] == known["Id"]
    await stage.remembers("s")


def test_an_image_that_cannot_be_had_is_named_and_mended(stage: DockerStage) -> None:
    stage.born("s", {"image": "registry.invalid/none:1"})
    status = stage.failed("s", "ImagePullFailed")
    assert "registry.invalid/none:1" in status["errorMessage"]
    assert "no such host" in status["errorMessage"]
    template = {"template": {"spec": {"localDocker": {"image": IMAGE}}}}
    stage.place.patch("tasksession", "s", {"spec": {"executor": template}})
    stage.idle("s")


def test_a_template_without_an_image_is_refused_in_words(stage: DockerStage) -> None:
    stage.born("s", image=None)
    status = stage.failed("s", "InvalidTemplate")
    assert condition(status, "Stalled")["status"] == "True"
    assert "names an image" in status["errorMessage"]
    assert stage.engine.containers() == []


async def test_suspended_and_back_and_gone(stage: DockerStage) -> None:
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    stage.place.patch("tasksession", "s", {"spec": {"operatingMode": "Suspended"}})
    until(lambda: not stage.engine.containers(), "no container is left")
    assert len(stage.engine.volumes()) == 1, "the files are kept"
    stage.place.patch("tasksession", "s", {"spec": {"operatingMode": "Running"}})
    stage.idle_again("s", before)
    await stage.remembers("s")
    stage.place.kubectl("delete", "tasksession", "s", "--timeout=120s")
    until(lambda: not stage.engine.containers(), "its container goes with its session")
    until(lambda: not stage.engine.volumes(), "and its volumes")
