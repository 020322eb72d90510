"""Does the cluster serve the schema that this operator writes?

An older CRD would refuse (or, without strict validation, silently drop) fields of status. The
served schema is read from /openapi/v3, which needs no role, and compared with what the models
would generate; what is missing is named. An operator with such a cluster is not ready and does
not lead: half a status is worse than none.
"""

from collections.abc import Iterator
from typing import Any

from kandev_operator.api import crd, group
from kandev_operator.clients.errors import ClientError, NotFound
from kandev_operator.clients.kube import Kube

_PATH = f"/openapi/v3/apis/{group.GROUP}/{group.VERSION}"
_SHOWN = 5


async def problem(kube: Kube) -> str | None:
    """What is wrong with the served schema, in one sentence; None when it is right."""
    try:
        served = await kube.raw_get(_PATH)
    except NotFound:
        return f"The API server does not serve {group.API_VERSION}: apply crds/ first."
    except (ClientError, TimeoutError) as error:
        return f"The served schema cannot be read: {type(error).__name__}."
    schemas = (served.get("components") or {}).get("schemas") or {}
    missing: list[str] = []
    for kind in crd.KINDS:
        theirs = _of_kind(schemas, kind.resource.kind)
        if theirs is None:
            return f"The API server does not serve {kind.resource.kind}: apply crds/ first."
        missing += _missing(_expected(crd.definition(kind)), theirs, kind.resource.kind)
    if not missing:
        return None
    shown = ", ".join(missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return f"The cluster's CRDs are older than this operator: {shown}{more} missing. Apply crds/."


def _of_kind(schemas: dict[str, Any], kind: str) -> dict[str, Any] | None:
    for schema in schemas.values():
        for named in schema.get("x-kubernetes-group-version-kind") or ():
            wanted = (group.GROUP, group.VERSION, kind)
            if (named.get("group"), named.get("version"), named.get("kind")) == wanted:
                return dict(schema)
    return None


def _expected(definition: dict[str, Any]) -> dict[str, Any]:
    for version in definition["spec"]["versions"]:
        if version["name"] == group.VERSION:
            return dict(version["schema"]["openAPIV3Schema"])
    raise AssertionError("the generator makes the version that this operator writes")


def _missing(ours: dict[str, Any], theirs: dict[str, Any], path: str) -> Iterator[str]:
    """Fields of ours that the served schema lacks, by path."""
    properties = theirs.get("properties") or {}
    for name, schema in (ours.get("properties") or {}).items():
        if path.count(".") == 0 and name in ("metadata", "apiVersion", "kind"):
            continue
        if name not in properties:
            if not theirs.get("x-kubernetes-preserve-unknown-fields"):
                yield f"{path}.{name}"
            continue
        yield from _missing(schema, properties[name], f"{path}.{name}")
    if "items" in ours and "items" in theirs:
        yield from _missing(ours["items"], theirs["items"], f"{path}[]")
