"""The cookie of who has logged in: sealed, short-lived, and good at every replica.

It holds the person as the cluster named them and when it ends, encrypted and authenticated
(AES-GCM) under a key that follows from the gateway's signing key: so any replica opens it, nobody
else can read or make one, and a rotation of that key logs everybody out. No token is in it. Rights
are not in it either: they are asked for anew.
"""

import base64
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from kandev_operator.clients.tokens import SigningKey
from kandev_operator.gateway.ports import Person

LONGEST_SECONDS: Final = 12 * 3600
_NONCE: Final = 12
_MOST: Final = 3_500
"""Browsers keep 4096 bytes of a cookie."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Makes and opens cookies. `now` gives seconds since the epoch."""

    key: bytes
    now: Callable[[], float]

    @classmethod
    def of(cls, signing: SigningKey, now: Callable[[], float]) -> "Seal":
        """The seal that follows from a signing key."""
        raw = signing.private.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        derive = HKDF(hashes.SHA256(), 32, salt=None, info=b"kandev-gateway cookie v1")
        return cls(derive.derive(raw), now)

    def close(self, person: Person, ends_at: float) -> str | None:
        """A cookie's value; None where the person has too many groups to fit in one."""
        ends = min(ends_at, self.now() + LONGEST_SECONDS)
        told = {
            "u": person.username,
            "i": person.uid,
            "g": person.groups,
            "x": person.extra,
            "e": int(ends),
        }
        nonce = os.urandom(_NONCE)
        sealed = AESGCM(self.key).encrypt(nonce, json.dumps(told).encode(), None)
        value = base64.urlsafe_b64encode(nonce + sealed).decode()
        return value if len(value) <= _MOST else None

    def open(self, value: str) -> Person | None:
        """Who it names; None for one that is forged, broken or over."""
        try:
            data = _bytes(value)
            told = json.loads(AESGCM(self.key).decrypt(data[:_NONCE], data[_NONCE:], None))
        except (ValueError, InvalidTag):
            return None
        if self.now() >= told["e"]:
            return None
        extra = tuple((key, tuple(values)) for key, values in told["x"])
        return Person(told["u"], told["i"], tuple(told["g"]), extra)


def mark(value: str) -> bytes:
    """What tells a cookie from every other, however its text is spelled: its nonce, without which
    it cannot be opened. Raises ValueError for what is no cookie of ours."""
    return _bytes(value)[:_NONCE]


def _bytes(value: str) -> bytes:
    return base64.b64decode(value, altchars=b"-_", validate=True)
