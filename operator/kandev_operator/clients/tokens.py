"""Who we are to an agentctl: signing keys, the public keys it checks by, and tokens.

A `SigningKey` is an Ed25519 key with the scopes it may grant; its `kid` is a prefix of the RFC
7638 thumbprint, so equal keys have equal names everywhere. While keys are rotated, one beside it is
`retired` (the next one before its time, then the one before): it signs nothing, and `jwks`, which
agentctl reads, lists it. A
`Minter` signs short-lived tokens and hands the same one out again for half its life, because
signing costs more than the rest of a call does.

Where keys are stored is `signing`'s business; nothing here is read from or written to anywhere.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from kandev_operator.clients.errors import SigningKeyUnusable
from kandev_operator.contract.claims import ALGORITHM, ISSUER_OPERATOR, Claims, Scope

SECRET_KEY: Final = "signing-key.pem"
SECRET_RETIRED_KEY: Final = "retired-key.pem"
SECRET_SCOPES: Final = "scopes"
ALL_SCOPES: Final = tuple(Scope)
DEFAULT_LIFETIME: Final = 300
_KID_CHARS: Final = 16
_CACHED: Final = 20_000
_X: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class SigningKey:
    """A private key and what tokens signed with it may allow."""

    private: Ed25519PrivateKey = field(repr=False, compare=False)
    kid: str
    scopes: tuple[Scope, ...] = ALL_SCOPES
    retired: "tuple[SigningKey, ...]" = ()

    @classmethod
    def generate(cls, scopes: Iterable[Scope] = ALL_SCOPES) -> Self:
        """Make a new key."""
        return cls._of(Ed25519PrivateKey.generate(), scopes)

    @classmethod
    def from_secret_data(cls, data: Mapping[str, str]) -> Self:
        """Read a Secret's `data`. Raises SigningKeyUnusable, without quoting any of it."""
        listed = _decoded(data, SECRET_SCOPES).decode("utf-8", "replace").split()
        try:
            scopes = [Scope(word) for word in listed] or ALL_SCOPES
        except ValueError:
            scopes = []
        if not scopes:
            raise SigningKeyUnusable(f"its {SECRET_SCOPES} names a scope that does not exist")
        retired: tuple[Self, ...] = ()
        if data.get(SECRET_RETIRED_KEY):
            retired = (cls._of(_private(data, SECRET_RETIRED_KEY), scopes),)
        return cls._of(_private(data, SECRET_KEY), scopes, retired)

    def to_secret_data(self) -> dict[str, str]:
        """What to store as a Secret's `data`."""
        pem = self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        scopes = " ".join(self.scopes)
        data = {SECRET_KEY: _b64(pem), SECRET_SCOPES: _b64(scopes.encode())}
        if self.retired:
            data[SECRET_RETIRED_KEY] = self.retired[0].to_secret_data()[SECRET_KEY]
        return data

    def beside(self, other: "SigningKey | None") -> "SigningKey":
        """This key, with that one listed beside it, and no further one."""
        bare = (replace(other, retired=()),) if other is not None else ()
        return replace(self, retired=bare)

    def jwk(self) -> dict[str, Any]:
        """The public half, as agentctl reads it."""
        return {
            **_public_members(self.private),
            "kid": self.kid,
            "alg": ALGORITHM,
            "use": "sig",
            "kandev_scopes": [*self.scopes],
        }

    @classmethod
    def _of(
        cls, private: Ed25519PrivateKey, scopes: Iterable[Scope], retired: "tuple[Self, ...]" = ()
    ) -> Self:
        return cls(private, _thumbprint(private)[:_KID_CHARS], tuple(scopes), retired)


@dataclass(frozen=True)
class GuestKey:
    """The public half of somebody else's key, and what tokens signed with it may allow."""

    kid: str
    x: str
    """The key itself, as RFC 8037 writes it."""
    scopes: tuple[Scope, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any], granted: Iterable[Scope]) -> Self:
        """Read one out of a JWKS: its name follows from the key, and no scope goes beyond what is
        granted, whatever it claims. Raises ValueError, without quoting any of it."""
        members = {"crv": "Ed25519", "kty": "OKP", "x": told.get("x")}
        if any(told.get(name) != members[name] for name in ("crv", "kty")):
            raise ValueError("a key is not an Ed25519 key")
        x = members["x"]
        if not isinstance(x, str) or not _X.fullmatch(x):
            raise ValueError("a key has no value of 32 bytes")
        claimed = told.get("kandev_scopes")
        listed = claimed if isinstance(claimed, list) else []
        scopes = tuple(scope for scope in granted if scope.value in listed)
        return cls(_thumbprint_of(members)[:_KID_CHARS], x, scopes)

    @property
    def retired(self) -> "tuple[GuestKey, ...]":
        """Its owner lists the other one itself."""
        return ()

    def jwk(self) -> dict[str, Any]:
        """As agentctl reads it."""
        return {
            **{"crv": "Ed25519", "kty": "OKP", "x": self.x},
            **{"kid": self.kid, "alg": ALGORITHM, "use": "sig"},
            "kandev_scopes": [*self.scopes],
        }


