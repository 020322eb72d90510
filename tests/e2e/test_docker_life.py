"""A session's whole life in containers of a real Docker engine: apply, turn, every way a container
is lost, the engine's own outages, and back.

The operator runs on the engine's machine, as a process; the agent is the scripted one, and its
image has no agentctl.
"""

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.docker import Engine
from cluster.images import agents
from cluster.interface import Cluster
from stage.dockerstage import AGENTCTL, DockerStage, until
from stage.operatorprocess import OperatorProcess
from stage.sessions import Namespace, condition

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def make_stage(
    docker_engine: Engine,
    scripted_agent_archive: Path,
    control_plane: Cluster,
    namespace: str,
    tmp_path: Path,
) -> Iterator[Callable[..., DockerStage]]:
    control_plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
    wait = ("wait", "--for=condition=Established", "--timeout=60s")
    control_plane.kubectl(*wait, "-f", str(REPOSITORY / "crds"))
    image = docker_engine.load(scripted_agent_archive)
    made: list[OperatorProcess] = []

    def make(*options: str) -> DockerStage:
        operator = OperatorProcess(
            control_plane.kubeconfig,
            tmp_path / "operator.log",
            namespaces=[namespace],
            lease_namespace=namespace,
            options=[
                f"--allow-docker-executors={namespace}={tmp_path}",
                f"--docker-host={docker_engine.host}",
                f"--agentctl-image={AGENTCTL}",
                "--agentctl-pull-policy=Never",
                "--probe-seconds=2",
                *options,
            ],
        )
        made.append(operator)
        place = Namespace(control_plane, namespace, tmp_path, operator.tail)
        return DockerStage(place, operator.start(), docker_engine, image)

    yield make
    for operator in made:
        operator.kill()
    for each in docker_engine.containers():
        docker_engine.call("DELETE", f"/containers/{each['Id']}?force=1")
    for name in docker_engine.volumes():
        docker_engine.call("DELETE", f"/volumes/{name}")


@pytest.fixture
def stage(make_stage: Callable[..., DockerStage]) -> DockerStage:
    return make_stage()


@pytest.mark.parametrize("access", ["published", "address"])
async def test_a_session_lives_in_a_container_and_goes_on_in_the_next(
    make_stage: Callable[..., DockerStage], access: str
) -> None:
    stage = make_stage(f"--docker-access={access}")
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    first = stage.executor("s")
    host = first["agentctlURL"].removeprefix("http://").rpartition(":")[0]
    assert (host == "127.0.0.1") == (access == "published")
    stage.engine.call("DELETE", f"/containers/{first['containerId']}?force=1")
    stage.idle_again("s", before)
    second = stage.executor("s")
    assert second["containerId"] != first["containerId"]
    assert second["instanceId"] != first["instanceId"]
    await stage.remembers("s")


async def test_an_operator_that_was_killed_finds_the_same_container(stage: DockerStage) -> None:
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    known, executor = stage.container("s"), stage.executor("s")
    stage.operator.kill()
    stage.operator.start()
    after = stage.idle("s")
    assert after["agentExecutionId"] == before["agentExecutionId"]
    again = stage.container("s")
    assert again["Id"] == known["Id"]
    assert again["State"]["StartedAt"] == known["State"]["StartedAt"], "no second start"
    assert stage.executor("s")["bootId"] == executor["bootId"]
    await stage.remembers("s")


async def test_a_container_that_was_killed_is_started_again_in_place(stage: DockerStage) -> None:
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    known = stage.container("s")
    stage.engine.call("POST", f"/containers/{known['Id']}/kill")
    stage.idle_again("s", before)
    again = stage.container("s")
    assert again["Id"] == known["Id"]
    assert again["State"]["StartedAt"] != known["State"]["StartedAt"]
    await stage.remembers("s")


async def test_an_operator_that_was_away_finds_a_container_that_stopped(
    stage: DockerStage,
) -> None:
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    known = stage.container("s")
    stage.operator.kill()
    stage.engine.call("POST", f"/containers/{known['Id']}/stop?t=20")
    stage.operator.start()
    stage.idle_again("s", before)
    assert stage.container("s")["Id"] == known["Id"]
    await stage.remembers("s")


