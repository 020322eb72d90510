"""Tokens for the calls: signed with a key of the target's, or made beforehand by its owner.

With a private key every check can be tried, bad tokens included. With ready tokens only those can
that need no special claims; the others are not applicable.
"""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from kandev_operator.contract.claims import ALGORITHM, ISSUER_OPERATOR

LIFETIME: Final = 120
KID_CHARS: Final = 16


class Unusable(Exception):
    """The key or the tokens cannot be used; the text says why and quotes nothing of them."""


class CannotSign(Exception):
    """Ready tokens cannot be changed, so what was asked cannot be tried."""


class Credentials(Protocol):
    """Where tokens come from."""

    def token(self, scopes: Iterable[str], **changes: Any) -> str:
        """A token with these scopes; `changes` replace claims, None leaves one out."""
        ...

    def forged(self, how: str) -> str:
        """A token that is none: `none`, `hs256`, `tampered` or `unknown-key`."""
        ...


class KeyCredentials:
    """Signs with an Ed25519 key: PEM (PKCS8), or a JWK with `d`."""

    def __init__(self, path: Path, audience: str, kid: str | None = None) -> None:
        self._key, told = _read(path)
        x = _b64(self._key.public_key().public_bytes_raw())
        members = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": x}, separators=(",", ":"))
        thumbprint = _b64(hashlib.sha256(members.encode()).digest())
        self._kid = kid or told or thumbprint[:KID_CHARS]
        self._audience = audience

    def claims(self, scopes: Iterable[str], **changes: Any) -> dict[str, Any]:
        """What a token says."""
        now = int(time.time())
        bare: dict[str, Any] = {
            "iss": ISSUER_OPERATOR,
            "aud": self._audience,
            "iat": now,
            "exp": now + LIFETIME,
            "scopes": [*scopes],
        }
        return {k: v for k, v in {**bare, **changes}.items() if v is not None}

    def token(self, scopes: Iterable[str], **changes: Any) -> str:
        return self._sign(self._key, self.claims(scopes, **changes))

    def forged(self, how: str) -> str:
        claims = self.claims(("read", "prompt", "control"), term=2**40, epoch=2**40)
        head = {"kid": self._kid, "typ": "JWT"}
        match how:
            case "none":
                return f"{_part({**head, 'alg': 'none'})}.{_part(claims)}.AA"
            case "hs256":
                # The old trick: the public key, which everybody has, taken for a shared secret.
                signed = f"{_part({**head, 'alg': 'HS256'})}.{_part(claims)}"
                secret = self._key.public_key().public_bytes_raw()
                return f"{signed}.{_b64(hmac.digest(secret, signed.encode(), 'sha256'))}"
            case "tampered":
                first, _, signature = self._sign(self._key, self.claims(("read",))).split(".")
                return f"{first}.{_part(claims)}.{signature}"
            case _:
                return self._sign(Ed25519PrivateKey.generate(), claims)

    def _sign(self, key: Ed25519PrivateKey, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"kid": self._kid})


class TokenCredentials:
    """Ready tokens by scope, from a JSON object: {"read": "...", "prompt": "...", ...}."""

    def __init__(self, path: Path) -> None:
        try:
            told = json.loads(path.read_bytes())
        except (OSError, ValueError) as exc:
            raise Unusable(f"the tokens cannot be read: {type(exc).__name__}") from None
        if not isinstance(told, dict) or not all(isinstance(v, str) for v in told.values()):
            raise Unusable("the tokens are a JSON object of scope and token")
        self._tokens: dict[str, str] = told

    def token(self, scopes: Iterable[str], **changes: Any) -> str:
        wanted = set(scopes)
        name = "control" if "control" in wanted else next(iter(sorted(wanted)), "")
        # Term and epoch are what they are in a ready token; only their absence cannot be made.
        special = {k for k, v in changes.items() if k not in ("term", "epoch") or v is None}
        if special or name not in self._tokens:
            raise CannotSign("a token of special claims is needed, and there is no key to sign it")
        return self._tokens[name]

    def forged(self, how: str) -> str:
        raise CannotSign("a forged token is needed, and there is no key to make it from")


def _read(path: Path) -> tuple[Ed25519PrivateKey, str | None]:
    try:
        data = path.read_bytes()
        if data.lstrip().startswith(b"{"):
            jwk = json.loads(data)
            raw = base64.urlsafe_b64decode(jwk["d"] + "==")
            return Ed25519PrivateKey.from_private_bytes(raw), jwk.get("kid")
        key = load_pem_private_key(data, password=None)
    except (OSError, ValueError, TypeError, KeyError) as exc:
        raise Unusable(f"the key cannot be read: {type(exc).__name__}") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise Unusable("the key is not an Ed25519 key")
    return key, None


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _part(claims: dict[str, Any]) -> str:
    return _b64(json.dumps(claims, separators=(",", ":")).encode())
