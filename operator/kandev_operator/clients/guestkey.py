"""The gateway's signing key in the cluster: made once, its public half where the operator reads.

A key of its own, so that the operator's is never shared, with scopes that do not hold `control`:
whoever has it can talk to agents and neither start nor stop one. The private key lives in a Secret
that only gateways read; whichever replica creates it first wins. The public half is a ConfigMap in
the operator's namespace, from which the operator takes it into the lists that agentctl reads,
cutting its scopes down whatever it claims.
"""

from typing import Final

from kandev_operator.clients import resources
from kandev_operator.clients.errors import AlreadyExists, NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import publish_jwks, read_signing_key
from kandev_operator.clients.tokens import SigningKey
from kandev_operator.contract.claims import Scope

SECRET_NAME: Final = "kandev-gateway-signing-key"
KEYS_NAME: Final = "kandev-gateway-keys"
SCOPES: Final = (Scope.READ, Scope.PROMPT, Scope.FILES, Scope.SHELL)
_LABELS: Final = {"app.kubernetes.io/managed-by": "kandev-gateway"}


async def load_or_create_guest_key(kube: Kube, namespace: str) -> SigningKey:
    """Read the gateway's key, or make it; and publish its public half. Raises ClientError."""
    try:
        key = await read_signing_key(kube, namespace, SECRET_NAME)
    except NotFound:
        key = await _create(kube, namespace)
    await publish_jwks(kube, namespace, [key], KEYS_NAME)
    return key


async def _create(kube: Kube, namespace: str) -> SigningKey:
    key = SigningKey.generate(SCOPES)
    secret = {
        "metadata": {"name": SECRET_NAME, "labels": _LABELS},
        "type": "Opaque",
        "data": key.to_secret_data(),
    }
    try:
        await kube.create(resources.SECRETS, namespace, secret)
    except AlreadyExists:
        return await read_signing_key(kube, namespace, SECRET_NAME)
    return key