async def test_an_engine_that_is_away_is_not_a_dead_container(stage: DockerStage) -> None:
    stage.born("s")
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    known, executor = stage.container("s"), stage.executor("s")
    stage.engine.stop_daemon(signal.SIGTERM)
    try:
        told = stage.executor_when(
            "s",
            lambda now: condition(now, "AgentctlReady").get("reason") == "DockerUnavailable",
            "DockerUnavailable",
        )
        assert condition(told, "AgentctlReady")["status"] == "Unknown"
        assert told["state"] == executor["state"], "the state is kept"
        assert told["containerId"] == executor["containerId"]
        session = stage.place.status("s")
        assert session["state"] == "WAITING_FOR_INPUT", "the session is not dead"
    finally:
        stage.engine.start_daemon()
    stage.executor_when(
        "s",
        lambda now: condition(now, "AgentctlReady").get("status") == "True",
        "verified again",
    )
    after = stage.idle("s")
    assert after["agentExecutionId"] == before["agentExecutionId"]
    again = stage.container("s")
    assert (again["Id"], again["State"]["StartedAt"]) == (
        known["Id"],
        known["State"]["StartedAt"],
    )
    await stage.remembers("s")


def test_an_image_that_cannot_be_had_is_named_and_mended(stage: DockerStage) -> None:
    stage.born("s", {"image": "registry.invalid/agents/none:1"})
    status = stage.failed("s", "ImagePullFailed")
    assert "registry.invalid/agents/none:1" in status["errorMessage"]
    template: Any = {"template": {"spec": {"localDocker": {"image": stage.image}}}}
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
    uid = stage.place.get("tasksession", "s")["metadata"]["uid"]
    stage.place.patch("tasksession", "s", {"spec": {"operatingMode": "Suspended"}})
    stage.place.wait(
        "s", lambda s: condition(s, "Suspended").get("status") == "True", "suspended", seconds=90
    )
    until(lambda: not stage.engine.containers(), "no container is left")
    files = stage.engine.volumes(f"kandev.dev/session-uid={uid}")
    assert len(files) == 1, "the files are kept"
    stage.place.patch("tasksession", "s", {"spec": {"operatingMode": "Running"}})
    stage.idle_again("s", before)
    await stage.remembers("s")
    stage.place.kubectl("delete", "tasksession", "s", "--timeout=120s")
    until(lambda: not stage.place.items("executor"), "the executor goes with its session")
    assert stage.engine.containers() == []
    assert stage.engine.volumes("app.kubernetes.io/managed-by=kandev-operator") == []


def test_files_that_are_to_be_retained_stay(stage: DockerStage) -> None:
    stage.born("s", workspace={"policy": "Retain"})
    stage.idle("s")
    uid = stage.place.get("tasksession", "s")["metadata"]["uid"]
    stage.place.kubectl("delete", "tasksession", "s", "--timeout=120s")
    until(lambda: not stage.place.items("executor"), "the executor goes with its session")
    (kept,) = stage.engine.volumes("app.kubernetes.io/managed-by=kandev-operator")
    assert [kept] == stage.engine.volumes(f"kandev.dev/session-uid={uid}")
    stage.engine.call("DELETE", f"/volumes/{kept}")


async def test_files_that_were_lost_are_said_and_not_replaced(stage: DockerStage) -> None:
    stage.born("s")
    stage.idle("s")
    await stage.ask("s", "alpha")
    known = stage.container("s")
    uid = stage.place.get("tasksession", "s")["metadata"]["uid"]
    (files,) = stage.engine.volumes(f"kandev.dev/session-uid={uid}")
    stage.operator.kill()
    stage.engine.call("DELETE", f"/containers/{known['Id']}?force=1")
    stage.engine.call("DELETE", f"/volumes/{files}")
    stage.operator.start()
    status = stage.failed("s", "WorkspaceMissing")
    assert files in status["errorMessage"]
    assert stage.engine.volumes(f"kandev.dev/session-uid={uid}") == []


