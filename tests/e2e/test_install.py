"""The chart on a real node: installed, upgraded, failed over, uninstalled, with live sessions."""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.errors import KubectlError
from cluster.helm import Helm
from cluster.node import Node, flags
from kandev_operator.controller.rights import NEEDED, SECRETS
from stage import exampleground
from stage.account import KANDEV
from stage.gitserver import GitServer
from stage.installed import Installed, InstalledScene
from stage.nodescene import install_crds
from stage.pods import Pods
from stage.sessions import Namespace, condition

RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
KINDS = ("agentprofiles", "executors", "tasks", "tasksessions")
CRDS = [f"{kind}.kandev.dev" for kind in KINDS]
READY_WITHIN = 60.0
"""Seconds, on a machine that does other things: ten are the aim, and what is measured is told."""


NAME = "search-page"
"""The session in manifests/examples/07-pod-session.yaml."""
BESIDE = {
    ("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
    ("coordination.k8s.io", "leases", "get"),
    ("coordination.k8s.io", "leases", "create"),
    ("coordination.k8s.io", "leases", "update"),
    ("coordination.k8s.io", "leases", "list"),
    ("", "nodes", "get"),
    ("storage.k8s.io", "csidrivers", "get"),
    ("storage.k8s.io", "storageclasses", "get"),
    ("storage.k8s.io", "storageclasses", "list"),
}
"""Of itself, and what it can do without."""
WHAT_SUCH_A_LIFE_TAKES = {
    (KANDEV, "executors", "create"),
    (KANDEV, "tasksessions/status", "update"),
    (KANDEV, "tasksessions", "watch"),
    ("", "pods", "create"),
    ("", "persistentvolumeclaims", "create"),
    ("", "secrets", "create"),
    ("", "configmaps", "create"),
}


@pytest.fixture
def examples(node: Node, team: InstalledScene, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """The examples, as they are written; only their repositories are elsewhere."""
    folder = tmp_path / "examples"
    folder.mkdir()
    exampleground.prepare(node, exampleground.archive(folder), folder)
    team.place.apply(*exampleground.secrets())
    with GitServer(folder, flags.GATEWAY) as git:
        git.make("shop/shop", {"README": "hello\n"})
        yield lambda number: exampleground.text(number).replace(exampleground.ORIGIN, git.url)
    exampleground.clear_away(node)


def allowed_and_needed(node: Node, mark: int, release: Installed) -> set[tuple[str, str, str]]:
    """What the operator asked the API server for; nothing was refused, or is not in the table of
    what it needs."""
    user = f"system:serviceaccount:{release.namespace}:kandev-operator"
    found = node.audit.events(since=mark, user=user)
    assert [each for each in found if each.code == 403] == []
    asked = {
        (each.group, "/".join(filter(None, (each.resource, each.subresource))), each.verb)
        for each in found
        if each.resource  # not the served schema
    }
    table = {(*kind, verb) for kind, verbs in {**NEEDED, **SECRETS}.items() for verb in verbs}
    assert asked - table - BESIDE == set()
    return asked


def warnings_of_policies(node: Node) -> list[str]:
    """What the cluster finds wrong with the chart's admission policies."""
    end = time.monotonic() + 60
    while True:
        text = node.kubectl("get", "validatingadmissionpolicies", "--output=json")
        states = [each.get("status") or {} for each in json.loads(text)["items"]]
        if states and all("typeChecking" in each for each in states):
            return [str(w) for e in states for w in e["typeChecking"].get("expressionWarnings", [])]
        assert time.monotonic() < end, "nobody looks at them"
        time.sleep(0.2)


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
) -> Iterator[Installed]:
    """The chart with its defaults, in a cluster that has never seen it."""
    node.kubectl("delete", "crd", "--ignore-not-found", "--timeout=90s", *CRDS, timeout=100)
    made = Installed(node, helm, homes())
    seconds = made.install()
    print(f"helm install to two ready replicas: {seconds:.1f} s")
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
    node: Node, release: Installed, team: InstalledScene, examples: Callable[[str], str]
) -> None:
    assert len(release.pods()) == 2
    leader = release.wait_leader()
    assert "Succeeded" in release.test()
    # The first session of whoever installs it, under the chart's own account.
    mark = node.audit.mark()
    for number in ("06", "07"):
        team.place.apply(*exampleground.read(examples(number)))
    before = team.idle(NAME)
    await team.ask(NAME, "alpha")
    pod = team.executor(NAME)["podRef"]

    def is_the_same() -> None:
        now = team.place.status(NAME)
        assert now["agentExecutionId"] == before["agentExecutionId"], "its agent was restarted"
        assert team.executor(NAME)["podRef"] == pod

    # Upgraded: other pods of the operator, the same agent.
    release.upgrade("--set=operator.podAnnotations.renewed=yes")
    leader = release.wait_leader(other_than=leader)
    is_the_same()
    await team.remembers(NAME)
    # The leader is lost without a word; the other one leads, and acts.
    release.kubectl("delete", "pod", leader, "--force", "--grace-period=0")
    release.wait_leader(other_than=leader)
    is_the_same()
    team.place.kubectl("delete", "pod", pod["name"], "--wait=false")
    team.idle_again(NAME, before)
    await team.remembers(NAME)
    assert allowed_and_needed(node, mark, release) >= WHAT_SUCH_A_LIFE_TAKES
    assert warnings_of_policies(node) == []
    # Uninstalled: definitions and objects stay, and the agent goes on.
    before, pod = team.place.status(NAME), team.executor(NAME)["podRef"]
    release.uninstall()
    assert json.loads(node.kubectl("get", "crd", *CRDS, "--output=json"))["items"]
    is_the_same()
    await team.remembers(NAME)
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
    def watching(*namespaces: str) -> str:
        joined = ",".join(namespaces)
        return f"--set=watch.namespaces={{{joined}}}"

    beside = "--set=crds.install=false"

    blue, green, red = releases("blue"), releases("green"), releases("red")
    a, b, c = (make_namespace().namespace for _ in range(3))
    # The definitions that were there before are taken over by one, and left alone by the others.
    blue.install(watching(a), "--take-ownership")
    green.install(watching(b), beside)
    assert blue.wait_leader(a)
    assert green.wait_leader(b)
    # The third one shares a namespace with the first: it leads nowhere, and says so.
    red.install_unready(watching(a, c), beside)
    said = red.says(f"does not lead: {a}/kandev-operator is held by another operator")
    assert f"{blue.namespace}/blue-kandev-operator/" in said
    assert red.leader(c) == "", "it is in nobody's way"
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
