"""Lines from an agent: cut anywhere, of any length, of any content."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kandev_operator.agentctl.transport import JsonLines, LineSplitter, Oversize, without_surrogates


@given(st.lists(st.binary(max_size=30).filter(lambda b: b"\n" not in b)), st.data())
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter(1000)
    found: list[bytes | Oversize] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert found == lines
    assert splitter.rest() == []


@given(st.integers(1, 300), st.integers(1, 50))
def test_a_long_line_is_told_with_its_size_and_the_next_one_is_whole(size: int, cut: int) -> None:
    splitter = LineSplitter(100)
    stream = b"x" * size + b"\nnext\n"
    found: list[bytes | Oversize] = []
    for start in range(0, len(stream), cut):
        found += splitter.feed(stream[start : start + cut])
    first, second = found
    if size <= 100:
        assert first == b"x" * size
    else:
        assert isinstance(first, Oversize)
        assert first.size == size
        assert 100 <= len(first.head) <= size
    assert second == b"next"


@pytest.mark.parametrize(
    ("head", "is_update"),
    [
        (b'{"jsonrpc":"2.0","method":"session/update","params":{"x', True),
        (b'{"method" : "session/update","params":{"id":3', True),
        (b'{"jsonrpc":"2.0","id":4,"method":"session/update","params":{}', False),
        (b'{"jsonrpc":"2.0","id":4,"result":{"method":"session/update"', False),
        (b'{"jsonrpc":"2.0","method":"session/request_permission","params":{', False),
        (b"<html>", False),
    ],
)
def test_only_an_update_can_be_dropped(head: bytes, is_update: bool) -> None:
    assert Oversize(head, 10**9).is_update is is_update


def test_messages_noise_and_faults_are_told_apart() -> None:
    asyncio.run(tell_apart())


async def tell_apart() -> None:
    reader = asyncio.StreamReader()
    noise: list[bytes] = []
    long: list[Oversize] = []
    lines = JsonLines(
        reader,
        Silent(),
        limit=100,
        on_noise=noise.append,
        on_oversize=long.append,
    )
    reader.feed_data(
        b'42\n\nnot json\n{"a": 1}\n[1]\n' + b"y" * 200 + b'\n{"b": "\\ud800"}\n{"c": 3}'
    )
    reader.feed_eof()
    found = []
    while (message := await lines.receive()) is not None:
        found.append(message)
    assert found == [{"a": 1}, {"b": "?"}, {"c": 3}]
    assert noise == [b"42", b"not json", b"[1]"]
    assert [line.size for line in long] == [200]
    assert lines.ended.is_set()


def test_deep_nesting_is_noise() -> None:
    asyncio.run(nest_deeply())


async def nest_deeply() -> None:
    reader = asyncio.StreamReader()
    noise: list[bytes] = []
    lines = JsonLines(
        reader, Silent(), limit=10**6, on_noise=noise.append, on_oversize=lambda _: None
    )
    reader.feed_data(b"[" * 100_000 + b"\n")
    reader.feed_eof()
    assert await lines.receive() is None
    assert len(noise) == 1


class Silent:
    async def write(self, data: bytes) -> None:
        raise AssertionError("nothing is written here")


@given(
    st.recursive(st.text() | st.integers(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_what_is_cleaned_can_be_written(value: object) -> None:
    json.dumps(without_surrogates(value), ensure_ascii=False).encode()
