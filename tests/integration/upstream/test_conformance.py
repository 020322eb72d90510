"""The conformance suite against our agentctl in front of Kandev's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from integration.agentctl.harness import AUDIENCE
from integration.upstream.harness import Fronted

pytestmark = [pytest.mark.integration, pytest.mark.agents, pytest.mark.timeout(900)]

CANNOT = {"C-042": "their answer to initialize tells no protocol version, and they take any"}
WORKSPACE = {"files", "git", "shell"}
"""MUSTs that cannot hold there, and why; the room's README says the same."""


def test_every_must_is_kept_but_those_that_cannot_be(front: Fronted, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    private = front.keys.known["operator"]
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    command = [sys.executable, "-m", "kandev_operator.conformance", front.run["url"], "--json"]
    command += ["--key", str(key), "--audience", AUDIENCE, "--kid", "operator"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    told = json.loads(ran.stdout)
    core = [r for r in told["results"] if r["area"] not in WORKSPACE]
    assert len(core) > 70
    assert len(core) < len(told["results"])
    failed = {r["id"]: r for r in core if r["result"] != "pass"}
    assert set(failed) == set(CANNOT), json.dumps(failed, indent=1)
    assert failed["C-042"]["seen"] == "agent or version missing"
    assert front.health()["agent_status"] == "none", "no agent of the suite is left"
