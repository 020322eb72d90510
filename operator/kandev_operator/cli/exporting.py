"""`kubectl kandev export`: a namespace's objects, ready to be applied where they are not any more.

A backup in one stream of YAML: what people and Git wrote, without what the cluster and the
operator added to it, in an order in which they may be applied. Each session names the claim with
its files (`workspace.claimName`), so that the session that is made of it adopts them, with the
conversation. What is made for a session is made again and therefore left out; so are wishes, which
were of their moment, and Secrets unless they are asked for. Files are not in it: they are the
storage's to back up. Pure but for the reading at the end.
"""

import copy
from collections.abc import Iterator
from typing import Any, Final

import yaml

from kandev_operator.api import group
from kandev_operator.cli import troubles
from kandev_operator.cli.commands import Export
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode
from kandev_operator.clients import errors, resources
from kandev_operator.clients.resources import Resource

Object = dict[str, Any]

_KINDS: Final = (
    resources.AGENT_PROFILES,
    resources.TASKS,
    resources.EXECUTORS,
    resources.TASK_SESSIONS,
)
_KEPT: Final = ("name", "namespace", "labels", "annotations")
_MOMENTARY: Final = frozenset(
    {
        group.ANNOTATION_RESUME_REQUESTED,
        group.ANNOTATION_FRESH_START_REQUESTED,
        group.ANNOTATION_CONFIRMED_DEAD,
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)
_FIXED_BY_A_CLAIM: Final = ("size", "storageClassName", "accessModes")
_NAMES: Final = {
    # Under this key stands a reference; its name is under that one.
    "secretKeyRef": (resources.SECRETS, "name"),
    "credentialsSecretRef": (resources.SECRETS, "name"),
    "secretRef": (resources.SECRETS, "name"),
    "secret": (resources.SECRETS, "secretName"),
    "configMapKeyRef": (resources.CONFIG_MAPS, "name"),
    "configMapRef": (resources.CONFIG_MAPS, "name"),
    "configMap": (resources.CONFIG_MAPS, "name"),
}


async def export(desk: Desk, command: Export) -> ExitCode:
    """Write the objects of the namespace; what else a backup needs is told beside it."""
    found: list[Object] = []
    for resource in _KINDS:
        found += [each for each in await _all(desk, resource) if is_worth_keeping(each)]
    written = [bare(each) for each in found]
    wanted = (resources.SECRETS, resources.CONFIG_MAPS) if command.secrets else ()
    for resource, name in sorted(named(written), key=lambda each: (each[0].plural, each[1])):
        if resource in wanted:
            body = await _one(desk, resource, name)
            written[:0] = [bare(body)] if body is not None else []
    desk.screen.stream(yaml.safe_dump_all(written, sort_keys=False, allow_unicode=True))
    for line in remarks(found, with_secrets=command.secrets):
        desk.screen.note(line)
    return ExitCode.OK


def is_worth_keeping(body: Object) -> bool:
    """Not on its way out, and not made by the operator for something else."""
    meta = body["metadata"]
    made = any(each.get("controller") for each in meta.get("ownerReferences") or ())
    return not made and "deletionTimestamp" not in meta


def bare(body: Object) -> Object:
    """What was applied once: no status, no UID, no version, no owner."""
    kept: Object = {key: copy.deepcopy(body[key]) for key in body if key != "status"}
    meta = {key: body["metadata"][key] for key in _KEPT if key in body["metadata"]}
    notes = {
        key: value
        for key, value in (meta.pop("annotations", None) or {}).items()
        if key not in _MOMENTARY
    }
    kept["metadata"] = {**meta, **({"annotations": notes} if notes else {})}
    if kept.get("kind") == group.TASK_SESSION:
        _name_the_claim(kept, body.get("status") or {})
    return kept


def _name_the_claim(body: Object, status: Object) -> None:
    """The session that is made of this adopts the files of the one that it was."""
    ref = status.get("workspaceRef") or {}
    if ref.get("kind") != resources.PERSISTENT_VOLUME_CLAIMS.kind or not ref.get("name"):
        return
    workspace = dict(body["spec"].get("workspace") or {})
    for key in _FIXED_BY_A_CLAIM:
        workspace.pop(key, None)
    body["spec"]["workspace"] = {**workspace, "claimName": ref["name"], "policy": "Retain"}


def named(bodies: list[Object]) -> set[tuple[Resource, str]]:
    """The Secrets and ConfigMaps that these objects name."""
    return set(_references(bodies))


def _references(part: Any) -> Iterator[tuple[Resource, str]]:
    if isinstance(part, list):
        for each in part:
            yield from _references(each)
    if not isinstance(part, dict):
        return
    for key, value in part.items():
        if key == "imagePullSecrets" and isinstance(value, list):
            yield from ((resources.SECRETS, each["name"]) for each in value if "name" in each)
        resource, name = _NAMES.get(key, (None, ""))
        if resource is not None and isinstance(value, dict) and name in value:
            yield resource, str(value[name])
        yield from _references(value)


def remarks(found: list[Object], *, with_secrets: bool) -> Iterator[str]:
    """What is not in the backup, and where it is."""
    sessions = [each for each in found if each["kind"] == group.TASK_SESSION]
    yield f"{len(found)} objects, of which {len(sessions)} are sessions."
    claims: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for each in sessions:
        ref = (each.get("status") or {}).get("workspaceRef") or {}
        is_claim = ref.get("kind") == resources.PERSISTENT_VOLUME_CLAIMS.kind
        if ref:
            row = (str(each["metadata"]["name"]), str(ref.get("name")))
            (claims if is_claim else others).append(row)
    if claims:
        listed = ", ".join(name for _, name in claims)
        yield f"Back up beside it, with your storage's own means, the claims {listed}."
    for session, place in others:
        yield f"The files of session {session} are where executor {place} works."
    if not with_secrets and named([bare(each) for each in found]):
        yield "Secrets and ConfigMaps that are named in it are not in it (--secrets)."


async def _all(desk: Desk, resource: Resource) -> list[Object]:
    try:
        found, _ = await desk.cluster.kube.list(resource, desk.cluster.namespace)
    except errors.KubeError as error:
        raise troubles.of_cluster(error) from error
    about = {"apiVersion": resource.api_version, "kind": resource.kind}
    return [{**about, **each} for each in found]


async def _one(desk: Desk, resource: Resource, name: str) -> Object | None:
    try:
        body = await desk.cluster.kube.get(resource, desk.cluster.namespace, name)
    except errors.NotFound:
        desk.screen.note(f"{resource.kind} {name}, which is named, does not exist.")
        return None
    except errors.KubeError as error:
        raise troubles.of_object(error, "get", resource, desk.cluster.namespace, name) from error
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}
