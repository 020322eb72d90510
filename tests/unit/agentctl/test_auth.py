"""Tokens and keys: genuine or not, in time or not, for how much."""

import base64
import json
import os
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kandev_operator.agentctl.auth import Authenticator, Denied, KeySet, require
from kandev_operator.contract.claims import Scope

NOW = 1_800_000_000


class World:
    """Keys, their file, and a clock that stands still unless it is moved."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = float(NOW)
        self.ticks = 0.0
        self.keys: dict[str, Ed25519PrivateKey] = {}
        self.entries: list[dict[str, Any]] = []
        self.add("k1", ["read", "prompt"])
        keys = KeySet(path, lambda: self.ticks)
        self.authenticator = Authenticator(keys, "me", lambda: self.now)

    def add(self, kid: str, scopes: list[str]) -> None:
        key = self.keys[kid] = Ed25519PrivateKey.generate()
        x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()
        self.entries.append(
            {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "kandev_scopes": scopes}
        )
        self.write({"keys": self.entries})

    def write(self, content: object) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(content))
        part.replace(self.path)

    def token(self, kid: str = "k1", key: Ed25519PrivateKey | None = None, **changes: Any) -> str:
        claims = {
            "iss": "o",
            "aud": "me",
            "iat": NOW,
            "exp": NOW + 60,
            "scopes": ["read"],
        } | changes
        claims = {k: v for k, v in claims.items() if v is not None}
        return jwt.encode(claims, key or self.keys[kid], algorithm="EdDSA", headers={"kid": kid})

    def refusal(self, text: str) -> Denied:
        with pytest.raises(Denied) as denied:
            self.authenticator.claims({"authorization": f"Bearer {text}"})
        assert text not in str(denied.value)
        return denied.value


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "jwks.json")


def test_a_genuine_token_in_either_header(world: World) -> None:
    token = world.token(term=3, epoch=4, session="s")
    for headers in ({"authorization": f"bearer {token}"}, {"x-kandev-token": f" {token}\n"}):
        claims = world.authenticator.claims(headers)
        assert (claims.term, claims.epoch, claims.session) == (3, 4, "s")


def test_scopes_are_bounded_by_the_key(world: World) -> None:
    token = world.token(scopes=["read", "control", "no such scope"])
    claims = world.authenticator.claims({"x-kandev-token": token})
    assert claims.scopes == (Scope.READ,)
    require(claims, Scope.READ)
    with pytest.raises(Denied) as denied:
        require(claims, Scope.CONTROL)
    assert denied.value.details == {"needs": "control"}


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "you"},
        {"aud": None},
        {"exp": None},
        {"iat": None},
        {"scopes": "read"},
        {"iss": None},
    ],
    ids=str,
)
def test_claims_that_do_not_fit(world: World, changes: dict[str, Any]) -> None:
    assert world.refusal(world.token(**changes)).code == "unauthorized"


def test_another_key_of_the_same_name(world: World) -> None:
    forged = world.token(key=Ed25519PrivateKey.generate(), iat=NOW + 9999, exp=NOW + 99999)
    refusal = world.refusal(forged)
    assert (refusal.code, refusal.details) == ("unauthorized", {}), (
        "nothing is said of a forged one"
    )


def test_no_other_algorithm(world: World) -> None:
    public = world.entries[0]["x"]
    claims = {"iss": "o", "aud": "me", "iat": NOW, "exp": NOW + 60, "scopes": ["read"]}
    long = str(public) * 2
    assert world.refusal(jwt.encode(claims, long, "HS256", {"kid": "k1"})).code == "unauthorized"
    assert world.refusal(jwt.encode(claims, None, None, {"kid": "k1"})).code == "unauthorized"


@pytest.mark.parametrize("text", ["", "x", "a.b.c", "a.b", "é.b.c", "a.b.c\r\nX: y", "x" * 10_000])
def test_what_is_no_token(world: World, text: str) -> None:
    with pytest.raises(Denied) as denied:
        world.authenticator.claims({"x-kandev-token": text})
    assert denied.value.code == "unauthorized"


@pytest.mark.parametrize(
    ("clock", "skew"),
    [(NOW - 299, None), (NOW - 301, 301), (NOW + 359, None), (NOW + 361, -301), (NOW + 99, None)],
)
def test_small_differences_of_clocks_are_nothing_and_large_ones_are_named(
    world: World, clock: float, skew: int | None
) -> None:
    world.now = clock
    token = world.token()
    if skew is None:
        world.authenticator.claims({"x-kandev-token": token})
        return
    refusal = world.refusal(token)
    assert (refusal.code, refusal.details) == ("clock_skew", {"skew_seconds": skew})


def test_a_new_key_is_found_without_a_restart_and_an_old_one_is_gone(world: World) -> None:
    world.authenticator.claims({"x-kandev-token": world.token()})
    world.add("k2", ["control"])
    claims = world.authenticator.claims({"x-kandev-token": world.token("k2", scopes=["control"])})
    assert claims.scopes == (Scope.CONTROL,)
    world.write({"keys": world.entries[1:]})
    assert world.refusal(world.token("k1")).code == "unauthorized"


def test_an_unknown_key_makes_it_look_again_but_not_all_the_time(world: World) -> None:
    world.authenticator.claims({"x-kandev-token": world.token()})
    stat = world.path.stat()
    other = World(world.path.with_name("other.json"))
    other.add("k9", ["read"])
    # The same time, size and inode, so that the change cannot be seen from outside.
    text = json.dumps({"keys": [other.entries[1] | {"kandev_scopes": ["read", "prompt"]}]})
    with world.path.open("r+") as file:
        file.write(text.replace("k9", "k9").ljust(stat.st_size))
    os.utime(world.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    token = other.token("k9")
    if world.path.stat().st_size == stat.st_size:
        assert world.refusal(token).code == "unauthorized"
    world.ticks += 2
    world.authenticator.claims({"x-kandev-token": token})


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keys": 3}', '{"keys": [3, {"kty": "RSA"}]}'])
def test_a_broken_file_never_raises(tmp_path: Path, content: str) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(content)
    assert KeySet(path).get("k1") is None
    assert KeySet(tmp_path / "none.json").get("k1") is None


def test_half_a_file_does_not_lock_everybody_out(world: World) -> None:
    world.authenticator.claims({"x-kandev-token": world.token()})
    world.path.write_text('{"keys": [')
    world.authenticator.claims({"x-kandev-token": world.token()})
