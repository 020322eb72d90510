"""The parser of server-sent events: however it is cut, and whatever is thrown at it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.clients.sse import Message, Parser, StreamTooLong

ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=12)


def read(data: bytes, cuts: list[int] | None = None, limit: int = 1 << 16) -> list[Message]:
    """Parse the data, cut into chunks of these sizes (in turn)."""
    parser, at, turn = Parser(limit), 0, 0
    seen: list[Message] = []
    while at < len(data):
        size = cuts[turn % len(cuts)] if cuts else len(data)
        seen += parser.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    return seen


@given(
    messages=st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), max_size=5),
    end=ends,
    cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    bom=st.booleans(),
)
def test_what_was_written_is_read_however_it_is_cut(
    messages: list[tuple[str, list[str]]], end: bytes, cuts: list[int], bom: bool
) -> None:
    wire = b"\xef\xbb\xbf" if bom else b""
    for number, (event, lines) in enumerate(messages):
        fields = [f"id: {number}", f"event: {event}", *(f"data: {line}" for line in lines)]
        wire += b": a comment" + end
        wire += b"".join(each.encode() + end for each in fields) + end
    assert read(wire, cuts) == [
        Message(event or "message", str(number), "\n".join(lines).encode())
        for number, (event, lines) in enumerate(messages)
    ]


@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_garbage_means_the_same_in_any_cut_and_never_crashes(data: bytes, cuts: list[int]) -> None:
    assert read(data, cuts) == read(data)


@given(data=st.lists(st.sampled_from([b"data:x", b"\r", b"\n", b":", b"id", b" "]), max_size=30))
def test_odd_mixes_of_line_ends_mean_the_same_in_any_cut(data: list[bytes]) -> None:
    joined = b"".join(data)
    assert read(joined, [1]) == read(joined)


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (b"data: a\n\n", [Message("message", "", b"a")]),
        (b"data:a\ndata: b\n\n", [Message("message", "", b"a\nb")]),
        (b"data\n\n", [Message("message", "", b"")]),
        (b"id: 1\n\ndata: a\n\n", [Message("message", "1", b"a")]),
        (b"id: 1\nid: \0\ndata: a\n\n", [Message("message", "1", b"a")]),
        (b"event: e\n\ndata: a\n\n", [Message("message", "", b"a")]),
        (b"data: never ended\n", []),
        (b"retry: 5\nother: x\n: c\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [Message("message", "", b"a")]),
    ],
)
def test_the_format_is_read_as_it_is_specified(wire: bytes, expected: list[Message]) -> None:
    assert read(wire) == expected


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_a_line_or_message_without_end_is_refused(chunk: int) -> None:
    with pytest.raises(StreamTooLong, match="line"):
        read(b"x" * 200, [chunk], limit=100)
    with pytest.raises(StreamTooLong, match="message"):
        read(b"data: 0123456789\n" * 20, [chunk], limit=100)
    assert len(read(b"data: 0123456789\n\n" * 20, [chunk], limit=100)) == 20


def test_a_line_that_comes_byte_by_byte_is_not_searched_again_each_time() -> None:
    parser = Parser(1 << 20)
    for _ in range(200_000):
        assert [*parser.feed(b"x")] == []
    assert [*parser.feed(b"\n\n")] == []
