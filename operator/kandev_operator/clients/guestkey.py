"""The gateway's signing key in the cluster: made once, its public half where the operator reads.

A key of its own, so that the operator's is never shared, with scopes that do not hold `control`:
whoever has it can talk to agents and neither start nor stop one. The private key lives in a Secret
that only gateways read; whichever replica creates it first wins. The public half is a ConfigMap in
the operator's namespace, from which the operator takes it into the lists that agentctl reads,
cutting its scopes down whatever it claims.
"""

import json
from typing import Final

from kandev_operator.clients import resources
from kandev_operator.clients.errors import NotFound
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import JWKS_FILE, publish_jwks, read_or_create_key
from kandev_operator.clients.tokens import GuestKey, SigningKey
from kandev_operator.contract.claims import Scope

SECRET_NAME: Final = "kandev-gateway-signing-key"
KEYS_NAME: Final = "kandev-gateway-keys"
SCOPES: Final = (Scope.READ, Scope.PROMPT, Scope.FILES, Scope.SHELL)
AT_MOST: Final = 4
"""Keys that are listed: one that signs and one beside it, of two gateways at most."""
_LABELS: Final = {"app.kubernetes.io/managed-by": "kandev-gateway"}


async def load_or_create_guest_key(kube: Kube, namespace: str) -> SigningKey:
    """Read the gateway's key, or make it; and publish its public half. Raises ClientError."""
    key = await read_or_create_key(kube, namespace, SECRET_NAME, SCOPES, _LABELS)
    await publish_jwks(kube, namespace, [key], KEYS_NAME)
    return key


async def read_guest_keys(kube: Kube, namespace: str) -> tuple[GuestKey, ...]:
    """The public keys that gateways have laid out; none is no fault.

    Raises ClientError, and ValueError where what lies there is no list of keys.
    """
    try:
        found = await kube.get(resources.CONFIG_MAPS, namespace, KEYS_NAME)
    except NotFound:
        return ()
    return guests_of((found.get("data") or {}).get(JWKS_FILE) or "{}")


def guests_of(text: str) -> tuple[GuestKey, ...]:
    """The keys of a JWKS, none of them with scope `control`. Raises ValueError."""
    told = json.loads(text)
    listed = told.get("keys", []) if isinstance(told, dict) else None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise ValueError("it is no list of keys")
    return tuple(GuestKey.of(each, SCOPES) for each in listed[:AT_MOST])
