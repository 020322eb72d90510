"""`kubectl kandev jwks`: the public keys by which an agentctl checks who calls it.

The ConfigMap that the operator publishes is enough, and anybody may read it who may read
ConfigMaps there; the Secret is read only where that is missing. Nothing but public members of a
key is ever printed, wherever the text came from.
"""

import json
from typing import Any, Final

from kandev_operator.cli import troubles
from kandev_operator.cli.cluster import Cluster
from kandev_operator.cli.desk import Desk
from kandev_operator.cli.faults import ExitCode, Fault
from kandev_operator.clients import errors, resources
from kandev_operator.clients.guestkey import read_guest_keys
from kandev_operator.clients.signing import JWKS_FILE, JWKS_NAME, read_signing_key
from kandev_operator.clients.tokens import jwks as jwks_document
from kandev_operator.clients.tokens import jwks_text

_PUBLIC: Final = frozenset({"kty", "crv", "x", "kid", "alg", "use", "kandev_scopes"})


async def jwks(desk: Desk) -> ExitCode:
    """Print the keys."""
    text = await _published(desk.cluster, desk.operator_namespace)
    if text is None:
        text = await _derived(desk.cluster, desk.operator_namespace)
    desk.screen.stream(await _with_guests(text, desk.cluster, desk.operator_namespace))
    return ExitCode.OK


async def _published(cluster: Cluster, namespace: str) -> str | None:
    try:
        found = await cluster.kube.get(resources.CONFIG_MAPS, namespace, JWKS_NAME)
    except (errors.NotFound, errors.Forbidden):
        return None
    except errors.KubeError as error:
        raise troubles.of_cluster(error) from error
    text = (found.get("data") or {}).get(JWKS_FILE)
    return public(text) if isinstance(text, str) else None


async def _with_guests(text: str, cluster: Cluster, namespace: str) -> str:
    """The operator's keys and, after them, the gateways', bounded as the operator does it."""
    try:
        guests = await read_guest_keys(cluster.kube, namespace)
    except (errors.ClientError, ValueError):
        return text
    own = json.loads(text)["keys"]
    names = {each.get("kid") for each in own}
    added = [each for each in jwks_document(guests)["keys"] if each["kid"] not in names]
    return json.dumps({"keys": [*own, *added]}, sort_keys=True, indent=2) + "\n" if added else text


async def _derived(cluster: Cluster, namespace: str) -> str:
    try:
        return jwks_text([await read_signing_key(cluster.kube, namespace)])
    except errors.ClientError as error:
        fault = troubles.of_key(error, namespace)
        raise Fault(
            f"the operator's public keys cannot be read: {fault.message}",
            f"Enough is: verb get on ConfigMap {JWKS_NAME} in namespace {namespace}.",
            *fault.hints,
        ) from None


def public(text: str) -> str | None:
    """The document with the public members of its keys alone; None when it is none."""
    try:
        told = json.loads(text)
    except ValueError:
        return None
    listed = told.get("keys") if isinstance(told, dict) else None
    if not isinstance(listed, list):
        return None
    keys: list[dict[str, Any]] = [
        {name: value for name, value in key.items() if name in _PUBLIC}
        for key in listed
        if isinstance(key, dict)
    ]
    return json.dumps({"keys": keys}, sort_keys=True, indent=2) + "\n"
