"""The HTTP part of contract v1 as an OpenAPI document, made from the contract's own models.

`python -m kandev_operator.contract.openapi --write FILE` writes what is committed beside this
file; a test compares. The table `ROUTES` says of each call its scope, its bodies and the codes by
which it is refused; what the bodies hold is said by the models alone. WebSockets are not OpenAPI's
business.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kandev_operator.contract import paths
from kandev_operator.contract.agent import (
    AgentAnswer,
    AgentSpec,
    CancelAnswer,
    Permission,
    PermissionAnswer,
    PermissionTaken,
    PromptAnswer,
    PromptRequest,
    StartRequest,
    StopRequest,
)
from kandev_operator.contract.claims import Scope
from kandev_operator.contract.errors import STATUS_OF, Code, ErrorBody
from kandev_operator.contract.events import Event
from kandev_operator.contract.status import Capabilities, Health, Operation, StatusReport
from kandev_operator.contract.version import CONTRACT_VERSION

Json = dict[str, Any]
REFERENCE: Final = "#/components/schemas/{model}"

OF_EVERY_CALL: Final = (
    Code.UNAUTHORIZED,
    Code.CLOCK_SKEW,
    Code.FORBIDDEN_SCOPE,
    Code.INVALID_REQUEST,
    Code.STALE_EPOCH,
    Code.SESSION_CONFLICT,
)
OF_A_BODY: Final = (Code.TOO_LARGE,)
OF_THE_JOURNAL: Final = (Code.JOURNAL_UNAVAILABLE, Code.JOURNAL_FULL)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter; a path's parameters are read off the path."""

    name: str
    words: str
    schema: Mapping[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One call of the contract."""

    method: str
    path: str
    words: str
    scope: Scope | None = None
    """None: open to all."""
    body: type[BaseModel] | None = None
    status: int = 200
    answer: type[BaseModel] | None = None
    listed: bool = False
    """The answer is a list of it."""
    media: str = "application/json"
    codes: tuple[Code, ...] = ()
    """Refusals beside those of every call."""
    query: tuple[Parameter, ...] = ()


_AFTER: Final = Parameter(
    "after",
    "cursor JOURNAL_ID:SEQ; what follows it is replayed",
    {"type": "string", "pattern": r"^.+:[0-9]+$"},
)
_KINDS: Final = Parameter(
    "kinds",
    "state, messages, live, with commas; state and messages where absent",
    {"type": "string", "enum": ["state", "messages", "state,messages", "state,messages,live"]},
)
_AGENT: Final = (Code.NO_AGENT, Code.AGENT_NOT_RUNNING)

CORE: Final = (
    Route("get", paths.HEALTH, "From memory; needs no token.", answer=Health),
    Route("get", paths.METRICS, "Prometheus text; needs no token.", media="text/plain"),
    Route(
        "put",
        paths.AGENT,
        "Which session is served here, and what to run for it.",
        Scope.CONTROL,
        AgentSpec,
        answer=AgentAnswer,
        codes=(*OF_A_BODY, *OF_THE_JOURNAL, Code.NO_AGENT),
    ),
    Route(
        "get",
        paths.CAPABILITIES,
        "What the agent can do, probed by a real initialize.",
        Scope.READ,
        answer=Capabilities,
    ),
    Route(
        "post",
        paths.START,
        "Open a conversation, new or resumed.",
        Scope.CONTROL,
        StartRequest,
        202,
        Operation,
        codes=(
            *OF_A_BODY,
            *OF_THE_JOURNAL,
            Code.NO_AGENT,
            Code.OPERATION_CONFLICT,
            Code.ID_REUSED,
            Code.WORKSPACE_IN_USE,
        ),
    ),
    Route(
        "post",
        paths.STOP,
        "End the agent gently; the workspace stays served.",
        Scope.CONTROL,
        StopRequest,
        202,
        Operation,
        codes=(*OF_A_BODY, Code.NO_AGENT, Code.ID_REUSED),
    ),
    Route(
        "post",
        paths.PROMPT,
        "Accept a prompt; it goes to the agent in its turn.",
        Scope.PROMPT,
        PromptRequest,
        202,
        PromptAnswer,
        codes=(*OF_A_BODY, *OF_THE_JOURNAL, *_AGENT, Code.ID_REUSED),
    ),
    Route(
        "post",
        paths.CANCEL,
        "Ask the agent to end the live turn.",
        Scope.PROMPT,
        status=202,
        answer=CancelAnswer,
        codes=_AGENT,
    ),
    Route(
        "get",
        paths.PERMISSIONS,
        "The agent's open permission requests.",
        Scope.READ,
        answer=Permission,
        listed=True,
    ),
    Route(
        "post",
        paths.PERMISSIONS + "/{permission_id}",
        "Answer one: an option, or none to refuse.",
        Scope.PROMPT,
        PermissionAnswer,
        202,
        PermissionTaken,
        codes=(*OF_A_BODY, Code.UNKNOWN_PERMISSION, Code.NOT_FOUND),
    ),
    Route("get", paths.STATUS, "Everything there is to know.", Scope.READ, answer=StatusReport),
    Route(
        "get",
        paths.EVENTS,
        "Server-sent events: replay, then live. `data:` is an Event.",
        Scope.READ,
        answer=Event,
        media="text/event-stream",
        codes=(*OF_THE_JOURNAL, Code.NO_AGENT),
        query=(_AFTER, _KINDS),
    ),
)
ROUTES: Final[tuple[Route, ...]] = (*CORE,)


def document() -> Json:
    """The whole document."""
    models = {m for r in ROUTES for m in (r.body, r.answer) if m is not None} | {ErrorBody}
    ordered = sorted(models, key=lambda m: m.__name__)
    _, definitions = models_json_schema(
        [(m, "validation") for m in ordered], ref_template=REFERENCE
    )
    routes: Json = {}
    for route in ROUTES:
        routes.setdefault(route.path, {})[route.method] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kandev agentctl",
            "version": CONTRACT_VERSION,
            "description": "The HTTP part of what agentctl promises to its callers.",
        },
        "paths": routes,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT (EdDSA)"},
                "own": {"type": "apiKey", "in": "header", "name": paths.TOKEN_HEADER},
            },
        },
    }


def text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=2, sort_keys=True) + "\n"


def _operation(route: Route) -> Json:
    told: Json = {
        "operationId": _name(route),
        "summary": route.words,
        "responses": {str(route.status): _good(route), **_refusals(route)},
        "security": [{"token": []}, {"own": []}] if route.scope else [],
    }
    if route.scope is not None:
        told["x-kandev-scope"] = route.scope.value
    if parameters := [*_in_path(route.path), *map(_in_query, route.query)]:
        told["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": _ref(route.body)}}
        told["requestBody"] = {"required": True, "content": content}
    return told


def _name(route: Route) -> str:
    words = [w.strip("{}") for w in route.path.removeprefix("/api/v1").split("/") if w]
    return "_".join([route.method, *words])


def _good(route: Route) -> Json:
    if route.media != "application/json" or route.answer is None:
        return {"description": route.words, "content": {route.media: {"schema": {}}}}
    schema = _ref(route.answer)
    shown = {"type": "array", "items": schema} if route.listed else schema
    return {"description": route.words, "content": {route.media: {"schema": shown}}}


def _refusals(route: Route) -> Json:
    codes = (*OF_EVERY_CALL, *route.codes) if route.scope is not None else route.codes
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS_OF[code], []).append(code.value)
    content = {"application/json": {"schema": _ref(ErrorBody)}}
    return {
        str(status): {"description": ", ".join(sorted(names)), "content": content}
        for status, names in sorted(by_status.items())
    }


def _in_path(path: str) -> Iterable[Json]:
    for word in path.split("/"):
        if word.startswith("{"):
            schema = {"type": "string", "minLength": 1}
            yield {"name": word.strip("{}"), "in": "path", "required": True, "schema": schema}


def _in_query(parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.words,
        "required": parameter.required,
        "schema": dict(parameter.schema),
    }


def _ref(model: type[BaseModel]) -> Json:
    return {"$ref": REFERENCE.format(model=model.__name__)}


def main(argv: Sequence[str] | None = None) -> int:
    """Write the document, or print it."""
    parser = argparse.ArgumentParser(prog="python -m kandev_operator.contract.openapi")
    parser.add_argument("--write", type=Path, metavar="FILE", help="instead of printing it")
    told = parser.parse_args(argv)
    if told.write is None:
        print(text(), end="")
    else:
        told.write.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
