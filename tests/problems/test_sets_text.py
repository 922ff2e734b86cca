"""Sets in writing: what is right becomes a set, and everything else an `InputError`."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpadmm.errors import InputError
from dpadmm.problems.sets import (
    SETS,
    WRITTEN,
    Affine,
    Ball,
    Box,
    ConeProgramme,
    ConvexSet,
    Each,
    Intersection,
    Polyhedron,
    Range,
    Simplex,
    Whole,
)
from dpadmm.problems.sets.text import parse, written

RIGHT: list[tuple[str, ConvexSet]] = [
    ("whole", Whole()),
    ("box:0.1", Box(0.1)),
    ("range:0:1", Range(0.0, 1.0)),
    ("range:0", Range(0.0, math.inf)),
    ("range:-inf:1", Range(-math.inf, 1.0)),
    ("ball:2", Ball(2.0)),
    ("simplex:3", Simplex(3.0)),
    ("box:0.1,ball:2", Intersection([Box(0.1), Ball(2.0)])),
    ("box:1, range:0", Range(0.0, 1.0)),
    ('"box:0.1"', Box(0.1)),
    ('{"box": {"bound": 2}}', Box(2)),
    ('{"whole": {}}', Whole()),
    ('{"ball": {"radius": 2, "centre": [0, 1]}}', Ball(2.0, [0.0, 1.0])),
    ('{"range": {"low": 0, "high": [1, 2]}}', Range(0.0, [1.0, 2.0])),
    ('{"range": {"low": [0, null], "high": null}}', Range([0.0, -math.inf], math.inf)),
    (' {"affine": {"rows": [[1, 2]], "values": [3]}}', Affine([[1.0, 2.0]], [3.0])),
    ('{"polyhedron": {"rows": [[1, 1]], "limits": [1]}}', Polyhedron([[1.0, 1.0]], [1.0])),
    (
        '{"polyhedron": {"rows": [[1, 1]], "limits": [1], "equal_rows": [[1, 0]], "equal_values": [0.5]}}',
        Polyhedron([[1.0, 1.0]], [1.0], [[1.0, 0.0]], [0.5]),
    ),
    (
        '{"cone": {"rows": [[1], [0], [-1]], "limits": [1, 2, 0], "nonnegative": 1, "second_order": [2]}}',
        ConeProgramme.written([[1.0], [0.0], [-1.0]], [1.0, 2.0, 0.0], 0, 1, [2]),
    ),
    ('{"intersection": ["box:1", {"ball": {"radius": 1.5}}]}', Intersection([Box(1.0), Ball(1.5)])),
    ('{"each": ["box:1", "box:1,ball:2", "whole"]}', Each([Box(1.0), Intersection([Box(1.0), Ball(2.0)]), Whole()])),
]


@pytest.mark.parametrize(("text", "expected"), RIGHT, ids=[text for text, _ in RIGHT])
def test_sets_are_read(text: str, expected: ConvexSet) -> None:
    assert parse(text) == expected


WRONG = [
    "",
    ",",
    "box:",
    "box:x",
    "box:1,",
    "box:1:2",
    "ball:1:2",
    "bx:1",
    "polyhedron",
    "each",
    "cone:1",
    "box:1;ball:1",
    "nan",
    "box:nan",
    "ball:inf",
    "simplex:-1",
    "range:1:0",
    "range:nan",
    "range:inf",
    "range:0:-inf",
    "range:0:1,range:2:3",
    "{",
    "[",
    '"',
    "{}",
    "[]",
    "null",
    '["box:1"]',
    '{"box": {}',
    '{"box": {}} x',
    '{"box": {}, "ball": {}}',
    '{"box": 1}',
    '{"box": []}',
    '{"box": null}',
    '{"box": "1"}',
    '{"bx": {}}',
    '{"": {}}',
    '{"box": {"bound": "1"}}',
    '{"box": {"bound": true}}',
    '{"box": {"bound": [1]}}',
    '{"box": {"bound": null}}',
    '{"box": {"bound": NaN}}',
    '{"box": {"bound": Infinity}}',
    '{"box": {"bound": 1e999}}',
    '{"box": {"bound": 1, "bound": 2}}',
    '{"box": {"bound": 1}, "box": {"bound": 2}}',
    '{"box": {"bond": 1}}',
    '{"box": {"self": 1}}',
    '{"box": {"name": "x"}}',
    '{"box": {"bound": 1' + "0" * 400 + "}}",
    '{"box": {"bound": 1' + "0" * 5000 + "}}",
    '{"box": {"bound": -1}}',
    '{"ball": {"centre": 1}}',
    '{"ball": {"centre": [[1]]}}',
    '{"ball": {"centre": [null]}}',
    '{"ball": {"centre": []}, "x": 1}',
    '{"ball": {"radius": 1e40}}',
    '{"ball": {"radius": -1}}',
    '{"ball": {"radius": null}}',
    '{"ball": {"centre": ["1"]}}',
    '{"range": {"low": 2, "high": 1}}',
    '{"range": {"low": []}}',
    '{"range": {"low": [1, true]}}',
    '{"range": {"low": [[0]]}}',
    '{"range": {"low": -Infinity}}',
    '{"range": {"low": [0], "high": [1, 2]}}',
    '{"range": {"low": {"a": 1}}}',
    '{"range": {"low": [1e999]}}',
    '{"simplex": {"total": 0}}',
    '{"simplex": {"total": [1]}}',
    '{"whole": {"x": 1}}',
    '{"affine": {}}',
    '{"affine": {"rows": [[1]]}}',
    '{"affine": {"rows": 1, "values": 1}}',
    '{"affine": {"rows": [[1], [1, 2]], "values": [1, 2]}}',
    '{"affine": {"rows": [[1]], "values": [1, 2]}}',
    '{"affine": {"rows": [[0]], "values": [1]}}',
    '{"affine": {"rows": [[1], [1]], "values": [1, 2]}}',
    '{"affine": {"rows": [], "values": []}}',
    '{"affine": {"rows": [["1"]], "values": [1]}}',
    '{"polyhedron": {"rows": [[1, "1"]], "limits": [1]}}',
    '{"polyhedron": {"rows": [[true]], "limits": [1]}}',
    '{"polyhedron": {"rows": [[1]], "limits": [NaN]}}',
    '{"polyhedron": {"rows": [[[1]]], "limits": [1]}}',
    '{"polyhedron": {"rows": [[1]], "limits": null}}',
    '{"polyhedron": {"rows": null, "limits": null}}',
    '{"polyhedron": {"rows": [[]], "limits": [1]}}',
    '{"polyhedron": {"rows": [[1], null], "limits": [1, 1]}}',
    '{"polyhedron": {"rows": [[1]], "limits": [1], "equal_rows": [[1]]}}',
    '{"polyhedron": {"rows": [[1' + "0" * 400 + ']], "limits": [1]}}',
    '{"cone": {"rows": [[1]], "limits": [1]}}',
    '{"cone": {"rows": [[1]], "limits": [1], "zero": 1.0}}',
    '{"cone": {"rows": [[1]], "limits": [1], "zero": true}}',
    '{"cone": {"rows": [[1]], "limits": [1], "zero": -1, "nonnegative": 2}}',
    '{"cone": {"rows": [[1]], "limits": [1], "second_order": 1}}',
    '{"cone": {"rows": [[1]], "limits": [1], "second_order": [1]}}',
    '{"cone": {"rows": [[1]], "limits": [1], "second_order": [[1]]}}',
    '{"cone": {"rows": [[1]], "limits": [1], "cls": 1}}',
    '{"cone": {"rows": [[1]], "limits": [1], "zero": 1' + "0" * 400 + "}}",
    '{"cone": {"rows": [[1]], "limits": [1], "zero": null}}',
    '{"intersection": []}',
    '{"intersection": {}}',
    '{"intersection": "box:1"}',
    '{"intersection": [1]}',
    '{"intersection": [null]}',
    '{"intersection": ["box:1", []]}',
    '{"intersection": [{"each": ["box:1"]}]}',
    '{"intersection": ["range:0:1", "range:2:3"]}',
    '{"each": []}',
    '{"each": "box:1"}',
    '{"each": [{"each": ["box:1"]}]}',
    '{"each": ["box:0"]}',
    '{"each": [["box:1"]]}',
    '{"intersection":[' * 50 + '"box:1"' + "]}" * 50,
    "[" * 100_000,
    '{"each":[' * 100_000,
    '{"a":' * 100_000 + "1" + "}" * 100_000,
    "\ud800",
    '{"\\ud800": {}}',
    "box:1\0",
    '{"box": {"bound": 1e-999999999999999999999}}',
    "box:1e-999",
]


@pytest.mark.parametrize("text", WRONG, ids=[f"{at}-{text[:30]!r}" for at, text in enumerate(WRONG)])
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("text", [None, 1, b"box:1", {"box": {}}, ["box:1"]])
def test_only_texts_are_read(text: Any) -> None:
    with pytest.raises(InputError, match="a text is needed"):
        parse(text)


def test_texts_may_not_be_endless() -> None:
    with pytest.raises(InputError, match="characters"):
        parse("box:1" + "0" * 10_000_000)


def test_nesting_has_a_floor_but_some_is_fine() -> None:
    assert parse('{"intersection":[' * 8 + '"box:1"' + "]}" * 8) == Box(1.0)
    with pytest.raises(InputError, match="8 sets within each other"):
        parse('{"intersection":[' * 9 + '"box:1"' + "]}" * 9)


KEYS = st.sampled_from(
    [*SETS, *WRITTEN, "rows", "limits", "values", "low", "high", "radius", "centre", "total", "bound", "zero", "x"]
)
NUMBERS = st.one_of(st.integers(-3, 3), st.floats(-5.0, 5.0), st.floats(), st.integers())
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=5), st.sampled_from(["box:1", "ball:2,box:1"])),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)
VECTOR = st.one_of(st.lists(NUMBERS, max_size=3), NUMBERS, JSON)
TABLE = st.one_of(st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=3), JSON)
COUNT = st.one_of(st.integers(-1, 3), JSON)
LEAF = st.one_of(
    st.sampled_from(["box:1", "ball:1.5", "range:0:2", "simplex", "whole", "x"]),
    st.fixed_dictionaries({"polyhedron": st.fixed_dictionaries({"rows": TABLE, "limits": VECTOR})}),
    st.fixed_dictionaries({"affine": st.fixed_dictionaries({"rows": TABLE, "values": VECTOR})}),
    st.fixed_dictionaries({"range": st.fixed_dictionaries({"low": VECTOR, "high": VECTOR})}),
    st.fixed_dictionaries({"ball": st.fixed_dictionaries({"radius": NUMBERS, "centre": VECTOR})}),
    st.fixed_dictionaries(
        {
            "cone": st.fixed_dictionaries(
                {"rows": TABLE, "limits": VECTOR, "nonnegative": COUNT, "second_order": st.one_of(st.just([2]), VECTOR)}
            )
        }
    ),
)
ALMOST = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        *(st.fixed_dictionaries({kind: st.lists(inner, max_size=3)}) for kind in ("intersection", "each"))
    ),
    max_leaves=5,
)


@settings(derandomize=True, max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(found=st.one_of(JSON, ALMOST))
def test_whatever_is_written_becomes_a_set_or_an_input_error(found: Any) -> None:
    try:
        domain = parse(json.dumps(found))
    except InputError:
        return
    assert isinstance(domain, ConvexSet)
    try:
        domain.check(2)
        domain.diameter(2)
    except InputError:
        return


@settings(derandomize=True, max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=40), st.text(alphabet='{}[]":,.-0123456789einfboxralg ', max_size=40)))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        parse(text)
    except InputError:
        return


# -- back to text ------------------------------------------------------------------------------------------------------


class MyBox(Box):
    """Somebody's own."""


@pytest.mark.parametrize(
    "text",
    [
        "whole",
        "box:0.5",
        "range:0:1",
        '{"range": {"low": [0, null], "high": [1, 2]}}',
        '{"ball": {"radius": 2, "centre": [1, 0]}}',
        '{"polyhedron": {"rows": [[1, 1]], "limits": [1]}}',
        '{"each": ["box:1", {"intersection": ["box:1", {"affine": {"rows": [[1, -1]], "values": [0]}}]}]}',
    ],
)
def test_a_set_is_written_as_text_that_reads_back_as_it(text: str) -> None:
    domain = parse(text)
    found = written(domain)
    assert found is not None
    assert parse(found) == domain
    assert written(parse(found)) == found


def test_a_set_of_somebody_s_own_is_not_written() -> None:
    assert written(MyBox(1.0)) is None
    assert written(Each([Box(1.0), MyBox(1.0)])) is None
