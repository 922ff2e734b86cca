"""`dpadmm predict`: a model that was kept, on new records."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyarrow import csv as arrow_csv

BUDGET = ("--epsilon", 50, "--delta", 1e-3)


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def run(dpadmm: Any, records: Path, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    flags = ("--target", "ill", "--owner", "clinic", "--rounds", 30, "--radius", 5, "--intercept")
    assert dpadmm("train", "--data", records, *flags, *BUDGET, "--out", out).exit_code == 0
    return out


def test_csv_to_stdout(dpadmm: Any, run: Path, records: Path) -> None:
    result = dpadmm("predict", run, "--data", records)
    assert result.exit_code == 0
    rows = _rows(result.stdout)
    assert list(rows[0]) == ["prediction", "score"]
    truth = [row["ill"] for row in _rows(records.read_text())]
    assert np.mean([row["prediction"] == true for row, true in zip(rows, truth, strict=True)]) > 0.7
    assert all((float(row["score"]) > 0) == (row["prediction"] == "yes") for row in rows)


def test_parquet_and_csv_agree_and_the_output_file_is_the_same(
    dpadmm: Any, run: Path, records: Path, tmp_path: Path
) -> None:
    columns = tmp_path / "records.parquet"
    parquet.write_table(arrow_csv.read_csv(records), columns)
    written = tmp_path / "out.csv"
    result = dpadmm("predict", run, "--data", columns, "--output", written)
    assert result.stdout == ""
    assert written.read_text() == dpadmm("predict", run, "--data", records).stdout
    assert not list(tmp_path.glob(".*partial"))


def test_json(dpadmm: Any, run: Path, records: Path) -> None:
    found = json.loads(dpadmm("predict", run, "--data", records, "--json").stdout)
    assert found["count"] == 60 == len(found["predictions"]) == len(found["scores"])
    assert set(found["predictions"]) <= {"yes", "no"}
    assert (found["model"]["simulated"], found["model"]["private"]) == (True, False)
    assert "epsilon 50.00" in found["model"]["guarantee"]


def test_several_classes_have_a_score_each(dpadmm: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ("--data", "digits", "--loss", "softmax", "--agents", 3, "--rounds", 2, "--epsilon", 5, "--delta", 1e-5)
    assert dpadmm("train", *flags, "--out", out).exit_code == 0
    from sklearn.datasets import load_digits

    digits = load_digits()
    table = tmp_path / "digits.csv"
    arrow_csv.write_csv(pa.table(dict(zip(digits.feature_names, digits.data[:5].T, strict=True))), table)
    rows = _rows(dpadmm("predict", out, "--data", table).stdout)
    assert list(rows[0]) == ["prediction", *(f"score {label}" for label in range(10))]
    assert len(rows) == 5


def test_a_regression_predicts_numbers(dpadmm: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ("--data", "synthetic-regression", "--loss", "squared", "--agents", 3, "--rounds", 2)
    assert dpadmm("train", *flags, "--epsilon", 5, "--delta", 1e-5, "--out", out).exit_code == 0
    table = tmp_path / "new.csv"
    table.write_text(",".join(f"x{i}" for i in range(20)) + "\n" + ",".join(["0.1"] * 20) + "\n")
    rows = _rows(dpadmm("predict", out, "--data", table).stdout)
    assert list(rows[0]) == ["prediction"]
    float(rows[0]["prediction"])


def test_an_adult_model_reads_raw_adult_records(dpadmm: Any, tmp_path: Path) -> None:
    from dpadmm.datasets import adult_table

    out = tmp_path / "run"
    flags = ("--algorithm", "gradient-descent", "--schedule", "fixed:4", "--rounds", 60, "--agents", 10)
    assert dpadmm("train", "--data", "adult", *flags, "--measure-every", 60, "--out", out).exit_code == 0
    raw = tmp_path / "adult.csv"
    table = adult_table().slice(0, 500)
    arrow_csv.write_csv(table.drop_columns(["income"]), raw)
    found = json.loads(dpadmm("predict", out, "--data", raw, "--json").stdout)
    truth = table.column("income").to_pylist()
    assert np.mean([a == b for a, b in zip(found["predictions"], truth, strict=True)]) > 0.75
    assert found["model"]["private"] is False


def _refused(result: Any, *parts: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    for part in parts:
        assert part in result.stderr


def test_bad_input(dpadmm: Any, run: Path, records: Path, tmp_path: Path) -> None:
    _refused(dpadmm("predict", tmp_path / "nowhere", "--data", records), "nowhere", "model.json")
    _refused(dpadmm("predict", run, "--data", tmp_path / "missing.csv"), "missing.csv")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("height,wieght\n1,2\n")
    _refused(dpadmm("predict", run, "--data", wrong), "'weight'", "'wieght'")
    wrong.write_text("height,weight\n1,2\n3,inf\n")
    _refused(dpadmm("predict", run, "--data", wrong), "'weight'", "row 2", "inf")
    _refused(dpadmm("predict", run, "--data", records, "--output", tmp_path / "no" / "o.csv"), "o.csv")
    _refused(dpadmm("predict", run, "--data", records, "--output", tmp_path), "cannot write")
    assert not list(tmp_path.rglob("*partial"))


def test_an_old_output_survives_a_failed_prediction(dpadmm: Any, run: Path, tmp_path: Path) -> None:
    output, wrong = tmp_path / "o.csv", tmp_path / "wrong.csv"
    output.write_text("before")
    wrong.write_text("height\n1\n")
    assert dpadmm("predict", run, "--data", wrong, "--output", output).exit_code == 2
    assert output.read_text() == "before"
