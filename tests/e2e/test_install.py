"""The chart on a real node: installed, upgraded, failed over, uninstalled, with live sessions."""

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.errors import KubectlError
from cluster.helm import Helm
from cluster.node import Node
from stage.installed import Installed, InstalledScene
from stage.nodescene import install_crds
from stage.pods import Pods
from stage.sessions import Namespace, condition

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
KINDS = ("agentprofiles", "executors", "tasks", "tasksessions")
CRDS = [f"{kind}.kandev.dev" for kind in KINDS]
READY_WITHIN = 60.0
"""Seconds, on a machine that does other things: ten are the aim, and what is measured is told."""


@pytest.fixture
def helm(node: Node, helm_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"), node.kubeconfig)


@pytest.fixture
def homes(node: Node) -> Iterator[Callable[[], str]]:
    """Namespaces for releases, which Pod Security keeps restricted."""
    made: list[str] = []

    def make() -> str:
        name = f"kandev-{uuid.uuid4().hex[:8]}"
        node.create_namespace(name)
        node.kubectl("label", "namespace", name, RESTRICTED)
        made.append(name)
        return name

    yield make
    for name in made:
        node.delete_namespace(name)


@pytest.fixture
def releases(
    node: Node, helm: Helm, homes: Callable[[], str], operator_image: str, agentctl_image: str
) -> Iterator[Callable[[str], Installed]]:
    """Releases in namespaces of their own; the CRDs are there already."""
    install_crds(node)
    made: list[Installed] = []

    def make(name: str) -> Installed:
        made.append(Installed(node, helm, homes(), name))
        return made[-1]

    yield make
    for each in made:
        each.uninstall("--ignore-not-found")


@pytest.fixture
def release(
    node: Node,
    helm: Helm,
    homes: Callable[[], str],
    operator_image: str,
    agentctl_image: str,
    record_property: Callable[[str, object], None],
) -> Iterator[Installed]:
    """The chart with its defaults, in a cluster that has never seen it."""
    node.kubectl("delete", "crd", "--ignore-not-found", "--timeout=90s", *CRDS, timeout=100)
    made = Installed(node, helm, homes())
    seconds = made.install()
    record_property("helm_install_to_ready_seconds", round(seconds, 1))
    assert seconds < READY_WITHIN
    yield made
    made.uninstall("--ignore-not-found")


@pytest.fixture
def team(
    release: Installed, pods: Pods, scripted_agent_image: str, tmp_path: Path
) -> InstalledScene:
    place = Namespace(release.node, pods.namespace, tmp_path, release.tail)
    return InstalledScene(release, place, scripted_agent_image)


@pytest.mark.timeout(600, func_only=True)
async def test_a_session_lives_through_the_life_of_a_release(
    node: Node, release: Installed, team: InstalledScene
) -> None:
    assert len(release.pods()) == 2
    leader = release.wait_leader()
    assert "Succeeded" in release.test()
    # A session is born under the chart's own account, and works.
    team.born("s")
    before = team.idle("s")
    await team.ask("s", "alpha")
    pod = team.executor("s")["podRef"]

    def is_the_same() -> None:
        now = team.place.status("s")
        assert now["agentExecutionId"] == before["agentExecutionId"], "its agent was restarted"
        assert team.executor("s")["podRef"] == pod

    # Upgraded: other pods of the operator, the same agent.
    release.upgrade("--set=operator.podAnnotations.renewed=yes")
    leader = release.wait_leader(other_than=leader)
    is_the_same()
    await team.remembers("s")
    # The leader is lost without a word; the other one leads, and acts.
    release.kubectl("delete", "pod", leader, "--force", "--grace-period=0")
    release.wait_leader(other_than=leader)
    is_the_same()
    team.place.kubectl("delete", "pod", pod["name"], "--wait=false")
    team.idle_again("s", before)
    await team.remembers("s")
    # Uninstalled: definitions and objects stay, and the agent goes on.
    before, pod = team.place.status("s"), team.executor("s")["podRef"]
    release.uninstall()
    assert json.loads(node.kubectl("get", "crd", *CRDS, "--output=json"))["items"]
    is_the_same()
    await team.remembers("s")
    # Nobody is left who could hold up the end of the namespace.
    node.kubectl("delete", "namespace", team.place.name, "--timeout=150s", timeout=160)
    with pytest.raises(KubectlError, match="not found"):
        node.kubectl("get", "namespace", team.place.name)
    assert condition(before, "Ready")["status"] == "True"


@pytest.mark.timeout(600, func_only=True)
async def test_two_releases_beside_each_other_and_a_third_that_overlaps(
    releases: Callable[[str], Installed],
    make_namespace: Callable[..., Pods],
    scripted_agent_image: str,
    tmp_path: Path,
) -> None:
    def watching(*namespaces: str) -> list[str]:
        joined = ",".join(namespaces)
        return ["--set=crds.install=false", f"--set=watch.namespaces={{{joined}}}"]

    blue, green, red = releases("blue"), releases("green"), releases("red")
    a, b, c = (make_namespace().namespace for _ in range(3))
    blue.install(*watching(a))
    green.install(*watching(b))
    assert blue.wait_leader(a)
    assert green.wait_leader(b)
    # The third one shares a namespace with the first: it leads nowhere, and says so.
    red.install_unready(*watching(a, c))
    said = red.says(f"does not lead: {a}/kandev-operator is held by another operator")
    assert f"{blue.namespace}/blue-kandev-operator/" in said
    assert red.leader(c) == ""
    for release, team in ((blue, a), (green, b)):
        place = Namespace(release.node, team, tmp_path, release.tail)
        scene = InstalledScene(release, place, scripted_agent_image)
        scene.born("s")
        scene.idle("s")
        await scene.ask("s", "alpha")
    # What was in its way is gone.
    blue.uninstall()
    red.wait_leader(a)
    red.wait_leader(c)
    place = Namespace(red.node, a, tmp_path, red.tail)
    scene = InstalledScene(red, place, scripted_agent_image)
    before = scene.idle("s")
    place.kubectl("delete", "pod", scene.executor("s")["podRef"]["name"], "--wait=false")
    scene.idle_again("s", before)
