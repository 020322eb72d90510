"""Paths on the wire, ranges, finds, watches: the pure rooms of files."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inotify_simple import flags

from kandev_operator.agentctl.files import matching, ranges
from kandev_operator.agentctl.files.folders import Folders
from kandev_operator.agentctl.files.watching import MAX_PENDING, Reader
from kandev_operator.contract.files import decode_path, encode_path, split_path

NAME = st.binary(min_size=1, max_size=12).map(
    lambda name: name.replace(b"/", b"x").replace(b"\0", b"y")
)
PATH = st.lists(NAME, max_size=4).map(b"/".join)

# ---- paths -----------------------------------------------------------------------------


@given(path=PATH)
def test_every_path_has_one_spelling_that_is_read_back(path: bytes) -> None:
    wire = encode_path(path)
    wire.encode()  # it is text
    assert decode_path(wire) == path


@given(text=st.text(st.sampled_from(["%", "4", "1", "C", "3", "A", "9", "F", "é", "/", "a"])))
def test_no_two_spellings_name_one_file(text: str) -> None:
    try:
        path = decode_path(text)
    except ValueError:
        return
    assert encode_path(path) == text


def test_names_are_spelled_as_text_where_they_are_text() -> None:
    assert encode_path("straße/ä b\nc".encode()) == "straße/ä b\nc"
    assert encode_path(b"100%") == "100%25"
    assert encode_path(b"\xc3(") == "%C3("
    for wrong in ("%41", "%c3", "%C3%A9", "%", "\ud800"):
        with pytest.raises(ValueError, match="path"):
            decode_path(wrong)


@pytest.mark.parametrize("path", [b"/a", b"a/", b"a//b", b"./a", b"a\0b", b"x/" * 300, b"x" * 5000])
def test_what_is_not_a_path_is_refused(path: bytes) -> None:
    with pytest.raises(ValueError, match="path"):
        split_path(path)


# ---- ranges ----------------------------------------------------------------------------


@given(
    first=st.one_of(st.none(), st.integers(0, 300)),
    last=st.one_of(st.none(), st.integers(0, 300)),
    size=st.integers(0, 200),
    limit=st.integers(1, 50),
)
def test_a_range_is_what_slicing_gives(
    first: int | None, last: int | None, size: int, limit: int
) -> None:
    header = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    data = bytes(number % 256 for number in range(size))
    if first is None:
        wanted = data[-last:] if last else b""
    else:
        wanted = data[first : None if last is None else last + 1]
    try:
        part = ranges.part_of(header, size, limit)
    except ranges.Unsatisfiable:
        assert wanted == b""
        return
    if part is None:
        assert (first is None and last is None) or (first or 0) > (last or 0)
        return
    assert data[part.start : part.end] == wanted[:limit]
    assert part.end > part.start


@pytest.mark.parametrize("header", [None, "", "lines=1-2", "bytes=1-2,4-5", "bytes=a-b", "bytes=-"])
def test_what_is_not_one_range_is_none(header: str | None) -> None:
    assert ranges.part_of(header, 10, 10) is None


# ---- finds -----------------------------------------------------------------------------


def plain_finds(data: bytes, needle: bytes) -> Iterator[tuple[int, int]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if (at := line.find(needle)) >= 0:
            yield number, at + 1


@given(
    data=st.lists(st.sampled_from([b"a", b"b", b"\n", b"\r", b"ab"]), max_size=40).map(b"".join),
    needle=st.sampled_from([b"a", b"b", b"ab", b"ba", b"aab"]),
)
def test_finds_are_those_of_looking_line_by_line(data: bytes, needle: bytes) -> None:
    found = [(find.line, find.column) for find in matching.finds(data, needle, case=True)]
    assert found == list(plain_finds(data, needle))


@given(before=st.integers(0, 2000), after=st.integers(0, 2000))
def test_an_excerpt_is_short_and_shows_the_find(before: int, after: int) -> None:
    data = b"first\n" + b"x" * before + b"NEEDLE" + b"y" * after + b"\nlast needle"
    one, two = matching.finds(data, b"needle", case=False)
    assert b"NEEDLE" in one.text
    assert len(one.text) <= matching.EXCERPT
    assert b"\n" not in one.text
    assert (one.line, one.column, two.line) == (2, before + 1, 3)


# ---- watches ---------------------------------------------------------------------------


def event(watch: int, mask: int, name: bytes = b"") -> tuple[int, int, int, bytes]:
    return watch, mask, 0, name


def test_a_folder_that_moves_is_forgotten_with_all_below() -> None:
    folders = Folders()
    for watch, names in enumerate([(), (b"a",), (b"a", b"b"), (b"c",)], 1):
        folders.add(watch, names)
    news = folders.read(
        [
            event(1, flags.MOVED_FROM | flags.ISDIR, b"a"),
            event(1, flags.MOVED_TO | flags.ISDIR, b"z"),
            event(2, flags.MOVE_SELF),
            event(3, flags.CREATE, b"late"),
        ]
    )
    assert news.changed == {(b"a",), (b"z",)}
    assert news.appeared == [(b"z",)]
    assert sorted(news.dropped) == [2, 3]
    assert len(folders) == 2


def test_losses_and_the_end_are_told() -> None:
    folders = Folders()
    folders.add(1, ())
    assert folders.read([event(-1, flags.Q_OVERFLOW)]).overflow
    assert folders.read([event(1, flags.DELETE_SELF)]).root_gone
    assert len(folders) == 0


def test_a_folder_made_anew_under_its_old_name_is_watched_by_the_new_watch() -> None:
    folders = Folders()
    folders.add(1, ())
    folders.add(2, (b"a",))
    folders.add(3, (b"a",))
    assert folders.read([event(2, flags.CREATE, b"old")]).changed == set()
    assert folders.read([event(3, flags.CREATE, b"new")]).changed == {(b"a", b"new")}
    folders.read([event(2, flags.IGNORED)])
    assert folders.read([event(3, flags.CREATE, b"more")]).changed == {(b"a", b"more")}


async def test_a_reader_that_falls_behind_is_told_once_and_holds_nothing() -> None:
    reader = Reader(())
    reader.tell({(os.fsencode(str(number)),) for number in range(MAX_PENDING + 1)})
    assert reader.overflow == "reader"
    assert reader.take() == ()
    reader.tell({(b"more",)})
    assert reader.take() == ()
    reader.overflow = None
    reader.tell({(b"more",)})
    assert reader.take() == ("more",)
