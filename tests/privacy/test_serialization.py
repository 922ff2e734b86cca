"""Events, tallies and arrays as text and bytes: what comes back is what went in, bit for bit."""

import json
import struct
from typing import Any

import attr
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpadmm.privacy import events as known
from dpadmm.privacy.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    GaussianObjectiveDpEvent,
    LaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    VarianceReducedDpEvent,
    canonical,
    digest,
    event_from_dict,
    event_to_dict,
    pack,
    tally_to_list,
    unpack,
)

SCALES = st.floats(0.0, 1e300, allow_subnormal=True)
CHANCES = st.floats(0.0, 1.0)
LEAVES: st.SearchStrategy[DpEvent] = st.one_of(
    st.just(NoOpDpEvent()),
    st.just(NonPrivateDpEvent()),
    st.builds(GaussianDpEvent, SCALES),
    st.builds(LaplaceDpEvent, SCALES),
    st.builds(PureDpEvent, SCALES),
    st.builds(GaussianObjectiveDpEvent, SCALES, SCALES, st.booleans()),
    st.builds(RandomizedResponseDpEvent, CHANCES, st.integers(2, 9)),
    st.builds(
        lambda deviation, pairs: MixtureOfGaussiansDpEvent(
            deviation, tuple(size for size, _ in pairs), tuple(chance for _, chance in pairs)
        ),
        SCALES,
        st.lists(st.tuples(SCALES, CHANCES), min_size=1, max_size=4),
    ),
)
EVENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(PoissonSampledDpEvent, CHANCES, inner),
        st.builds(SampledWithoutReplacementDpEvent, st.integers(1, 10**9), st.integers(1, 9), inner),
        st.builds(SelfComposedDpEvent, inner, st.integers(0, 10**12)),
        st.builds(lambda parts: ComposedDpEvent(tuple(parts)), st.lists(inner, max_size=4)),
    ),
    max_leaves=8,
)


def through_text(event: DpEvent) -> DpEvent:
    return event_from_dict(json.loads(canonical(event_to_dict(event))))


def bits(value: Any) -> Any:
    """An event's fields with every float as its eight bytes: equal only if equal to the last bit."""
    if isinstance(value, DpEvent):
        return (type(value), *(bits(getattr(value, field.name)) for field in attr.fields(type(value))))
    if isinstance(value, tuple | list):
        return tuple(bits(part) for part in value)
    return struct.pack("<d", value) if isinstance(value, float) else value


@given(event=EVENTS)
def test_events_come_back_bit_for_bit(event: DpEvent) -> None:
    back = through_text(event)
    assert back == event
    assert bits(back) == bits(event)
    assert hash(back) == hash(event)  # they are keys of tallies


def test_every_kind_of_event_is_covered() -> None:
    found = {name: getattr(known, name) for name in known.__all__}
    kinds = {name for name, each in found.items() if isinstance(each, type) and issubclass(each, DpEvent)} - {"DpEvent"}
    samples = [
        NoOpDpEvent(),
        NonPrivateDpEvent(),
        GaussianDpEvent(0.1 + 0.2),
        LaplaceDpEvent(5e-324),
        PureDpEvent(1 / 3),
        GaussianObjectiveDpEvent(1.0, 0.1, True),
        RandomizedResponseDpEvent(0.7, 3),
        MixtureOfGaussiansDpEvent(2.0, (1.0, 2.0), (0.25, 0.75)),
        VarianceReducedDpEvent(1 / 3, 0.01, True, 0.7),
        PoissonSampledDpEvent(0.01, GaussianDpEvent(1.1)),
        SampledWithoutReplacementDpEvent(6838, 1, GaussianDpEvent(1.1)),
        SelfComposedDpEvent(PureDpEvent(0.1), 7),
        ComposedDpEvent((GaussianDpEvent(1.0), ComposedDpEvent((PureDpEvent(0.2),)))),
    ]
    assert kinds - {"Tally", "Mapping"} == {type(event).__name__ for event in samples}
    for event in samples:
        assert bits(through_text(event)) == bits(event)


@given(tally=st.dictionaries(EVENTS, st.integers(0, 10**15), max_size=5))
def test_tallies_come_back(tally: dict[DpEvent, int]) -> None:
    pairs = json.loads(json.dumps(tally_to_list(tally)))
    assert {event_from_dict(entry): count for entry, count in pairs} == tally


@attr.s(frozen=True, auto_attribs=True)
class Stranger(DpEvent):
    epsilon: float = 1.0


def test_an_unknown_event_is_refused_on_the_way_in_and_out() -> None:
    with pytest.raises(TypeError, match="Stranger"):
        event_to_dict(Stranger())
    with pytest.raises(TypeError, match="Stranger"):
        event_to_dict(SelfComposedDpEvent(Stranger(), 2))
    with pytest.raises(KeyError, match="Stranger"):
        event_from_dict({"kind": "Stranger", "epsilon": 1.0})


def test_what_is_no_number_in_json_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical(event_to_dict(PureDpEvent(float("inf"))))


@given(one=st.dictionaries(st.text(), st.integers()), seed=st.randoms())
def test_canonical_has_one_spelling(one: dict[str, int], seed: Any) -> None:
    items = list(one.items())
    seed.shuffle(items)
    assert canonical(dict(items)) == canonical(one)


PARTS = st.lists(st.one_of(st.binary(max_size=20), st.text(max_size=20)), max_size=4)


@given(one=PARTS, other=PARTS)
def test_digests_are_those_of_the_list_not_of_its_concatenation(one: list[Any], other: list[Any]) -> None:
    def plain(parts: list[Any]) -> list[bytes]:
        return [part.encode() if isinstance(part, str) else part for part in parts]

    assert (digest(*one) == digest(*other)) == (plain(one) == plain(other))


def test_digest_keeps_borders() -> None:
    lists = [(), ("",), ("", ""), ("ab",), ("a", "b"), ("a", "", "b"), (b"\x00" * 8,), (b"\x00" * 16,), ("ab", "")]
    assert len({digest(*parts) for parts in lists}) == len(lists)
    assert len(digest()) == 64


@given(
    raw=st.lists(st.integers(0, 2**64 - 1), max_size=12),
    name=st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=10),
)
def test_arrays_come_back_bit_for_bit(raw: list[int], name: str) -> None:
    """Any 64 bits as a double, with infinities and every NaN; and shapes, empty ones too."""
    numbers = np.array(raw, dtype=np.uint64).view(np.float64)
    arrays = {f"x{name}": numbers, "column": numbers[:, None], "round": np.array(7), "empty": np.zeros((0, 3))}
    back = unpack(pack(arrays))
    assert list(back) == list(arrays)
    for key, array in arrays.items():
        assert (back[key].dtype, back[key].shape) == (array.dtype, array.shape)
        assert back[key].tobytes() == array.tobytes()


def test_objects_are_not_packed() -> None:
    with pytest.raises(ValueError, match="objects"):
        pack({"x": np.array([object()])})
