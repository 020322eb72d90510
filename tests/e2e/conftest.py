"""The stage of the end-to-end ring: one real node for the run, a namespace for each test.

Root is needed. Whoever is not root gets these tests skipped, in words; where a run must not pass
without them (`KANDEV_REQUIRE_NODE=1`, as the gate sets it, and always as root), they fail. When a
test fails, what pods, events and the node's own programs said becomes part of the report.
"""

import os
import re
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.docker import Engine
from cluster.errors import ControlPlaneError
from cluster.images import agents, product
from cluster.node import Node, Slot, ground
from cluster.node.footprint import Footprint
from stage.dockerstage import account
from stage.nodescene import NodeScene, install_crds, operator_beside
from stage.operatorprocess import OperatorProcess
from stage.pods import Pods
from stage.realpods import RealPodScene, everywhere
from stage.sessions import Namespace

_REQUIRED = "KANDEV_REQUIRE_NODE"
_TIMEOUT = 300
_LONGEST_NAME = 40
_LOG_LINES = 25
_WAIT = 3600.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    ours = [item for item in items if item.path.is_relative_to(here)]
    is_skipped = os.geteuid() != 0 and not os.environ.get(_REQUIRED)
    for item in ours:
        # Without the fixtures: a node's start, or waiting for another run's, may fall to any test.
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUT, func_only=True))
        if is_skipped:
            reason = f"a real node needs root: run as root; {_REQUIRED}=1 makes this a failure"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    slot = getattr(item, "funcargs", {}).get("node_slot")
    if report.failed and isinstance(slot, Slot) and slot.current is not None:
        report.sections.append(("the node", _account(slot.current)))
    engine = getattr(item, "funcargs", {}).get("docker_engine")
    if report.failed and isinstance(engine, Engine):
        report.sections.append(("the Docker engine", account(engine)))
    return report


@pytest.fixture
def make_namespace(node: Node, request: pytest.FixtureRequest) -> Iterator[Callable[..., Pods]]:
    """Namespaces for this test; Pod Security enforces the level that is asked for."""
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:_LONGEST_NAME].strip("-")
    made: list[str] = []

    def make(level: str = "restricted") -> Pods:
        name = f"{readable}-{uuid.uuid4().hex[:8]}"
        node.create_namespace(name)
        made.append(name)
        node.kubectl("label", "namespace", name, f"pod-security.kubernetes.io/enforce={level}")
        return Pods(node, name)

    yield make
    for name in made:
        node.delete_namespace(name)


@pytest.fixture(scope="module")
def docker_engine() -> Iterator[Engine]:
    """A Docker engine of these tests' own, with agentctl's image. Tests leave it running."""
    agentctl = product.agentctl()
    # Not in a test's folder: the path of its socket would be too long.
    engine = Engine(Path(tempfile.mkdtemp(prefix="e-")))
    try:
        engine.start()
        engine.load(agentctl)
        yield engine
    finally:
        engine.stop()


@pytest.fixture(scope="session")
def scripted_agent_archive() -> Path:
    """The archive of an image with the scripted agent."""
    return agents.scripted()


@pytest.fixture
def pods(make_namespace: Callable[..., Pods]) -> Pods:
    """A namespace that enforces Pod Security *restricted*, and what a test does with pods in it."""
    return make_namespace()


@pytest.fixture
def make_stage(
    pods: Pods, node: Node, agentctl_image: str, scripted_agent_image: str, tmp_path: Path
) -> Iterator[Callable[..., NodeScene]]:
    """An operator for this test's namespace; `access` is how it reaches agentctls in pods. Under a
    `user` of its own it is told from whoever applies."""
    install_crds(node)
    made: list[OperatorProcess] = []

    def make(access: str = "direct", user: str = "") -> NodeScene:
        log, name = tmp_path / "operator.log", pods.namespace
        kubeconfig = node.kubeconfig_for(user, ["system:masters"]) if user else None
        options = [f"--pod-access={access}"]
        operator = operator_beside(node, name, log, agentctl_image, *options, kubeconfig=kubeconfig)
        made.append(operator)
        place = Namespace(node, name, tmp_path, operator.tail)
        return NodeScene(place, operator.start(), scripted_agent_image)

    yield make
    for operator in made:
        operator.kill()


@pytest.fixture
def stage(make_stage: Callable[..., NodeScene]) -> NodeScene:
    return make_stage("direct")


@pytest.fixture(scope="module")
def operators() -> Iterator[dict[str, OperatorProcess]]:
    """The operator that the tests of a module share, by its namespace, once one has asked."""
    made: dict[str, OperatorProcess] = {}
    yield made
    for operator in made.values():
        operator.kill()


@pytest.fixture
def scene(
    pods: Pods,
    node: Node,
    operators: dict[str, OperatorProcess],
    agentctl_image: str,
    scripted_agent_image: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealPodScene]:
    """This test's namespace, watched by the module's operator, which runs."""
    if not operators:
        install_crds(node)
        home = f"operator-{uuid.uuid4().hex[:8]}"
        node.create_namespace(home)
        log = tmp_path_factory.mktemp("operator") / "operator.log"
        operators[home] = everywhere(node, home, log, agentctl_image)
    ((home, operator),) = operators.items()
    if not operator.is_running:
        operator.start()
    place = Namespace(node, pods.namespace, tmp_path, operator.tail)
    made = RealPodScene(node, place, operator, home, scripted_agent_image)
    yield made
    made.close()


@pytest.fixture
def before(no_node: None) -> Footprint:
    """The machine without a node, for a test that looks at what is left of one."""
    # A node that somebody started by hand would be part of the picture: taking the machine once
    # waits for its end.
    ground.take(_WAIT).give_back()
    return Footprint.now()


def _account(node: Node) -> str:
    """What the cluster and its programs say at this moment."""
    parts = []
    for words in (
        ("get", "nodes,pods,pvc", "--all-namespaces", "--output=wide"),
        ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
    ):
        try:
            said = node.kubectl(*words, timeout=20)
        except (ControlPlaneError, OSError) as error:
            said = str(error)
        parts.append(f"$ kubectl {' '.join(words)}\n{said}")
    for name, log in node.logs().items():
        lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        parts.append("\n".join([f"--- {name}", *(line[:300] for line in lines)]))
    return "\n\n".join(parts)
