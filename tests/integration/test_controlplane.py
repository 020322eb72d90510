"""The test control plane keeps the promises that other tests build on.

Above all: what it breaks on purpose it breaks for real, and it leaves nothing behind, however the
run ends. Kind is not needed here: its commands are played by small scripts.
"""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster import binaries, build, ports
from cluster.choice import find_control_plane
from cluster.controlplane import ControlPlane
from cluster.errors import ControlPlaneError, KubectlError, Unsupported
from cluster.foreign import GivenCluster, KindCluster
from cluster.interface import Cluster

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def own(own_control_plane: ControlPlane) -> ControlPlane:
    return own_control_plane


@pytest.fixture
def own_namespace(own: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    name = re.sub("[^a-z]+", "-", request.node.name)[:60]
    own.create_namespace(name)
    yield name
    own.delete_namespace(name)


@pytest.fixture
def temporary_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where control planes of this test have their folders, so that what is left can be seen."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def put(own: ControlPlane, namespace: str, name: str, value: str, who: Path | None = None) -> None:
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"value": value},
    }
    own.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest), kubeconfig=who)


def values(own: ControlPlane, namespace: str) -> dict[str, str]:
    found = json.loads(own.kubectl("get", "configmaps", "-n", namespace, "-o", "json"))["items"]
    return {item["metadata"]["name"]: item["data"]["value"] for item in found}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def eventually(holds: Callable[[], bool], seconds: float = 15) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# What it is.


def test_the_fixtures_work_together(
    control_plane: Cluster, kubectl: Callable[..., str], namespace: str
) -> None:
    assert kubectl("get", "namespace", namespace, "-o", "name") == f"namespace/{namespace}\n"
    kubectl("run", "idle", "--image=idle", "-n", namespace)
    assert control_plane.kubectl("get", "pods", "-n", namespace, "-o", "name") == "pod/idle\n"


def test_server_and_client_have_the_version_of_the_modules(own: ControlPlane) -> None:
    if binaries.assets() is not None:
        pytest.skip("KUBEBUILDER_ASSETS names other programs")
    modules = (Path(build.__file__).parent / "go.mod").read_text()
    pinned = re.search(r"k8s.io/kubernetes (v\S+)", modules)
    assert pinned is not None
    versions = json.loads(own.kubectl("version", "-o", "json"))
    assert versions["serverVersion"]["gitVersion"] == pinned[1]
    assert versions["clientVersion"]["gitVersion"] == pinned[1]


def test_kubectl_says_why_it_failed(own: ControlPlane) -> None:
    with pytest.raises(KubectlError, match='namespaces "absent" not found'):
        own.kubectl("get", "namespace", "absent")


def test_rbac_knows_a_user_by_the_name_of_the_certificate(own: ControlPlane) -> None:
    stranger = own.kubeconfig_for("system:serviceaccount:somewhere:stranger")
    with pytest.raises(KubectlError, match=r'User "system:serviceaccount:somewhere:stranger"'):
        own.kubectl("get", "pods", kubeconfig=stranger)
    friend = own.kubeconfig_for("friend", ["system:masters"])
    own.kubectl("get", "pods", kubeconfig=friend)


def test_a_deleted_namespace_is_gone_with_all_that_had_finalizers(own: ControlPlane) -> None:
    own.create_namespace("emptied")
    put(own, "emptied", "held", "x")
    finalizer = '{"metadata":{"finalizers":["kandev.dev/nobody-removes-this"]}}'
    own.kubectl("patch", "configmap", "held", "-n", "emptied", "--type=merge", "-p", finalizer)
    own.delete_namespace("emptied")
    assert "emptied" not in own.kubectl("get", "namespaces", "-o", "name")
    own.create_namespace("emptied")
    assert values(own, "emptied") == {}
    own.delete_namespace("emptied")
    own.delete_namespace("emptied")  # already gone is fine


# Faults.


def test_a_killed_api_server_comes_back_with_its_data(
    own: ControlPlane, own_namespace: str
) -> None:
    put(own, own_namespace, "kept", "x")
    server, old = own.server, own.pids
    own.kill_apiserver()
    assert not is_alive(old["kube-apiserver"])
    with pytest.raises(KubectlError, match="refused"):
        own.kubectl("get", "namespaces")
    own.start_apiserver()
    assert values(own, own_namespace) == {"kept": "x"}
    assert own.server == server
    assert own.pids["etcd"] == old["etcd"]


