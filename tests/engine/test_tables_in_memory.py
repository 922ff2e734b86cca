"""Records in memory, as pandas, Polars and pyarrow tables: the run over the same records in a file, bit for bit."""

from pathlib import Path

import networkx
import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import csv, parquet

from dpadmm.datasets import simulate
from dpadmm.engine.run import train
from dpadmm.errors import InputError

OWNERS = np.array(["north", "east", "south"])
TERMS = {"algorithm": "dp-admm", "rounds": 6, "epsilon": 2.0, "delta": 1e-5, "target": "ill", "seed": 7}


@pytest.fixture
def table() -> pyarrow.Table:
    """150 records of two numbers, with a label and an owner."""
    draw = np.random.default_rng(0)
    rows = draw.uniform(-0.6, 0.6, (150, 2))
    labels = np.where(rows.sum(axis=1) + 0.2 * draw.normal(size=150) > 0, "yes", "no")
    return pyarrow.table(
        {"height": rows[:, 0], "weight": rows[:, 1], "ill": labels, "clinic": OWNERS[draw.integers(0, 3, 150)]}
    )


KINDS = {
    "pyarrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "pandas with an index": lambda table: table.to_pandas().set_index(np.arange(150) * 3 + 1),
    "pandas with categories": lambda table: (
        table.to_pandas().astype("category").astype({"height": float, "weight": float})
    ),
    "polars": polars.from_arrow,
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("owners", ["clinic", None], ids=["owners", "split"])
def test_a_table_gives_the_numbers_of_its_parquet_file(table, kind, owners, same, tmp_path):
    table = table if owners else table.drop_columns("clinic")
    parquet.write_table(table, path := tmp_path / "records.parquet")
    terms = {**TERMS, "owners": owners, "agents": None if owners else 4}
    in_memory, from_file = train(data=kind(table), **terms), train(data=path, **terms)
    same(in_memory, from_file)
    assert in_memory.guarantee == from_file.guarantee
    assert in_memory.plan.setting.counts.tolist() == from_file.plan.setting.counts.tolist()
    assert len(in_memory.plan.setting.counts) == (3 if owners else 4)


def test_a_table_gives_the_numbers_of_its_csv_file(table, same, tmp_path):
    csv.write_csv(table, path := tmp_path / "records.csv")  # shortest decimals that read back as the same numbers
    same(train(data=table.to_pandas(), owners="clinic", **TERMS), train(data=str(path), owners="clinic", **TERMS))


def test_a_path_as_data_is_the_source(table, same, tmp_path):
    parquet.write_table(table, path := tmp_path / "records.parquet")
    by_data = train(data=path, owners="clinic", **TERMS)
    assert by_data.experiment.data.source == str(path)
    same(by_data, train(source=str(path), owner="clinic", **TERMS))


def test_regressions_and_declared_columns_are_as_in_a_file(table, same, tmp_path):
    parquet.write_table(table, path := tmp_path / "records.parquet")
    columns = [{"name": "height", "low": -1.0, "high": 1.0}]
    terms = {**TERMS, "target": "weight", "task": "regression", "loss": "squared:0.5", "columns": columns, "agents": 2}
    in_memory = train(data=table.to_pandas(), **terms)
    same(in_memory, train(data=path, **terms))
    assert in_memory.dataset.feature_names == ("height",)


def test_owners_are_the_nodes_of_a_network_of_their_names(table):
    network = networkx.Graph([("south", "north"), ("north", "east")])
    terms = {**TERMS, "algorithm": "private-mr-admm", "rounds": 2, "topology": network}
    result = train(data=table.to_pandas(), owners="clinic", **terms)
    assert result.plan.setting.graph.edges.tolist() == [[0, 1], [1, 2]]  # of east, north, south


def test_a_fifth_is_held_out_unless_the_spec_says_how_much(table):
    assert train(data=table, owners="clinic", **TERMS).plan.setting.counts.sum() == 120
    assert train(data=table, owners="clinic", test=0.5, **TERMS).plan.setting.counts.sum() == 75
    assert train(data=table, owners="clinic", test=0.0, **TERMS).plan.setting.counts.sum() == 150


def test_records_that_come_with_held_out_ones_keep_them(same):
    from dataclasses import replace

    data, apart = simulate("classification", 200, 4, 0), simulate("classification", 40, 4, 1)
    terms = {name: value for name, value in TERMS.items() if name != "target"} | {"agents": 4}
    result = train(data=replace(data, held_out=apart), **terms)
    assert result.plan.setting.counts.sum() == 200
    assert result.test_error is not None
    assert train(data=data, **terms).plan.setting.counts.sum() == 160


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_an_output_folder_is_refused_before_anything_is_written(table, tmp_path):
    with pytest.raises(InputError, match=r"records in memory do not go with an output folder \(out\).*parquet"):
        train(data=table, owners="clinic", out=tmp_path / "run", **TERMS)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "sick"}, "unknown target column 'sick'"),
        ({"owners": "hospital"}, "unknown owner column 'hospital'"),
        ({"columns": [{"name": "age"}]}, "unknown column 'age'"),
        ({"target": None}, "which column of the table is to be predicted"),
        ({"curve": "nm"}, "curves are read from files"),
        ({"source": "adult"}, "give data or source, not both"),
        ({"owner": "clinic"}, "give owners or owner, not both"),
    ],
    ids=str,
)
def test_what_does_not_fit_the_table_is_refused(table, changes, message):
    with pytest.raises(InputError, match=message):
        train(data=table.to_pandas(), **{**TERMS, "owners": "clinic", **changes})


TWICE = pandas.DataFrame([[0.1, 0.2, "yes"], [0.3, 0.4, "no"]], columns=["x", "x", "ill"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.ones((3, 2)), "data of type ndarray: give a name, a path, or a pandas, Polars or pyarrow table"),
        ([1, 2], "data of type list: give a name, a path"),
        (polars.Series("ill", ["yes"]), "data of type .*: give a name, a path"),
        (polars.LazyFrame({"ill": ["yes"]}), "data of type LazyFrame: give a name, a path"),
        (TWICE, "[Dd]uplicate column names|more than one column named 'x'"),
        (pyarrow.Table.from_arrays([[1], [2], ["a"]], names=["x", "x", "ill"]), "the table has more than one column"),
        (pyarrow.table({"x": [], "ill": []}), "the table is empty"),
        (pandas.DataFrame({"x": [], "ill": []}), "the table is empty"),
        (polars.DataFrame({"x": [], "ill": []}), "the table is empty"),
        (pandas.DataFrame({"x": [1.0, None], "ill": ["yes", "no"]}), "missing"),
    ],
    ids=lambda each: type(each).__name__ if not isinstance(each, str) else "",
)
def test_what_is_no_table_of_records_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        train(data=data, **TERMS)


def test_the_path_may_be_a_path_or_a_text(table, same, tmp_path):
    parquet.write_table(table, tmp_path / "records.parquet")
    terms = {**TERMS, "owners": "clinic"}
    same(
        train(data=str(tmp_path / "records.parquet"), **terms), train(data=Path(tmp_path / "records.parquet"), **terms)
    )
