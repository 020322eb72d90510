"""Our own agentctl keeps every MUST of the contract, and the suite leaves it as it was."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from integration.agentctl.harness import AUDIENCE, Sidecar
from kandev_operator.conformance import page

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def suite(sidecar: Sidecar, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "kandev_operator.conformance", sidecar.run["url"], *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)


def test_every_must_is_kept(agentctl: Sidecar, key: Path) -> None:
    options = ("--key", str(key), "--audience", AUDIENCE, "--kid", "operator")
    ran = suite(agentctl, *options, "--json")
    told = json.loads(ran.stdout)
    failed = [r for r in told["results"] if r["result"] != "pass"]
    assert not failed, json.dumps(failed, indent=1)
    assert (ran.returncode, ran.stderr) == (0, "")
    words = {r["id"]: r["seen"] for r in told["results"]}
    assert words["C-042"] == "conformance-agent, protocol 1, load True", "ours sees the handshake"
    assert words["C-135"] == "all are served"
    seen = {r["id"]: r["result"] for r in told["results"]}
    assert seen == page.known()["agentctl"].results, (
        "save them: --save …/conformance/results/agentctl.json"
    )
    assert agentctl.health()["agent_status"] == "none", "no agent of the suite is left"
    again = suite(agentctl, *options, "--only", "C-001")
    assert again.returncode == 2
    assert "--even-if-serving" in again.stderr
    again = suite(agentctl, *options, "--only", "C-001", "--even-if-serving")
    assert (again.returncode, "1 MUSTs, 1 pass" in again.stdout) == (0, True), again