def test_a_paused_api_server_answers_nothing_until_resumed(own: ControlPlane) -> None:
    own.pause_apiserver()
    try:
        with pytest.raises(KubectlError, match="imeout"):
            own.kubectl("get", "namespaces", "--request-timeout=1s")
    finally:
        own.resume_apiserver()
    assert "namespace/default" in own.kubectl("get", "namespaces", "-o", "name")


def test_a_restored_snapshot_brings_the_old_objects_and_versions_back(
    own: ControlPlane, own_namespace: str
) -> None:
    def version() -> int:
        path = "jsonpath={.metadata.resourceVersion}"
        return int(own.kubectl("get", "configmap", "a", "-n", own_namespace, "-o", path))

    put(own, own_namespace, "a", "old")
    before, snapshot = version(), own.snapshot()
    put(own, own_namespace, "a", "new")
    put(own, own_namespace, "b", "later")
    assert version() > before
    own.restore(snapshot)
    assert values(own, own_namespace) == {"a": "old"}
    assert version() == before
    put(own, own_namespace, "a", "newer")
    own.restore(snapshot)
    assert values(own, own_namespace) == {"a": "old"}


# Audit.


def test_audit_counts_the_writes_of_one_user(own: ControlPlane, own_namespace: str) -> None:
    alice = own.kubeconfig_for("alice", ["system:masters"])
    put(own, own_namespace, "before", "x", alice)
    mark = own.audit.mark()
    put(own, own_namespace, "of-alice", "x", alice)
    put(own, own_namespace, "of-admin", "x")
    own.kubectl("get", "configmaps", "-n", own_namespace, kubeconfig=alice)
    words = ["delete", "configmap", "of-alice", "-n", own_namespace]
    own.kubectl(*words, "--dry-run=server", kubeconfig=alice)
    own.kubectl(*words, kubeconfig=alice)
    found = own.audit.writes(since=mark, user="alice", resource="configmaps")
    assert [(write.verb, write.name) for write in found] == [
        ("patch", "of-alice"),
        ("delete", "of-alice"),
    ]
    assert {write.namespace for write in found} == {own_namespace}


def test_audit_tells_refused_requests_from_writes(own: ControlPlane) -> None:
    mallory = own.kubeconfig_for("mallory")
    with pytest.raises(KubectlError, match="forbidden"):
        own.kubectl("create", "configmap", "x", "-n", "default", kubeconfig=mallory)
    assert own.audit.writes(user="mallory") == []
    assert [event.code for event in own.audit.events(user="mallory", verb="create")] == [403]


# Nothing is left.


def test_stop_leaves_no_process_and_no_folder(temporary_root: Path) -> None:
    with ControlPlane() as passing:
        pids = passing.pids
        passing.pause_apiserver()
    assert set(pids) == {"etcd", "kube-apiserver"}
    assert not any(map(is_alive, pids.values()))
    assert list(temporary_root.iterdir()) == []
    with pytest.raises(ControlPlaneError, match="not started"):
        passing.kubectl("version")


