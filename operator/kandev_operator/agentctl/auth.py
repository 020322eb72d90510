"""Who calls, and what the call may do: a short-lived token, signed by a known key.

The keys come from a file that is read again when it changes or when an unknown key id turns up. A
token's scopes count only as far as its key may grant them. A genuine token whose time is off is
named as clock skew, with the seconds; of a forged one nothing is said. Terms and epochs are the
machine's business.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from kandev_operator.contract.claims import ALGORITHM, LEEWAY_SECONDS, Claims, Scope
from kandev_operator.contract.errors import Code
from kandev_operator.contract.paths import TOKEN_HEADER, TOKEN_SUBPROTOCOL

if TYPE_CHECKING:
    from jwt import PyJWK

MAX_TOKEN_CHARS: Final = 8192
TOKEN: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at the file for unknown key ids: no stranger can keep us busy."""


class Denied(Exception):
    """The call is not allowed."""

    def __init__(self, code: Code, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.details = code, message, details or {}


@dataclass(frozen=True, slots=True)
class Key:
    """A public key, and the scopes that it may grant."""

    jwk: "PyJWK"
    scopes: frozenset[str]


class KeySet:
    """The keys of the file."""

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._monotonic = monotonic
        self._keys: dict[str, Key] = {}
        self._seen: tuple[int, int, int] | None = None
        self._looked_at = float("-inf")

    def get(self, kid: str) -> Key | None:
        self._refresh()
        if kid not in self._keys and self._monotonic() - self._looked_at >= LOOK_AGAIN:
            self._seen = None
            self._refresh()
        return self._keys.get(kid)

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
            # A ConfigMap is swapped by symlink, so the inode tells when times do not.
            seen = (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            if seen == self._seen:
                return
            self._looked_at = self._monotonic()
            found = json.loads(self._path.read_bytes())
            self._keys = dict(_keys(found))
            self._seen = seen
        except (OSError, ValueError, TypeError, AttributeError):
            # Half a file, or none for a moment: what was known goes on being known.
            return


def _keys(found: Any) -> "list[tuple[str, Key]]":
    from jwt import PyJWK
    from jwt.exceptions import PyJWKError

    keys = []
    for entry in found["keys"]:
        if not isinstance(entry, dict) or entry.get("kty") != "OKP":
            continue
        kid, scopes = entry.get("kid"), entry.get("kandev_scopes")
        if not isinstance(kid, str) or not isinstance(scopes, list):
            continue
        try:
            jwk = PyJWK({k: v for k, v in entry.items() if k != "d"}, algorithm=ALGORITHM)
        except (PyJWKError, ValueError, TypeError):
            continue
        keys.append((kid, Key(jwk, frozenset(str(s) for s in scopes))))
    return keys


class Authenticator:
    """Turns the headers of a call into claims whose scopes are bounded by their key."""

    def __init__(self, keys: KeySet, audience: str, clock: Callable[[], float] = time.time) -> None:
        self._keys, self._audience, self._clock = keys, audience, clock

    def claims(self, headers: Mapping[str, str]) -> Claims:
        """Raises Denied."""
        import jwt

        text = bearer(headers)
        try:
            kid = jwt.get_unverified_header(text).get("kid")
            key = self._keys.get(kid) if isinstance(kid, str) else None
            if key is None:
                raise Denied(Code.UNAUTHORIZED, "the token is signed by an unknown key")
            payload = jwt.decode(
                text,
                key.jwk.key,
                algorithms=[ALGORITHM],
                audience=self._audience,
                # Times are compared below, where a skew can be measured and named.
                options={
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "require": ["exp", "iat", "aud", "iss"],
                },
            )
            told = payload.get("scopes")
            if not isinstance(told, list):
                raise ValueError("scopes are a list")
            payload["scopes"] = [s for s in told if s in key.scopes]
            claims = Claims.model_validate(payload)
        except (jwt.PyJWTError, ValidationError, ValueError, TypeError):
            raise Denied(Code.UNAUTHORIZED, "the token is not valid here") from None
        self._check_time(claims)
        return claims

    def _check_time(self, claims: Claims) -> None:
        now = self._clock()
        if claims.iat - now > LEEWAY_SECONDS:
            skew = claims.iat - now
        elif now - claims.exp > LEEWAY_SECONDS:
            skew = claims.exp - now
        else:
            return
        raise Denied(
            Code.CLOCK_SKEW,
            "the token is genuine, but its time is off by more than the leeway",
            {"skew_seconds": round(skew)},
        )


def bearer(headers: Mapping[str, str]) -> str:
    """The token of a call; raises Denied. Never quoted, whatever is wrong with it."""
    own = headers.get(TOKEN_HEADER.lower()) or _offered(headers)
    if own is None:
        scheme, _, own = (headers.get("authorization") or "").partition(" ")
        if scheme.lower() != "bearer":
            raise Denied(Code.UNAUTHORIZED, "a token is needed")
    token = own.strip()
    if len(token) > MAX_TOKEN_CHARS or not TOKEN.fullmatch(token):
        raise Denied(Code.UNAUTHORIZED, "the token is not a token")
    return token


def _offered(headers: Mapping[str, str]) -> str | None:
    """The token among the subprotocols of a WebSocket: all that a browser's can bring along."""
    for entry in (headers.get("sec-websocket-protocol") or "").split(","):
        if entry.strip().startswith(TOKEN_SUBPROTOCOL):
            return entry.strip().removeprefix(TOKEN_SUBPROTOCOL)
    return None


def require(claims: Claims, scope: Scope) -> None:
    """Raises Denied unless the claims have the scope."""
    if scope not in claims.scopes:
        raise Denied(Code.FORBIDDEN_SCOPE, f"the call needs scope {scope}", {"needs": scope.value})
