"""A node leaves the machine as it found it: ended in order, killed with its owner, refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cluster.errors import ControlPlaneError
from cluster.images import debian
from cluster.node import Node
from cluster.node.footprint import Footprint
from stage.pods import Mount, Pods, restricted

TESTS = Path(__file__).resolve().parents[1]
FOREVER = ["sleep", "infinity"]
PATIENCE = 120.0
WAIT = 3600.0


def populate(node: Node) -> Pods:
    """Have two pods run, one with a volume and one that does not listen to reason."""
    node.load(debian.glibc())
    node.create_namespace("crowd")
    pods = Pods(node, "crowd")
    pods.claim("data")
    mounts = [Mount("data", "/data", "data"), Mount("tmp", "/tmp")]
    deaf = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
    pods.apply(
        restricted("calm", debian.GLIBC_NAME, FOREVER, mounts=mounts),
        restricted("deaf", debian.GLIBC_NAME, deaf, grace=600),
    )
    pods.wait_ready("calm")
    pods.wait_ready("deaf")
    return pods


def test_a_node_that_is_stopped_leaves_nothing(before: Footprint) -> None:
    node = Node(patience=WAIT)
    with node:
        populate(node)
        folder = node.folder
        assert Footprint.now().beyond(before), "nothing would be seen of a node that runs"
    assert Footprint.now().beyond(before) == []
    assert not folder.exists()


def test_a_node_whose_kubelet_and_runtime_are_dead_leaves_nothing(before: Footprint) -> None:
    with Node(patience=WAIT) as node:
        populate(node)
        node.stop_program("kubelet", signal.SIGKILL)
        node.stop_program("containerd", signal.SIGKILL)
    assert Footprint.now().beyond(before) == []


def test_a_node_whose_owner_is_killed_leaves_nothing(before: Footprint) -> None:
    words = [sys.executable, "-m", "cluster.node.node", "--load", str(debian.glibc())]
    owner = subprocess.Popen(
        words,
        cwd=TESTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    try:
        assert owner.stdout is not None
        kubeconfig = owner.stdout.readline().strip()
        assert kubeconfig
        with pytest.raises(ControlPlaneError, match="another one runs"):
            Node().start()
        assert Path(kubeconfig).exists(), "the second node has taken the first one's ground"
    finally:
        owner.kill()
        owner.communicate()
    deadline = time.monotonic() + PATIENCE
    while left := Footprint.now().beyond(before):
        assert time.monotonic() < deadline, left
        time.sleep(0.5)


def test_a_node_can_be_started_again(before: Footprint) -> None:
    node = Node(patience=WAIT)
    for _ in range(2):
        with node:
            assert node.is_ready()
    assert Footprint.now().beyond(before) == []
