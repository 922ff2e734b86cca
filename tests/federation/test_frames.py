"""What travels: every value has one encoding, and bytes that are none are refused within limits."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpadmm.federation import frames
from dpadmm.federation.frames import Frame, FrameError, decode, encode

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    st.binary(max_size=40),
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)), max_leaves=12
)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down; -0.0 is not 0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return one == other and math.copysign(1.0, one) == math.copysign(1.0, other)
    return bool(one == other)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    try:
        data = encode(value)
    except FrameError:  # nested too deeply
        return
    assert same(decode(data), value)


@given(st.dictionaries(TEXT, PLAIN, min_size=2, max_size=5))
def test_the_order_of_a_dict_does_not_show(value: dict[str, Any]) -> None:
    assert encode(dict(reversed(value.items()))) == encode(value)


@given(st.binary(max_size=200))
def test_bytes_are_refused_or_are_the_one_encoding_of_a_value(data: bytes) -> None:
    try:
        value = decode(data)
    except FrameError:
        return
    assert encode(value) == data


@given(VALUES, st.data())
def test_a_changed_encoding_is_refused_or_is_that_of_another_value(value: Any, data: st.DataObject) -> None:
    try:
        good = encode(value)
    except FrameError:
        return
    place = data.draw(st.integers(0, len(good) - 1))
    bad = good[:place] + bytes([data.draw(st.integers(0, 255))]) + good[place + 1 :]
    bad = bad[: data.draw(st.integers(0, len(bad)))] if data.draw(st.booleans()) else bad
    if bad == good:
        return
    try:
        found = decode(bad)
    except FrameError:
        return
    assert not same(found, value)
    assert encode(found) == bad


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        2**63,
        -(2**63) - 1,
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {None: 1},
        object(),
        {1, 2},
        bytearray(b"x"),
        1j,
        b"x" * (frames.LARGEST + 1),
        "x" * (frames.LONGEST_TEXT + 1),
        [None] * (frames.MOST + 1),
        [[[[[[[[[]]]]]]]]],
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:12]!a}",
)
def test_what_cannot_be_sent_is_not_encoded(value: Any) -> None:
    with pytest.raises(FrameError):
        encode(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"X",
        b"NN",
        b"i\0",
        b"f\x7f\xf0\0\0\0\0\0\0",  # infinite
        b"f\x7f\xf8\0\0\0\0\0\0",  # not a number
        b"s\0\0\0\1\xff",
        b"s\0\0\0\2x",
        b"b\xff\xff\xff\xff",
        b"l\xff\xff\xff\xff",
        b"l\0\0\0\2N",
        b"l\0\0\0\1" * 9 + b"N",
        b"d\0\0\0\2\0\0\0\1bN\0\0\0\1aN",  # keys that do not ascend
        b"d\0\0\0\2\0\0\0\1aN\0\0\0\1aN",  # a key twice
        b"d\0\0\0\1N",
        b"N" * (frames.LARGEST + 1),
        "N",
        None,
        bytearray(b"N"),
    ],
    ids=lambda data: f"{data[:14]!a}" if data is not None else "None",
)
def test_bytes_that_are_no_value_are_refused(data: Any) -> None:
    with pytest.raises(FrameError):
        decode(data)


@pytest.mark.parametrize("kind", [b"l", b"d"], ids=["list", "dict"])
def test_a_count_costs_no_memory_before_what_it_counts_has_arrived(kind: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FrameError):
            decode(kind + (99_999).to_bytes(4, "big") + b"N" * 99_998)
        with pytest.raises(FrameError):
            decode(b"l" + (2**32 - 1).to_bytes(4, "big") + b"N" * 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_many_small_values_are_refused_as_a_whole() -> None:
    inner = b"l" + (50_000).to_bytes(4, "big") + b"N" * 50_000
    decode(inner)
    with pytest.raises(FrameError, match="too many parts"):
        decode(b"l\0\0\0\3" + 3 * inner)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [1, "hear"],
        [1, "hear", "text"],
        ["1", "hear", b""],
        [True, "hear", b""],
        [-1, "hear", b""],
        [1, "h" * 33, b""],
        [1, "hear", b"", None],
        {"number": 1},
        None,
    ],
    ids=str,
)
def test_what_is_no_frame_is_refused(parts: Any) -> None:
    with pytest.raises(FrameError):
        Frame.loads(encode(parts))


def test_a_frame_comes_back_and_its_body_is_not_looked_at() -> None:
    frame = Frame(7, "answer_step", b"\xff not a value")
    assert Frame.loads(frame.dumps()) == frame
