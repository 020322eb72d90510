"""The HTTP API as an OpenAPI document, made from the table of actions. Pure."""

from typing import Any

from kandev_operator import __version__
from kandev_operator.gateway.actions.table import TABLE
from kandev_operator.gateway.wire.envelope import ErrorBody

_REF = "#/components/schemas/{model}"


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    schemas: dict[str, Any] = {}

    def named(model: Any) -> dict[str, str]:
        schema = model.model_json_schema(ref_template=_REF)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
        return {"$ref": _REF.format(model=model.__name__)}

    refusal = {"application/json": {"schema": named(ErrorBody)}}
    paths: dict[str, Any] = {
        f"/api/v1/actions/{action.value}": {
            "post": {
                "operationId": action.value,
                "summary": (entry.run.__doc__ or "").strip().splitlines()[0],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": named(entry.payload)}},
                },
                "responses": {
                    "200": {
                        "description": "Done.",
                        "content": {"application/json": {"schema": {"type": "object"}}},
                    },
                    "default": {"description": "Refused.", "content": refusal},
                },
            }
        }
        for action, entry in TABLE.items()
    }
    paths["/api/v1/sessions/{uid}/download"] = {
        "get": {
            "operationId": "download",
            "summary": "A file of the workspace, as an attachment.",
            "parameters": [
                {"name": "uid", "in": "path", "required": True, "schema": {"type": "string"}},
                {"name": "path", "in": "query", "required": True, "schema": {"type": "string"}},
            ],
            "responses": {
                "200": {
                    "description": "Its bytes.",
                    "content": {"application/octet-stream": {"schema": {"type": "string"}}},
                },
                "default": {"description": "Refused.", "content": refusal},
            },
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "kandev-gateway", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas},
    }
