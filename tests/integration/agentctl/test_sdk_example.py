"""The example agent of the protocol's own SDK: it declares nothing, and cannot come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.node_tools import find_node, install_npm_package
from integration.agentctl.harness import Json, Keys, Sidecar, eventually, kill

pytestmark = [pytest.mark.agents, pytest.mark.timeout(180)]

PACKAGE, VERSION = "@agentclientprotocol/sdk", "0.28.1"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder = tmp_path_factory.mktemp("sdk-example")
    modules = install_npm_package(PACKAGE, VERSION) / "node_modules"
    program = modules / PACKAGE / "dist" / "examples" / "agent.js"
    sidecar = Sidecar(folder, Keys(folder / "jwks.json")).start()
    sidecar.put(command=find_node().node, args=[str(program)])
    sidecar.succeeded(sidecar.outcome(sidecar.begin(timeout_seconds=PATIENCE)["operation_id"]))
    yield sidecar
    sidecar.close()


def asks(sidecar: Sidecar) -> tuple[str, Json]:
    """A turn that got to its permission request."""
    prompt_id = sidecar.prompt("change it")["prompt_id"]
    look = sidecar.call
    request = eventually(lambda: look("GET", "/api/v1/permissions"), "it asks", patience=PATIENCE)[
        0
    ]
    return prompt_id, request


def ends(sidecar: Sidecar, prompt_id: str) -> Json:
    def look() -> Json | None:
        last = sidecar.status()["last_turn"]
        return dict(last) if last and last["prompt_id"] == prompt_id else None

    found: Json = eventually(look, f"{prompt_id} ends", PATIENCE)
    return found


def test_what_is_not_declared_is_not_there(talking: Sidecar) -> None:
    told = talking.call("GET", "/api/v1/capabilities")
    assert told["supports_session_resume"] is False
    assert told["prompt"] == {"image": False, "audio": False, "embedded_context": False}
    assert told["agent"] is None, "it gives no name"


@pytest.mark.parametrize(("kind", "status"), [("allow_once", "completed"), ("reject_once", None)])
def test_its_change_is_allowed_or_rejected(talking: Sidecar, kind: str, status: str | None) -> None:
    prompt_id, request = asks(talking)
    option = next(o["option_id"] for o in request["options"] if o["kind"] == kind)
    path = f"/api/v1/permissions/{request['permission_id']}"
    talking.call("POST", path, {"option_id": option})
    assert ends(talking, prompt_id)["outcome"] == "completed"
    shown = [e["data"] for e in talking.events() if e["kind"] == "message"]
    turn = talking.status()["last_turn"]["turn_id"]
    calls = [m["content"] for m in shown if m["kind"] == "tool_call" and m["turn_id"] == turn]
    change = [c for c in calls if c["toolCallId"] == "call_2"][-1]
    assert change["status"] == (status or "pending")


def test_its_turn_is_cancelled_at_the_question(talking: Sidecar) -> None:
    prompt_id, _ = asks(talking)
    talking.call("POST", "/api/v1/cancel")
    assert ends(talking, prompt_id)["outcome"] in ("cancelled", "completed")
    assert talking.call("GET", "/api/v1/permissions") == []


def test_it_cannot_come_back(talking: Sidecar) -> None:
    token = talking.token()
    kill(talking.agent_pid())
    talking.becomes("exited")
    talking.failed(talking.open("resume", token), "resume_unsupported")
    assert talking.status()["token"]["value"] == token
    assert not Path(talking.workspace / "config.json").exists()
