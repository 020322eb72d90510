"""The scroll-back: what is read is what was written, and what is forgotten is said to be so."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kandev_operator.agentctl.shell.ring import Ring

pytestmark = pytest.mark.unit


@settings(deadline=None)
@given(
    capacity=st.integers(1, 40),
    writes=st.lists(st.binary(max_size=100), max_size=30),
    most=st.integers(1, 60),
)
def test_every_kept_byte_is_found_by_its_number(
    capacity: int, writes: list[bytes], most: int
) -> None:
    ring, everything = Ring(capacity), b""
    for data in writes:
        ring.write(data)
        everything += data
        assert ring.end == len(everything)
        assert ring.start == max(0, len(everything) - capacity)
        for cursor in range(ring.start, ring.end + 1):
            assert ring.read(cursor, most) == everything[cursor : cursor + most]


@settings(deadline=None)
@given(capacity=st.integers(1, 40), written=st.integers(0, 200), off=st.integers(1, 50))
def test_a_number_that_is_not_kept_is_refused(capacity: int, written: int, off: int) -> None:
    ring = Ring(capacity)
    ring.write(bytes(written))
    for cursor in (ring.start - off, ring.end + off):
        with pytest.raises(ValueError, match="no such byte"):
            ring.read(cursor, 1)


def test_memory_is_what_was_written_up_to_the_capacity() -> None:
    ring = Ring(1 << 30)
    ring.write(b"few")
    assert ring.read(0, 1 << 20) == b"few"
    with pytest.raises(ValueError, match="at least one byte"):
        Ring(0)


@settings(deadline=None)
@given(
    writes=st.lists(st.binary(min_size=1, max_size=50), max_size=60),
    pulls=st.lists(st.integers(0, 3), max_size=60),
)
def test_a_reader_at_any_pace_gets_each_byte_once_or_a_gap(
    writes: list[bytes], pulls: list[int]
) -> None:
    ring, cursor, got, everything = Ring(64), 0, b"", b""
    for data, pull in zip(writes, [*pulls, *[1] * len(writes)], strict=False):
        ring.write(data)
        everything += data
        for _ in range(pull):
            if cursor < ring.start:
                got += b"?" * (ring.start - cursor)
                cursor = ring.start
            part = ring.read(cursor, 20)
            got += part
            cursor += len(part)
    assert len(got) == cursor
    assert all(a == b for a, b in zip(got, everything, strict=False) if a != ord("?"))
