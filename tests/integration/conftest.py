"""The stage of the integration ring: CRDs installed once, an operator and a namespace per test.

Tests that leave the operator alone, or only restart it, share one for their module: `scene`.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.interface import Cluster
from stage.kubelet import Kubelet
from stage.operatorprocess import OperatorProcess
from stage.podscene import ENFORCED, PodScene
from stage.scene import Scene
from stage.sessions import Namespace

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def crds(control_plane: Cluster) -> Cluster:
    """The cluster, with this repository's CRDs."""
    control_plane.kubectl("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
    control_plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=60s", "-f", str(REPOSITORY / "crds")
    )
    return control_plane


@pytest.fixture
def place(crds: Cluster, namespace: str, tmp_path: Path) -> Iterator[Namespace]:
    """A namespace with a folder for worktrees; its agentctls are ended afterwards."""
    root = tmp_path / "root"
    root.mkdir()
    yield Namespace(crds, namespace, root)
    end_agentctls(root)


@pytest.fixture
def make_operator(
    crds: Cluster, place: Namespace, tmp_path: Path
) -> Iterator[Callable[..., OperatorProcess]]:
    """Operators for this test's namespace alone; all are killed afterwards."""
    made: list[OperatorProcess] = []

    def make(*options: str, kubeconfig: Path | None = None) -> OperatorProcess:
        operator = OperatorProcess(
            kubeconfig or crds.kubeconfig,
            tmp_path / f"operator-{len(made)}.log",
            namespaces=[place.name],
            roots={place.name: place.root},
            lease_namespace=place.name,
            options=options,
        )
        made.append(operator)
        place.tail = operator.tail
        return operator

    yield make
    for operator in made:
        operator.kill()


@pytest.fixture
def operator(make_operator: Callable[..., OperatorProcess]) -> OperatorProcess:
    """A running operator for this test's namespace."""
    return make_operator().start()


@pytest.fixture(scope="module")
def scene(
    crds: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """One operator for all tests of a module. Local executors may run in one of its namespaces."""
    folder = tmp_path_factory.mktemp("scene")
    root = folder / "root"
    root.mkdir()
    module = request.node.path.stem.removeprefix("test_").replace("_", "-")
    name = f"{module}-{uuid.uuid4().hex[:8]}"
    elsewhere = f"{name}-else"
    crds.create_namespace(name)
    crds.create_namespace(elsewhere)
    operator = OperatorProcess(
        crds.kubeconfig,
        folder / "operator.log",
        namespaces=[name, elsewhere],
        roots={name: root},
        lease_namespace=name,
        options=["--probe-seconds=2"],
    )
    made = Scene(Namespace(crds, name, root, operator.tail), operator, folder)
    made.elsewhere = Namespace(crds, elsewhere, root, operator.tail)
    try:
        with operator:
            yield made
    finally:
        made.close()
        end_agentctls(root)
        crds.delete_namespace(name)
        crds.delete_namespace(elsewhere)


def end_agentctls(root: Path) -> None:
    """End every agentctl whose state lies below this folder, and what it started."""
    import asyncio

    from kandev_operator.clients.local import LocalHost

    async def end() -> None:
        host = LocalHost({})
        for state in (root / ".kandev").glob("*"):
            found = host.find(state)
            if found is not None:
                await host.stop(found, 2.0)
            else:
                await host.sweep(state)

    asyncio.run(end())


@pytest.fixture(scope="module")
def pods(
    crds: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[PodScene]:
    """One operator and one played node for all tests of a module; nothing local may run."""
    folder = tmp_path_factory.mktemp("pods")
    module = request.node.path.stem.removeprefix("test_").replace("_", "-")
    name = f"{module}-{uuid.uuid4().hex[:8]}"
    crds.create_namespace(name)
    crds.kubectl("label", "namespace", name, ENFORCED)
    operator = OperatorProcess(
        crds.kubeconfig,
        folder / "operator.log",
        namespaces=[name],
        lease_namespace=name,
        options=["--probe-seconds=1", "--pod-access=direct"],
    )
    place = Namespace(crds, name, folder, operator.tail)
    with Kubelet(crds.kubeconfig, name, folder / "volumes") as node:
        made = PodScene(place, operator, folder, node)
        try:
            with operator:
                yield made
        finally:
            made.close()
    crds.delete_namespace(name)
    assert node.errors == []
