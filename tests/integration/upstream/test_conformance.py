"""The conformance suite against our agentctl in front of Kandev's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from integration.agentctl.harness import AUDIENCE
from integration.upstream.harness import Fronted
from kandev_operator.conformance import page
from kandev_operator.conformance.running import every

pytestmark = [pytest.mark.integration, pytest.mark.agents, pytest.mark.timeout(900)]

NOT_HERE = "is not served: the workspace is on the upstream's machine"
LEFT_OUT = {
    **{m.id: f"room {m.room.value} {NOT_HERE}" for m in every() if m.room is not None},
    "C-047": "protocol_version is not known: "
    "the upstream does not tell what it and the agent agreed on",
}
"""MUSTs that do not apply there, and why; the room's README says the same."""
NAME = "agentctl --upstream"
SAVE = f"save them: --save …/conformance/results/upstream.json --name '{NAME}'"


def test_every_must_is_kept_but_those_that_do_not_apply(front: Fronted, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    private = front.keys.known["operator"]
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    saved = tmp_path / "results.json"
    command = [sys.executable, "-m", "kandev_operator.conformance", front.run["url"], "--json"]
    command += ["--key", str(key), "--audience", AUDIENCE, "--kid", "operator"]
    command += ["--save", str(saved), "--name", NAME]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=800, check=False)
    told = json.loads(ran.stdout)
    failed = [r for r in told["results"] if r["result"] == "fail"]
    assert not failed, json.dumps(failed, indent=1)
    assert (ran.returncode, ran.stderr) == (0, "")
    by_id = {r["id"]: r for r in told["results"]}
    left_out = {id: r["seen"] for id, r in by_id.items() if r["result"] == "not-applicable"}
    assert left_out == LEFT_OUT
    rooms = {str(m.room) for m in every() if m.id in left_out and m.room is not None}
    assert rooms == {"files", "git", "shell"}
    assert by_id["C-042"]["seen"] == "conformance-agent, protocol None, load True"
    assert by_id["C-135"]["seen"] == "left out: files, git, shell"
    assert page.known(tmp_path) == {NAME: page.known()[NAME]}, SAVE
    assert front.health()["agent_status"] == "none", "no agent of the suite is left"
