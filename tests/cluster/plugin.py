"""The cluster as pytest fixtures; load with `pytest_plugins = ["cluster.plugin"]`.

`control_plane` is whichever cluster `choice.py` finds, one for the run. `own_control_plane` is one
that surely has powers over processes and data (kill, pause, snapshot, audit): the same one if it is
ours, else a second. `namespace` is new for every test. `node` is a whole cluster, on which pods
run; `node_slot` is where it is kept, for fixtures that live longer than a test, and `no_node` is
for tests that need the machine to themselves. What takes minutes, such as compiling at the first
run on a machine, happens before any test's time begins to count, and shows its progress.
"""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from cluster import build
from cluster.choice import find_control_plane
from cluster.controlplane import ControlPlane
from cluster.errors import ControlPlaneError
from cluster.images import agents, debian, gateway, oci, product
from cluster.interface import Cluster
from cluster.node import Node, Slot

_OWN = "own_control_plane"
_FIXTURES = {"control_plane", "kubectl", "namespace", _OWN}
_SLOT = "node_slot"
_HELM = "helm_program"
_IMAGES: dict[str, Callable[[], Path]] = {
    "glibc_image": debian.glibc,
    "python_image": debian.python,
    "agentctl_image": product.agentctl,
    "agentctl_folder": product.agentctl_folder,
    "operator_image": product.operator,
    "gateway_image": gateway.gateway,
    "scripted_agent_image": agents.scripted,
    "frozen_agent_image": agents.scripted_frozen,
}
_LONGEST_NAME = 40

_chosen = pytest.StashKey[Cluster]()
_kept = pytest.StashKey[Slot]()
_last = pytest.StashKey[pytest.Item]()


def pytest_collection_finish(session: pytest.Session) -> None:
    items = [item for item in session.items if not item.get_closest_marker("skip")]
    asked = {name for item in items for name in _fixtures_of(item)}
    on_node = [item for item in items if _SLOT in _fixtures_of(item)]
    if on_node:
        session.config.stash[_last] = on_node[-1]
    if session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    shown = capture.global_and_fixture_disabled() if capture else nullcontext()
    # Of a run's processes one prepares, and the others find what it made.
    with shown, build.only_one("prepare"):
        # First, because the node's executable can serve as the control plane's too.
        if _SLOT in asked:
            _prepare_node([make for name, make in _IMAGES.items() if name in asked])
        if _HELM in asked:
            _prepare_helm()
        if _FIXTURES & asked:
            session.config.stash[_chosen] = find_control_plane(audit=True)
            _prepare(session.config.stash[_chosen], own_too=_OWN in asked)


def _prepare_node(images: list[Callable[[], Path]]) -> None:
    # If it fails, so will the fixture, where it is seen, and other tests beside it can run.
    with suppress(ControlPlaneError):
        Node().prepare()
        for make in images:
            make()


def _prepare_helm() -> None:
    with suppress(ControlPlaneError):
        build.ensure(recipe=build.HELM)


def _prepare(cluster: Cluster, own_too: bool) -> None:
    with suppress(ControlPlaneError):
        cluster.prepare()
        if own_too:
            ControlPlane().prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """After the last test that needs the node, others may have the machine: a run goes on long."""
    yield
    slot = item.config.stash.get(_kept, None)
    if slot is not None and item is item.config.stash.get(_last, None):
        slot.close()


def pytest_sessionfinish(session: pytest.Session) -> None:
    # The fixture has done it, unless no test came to ask for what was prepared.
    cluster = session.config.stash.get(_chosen, None)
    if cluster is not None:
        cluster.stop()


@pytest.fixture(scope="session")
def control_plane(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """The cluster of this run."""
    # Nothing is chosen yet if a test asks by name only while it runs.
    with pytestconfig.stash.get(_chosen, None) or find_control_plane(audit=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def own_control_plane(control_plane: Cluster) -> Iterator[ControlPlane]:
    """A control plane whose processes and data are ours to break; leave it running and ready."""
    if isinstance(control_plane, ControlPlane):
        yield control_plane
        return
    with ControlPlane(audit=True) as own:
        yield own


@pytest.fixture
def kubectl(control_plane: Cluster) -> Callable[..., str]:
    """kubectl as the cluster's administrator: `kubectl("get", "pods", "-A")` is what it printed."""
    return control_plane.kubectl


@pytest.fixture
def namespace(control_plane: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a namespace that no other test has."""
    readable = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[:_LONGEST_NAME].strip("-")
    name = f"{readable}-{uuid.uuid4().hex[:8]}"
    control_plane.create_namespace(name)
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture(scope="session")
def node_slot(pytestconfig: pytest.Config) -> Iterator[Slot]:
    """Where this run's node is kept."""
    slot = pytestconfig.stash[_kept] = Slot()
    yield slot
    slot.close()


@pytest.fixture
def node(node_slot: Slot) -> Node:
    """A whole cluster of one real node. A test leaves all its programs running and ready."""
    return node_slot.started()


@pytest.fixture
def no_node(node_slot: Slot) -> None:
    """The machine without this run's node, for a test that starts its own."""
    node_slot.clear()


@pytest.fixture(scope="session")
def helm_program() -> Path:
    """Where Helm lies; compiled once per machine. `cluster.helm.Helm` runs it."""
    return build.ensure(recipe=build.HELM)


@pytest.fixture
def glibc_image(node: Node) -> str:
    """The name of an image without Python, loaded; git is in it."""
    return _loaded(node, debian.glibc())


@pytest.fixture
def python_image(node: Node) -> str:
    """The name of an image with Python and git, loaded."""
    return _loaded(node, debian.python())


@pytest.fixture
def agentctl_image(node: Node) -> str:
    """The name of agentctl's image, loaded: `install FOLDER` puts its folder into a volume."""
    return _loaded(node, product.agentctl())


@pytest.fixture
def operator_image(node: Node) -> str:
    """The name of the operator's image, loaded."""
    return _loaded(node, product.operator())


@pytest.fixture
def gateway_image(node: Node) -> str:
    """The name of the gateway's image, loaded."""
    return _loaded(node, gateway.gateway())


@pytest.fixture
def scripted_agent_image(node: Node) -> str:
    """The name of an image whose agent is `agents.SCRIPTED_COMMAND`, in Python; loaded."""
    return _loaded(node, agents.scripted())


@pytest.fixture
def frozen_agent_image(node: Node) -> str:
    """The name of an image without Python whose agent is `agents.FROZEN_COMMAND`; loaded."""
    return _loaded(node, agents.scripted_frozen())


@pytest.fixture(scope="session")
def agentctl_folder() -> Path:
    """agentctl's self-contained folder on this machine."""
    return product.agentctl_folder()


def _loaded(node: Node, archive: Path) -> str:
    node.load(archive)
    return oci.image_name(archive)


def _fixtures_of(item: pytest.Item) -> list[str]:
    # Doctests and other plugins' items have none.
    names: list[str] = getattr(item, "fixturenames", [])
    return names
