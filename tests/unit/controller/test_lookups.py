"""What is looked up of a storage class, and what is not even asked."""

from typing import Any

import pytest

from kandev_operator.clients.errors import NotFound
from kandev_operator.clients.resources import CSI_DRIVERS, STORAGE_CLASSES, Resource
from kandev_operator.controller.lookups import Lookups


class Storage:
    """An API server with one storage class and one CSI driver."""

    def __init__(self, provisioner: str) -> None:
        self.provisioner = provisioner
        self.asked: list[str] = []

    async def get(
        self, resource: Resource, namespace: str | None, name: str, *, timeout: float
    ) -> dict[str, Any]:
        if resource is STORAGE_CLASSES:
            return {"provisioner": self.provisioner}
        assert resource is CSI_DRIVERS
        self.asked.append(name)
        if name != "csi.example.com":
            raise NotFound("get csidrivers", "not found", status=404)
        return {}


@pytest.mark.parametrize(
    ("provisioner", "gives", "asked"),
    [
        ("csi.example.com", True, ["csi.example.com"]),
        ("other.example.com", False, ["other.example.com"]),
        # A name with a slash would be read as a subresource, which no role grants.
        ("rancher.io/local-path", False, []),
        ("", False, []),
    ],
)
async def test_only_a_csi_driver_gives_a_volume_to_one_pod(
    provisioner: str, gives: bool, asked: list[str]
) -> None:
    storage = Storage(provisioner)
    lookups = Lookups(storage, lambda: 0.0)  # type: ignore[arg-type]
    assert await lookups.gives_to_one_pod("fast") is gives
    assert storage.asked == asked
