"""The operator's signing key in the cluster: made once, and its public half where agentctl reads.

The private key lives in a Secret that only the operator (and an administrator's kubectl plugin)
reads; whoever creates it first wins, everybody else takes what is there. A Secret that is there
but unusable is never overwritten: tokens in use were signed with something. The public half lives
in a ConfigMap of each namespace that executors mount it from, and is put right when it differs.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kandev_operator.clients import resources
from kandev_operator.clients.errors import AlreadyExists, Conflict, NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.tokens import ALL_SCOPES, SigningKey, jwks_text
from kandev_operator.contract.claims import Scope

SECRET_NAME: Final = "kandev-signing-key"
JWKS_NAME: Final = "kandev-agentctl-jwks"
JWKS_FILE: Final = "jwks.json"
_LABELS: Final = {"app.kubernetes.io/managed-by": "kandev-operator"}
_TRIES: Final = 5


async def read_signing_key(kube: Kube, namespace: str, name: str = SECRET_NAME) -> SigningKey:
    """Read the key. Raises NotFound, or SigningKeyUnusable."""
    secret = await kube.get(resources.SECRETS, namespace, name)
    return SigningKey.from_secret_data(secret.get("data") or {})


async def load_or_create_signing_key(
    kube: Kube, namespace: str, name: str = SECRET_NAME
) -> SigningKey:
    """Read the key, or make it; and publish its public half in the same namespace."""
    key = await read_or_create_key(kube, namespace, name, ALL_SCOPES, _LABELS)
    await publish_jwks(kube, namespace, [key])
    return key


async def read_or_create_key(
    kube: Kube, namespace: str, name: str, scopes: Iterable[Scope], labels: Mapping[str, str]
) -> SigningKey:
    """The key in the Secret of this name; made with these scopes where there is none.

    Of several who make it at once the first wins. Raises ClientError.
    """
    try:
        return await read_signing_key(kube, namespace, name)
    except NotFound:
        key = SigningKey.generate(scopes)
    secret = {
        "metadata": {"name": name, "labels": dict(labels)},
        "type": "Opaque",
        "data": key.to_secret_data(),
    }
    try:
        await kube.create(resources.SECRETS, namespace, secret)
    except AlreadyExists:
        return await read_signing_key(kube, namespace, name)
    return key


async def restore_signing_key(kube: Kube, namespace: str, key: SigningKey) -> bool:
    """Make the Secret again with the key in use, where it was deleted; tells whether it did."""
    try:
        await kube.get(resources.SECRETS, namespace, SECRET_NAME)
    except NotFound:
        body = {"metadata": {"name": SECRET_NAME, "labels": _LABELS}, "data": key.to_secret_data()}
        try:
            await kube.create(resources.SECRETS, namespace, body)
        except AlreadyExists:
            return False
        return True
    return False


async def store_signing_key(
    kube: Kube,
    namespace: str,
    secret: dict[str, Any],
    key: SigningKey,
    annotations: Mapping[str, str],
) -> None:
    """Put a key into the Secret that was read, with these annotations. Raises Conflict where
    somebody wrote in between."""
    meta = secret["metadata"]
    meta = {**meta, "annotations": {**(meta.get("annotations") or {}), **annotations}}
    body = {**secret, "metadata": meta, "data": key.to_secret_data()}
    await kube.replace(resources.SECRETS, namespace, SECRET_NAME, body)


async def publish_jwks(
    kube: Kube, namespace: str, keys: Iterable[SigningKey], name: str = JWKS_NAME
) -> bool:
    """Make the ConfigMap say exactly these keys; tells whether it had to be written."""
    data = {JWKS_FILE: jwks_text(keys)}
    for left in reversed(range(_TRIES)):
        try:
            return await _publish_once(kube, namespace, name, data)
        except (AlreadyExists, Conflict, NotFound):
            # Another operator publishes too, or somebody cleans up: look again.
            if not left:
                raise
    raise AssertionError("the last try either returns or raises")


async def _publish_once(kube: Kube, namespace: str, name: str, data: dict[str, str]) -> bool:
    try:
        found: dict[str, Any] = await kube.get(resources.CONFIG_MAPS, namespace, name)
    except NotFound:
        made = {"metadata": {"name": name, "labels": _LABELS}, "data": data}
        await kube.create(resources.CONFIG_MAPS, namespace, made)
        return True
    if found.get("data") == data:
        return False
    await kube.replace(resources.CONFIG_MAPS, namespace, name, {**found, "data": data})
    return True
