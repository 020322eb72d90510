"""The keys that leave a shell: found however they come, and nothing else is kept from it."""

import argparse

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_operator.cli.detach import DetachKeys
from kandev_operator.cli.shelloptions import detach_keys

SOME = st.lists(st.sampled_from([b"a", b"b", b"ab", b"aa", b"\x1d", b"d", b"xyz"]), max_size=20)


@settings(deadline=None)
@given(keys=st.sampled_from([b"a", b"ab", b"aa", b"aab", b"\x1dd"]), typed=SOME)
def test_all_before_the_keys_is_sent_in_order_whatever_the_portions(
    keys: bytes, typed: list[bytes]
) -> None:
    looking, sent, left = DetachKeys(keys), b"", False
    for portion in typed:
        data, left = looking.feed(portion)
        sent += data
        if left:
            break
    whole = b"".join(typed)
    at = whole.find(keys)
    assert left is (at >= 0)
    if left:
        assert sent == whole[:at]
    else:
        assert whole.startswith(sent)
        assert len(whole) - len(sent) < len(keys), "no more is held back than a beginning"
        assert keys.startswith(whole[len(sent) :])


def test_a_beginning_goes_on_its_way_with_the_next_key() -> None:
    looking = DetachKeys(b"\x1dd")
    assert looking.feed(b"x\x1d") == (b"x", False)
    assert looking.feed(b"y") == (b"\x1dy", False)
    assert looking.feed(b"\x1d") == (b"", False)
    assert looking.feed(b"\x1d") == (b"\x1d", False)
    assert looking.feed(b"d") == (b"", True)
    with pytest.raises(ValueError, match="at least one"):
        DetachKeys(b"")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        *(("ctrl-],d", b"\x1dd"), ("ctrl-p,ctrl-q", b"\x10\x11"), ("Ctrl-A", b"\x01")),
        *(("~,.", b"~."), ("ctrl-@", b"\0"), ("ctrl-[", b"\x1b"), ("ctrl-\\", b"\x1c")),
    ],
)
def test_keys_are_written_as_people_know_them(text: str, keys: bytes) -> None:
    assert detach_keys(text) == keys


@pytest.mark.parametrize("text", ["", "ctrl-1", "ctrl-", "ab", "ctrl-a,", "é", "\t"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        detach_keys(text)
