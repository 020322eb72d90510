"""Cookies, origins, addresses and buckets of the gateway's door, each by itself."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.clients.tokens import SigningKey
from kandev_operator.gateway.ports import Person
from kandev_operator.gateway.rights.buckets import KEPT, Buckets, Rate
from kandev_operator.gateway.rights.cookie import LONGEST_SECONDS, Seal, mark
from kandev_operator.gateway.rights.origins import Origins, is_within, networks

KEY = SigningKey.generate()
ANNA = Person("anna", "u-1", ("dev", "ops"), (("scopes", ("a", "b")),))
PUBLIC = Origins(frozenset({"https://kandev.dev", "http://plain.dev:8080"}))
short = st.text(max_size=30)
people = st.builds(
    Person,
    short,
    short,
    st.lists(short, max_size=5).map(tuple),
    st.lists(st.tuples(short, st.lists(short, max_size=2).map(tuple)), max_size=2).map(tuple),
)


def seal(now: float = 1_000.0, key: SigningKey = KEY) -> Seal:
    return Seal.of(key, lambda: now)


@given(people)
def test_a_cookie_gives_back_who_it_was_made_for_at_every_replica(person: Person) -> None:
    value = seal().close(person, 2_000)
    assert value is not None
    assert seal(1_999).open(value) == person


def test_a_cookie_is_over_with_the_token_and_never_later_than_the_longest_time() -> None:
    value = seal().close(ANNA, 2_000)
    assert value is not None
    assert seal(2_000).open(value) is None
    endless = seal().close(ANNA, 10**12)
    assert endless is not None
    assert seal(999 + LONGEST_SECONDS).open(endless) == ANNA
    assert seal(1_000 + LONGEST_SECONDS).open(endless) is None


@given(st.data())
def test_a_cookie_with_any_bit_changed_opens_for_nobody(data: st.DataObject) -> None:
    value = seal().close(ANNA, 2_000)
    assert value is not None
    raw = bytearray(base64.urlsafe_b64decode(value))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert seal().open(base64.urlsafe_b64encode(bytes(raw)).decode()) is None


@given(st.one_of(st.text(), st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode())))
def test_whatever_is_sent_for_a_cookie_is_nobody_and_no_error(value: str) -> None:
    assert seal().open(value) is None


def test_a_cookie_of_another_key_opens_for_nobody() -> None:
    value = seal(key=SigningKey.generate()).close(ANNA, 2_000)
    assert value is not None
    assert seal().open(value) is None


def test_a_cookie_says_nothing_to_who_holds_it_and_is_never_the_same_twice() -> None:
    first, second = seal().close(ANNA, 2_000), seal().close(ANNA, 2_000)
    assert first is not None
    assert second is not None
    assert mark(first) != mark(second)
    assert b"anna" not in base64.urlsafe_b64decode(first)


def test_a_cookie_spelled_otherwise_keeps_its_mark() -> None:
    value = seal().close(ANNA, 2_000)
    assert value is not None
    assert mark(value.replace("-", "+").replace("_", "/")) == mark(value)


def test_a_person_of_too_many_groups_gets_no_cookie() -> None:
    assert seal().close(Person("anna", groups=("g" * 60,) * 100), 2_000) is None


@pytest.mark.parametrize(
    ("origin", "host", "taken"),
    [
        ("https://kandev.dev", "kandev.dev", True),
        ("HTTPS://Kandev.dev", "KANDEV.dev", True),
        ("http://kandev.dev", "kandev.dev", False),  # anybody on the way could write that page
        ("https://kandev.dev:444", "kandev.dev", False),
        ("https://evil.dev", "kandev.dev", False),
        ("https://kandev.dev.evil.dev", "kandev.dev", False),
        ("https://kandev.dev@evil.dev", "kandev.dev", False),
        ("https://plain.dev:8080", "kandev.dev", False),  # ours, and yet not where it goes
        ("http://plain.dev:8080", "plain.dev:8080", True),
        ("null", "kandev.dev", False),
        ("", "kandev.dev", False),
        ("https://", "", False),
    ],
)
def test_an_origin_is_taken_where_it_is_ours_and_the_hosts_own(
    origin: str, host: str, *, taken: bool
) -> None:
    assert PUBLIC.takes(origin, host, needed=True) is taken


def test_without_an_origin_only_what_no_browser_adds_may_speak() -> None:
    assert PUBLIC.takes(None, "kandev.dev", needed=False)
    assert not PUBLIC.takes(None, "kandev.dev", needed=True)


def test_a_host_is_taken_where_it_is_ours() -> None:
    assert PUBLIC.takes_host("Kandev.dev")
    assert not PUBLIC.takes_host("evil.dev")
    assert not PUBLIC.takes_host("")
    assert Origins().takes_host("anything.dev")


@given(st.text())
def test_no_origin_is_an_error(origin: str) -> None:
    assert PUBLIC.takes(origin, "kandev.dev", needed=True) is (
        origin.lower() == "https://kandev.dev"
    )


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("11.1.2.3", False),
        ("fd00::1", True),
        ("fe80::1%eth0", False),
        ("10.1.2.3.evil", False),
        ("", False),
        (None, False),
    ],
)
def test_an_address_is_trusted_by_its_range(address: str | None, *, inside: bool) -> None:
    assert is_within(address, networks(["10.0.0.0/8", "fd00::/8"])) is inside


@given(st.lists(st.floats(0, 10), min_size=1, max_size=60))
def test_no_more_is_granted_than_the_rate_allows(pauses: list[float]) -> None:
    buckets = Buckets(Rate(burst=3, a_second=1))
    now, granted = 0.0, 0
    for pause in pauses:
        now += pause
        granted += buckets.take("x", now) == 0
    assert granted <= 3 + sum(pauses) + 1e-6


def test_who_is_told_to_wait_is_let_in_after_it_and_others_meanwhile() -> None:
    buckets = Buckets(Rate(burst=1, a_second=0.5))
    assert buckets.take("x", 10) == 0
    wait = buckets.take("x", 10)
    assert wait == pytest.approx(2)
    assert buckets.take("y", 10) == 0
    assert buckets.take("x", 10 + wait) == 0


def test_buckets_are_bounded_and_a_clock_that_went_back_gives_nothing() -> None:
    buckets = Buckets(Rate(burst=1, a_second=1))
    for number in range(KEPT + 10):
        buckets.take(str(number), 0)
    assert len(buckets._buckets) == KEPT
    assert buckets.take(str(KEPT), -100) > 0
