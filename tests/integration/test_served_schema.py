"""CRDs older than the operator (B014): it says which field is missing, and does not lead."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.controlplane import ControlPlane
from stage.operatorprocess import OperatorProcess

CRDS = Path(__file__).resolve().parents[2] / "crds"
NAMESPACE = "older"


@pytest.fixture(scope="module")
def bare() -> Iterator[ControlPlane]:
    """A control plane of its own, without CRDs: the shared one is not to be downgraded."""
    with ControlPlane() as cluster:
        cluster.create_namespace(NAMESPACE)
        yield cluster


def older(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The CRDs as a release before this one had them: two status fields did not exist."""
    for document in documents:
        if document["spec"]["names"]["kind"] != "TaskSession":
            continue
        for version in document["spec"]["versions"]:
            status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
            for field in ("intent", "epoch"):
                del status["properties"][field]
    return documents


async def test_b014_older_crds_are_named_and_nothing_is_led_until_they_are_applied(
    bare: ControlPlane, tmp_path: Path
) -> None:
    operator = OperatorProcess(
        bare.kubeconfig,
        tmp_path / "operator.log",
        namespaces=[NAMESPACE],
        lease_namespace=NAMESPACE,
    )
    files = sorted(CRDS.glob("*.yaml"))
    documents = [each for file in files for each in yaml.safe_load_all(file.read_text()) if each]
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump_all(older(documents)))
    try:
        operator.start(wait_ready=False)
        await says(operator, "does not serve kandev.dev/v1alpha1: apply crds/ first")
        bare.kubectl("apply", "--server-side", "-f", old)
        await says(operator, "TaskSession.status.intent")
        code, said = operator.get("/readyz")
        assert code == 503
        assert "TaskSession.status.epoch" in said
        assert "older than this operator" in said
        assert operator.get("/healthz")[0] == 200
        assert operator.metric("kandev_operator_lease_valid") == 0
        found = bare.kubectl("get", "leases", "-n", NAMESPACE, "-o", "name")
        assert found == "", "it does not even ask to lead"
        assert operator.log.read_text().count("TaskSession.status.intent") == 1, "one line"
        bare.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
        await asyncio.to_thread(operator.wait_ready, 30)
        end = time.monotonic() + 10
        while operator.metric("kandev_operator_lease_valid") != 1:
            assert time.monotonic() < end, operator.tail()
            await asyncio.sleep(0.1)
    finally:
        operator.kill()


async def says(operator: OperatorProcess, words: str) -> None:
    end = time.monotonic() + 30
    while words not in (operator.log.read_text() if operator.log.exists() else ""):
        assert time.monotonic() < end, operator.tail()
        await asyncio.sleep(0.1)
    while words not in operator.get("/readyz")[1]:
        assert time.monotonic() < end, operator.get("/readyz")
        await asyncio.sleep(0.1)