def jwks(keys: Iterable[SigningKey | GuestKey]) -> dict[str, Any]:
    """The document that agentctl checks tokens by: public keys and the scopes of each.

    Where two have one name the first holds, so that no guest takes the place of our own.
    """
    by_kid: dict[str, SigningKey | GuestKey] = {}
    for key in keys:
        for each in (key, *key.retired):
            by_kid.setdefault(each.kid, each)
    return {"keys": [by_kid[kid].jwk() for kid in sorted(by_kid)]}


def jwks_text(keys: Iterable[SigningKey | GuestKey]) -> str:
    """The same as text; equal keys make equal text."""
    return json.dumps(jwks(keys), sort_keys=True, indent=2) + "\n"


class Minter:
    """Signs tokens with one key. `clock` gives seconds since the epoch."""

    def __init__(
        self, key: SigningKey, clock: Callable[[], float], issuer: str = ISSUER_OPERATOR
    ) -> None:
        self._key = key
        self._clock = clock
        self._issuer = issuer
        self._cache: dict[tuple[object, ...], tuple[float, str]] = {}

    @property
    def key(self) -> SigningKey:
        """What signs."""
        return self._key

    @property
    def kid(self) -> str:
        """Which key signs."""
        return self._key.kid

    def use(self, key: SigningKey) -> None:
        """Sign with this one from now on; tokens that were handed out are good until their end."""
        self._key = key
        self._cache.clear()

    def mint(
        self,
        audience: str,
        scopes: Iterable[Scope],
        session: str | None = None,
        term: int | None = None,
        epoch: int | None = None,
        lifetime: int = DEFAULT_LIFETIME,
    ) -> str:
        """A token for one audience, new or at most half its life old."""
        granted = tuple(sorted(set(scopes)))
        wanted = (audience, granted, session, term, epoch, lifetime)
        now = self._clock()
        known = self._cache.get(wanted)
        # A clock that was set back makes what is kept look too new: then it is not used either.
        if known is not None and 0 <= now - known[0] < lifetime / 2:
            return known[1]
        claims = Claims(
            iss=self._issuer,
            aud=audience,
            iat=int(now),
            exp=int(now) + lifetime,
            scopes=granted,
            session=session,
            term=term,
            epoch=epoch,
        )
        token = jwt.encode(
            claims.model_dump(mode="json", exclude_none=True),
            self._key.private,
            algorithm=ALGORITHM,
            headers={"kid": self._key.kid},
        )
        self._make_room(now)
        self._cache[wanted] = (now, token)
        return token

    def _make_room(self, now: float) -> None:
        if len(self._cache) < _CACHED:
            return
        fresh = {
            wanted: kept
            for wanted, kept in self._cache.items()
            if 0 <= now - kept[0] < DEFAULT_LIFETIME / 2
        }
        self._cache = fresh if len(fresh) < _CACHED else {}


def _decoded(data: Mapping[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(data.get(name, ""), validate=True)
    except (ValueError, TypeError):
        problem = f"its {name} is not base64"
    raise SigningKeyUnusable(problem)


def _private(data: Mapping[str, str], name: str) -> Ed25519PrivateKey:
    try:
        private = load_pem_private_key(_decoded(data, name), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        problem = f"its {name} is no private key in PEM ({type(error).__name__})"
    else:
        if isinstance(private, Ed25519PrivateKey):
            return private
        problem = f"its {name} is not an Ed25519 key"
    raise SigningKeyUnusable(problem)


def _public_members(private: Ed25519PrivateKey) -> dict[str, str]:
    raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {"crv": "Ed25519", "kty": "OKP", "x": _b64url(raw)}


def _thumbprint(private: Ed25519PrivateKey) -> str:
    """RFC 7638: the hash of the required members alone, in order and without blanks."""
    return _thumbprint_of(_public_members(private))


def _thumbprint_of(members: Mapping[str, Any]) -> str:
    text = json.dumps(members, sort_keys=True, separators=(",", ":"))
    return _b64url(hashlib.sha256(text.encode()).digest())


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