def test_a_killed_owner_leaves_nothing(temporary_root: Path) -> None:
    script = (
        "import time\n"
        "from cluster.controlplane import ControlPlane\n"
        "own = ControlPlane(); own.start()\n"
        "print(*own.pids.values(), flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(is_alive, pids))
        owner.kill()
    assert eventually(lambda: not any(map(is_alive, pids)))
    assert eventually(lambda: list(temporary_root.iterdir()) == [])


def test_it_outlives_the_thread_that_started_it(temporary_root: Path) -> None:
    passing = ControlPlane()
    thread = threading.Thread(target=passing.start)
    thread.start()
    thread.join()
    try:
        time.sleep(0.5)
        assert "default" in passing.kubectl("get", "namespaces")
    finally:
        passing.stop()


def test_a_failed_start_shows_the_log_and_leaves_nothing(temporary_root: Path) -> None:
    failing = ControlPlane(extra_apiserver_args=["--no-such-flag"])
    with pytest.raises(ControlPlaneError, match="unknown flag: --no-such-flag"):
        failing.start()
    assert list(temporary_root.iterdir()) == []


def test_a_port_taken_at_the_last_moment_is_replaced(
    own: ControlPlane, temporary_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(own.server.rpartition(":")[2])
    spare = ports.free(4)
    offers = [[taken, spare[0]], [spare[1], taken], [spare[2], spare[3]]]
    monkeypatch.setattr(ports, "free", lambda count: offers.pop(0))
    with ControlPlane() as passing:
        assert passing.server.endswith(f":{spare[2]}")


def test_a_given_folder_is_kept_and_must_be_empty(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with ControlPlane(folder=folder):
        pass
    assert (folder / "kube-apiserver.log").exists()
    with pytest.raises(ControlPlaneError, match="not empty"):
        ControlPlane(folder=folder).start()


def test_by_hand_it_runs_until_interrupted(temporary_root: Path) -> None:
    command = [sys.executable, "-m", "cluster.controlplane", "up"]
    environment = os.environ | {"PYTHONPATH": str(TESTS)}
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores it, and would hand that down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        kubeconfig = Path(process.stdout.readline().strip())
        assert stat.S_IMODE(kubeconfig.stat().st_mode) == 0o600
        process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert list(temporary_root.iterdir()) == []


HASTY = """
import os, signal, sys
from cluster import controlplane
class Hasty:
    def __init__(self, out): self.out = out
    def write(self, text): return self.out.write(text)
    def flush(self):
        self.out.flush()
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
sys.stdout = Hasty(sys.stdout)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(controlplane.main(["up"]))
"""
"""Ends it in the very moment in which its path can be read."""


@pytest.mark.parametrize("ending", ["SIGINT", "SIGTERM"])
def test_by_hand_it_can_be_ended_as_soon_as_its_path_is_told(
    temporary_root: Path, ending: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HASTY, ending],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    assert list(temporary_root.iterdir()) == []


# Which cluster.


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put programs on the path that are nothing but a line of shell."""
    for name in ("KANDEV_KUBECONFIG", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(name, raising=False)
    # The user's context: something that must never be reached.
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "of-the-user"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(**lines: str) -> None:
        for name, line in lines.items():
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\n{line}\n")
            program.chmod(0o755)

    return install


def test_a_docker_client_without_engine_is_no_reason_for_kind(
    tools: Callable[..., None],
) -> None:
    tools(kind="exit 0", docker="echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    assert isinstance(find_control_plane(), ControlPlane)


def test_an_engine_without_kind_is_not_used(tools: Callable[..., None]) -> None:
    tools(docker="echo 29.0.1")
    assert isinstance(find_control_plane(), ControlPlane)


def test_kind_is_used_and_deleted_under_a_name_of_its_own(
    tools: Callable[..., None], tmp_path: Path, temporary_root: Path
) -> None:
    tools(kind=f'echo "$@" >> {tmp_path}/said', docker="echo 29.0.1", kubectl="exit 0")
    with find_control_plane() as cluster:
        assert isinstance(cluster, KindCluster)
        kubeconfig = cluster.kubeconfig
        with pytest.raises(Unsupported, match="own_control_plane"):
            cluster.kill_apiserver()
    created, deleted = (tmp_path / "said").read_text().splitlines()
    name = re.search(r"--name (kandev-test-\w+)", created)
    assert name is not None
    assert created.startswith("create cluster ")
    assert deleted == f"delete cluster --name {name[1]} --kubeconfig {kubeconfig}"


def test_named_programs_are_preferred_to_kind(
    tools: Callable[..., None], own: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools(kind="exit 0", docker="echo 29.0.1")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(own.kubectl_command.parent))
    found = find_control_plane()
    assert isinstance(found, ControlPlane)
    assert found.kubectl_command == own.kubectl_command


def test_a_given_cluster_is_preferred_to_all_and_left_running(
    tools: Callable[..., None], own: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(own.kubectl_command.parent))
    monkeypatch.setenv("KANDEV_KUBECONFIG", str(own.kubeconfig))
    with find_control_plane(audit=True) as given:
        assert isinstance(given, GivenCluster)
        assert "default" in given.kubectl("get", "namespaces")
        with pytest.raises(Unsupported, match="cannot be copied"):
            given.snapshot()
    assert "default" in own.kubectl("get", "namespaces")


def test_a_given_cluster_that_is_absent_is_an_error(
    tools: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KANDEV_KUBECONFIG", str(tmp_path / "nothing"))
    with pytest.raises(ControlPlaneError, match="names no file"):
        find_control_plane().start()
