"""A gateway beside the module's operator, for its two namespaces."""

from collections.abc import Iterator

import pytest

from stage.gatewayprocess import GatewayProcess
from stage.scene import Scene


@pytest.fixture(scope="module")
def gateway(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    made = GatewayProcess(
        scene.place.cluster.kubeconfig,
        folder,
        namespaces=[scene.place.name],
        operator_namespace=scene.home,
    )
    with made:
        made.wait_welcome(scene.operator.log)
        yield made
