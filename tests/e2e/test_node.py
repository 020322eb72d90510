"""The node keeps the promises that the other end-to-end tests build on."""

import json
import signal
import time
from collections.abc import Callable

import pytest

from cluster.errors import KubectlError
from cluster.node import Node, flags
from cluster.node.node import CONTAINERD, KUBELET
from stage.pods import Mount, Pods, condition, exit_code, fetch, restricted

FOREVER = ["sleep", "infinity"]
PATIENCE = 120.0


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not after {PATIENCE:g} s"
        time.sleep(0.2)


def test_the_node_is_ready(node: Node) -> None:
    found = json.loads(node.kubectl("get", "node", flags.NAME, "--output=json"))
    ready = [entry for entry in found["status"]["conditions"] if entry["type"] == "Ready"]
    assert ready[0]["status"] == "True"
    version = json.loads(node.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    assert found["status"]["nodeInfo"]["kubeletVersion"] == version


def test_a_volume_outlives_the_pod_that_wrote_it(pods: Pods, glibc_image: str) -> None:
    pods.claim("workspace")
    mounts = [Mount("workspace", "/workspace", "workspace")]
    write = ["sh", "-c", "umask 077; id > /workspace/note && stat -c %u:%g /workspace/note"]
    pods.apply(restricted("writer", glibc_image, write, mounts=mounts))
    assert exit_code(pods.wait_ended("writer")) == 0, pods.logs("writer")
    # fsGroup is what the kubelet gives the volume's folder; the file follows it by the setgid bit.
    assert pods.logs("writer").strip() == "1000:1000"
    pods.delete("writer")
    pods.apply(restricted("reader", glibc_image, ["cat", "/workspace/note"], mounts=mounts))
    assert exit_code(pods.wait_ended("reader")) == 0
    assert pods.logs("reader").startswith("uid=1000")


def test_a_volume_goes_with_its_claim(pods: Pods, glibc_image: str) -> None:
    pods.claim("short-lived")
    mounts = [Mount("data", "/data", "short-lived")]
    pods.apply(restricted("user", glibc_image, ["touch", "/data/file"], mounts=mounts))
    pods.wait_ended("user")
    claim = pods.get("short-lived", "pvc")
    assert claim is not None
    volume = claim["spec"]["volumeName"]
    folder = pods.node.folder / "volumes" / volume
    assert (folder / "file").exists()
    pods.delete("user")
    pods.kubectl("delete", "pvc", "short-lived")
    until(lambda: pods.get(volume, "pv") is None, "the volume is gone")
    assert not folder.exists()


def test_a_pod_that_asks_for_too_much_is_refused(pods: Pods, glibc_image: str) -> None:
    bold = restricted("bold", glibc_image, FOREVER)
    bold["spec"]["securityContext"]["runAsNonRoot"] = False
    bold["spec"]["securityContext"]["runAsUser"] = 0
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        pods.apply(bold)


def test_one_image_has_python_and_git_and_the_other_no_python(
    pods: Pods, glibc_image: str, python_image: str
) -> None:
    look = (
        "git --version && if command -v python3; then python3 -c 'import asyncio, ssl, sqlite3'; "
    )
    look += "else echo none; fi"
    for name, image, last in (
        ("bare", glibc_image, "none"),
        ("snake", python_image, "/usr/bin/python3"),
    ):
        pods.apply(restricted(name, image, ["sh", "-c", look]))
        assert exit_code(pods.wait_ended(name)) == 0, pods.logs(name)
        said = pods.logs(name).splitlines()
        assert said[0].startswith("git version")
        assert said[-1] == last


def test_pods_reach_each_other_by_address_service_and_name(pods: Pods, python_image: str) -> None:
    server = restricted("server", python_image, ["python3", "-m", "http.server", "8080"])
    server["metadata"]["labels"] = {"app": "server"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front"},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    pods.apply(server, service)
    pods.wait_ready("server")
    address = pods.address("server")
    until(lambda: _answers(address), "the server answers this machine")
    ask = (
        "import sys, time, urllib.request\n"
        "for url in sys.argv[1:]:\n"
        "    for attempt in range(100):\n"
        "        try:\n"
        "            print(urllib.request.urlopen(url, timeout=3).status); break\n"
        "        except OSError as error: last = error; time.sleep(0.3)\n"
        "    else: print(url, last)\n"
    )
    urls = [f"http://{address}:8080/", "http://front/", f"http://front.{pods.namespace}.svc/"]
    pods.apply(restricted("client", python_image, ["python3", "-c", ask, *urls]))
    pods.wait_ended("client")
    assert pods.logs("client").split() == ["200", "200", "200"]


def test_what_a_pod_says_can_be_read_and_commands_run_in_it(pods: Pods, glibc_image: str) -> None:
    pods.apply(restricted("talker", glibc_image, ["sh", "-c", "echo hello; exec sleep infinity"]))
    pods.wait_ready("talker")
    until(lambda: pods.logs("talker") == "hello\n", "the log has what was said")
    assert pods.execute("talker", "id", "-u") == "1000\n"


def test_containers_outlive_a_killed_kubelet(pods: Pods, python_image: str) -> None:
    node = pods.node
    pods.apply(restricted("server", python_image, ["python3", "-m", "http.server", "8080"]))
    before = pods.wait_ready("server")
    address = pods.address("server")
    until(lambda: _answers(address), "the server answers")
    node.stop_program(KUBELET, signal.SIGKILL)
    try:
        assert KUBELET not in node.pids
        until(lambda: not node.is_ready(), "the node counts as lost")
        assert _answers(address)
        lost = pods.wait("server", lambda pod: condition(pod, "Ready") == "False", "not ready")
        assert lost["status"]["phase"] == "Running"
    finally:
        node.start_program(KUBELET)
    until(node.is_ready, "the node is back")
    after = pods.wait_ready("server")
    assert _container(after) == _container(before)
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0


def test_containers_outlive_a_killed_containerd(pods: Pods, python_image: str) -> None:
    node = pods.node
    pods.apply(restricted("server", python_image, ["python3", "-m", "http.server", "8080"]))
    before = pods.wait_ready("server")
    address = pods.address("server")
    until(lambda: _answers(address), "the server answers")
    node.stop_program(CONTAINERD, signal.SIGKILL)
    try:
        assert _answers(address)
    finally:
        node.start_program(CONTAINERD)
    until(lambda: _runs(pods, "server"), "commands run in it again")
    after = pods.wait_ready("server")
    assert _container(after) == _container(before)


def test_an_api_server_that_was_killed_comes_back_to_a_working_node(
    pods: Pods, glibc_image: str
) -> None:
    node = pods.node
    node.kill_apiserver()
    node.start_apiserver()
    pods.apply(restricted("late", glibc_image, ["true"]))
    assert exit_code(pods.wait_ended("late")) == 0


def test_the_audit_log_of_a_node_knows_who_wrote(pods: Pods, glibc_image: str) -> None:
    mark = pods.node.audit.mark()
    pods.apply(restricted("noted", glibc_image, ["true"]))
    pods.wait_ended("noted")
    users = {event.user for event in pods.node.audit.writes(since=mark, resource="pods")}
    assert {"system:kube-scheduler", f"system:node:{flags.NAME}"} <= users


def _answers(address: str) -> bool:
    try:
        return fetch(address, 8080, "/")[0] == 200
    except OSError:
        return False


def _runs(pods: Pods, name: str) -> bool:
    try:
        return pods.execute(name, "true") == ""
    except KubectlError:
        return False


def _container(pod: dict[str, object]) -> object:
    return pod["status"]["containerStatuses"][0]["containerID"]  # type: ignore[index]
