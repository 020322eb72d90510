"""A real agentctl for the suite to try, and the private key that it is told of."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from integration.agentctl.harness import Keys, Sidecar


@pytest.fixture(scope="module")
def agentctl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """One agentctl for the whole module; the suite uses a session of its own for each target."""
    folder = tmp_path_factory.mktemp("conformance")
    sidecar = Sidecar(folder, Keys(folder / "jwks.json"))
    try:
        yield sidecar.start("--after-turn-seconds", "0.05")
    finally:
        sidecar.close()


@pytest.fixture(scope="module")
def key(agentctl: Sidecar) -> Path:
    """The private key, as its owner keeps it."""
    path = agentctl.folder / "key.pem"
    private = agentctl.keys.known["operator"]
    path.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path
