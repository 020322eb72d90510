"""Keys and tokens: what is signed here is what agentctl can check, and no key is shown."""

import base64
from collections.abc import Iterator

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.clients.errors import SigningKeyUnusable
from kandev_operator.clients.tokens import Minter, SigningKey, jwks, jwks_text
from kandev_operator.contract.claims import Claims, Scope

KEY = SigningKey.generate()


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def claims(token: str, *keys: SigningKey, audience: str = "executor-uid") -> Claims:
    """Check a token the way a reader of the JWKS does."""
    kid = jwt.get_unverified_header(token)["kid"]
    published = {key["kid"]: jwt.PyJWK(key) for key in jwks(keys)["keys"]}
    options = {"verify_exp": False, "verify_iat": False}
    return Claims(
        **jwt.decode(token, published[kid], ["EdDSA"], audience=audience, options=options)  # type: ignore[arg-type]
    )


@given(
    scopes=st.sets(st.sampled_from(Scope), min_size=1),
    session=st.none() | st.text(min_size=1, max_size=40),
    term=st.none() | st.integers(0, 2**40),
    epoch=st.none() | st.integers(0, 2**40),
)
def test_a_token_says_what_it_was_asked_to_say(
    scopes: set[Scope], session: str | None, term: int | None, epoch: int | None
) -> None:
    clock = Clock()
    told = claims(
        Minter(KEY, clock).mint("executor-uid", scopes, session, term, epoch, lifetime=60), KEY
    )
    assert set(told.scopes) == scopes
    assert (told.session, told.term, told.epoch) == (session, term, epoch)
    assert (told.iat, told.exp) == (int(clock.now), int(clock.now) + 60)
    assert told.iss == "kandev-operator"


def test_another_audience_or_key_does_not_fit() -> None:
    token = Minter(KEY, Clock()).mint("executor-uid", [Scope.READ])
    with pytest.raises(jwt.InvalidAudienceError):
        claims(token, KEY, audience="another-uid")
    with pytest.raises(KeyError):
        claims(token, SigningKey.generate())


def test_a_token_is_handed_out_again_for_half_its_life() -> None:
    clock = Clock()
    minter = Minter(KEY, clock)
    first = minter.mint("a", [Scope.READ, Scope.CONTROL], epoch=1)
    clock.now += 149
    assert minter.mint("a", [Scope.CONTROL, Scope.READ], epoch=1) == first
    assert minter.mint("a", [Scope.READ], epoch=1) != first
    assert minter.mint("a", [Scope.READ, Scope.CONTROL], epoch=2) != first
    assert minter.mint("b", [Scope.READ, Scope.CONTROL], epoch=1) != first
    clock.now += 2
    assert minter.mint("a", [Scope.READ, Scope.CONTROL], epoch=1) != first


def test_a_clock_that_was_set_back_makes_new_tokens() -> None:
    clock = Clock()
    minter = Minter(KEY, clock)
    first = minter.mint("a", [Scope.READ])
    clock.now -= 3600
    assert claims(minter.mint("a", [Scope.READ]), KEY, audience="a").iat == int(clock.now)
    assert minter.mint("a", [Scope.READ]) != first


def test_what_is_kept_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kandev_operator.clients.tokens._CACHED", 10)
    clock = Clock()
    minter = Minter(KEY, clock)
    for number in range(25):
        clock.now += 20
        minter.mint(f"a{number}", [Scope.READ])
        assert len(minter._cache) <= 10
    for number in range(25):
        minter.mint(f"b{number}", [Scope.READ])
        assert len(minter._cache) <= 10


def test_a_key_comes_back_from_its_secret() -> None:
    for scopes in ([*Scope], [Scope.READ, Scope.PROMPT]):
        key = SigningKey.generate(scopes)
        again = SigningKey.from_secret_data(key.to_secret_data())
        assert again == key
        assert again.jwk() == key.jwk()
        token = Minter(again, Clock()).mint("executor-uid", [Scope.READ])
        assert claims(token, key).aud == "executor-uid"


def test_the_published_keys_name_their_scopes_and_nothing_private() -> None:
    keys = [SigningKey.generate(), SigningKey.generate([Scope.READ])]
    document = jwks(keys)
    by_kid = {each["kid"]: each for each in document["keys"]}
    assert by_kid[keys[1].kid]["kandev_scopes"] == ["read"]
    assert {frozenset(each) for each in document["keys"]} == {
        frozenset({"kty", "crv", "x", "kid", "alg", "use", "kandev_scopes"})
    }
    assert jwks_text(keys) == jwks_text(reversed(keys))


def test_the_name_of_a_key_is_the_thumbprint_of_the_standard() -> None:
    # The example of RFC 8037, appendix A.
    seed = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A="
    raw = base64.urlsafe_b64decode(seed)
    prefix = bytes.fromhex("302e020100300506032b657004220420")
    pem = (
        b"-----BEGIN PRIVATE KEY-----\n"
        + base64.b64encode(prefix + raw)
        + b"\n-----END PRIVATE KEY-----\n"
    )
    key = SigningKey.from_secret_data({"signing-key.pem": base64.b64encode(pem).decode()})
    assert key.jwk()["x"] == "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
    assert "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k".startswith(key.kid)


def damaged() -> Iterator[dict[str, str]]:
    good = KEY.to_secret_data()
    rsa = generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    yield {}
    yield {"signing-key.pem": ""}
    yield {"signing-key.pem": "%%%"}
    yield {"signing-key.pem": base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode()}
    yield {"signing-key.pem": base64.b64encode(rsa).decode()}
    yield {**good, "scopes": base64.b64encode(b"read everything").decode()}
    yield {**good, "scopes": base64.b64encode(b"\xff").decode()}


@pytest.mark.parametrize("data", [*damaged()])
def test_a_damaged_secret_is_named_and_not_quoted(data: dict[str, str]) -> None:
    with pytest.raises(SigningKeyUnusable) as caught:
        SigningKey.from_secret_data(data)
    assert "PRIVATE" not in str(caught.value)
    assert "everything" not in str(caught.value)


def test_neither_key_nor_token_shows_in_a_repr() -> None:
    pem = base64.b64decode(KEY.to_secret_data()["signing-key.pem"]).decode()
    assert pem.split("\n")[1] not in repr(KEY)
    minter = Minter(KEY, Clock())
    assert minter.mint("a", [Scope.READ]) not in repr(minter)
