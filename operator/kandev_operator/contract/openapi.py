"""The HTTP part of contract v1 as an OpenAPI document, made from the contract's own models.

`python -m kandev_operator.contract.openapi --write FILE` writes what is committed beside this
file; a test compares. The calls are those of the table in `routes`, what their bodies hold is said
by the models alone. WebSockets are not OpenAPI's business.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from kandev_operator.contract import paths
from kandev_operator.contract.errors import STATUS_OF, ErrorBody
from kandev_operator.contract.route import Parameter, Route
from kandev_operator.contract.routes import OF_EVERY_CALL, ROUTES
from kandev_operator.contract.version import CONTRACT_VERSION

Json = dict[str, Any]
BYTES: Final = "application/octet-stream"
REFERENCE: Final = "#/components/schemas/{model}"


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
        "responses": {
            **{str(status): _good(route) for status in (route.status, route.also) if status},
            **_refusals(route),
        },
        "security": [{"token": []}, {"own": []}] if route.scope else [],
    }
    if route.scope is not None:
        told["x-kandev-scope"] = route.scope.value
    if parameters := [*_in_path(route.path), *map(_in_query, route.query)]:
        told["parameters"] = parameters
    if route.body is not None:
        content = {"application/json": {"schema": _ref(route.body)}}
        told["requestBody"] = {"required": not route.optional, "content": content}
    elif route.raw:
        told["requestBody"] = {"required": True, "content": {BYTES: {"schema": {}}}}
    return told


def _name(route: Route) -> str:
    words = [w.strip("{}") for w in route.path.removeprefix("/api/v1").split("/") if w]
    return "_".join([route.method, *words])


def _good(route: Route) -> Json:
    if route.status == 204:
        return {"description": route.words}
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