@pytest.fixture
def repository(docker_engine: Engine, tmp_path: Path) -> Iterator[str]:
    """The address of a repository, as containers reach it."""
    source, served = tmp_path / "source", tmp_path / "served"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(source)]
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(source)], check=True)
    (source / "story.txt").write_text("once upon a time")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=first"], check=True)
    bare = served / "shop.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(source), str(bare)], check=True)
    subprocess.run(["git", "-C", str(bare), "update-server-info"], check=True)
    handler = partial(_Quiet, directory=str(served))
    with ThreadingHTTPServer((docker_engine.gateway, 0), handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://{docker_engine.gateway}:{server.server_port}/shop.git"
        server.shutdown()
        serving.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """A test's report has no room for it."""


def test_what_the_task_names_is_cloned_before_the_agent_starts(
    stage: DockerStage, repository: str
) -> None:
    named = {"repositories": [{"name": "shop", "url": repository}]}
    stage.born("s", task_spec=named)
    stage.idle("s")
    assert stage.executor("s")["worktree"]["branch"] == "kandev/s"
    path = f"/containers/{stage.container('s')['Id']}/archive?path=/workspace/worktree/shop"
    assert "once upon a time" in stage.engine.call("GET", path)


def test_a_clone_that_fails_is_told_in_gits_words(stage: DockerStage, repository: str) -> None:
    nowhere = repository.replace("shop", "none")
    stage.born("s", task_spec={"repositories": [{"name": "shop", "url": nowhere}]})
    status = stage.failed("s", "CloneFailed")
    assert "not found" in status["errorMessage"]


async def test_a_container_of_ones_own_is_started_and_left_alone(
    stage: DockerStage, agentctl_folder: Path
) -> None:
    """agentctl in it was started by somebody, with keys and an audience of theirs."""
    keys = json.loads(stage.place.kubectl("get", "configmap", "kandev-agentctl-jwks", "-o", "json"))
    (stage.place.root / "jwks.json").write_text(keys["data"]["jwks.json"])
    mounts = [
        {"Type": "bind", "Source": str(agentctl_folder), "Target": "/agentctl"},
        {"Type": "bind", "Source": str(stage.place.root / "jwks.json"), "Target": "/jwks.json"},
    ]
    command = "mkdir -p /w/tree && exec /agentctl/_internal/ld-linux.so.2 --library-path"
    command += " /agentctl/_internal /agentctl/kandev-agentctl run --state=/w/state"
    command += " --workspace=/w/tree --audience=mine --jwks=/jwks.json --host=0.0.0.0 --port=8700"
    config = {"Image": stage.image, "Entrypoint": ["sh", "-c", command]}
    body = json.dumps({**config, "HostConfig": {"Mounts": mounts}}).encode()
    made = stage.engine.call("POST", "/containers/create?name=mine", body)
    stage.born("s", {"containerId": "mine", "audience": "mine"})
    before = stage.idle("s")
    await stage.ask("s", "alpha")
    status = stage.executor("s")
    assert status["containerId"] == made["Id"]
    stage.engine.call("POST", "/containers/mine/kill")
    stage.idle_again("s", before)
    await stage.remembers("s")
    stage.place.kubectl("delete", "tasksession", "s", "--timeout=120s")
    until(lambda: not stage.place.items("executor"), "the executor goes with its session")
    assert stage.engine.call("GET", "/containers/mine/json")["State"]["Running"]


def test_a_given_container_that_is_gone_is_named(stage: DockerStage) -> None:
    stage.born("s", {"containerId": "nobody"})
    status = stage.failed("s", "ContainerMissing")
    assert "there is no container nobody" in status["errorMessage"]


async def test_a_folder_of_the_machine_as_the_workspace(stage: DockerStage, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    for each in (folder, *tmp_path.parents[:3], tmp_path):
        each.chmod(0o755)
    os.chown(folder, 1000, 1000)
    stage.born("s", {"workspacePath": str(folder)})
    stage.idle("s")
    await stage.ask("s", "alpha")
    assert (folder / "worktree").is_dir()
    stage.place.kubectl("delete", "tasksession", "s", "--timeout=120s")
    until(lambda: not stage.place.items("executor"), "the executor goes with its session")
    assert (folder / "worktree").is_dir(), "it is the user's own"


def test_the_example_is_what_a_user_would_apply(stage: DockerStage) -> None:
    """With the image and command of an agent that is here; and its volume is to be retained."""
    text = (REPOSITORY / "manifests/examples/09-docker-session.yaml").read_text()
    bodies = list(yaml.safe_load_all(text))
    (profile,) = (each for each in bodies if each["kind"] == "AgentProfile")
    profile["spec"] |= {"image": stage.image, "command": list(agents.SCRIPTED_COMMAND)}
    stage.place.apply(*bodies)
    stage.idle("docker-demo")
    limits = stage.container("docker-demo")["HostConfig"]
    assert (limits["Memory"], limits["NanoCpus"]) == (2 * 1024**3, 2 * 10**9)
    stage.place.kubectl("delete", "tasksession", "docker-demo", "--timeout=120s")
    until(lambda: not stage.place.items("executor"), "the executor goes with its session")
    (kept,) = stage.engine.volumes("app.kubernetes.io/managed-by=kandev-operator")
    stage.engine.call("DELETE", f"/volumes/{kept}")
