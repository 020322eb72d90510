"""The cluster as pytest fixtures; load with `pytest_plugins = ["cluster.plugin"]`.

`control_plane` is whichever cluster `choice.py` finds, one for the run. `own_control_plane` is one
that surely has powers over processes and data (kill, pause, snapshot, audit): the same one if it is
ours, else a second. `namespace` is new for every test. What takes minutes, such as compiling at the
first run on a machine, happens before any test's time begins to count, and shows its progress.
"""

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest

from cluster.choice import find_control_plane
from cluster.controlplane import ControlPlane
from cluster.errors import ControlPlaneError
from cluster.interface import Cluster

_OWN = "own_control_plane"
_FIXTURES = {"control_plane", "kubectl", "namespace", _OWN}
_LONGEST_NAME = 40

_chosen = pytest.StashKey[Cluster]()


def pytest_collection_finish(session: pytest.Session) -> None:
    wanted = _FIXTURES & {name for item in session.items for name in _fixtures_of(item)}
    if not wanted or session.config.option.collectonly:
        return
    cluster = session.config.stash[_chosen] = find_control_plane(audit=True)
    capture = session.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            cluster.prepare()
            if _OWN in wanted:
                ControlPlane().prepare()
    except ControlPlaneError:
        # The fixture will fail in the same way, where it is seen, and unit tests beside it can run.
        return


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


def _fixtures_of(item: pytest.Item) -> list[str]:
    # Doctests and other plugins' items have none.
    names: list[str] = getattr(item, "fixturenames", [])
    return names
