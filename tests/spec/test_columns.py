"""Columns that parties agree on: one spelling, one digest, and nothing but an `InputError` for what others send."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dpadmm.datasets.curves.encoder import CurveEncoder
from dpadmm.datasets.encoding import Category, Encoder, Numeric
from dpadmm.errors import InputError
from dpadmm.spec.columns import Schema

PLAIN = Schema.of(
    Encoder((Numeric("age", 17.0, 90.0), Numeric("dose"), Category("sex", ("Female", "Male")))), "ill", ("no", "yes")
)
CURVE = Schema.of(CurveEncoder(("t0", "t1", "t2.5", "t4"), (0.0, 1.0, 2.5, 4.0), "cosine:3", 0.25), "dose", None)
HEAD = 'target = "ill"\nclasses = ["no", "yes"]\n'
COLUMN = '[[columns]]\nname = "age"\nlow = 17\nhigh = 90\n'

words = some.text(some.characters(exclude_categories=("Cs",)), min_size=1, max_size=8)
bounds = some.tuples(some.floats(-1e300, 1e300), some.floats(-1e300, 1e300)).filter(lambda pair: pair[0] < pair[1])
numeric = some.builds(lambda name, pair: Numeric(name, *pair), words, some.just(()) | bounds)
category = some.builds(
    lambda name, values: Category(name, tuple(values)), words, some.lists(words, min_size=1, max_size=3, unique=True)
)
encoders = some.lists(numeric | category, min_size=1, max_size=4, unique_by=lambda column: column.name).map(
    lambda columns: Encoder(tuple(columns))
)


# -- one spelling ------------------------------------------------------------------------------------------------------


@given(encoders, words, some.just([]) | some.lists(words, min_size=2, max_size=3, unique=True))
@settings(max_examples=60, derandomize=True)
def test_what_is_written_reads_back_with_the_same_digest(encoder: Encoder, target: str, classes: list[str]) -> None:
    if target in [column.name for column in encoder.columns]:
        target = "".join([*(column.name for column in encoder.columns), target])
    schema = Schema.of(encoder, target, tuple(classes))
    again = Schema.loads(schema.dumps())
    assert (again, again.digest) == (schema, schema.digest)
    assert again.encoder == encoder
    sent = json.loads(json.dumps(asdict(schema)))
    assert Schema.from_fields(sent) == schema


@pytest.mark.parametrize("schema", [PLAIN, CURVE, replace(PLAIN, classes=())])
def test_a_file_reads_back(tmp_path: Path, schema: Schema) -> None:
    path = tmp_path / "columns.toml"
    path.write_text(schema.dumps())
    assert Schema.read(path) == schema
    assert Schema.read(path).digest == schema.digest


def test_a_file_may_be_written_by_hand() -> None:
    text = HEAD + COLUMN + '[[columns]]\nname = "dose"\n[[columns]]\nname = "sex"\nvalues = ["Female", "Male"]\n'
    found = Schema.loads(text)
    assert found.encoder == PLAIN.encoder
    assert found.width == 4
    assert found.text_columns == ("sex", "ill")


def test_everything_that_records_are_encoded_by_is_in_the_digest() -> None:
    age, dose, sex = PLAIN.encoder.columns
    others = [
        PLAIN,
        Schema.of(Encoder((dose, age, sex)), "ill", ("no", "yes")),
        Schema.of(Encoder((Numeric("age", 17.0, 91.0), dose, sex)), "ill", ("no", "yes")),
        Schema.of(Encoder((Numeric("age", 16.0, 90.0), dose, sex)), "ill", ("no", "yes")),
        Schema.of(Encoder((Numeric("age"), dose, sex)), "ill", ("no", "yes")),
        Schema.of(Encoder((age, dose, Category("sex", ("Male", "Female")))), "ill", ("no", "yes")),
        Schema.of(Encoder((age, dose, Category("sex", ("Female", "Male", "other")))), "ill", ("no", "yes")),
        Schema.of(Encoder((age, dose)), "ill", ("no", "yes")),
        replace(PLAIN, classes=("yes", "no")),
        replace(PLAIN, classes=("no", "yes", "perhaps")),
        replace(PLAIN, classes=()),
        replace(PLAIN, target="sick"),
        replace(PLAIN, target="ill", classes=("noyes", "")),
        replace(PLAIN, target="illno", classes=("yes", "")),
        CURVE,
        Schema.of(CurveEncoder(("t0", "t1", "t2.5", "t4"), (0.0, 1.0, 2.5, 5.0), "cosine:3", 0.25), "dose", None),
        Schema.of(CurveEncoder(("t0", "t1", "t2.5", "t4"), (0.0, 1.0, 2.5, 4.0), "cosine:4", 0.25), "dose", None),
        Schema.of(CurveEncoder(("t0", "t1", "t2.5", "t4"), (0.0, 1.0, 2.5, 4.0), "cosine:3", 0.5), "dose", None),
    ]
    assert len({schema.digest for schema in others}) == len(others)
    assert PLAIN.digest == Schema.of(PLAIN.encoder, "ill", ("no", "yes")).digest


# -- what is refused ---------------------------------------------------------------------------------------------------

WRONG = [
    ("target = [", "is not TOML"),
    ("x = " + "[" * 5000, "nested too deeply|is not TOML"),
    (COLUMN, "lacks target"),
    ("target = 5\n" + COLUMN, "target = 5 must be a text"),
    ('target = ""\n' + COLUMN, "need a target"),
    (HEAD, "columns or a curve"),
    (HEAD + "columns = []", "no column"),
    (HEAD + "columns = 5", "columns = 5 must be a list of tables"),
    (HEAD + "columns = [5]", r"columns = \[5\] must be a list of tables"),
    (HEAD + '[[columns]]\nname = "ill"', "'ill' is the target"),
    ('target = "ill"\nclasses = ["no"]\n' + COLUMN, "two or more"),
    ('target = "ill"\nclasses = ["no", "no"]\n' + COLUMN, "two or more"),
    ('target = "ill"\nclasses = ["no", 1]\n' + COLUMN, "list of texts"),
    ('target = "ill"\nclasses = "no"\n' + COLUMN, "list of texts"),
    (HEAD + "divisors = [2.0]\n" + COLUMN, "unknown key in .* 'divisors'; there are: classes, columns, curve, target"),
    (HEAD + "other = 1\n" + COLUMN, "unknown key in .* 'other'"),
    (HEAD + COLUMN + COLUMN, "declared twice"),
    (HEAD + '[[columns]]\nname = "age"\nlow = 1', "one bound"),
    (HEAD + '[[columns]]\nname = "age"\nlow = 2\nhigh = 1', "low < high"),
    (HEAD + '[[columns]]\nname = "age"\nlow = -inf\nhigh = inf', "finite"),
    (HEAD + '[[columns]]\nname = "age"\nlow = "a"\nhigh = "b"', "cannot be understood"),
    (HEAD + "[[columns]]\nlow = 1\nhigh = 2", "lacks 'name'"),
    (HEAD + "[[columns]]\nname = 7", "must be texts"),
    (HEAD + '[[columns]]\nname = "sex"\nvalues = [1, 2]', "must be texts"),
    (HEAD + '[[columns]]\nname = "sex"\nvalues = []', "without repeats"),
    (HEAD + '[[columns]]\nname = "sex"\nkind = "colour"', "kind of column"),
    (HEAD + COLUMN + '[curve]\ncolumns = ["a", "b"]', "columns or a curve"),
    ('target = "y"\n[curve]\ncolumns = ["a", "b"]\ntimes = [0, 1]\nsmoothing = 0', "lacks 'basis'"),
    ('target = "y"\n[curve]\ncolumns = [1, 2]\ntimes = [0, 1]\nbasis = "cosine:2"\nsmoothing = 0', "must be texts"),
    ('target = "a"\n[curve]\ncolumns = ["a", "b"]\ntimes = [0, 1]\nbasis = "cosine:2"\nsmoothing = 0', "the target"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "columns.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        Schema.read(path)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Schema.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not text"):
        Schema.read(tmp_path / "bytes.toml")


def test_bounds_taken_from_data_are_refused() -> None:
    taken = Encoder((Numeric("age"),), divisors=(90.0,))
    with pytest.raises(InputError, match="maxima of the data"):
        Schema.of(taken, "ill", None)
    with pytest.raises(InputError, match="divisors"):
        Schema.from_fields({"features": json.dumps(taken.to_dict()), "target": "ill", "classes": []})


def sent(features: str, target: str = "ill", classes: Any = ("no", "yes")) -> dict[str, Any]:
    return {"features": features, "target": target, "classes": list(classes)}


ODD = [
    None,
    5,
    [],
    {},
    {1: 2, "features": "{}"},
    {**sent(PLAIN.features), "more": 1},
    sent(PLAIN.features) | {"classes": "no"},
    sent(PLAIN.features) | {"classes": {"no": 1}},
    sent(PLAIN.features) | {"features": json.loads(PLAIN.features)},
    sent(""),
    sent("null"),
    sent("5"),
    sent('"curve"'),
    sent('["columns"]'),
    sent("[" * 100_000),
    sent('{"columns": ' + "[" * 100_000),
    sent('{"columns": {}}'),
    sent('{"columns": [{"name": {}}]}'),
    sent('{"columns": [{"name": "a", "kind": []}]}'),
    sent('{"columns": [{"name": "a", "kind": 5}]}'),
    sent('{"columns": [{"name": "a", "low": NaN, "high": Infinity}]}'),
    sent(f'{{"columns": [{{"name": "a", "low": 0, "high": 1{"0" * 400}}}]}}'),
    sent(f'{{"columns": [{{"name": "a", "low": 0, "high": 1{"0" * 5000}}}]}}'),
    sent('{"columns": [{"name": "a", "values": [["x"], ["y"]]}]}'),
    sent('{"columns": [{"name": "a", "values": 5}]}'),
    sent('{"columns": [{"name": "a"}], "divisors": [0]}'),
    sent('{"columns": [{"name": "a"}], "divisors": 7}'),
    sent('{"curve": 5}'),
    sent('{"curve": {"columns": ["a", "b"], "times": [0, 1], "basis": 7, "smoothing": 0}}'),
    sent('{"curve": {"columns": ["a", "b"], "times": ["x", 1], "basis": "cosine:2", "smoothing": 0}}'),
    sent('{"curve": {"columns": ["a", "b"], "times": [0, 1], "basis": "cosine:1000000000", "smoothing": 0}}'),
    sent(f'{{"curve": {{"columns": ["a", "b"], "times": [0, 1{"0" * 400}], "basis": "cosine:2", "smoothing": 0}}}}'),
]


@pytest.mark.parametrize("entry", ODD)
def test_odd_descriptions_from_others_are_refused(entry: Any) -> None:
    with pytest.raises(InputError):
        Schema.from_fields(entry)


plain = some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=6)
trees = some.recursive(
    plain, lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=6), inner, max_size=4)
)
KEYS = ("columns", "curve", "name", "values", "low", "high", "kind", "divisors", "times", "basis", "smoothing")
described = some.recursive(
    plain, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.sampled_from(KEYS), inner, max_size=4)
)


@given(
    some.fixed_dictionaries(
        {
            "features": described.map(json.dumps) | trees | some.text(max_size=20),
            "target": some.text(max_size=5) | trees,
            "classes": some.lists(some.text(max_size=3), max_size=3) | trees,
        }
    )
    | trees
    | some.dictionaries(plain, plain)
)
@settings(max_examples=300, derandomize=True)
def test_whatever_others_describe_is_understood_or_refused(entry: Any) -> None:
    try:
        found = Schema.from_fields(entry)
    except InputError:
        return
    assert len(found.digest) == 64
    assert found.width >= 1


# -- records -----------------------------------------------------------------------------------------------------------


def table(**columns: Any) -> pa.Table:
    given: dict[str, Any] = {"age": [17, 90], "dose": [0.5, -2.0], "sex": ["Male", "Female"], "ill": ["yes", "no"]}
    return pa.table({**given, **columns})


def test_records_are_encoded_as_agreed() -> None:
    features, targets = PLAIN.encode(table())
    np.testing.assert_array_equal(features, [[0.0, 0.5, 0.0, 1.0], [1.0, -2.0, 1.0, 0.0]])
    np.testing.assert_array_equal(targets, [1, 0])
    _, swapped = replace(PLAIN, classes=("yes", "no")).encode(table())
    np.testing.assert_array_equal(swapped, [0, 1])


def test_a_target_that_is_a_number_stays_one() -> None:
    features, targets = replace(PLAIN, classes=(), target="weight").encode(table(weight=[3, 4.5]))
    np.testing.assert_array_equal(targets, [3.0, 4.5])
    assert features.shape == (2, 4)


def test_curves_are_encoded_by_their_encoder() -> None:
    values = {name: [1.0 + k, 2.0 * k] for k, name in enumerate(("t0", "t1", "t2.5", "t4"))}
    given = pa.table({**values, "dose": [1.0, 2.0]})
    features, targets = CURVE.encode(given)
    assert CURVE.width == 3
    assert CURVE.text_columns == ()
    np.testing.assert_array_equal(features, CURVE.encoder.transform(given))
    np.testing.assert_array_equal(targets, [1.0, 2.0])
    assert Schema.loads(CURVE.dumps()).encode(given)[0].tobytes() == features.tobytes()


@pytest.mark.parametrize(
    "columns",
    [
        {"ill": ["yes", "perhaps"]},
        {"ill": ["yes", None]},
        {"sex": ["Male", "X"]},
        {"age": [1.0, None]},
        {"age": ["old", "young"]},
        {"dose": [1.0, float("inf")]},
    ],
)
def test_records_that_do_not_fit_are_an_input_error(columns: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        PLAIN.encode(table(**columns))
    with pytest.raises(InputError, match="unknown column"):
        PLAIN.encode(table().drop(list(columns)))
