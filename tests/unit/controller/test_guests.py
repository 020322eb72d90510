"""Gateways' public keys: listed beside ours, never with control, and never in our own's place."""

import json
from typing import Any, cast

import pytest

from kandev_operator.clients.errors import NotFound, Unavailable
from kandev_operator.clients.guestkey import AT_MOST, SCOPES, guests_of
from kandev_operator.clients.kube import Kube
from kandev_operator.clients.signing import JWKS_FILE
from kandev_operator.clients.tokens import SigningKey, jwks, jwks_text
from kandev_operator.contract.claims import Scope
from kandev_operator.controller.guests import Guests
from kandev_operator.controller.logs import EdgeLog


class Place:
    """The operator's namespace, with what lies in the ConfigMap."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.away = False

    async def get(self, _resource: object, _namespace: str, name: str) -> Any:
        if self.away:
            raise Unavailable("get", "no answer")
        if self.text is None:
            raise NotFound("get", f"there is no {name}")
        return {"data": {JWKS_FILE: self.text}}


def test_a_guest_that_claims_control_does_not_get_it() -> None:
    greedy = SigningKey.generate()
    assert Scope.CONTROL in greedy.scopes
    (guest,) = guests_of(jwks_text([greedy]))
    assert guest.kid == greedy.kid
    assert set(guest.scopes) == set(SCOPES)
    assert "control" not in guest.jwk()["kandev_scopes"]


def test_a_guest_gets_no_more_than_it_asks_for() -> None:
    modest = SigningKey.generate([Scope.READ])
    assert guests_of(jwks_text([modest]))[0].scopes == (Scope.READ,)


def test_the_name_follows_from_the_key_whatever_is_claimed() -> None:
    own, other = SigningKey.generate(), SigningKey.generate(SCOPES)
    told = jwks([other])
    told["keys"][0]["kid"] = own.kid
    guests = guests_of(json.dumps(told))
    assert guests[0].kid == other.kid
    ours = jwks([own, *guests_of(jwks_text([own]))])
    assert ours == jwks([own]), "our own key, laid out as a guest, loses nothing"


def test_so_many_are_listed_and_no_more() -> None:
    many = jwks_text([SigningKey.generate(SCOPES) for _ in range(AT_MOST + 3)])
    assert len(guests_of(many)) == AT_MOST


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"keys": 1}',
        '{"keys": [1]}',
        '{"keys": [{"kty": "RSA", "crv": "Ed25519", "x": "a"}]}',
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "short"}]}',
        '{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": 7}]}',
    ],
)
async def test_what_is_no_list_of_keys_is_none_and_is_said_once(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    place, changes = Place(), []
    place.text = jwks_text([SigningKey.generate(SCOPES)])
    guests = Guests(cast("Kube", place), "home", EdgeLog())
    await guests.look(lambda: changes.append(1))
    assert len(guests.keys) == 1
    place.text = text
    await guests.look(lambda: changes.append(1))
    await guests.look(lambda: changes.append(1))
    assert (guests.keys, len(changes)) == ((), 2)
    assert caplog.text.count("is not used") == 1


async def test_keys_that_cannot_be_read_now_stay() -> None:
    place = Place()
    place.text = jwks_text([SigningKey.generate(SCOPES)])
    guests = Guests(cast("Kube", place), "home", EdgeLog())
    await guests.look(lambda: None)
    known = guests.keys
    place.away = True
    await guests.look(lambda: None)
    assert guests.keys == known
    place.away, place.text = False, None
    await guests.look(lambda: None)
    assert guests.keys == (), "a ConfigMap that was deleted is a no"
