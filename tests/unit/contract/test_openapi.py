"""The OpenAPI document is that of the models, and says of every call what the server does."""

import json
from importlib import resources
from pathlib import Path

from starlette.routing import Route

from kandev_operator.agentctl.app import build
from kandev_operator.agentctl.auth import Authenticator, KeySet
from kandev_operator.agentctl.engine import Engine
from kandev_operator.agentctl.settings import Settings
from kandev_operator.agentctl.shell.room import Room
from kandev_operator.agentctl.statedir import StateDir
from kandev_operator.contract import openapi, routes
from kandev_operator.contract.errors import STATUS_OF, Code

REMAKE = (
    "python -m kandev_operator.contract.openapi"
    " --write operator/kandev_operator/contract/openapi.json"
)


def test_the_committed_document_is_that_of_the_models(tmp_path: Path) -> None:
    committed = resources.files("kandev_operator.contract").joinpath("openapi.json").read_text()
    assert committed == openapi.text(), f"run: {REMAKE}"
    assert openapi.main(["--write", str(tmp_path / "made.json")]) == 0
    assert (tmp_path / "made.json").read_text() == committed


def test_every_reference_leads_somewhere() -> None:
    text = openapi.text()
    known = openapi.document()["components"]["schemas"]
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= set(known)
    assert {"StatusReport", "Operation", "ErrorBody"} <= names


def test_the_server_serves_what_the_document_says(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "state", tmp_path, "audience", tmp_path / "jwks.json")
    authenticator = Authenticator(KeySet(settings.jwks), "audience")
    engine = Engine(settings, StateDir(settings.state), "boot", "instance")
    shells = Room(engine)
    served = {
        (method.lower(), route.path)
        for route in build(engine, authenticator, shells).routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    told = {(r.method, r.path) for r in routes.ROUTES}
    assert told == served


def test_every_code_has_a_status_and_is_used_by_a_call() -> None:
    assert set(STATUS_OF) == set(Code)
    told = json.dumps(openapi.document()["paths"])
    unused = {c.value for c in Code if c.value not in told}
    assert unused <= {"internal"}, "a code that no call answers with"
