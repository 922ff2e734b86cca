"""Curves on the command line: train, slope, predict, and what is wrong with input."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.datasets.curves import simulation

BUDGET = ("--epsilon", 2, "--delta", 1e-4)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "RECORDS", 2_000)


@pytest.fixture
def spectra(tmp_path: Path) -> Path:
    """120 curves at 12 times, a hole in every tenth, with a target and a laboratory."""
    draw = np.random.default_rng(0)
    t = np.linspace(400.0, 700.0, 12)
    lines = [",".join([*(f"nm{time:g}" for time in t), "fat", "lab"])]
    for row in range(120):
        a, b = draw.normal(size=2)
        values = [f"{a + b * np.cos(np.pi * (time - 400.0) / 300.0):.6f}" for time in t]
        if row % 10 == 0:
            values[row % 12] = ""
        lines.append(",".join([*values, f"{a - b + draw.normal():.4f}", "north" if row % 2 else "south"]))
    path = tmp_path / "spectra.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_simulation_by_name(dpadmm: Any, small: None) -> None:
    done = dpadmm("train", "--data", "functional-sim", "--algorithm", "fdp-admm", "--tau", 0.5, "--agents", 20,
                  "--rounds", 10, *BUDGET, "--json")  # fmt: skip
    found = json.loads(done.stdout)
    assert 0.0 < found["mise"] < 3.0
    assert (found["loss"], found["tau"], found["basis"]) == ("quantile:0.5", [0.5], "cosine:10")
    assert len(found["coverage"]) == 1
    assert found["fully_accounted"]
    assert found["epsilon"] == pytest.approx(2.0, rel=1e-6)


def test_a_person_reads_error_coverage_and_components(dpadmm: Any, small: None) -> None:
    text = dpadmm("train", "--data", "functional-sim", "--algorithm", "fdp-admm", "--tau", "0.25,0.75", "--intercept",
                  "--agents", 4, "--rounds", 3, "--components", 3, *BUDGET).stdout  # fmt: skip
    for words in ("error of beta(t)", "test check loss", "below the quantile", "at 0.25", "3 of 10", "Simulated:"):
        assert words in text, words


def test_a_file_of_curves_from_training_to_quantiles(dpadmm: Any, spectra: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ("--data", spectra, "--curve", "nm", "--target", "fat", "--owner", "lab", "--task", "regression")
    done = dpadmm("train", *flags, "--algorithm", "fdp-admm", "--tau", "0.1,0.5,0.9", "--intercept", "--non-crossing",
                  "--basis", "cosine:4", "--norm-bound", 3, "--rounds", 5, *BUDGET, "--out", out, "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["dimension"] == 15
    picture = tmp_path / "beta.png"
    shown = json.loads(dpadmm("slope", out, "--points", 5, "--draw", picture, "--json").stdout)
    assert np.shape(shown["beta"]) == (3, 5)
    assert shown["t"] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "beta at tau 0.1" in dpadmm("slope", out).stdout
    predicted = list(csv.DictReader(io.StringIO(dpadmm("predict", out, "--data", spectra).stdout)))
    quantiles = np.array([[float(value) for value in row.values()] for row in predicted])
    assert list(predicted[0]) == ["quantile 0.1", "quantile 0.5", "quantile 0.9"]
    assert (np.diff(quantiles, axis=1) >= -1e-9).all()
    assert json.loads(dpadmm("predict", out, "--data", spectra, "--json").stdout)["crossed"] == 0


def test_quantiles_that_crossed_are_put_in_order_and_it_is_said(dpadmm: Any, spectra: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    flags = ("--data", spectra, "--curve", "nm", "--target", "fat", "--owner", "lab", "--task", "regression")
    dpadmm("train", *flags, "--algorithm", "fdp-admm", "--tau", "0.4,0.5,0.6", "--rounds", 3, "--norm-bound", 3,
           "--basis", "cosine:4", *BUDGET, "--out", out)  # fmt: skip
    done = dpadmm("predict", out, "--data", spectra, "--json")
    found = json.loads(done.stdout)
    assert found["crossed"] > 10
    assert all(row == sorted(row) for row in found["predictions"])
    assert f"{found['crossed']} of 120 records crossed" in done.stderr


BAD = {
    "a level of one": (("--tau", 1), "tau = 1.0 must be a number from 1e-06 to 0.999999"),
    "a level of zero": (("--tau", "0,0.5"), "tau = 0.0 must be a number from"),
    "levels out of order": (("--tau", "0.9,0.1"), "increasing order"),
    "levels of another loss": (("--tau", 0.5, "--loss", "squared"), "loss 'squared' has none"),
    "levels said twice": (("--tau", 0.5, "--loss", "quantile:0.3"), "not both"),
    "one level that must not cross": (("--tau", 0.5, "--non-crossing", "--intercept"), "Give several tau"),
    "no intercept": (("--tau", "0.1,0.9", "--non-crossing"), "needs an intercept"),
    "more components than columns": (("--components", 11), "no more than 10"),
    "components of nothing": (("--components", "many"), "whole number such as 5"),
    "a share of one": (("--components", 3, "--components-share", 1), "components_share = 1.0 must be a number from"),
    "an unknown basis": (("--basis", "wavelets:5"), "wavelets"),
    "a basis without functions": (("--basis", "cosine:0"), "cosine"),
    "a curve of a named data set": (("--curve", "nm"), "takes no curve"),
    "a statistic as a loss": (("--loss", "second-moment"), "does not go with"),
}


@pytest.mark.parametrize(("flags", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_said_clearly(dpadmm: Any, small: None, flags: tuple[Any, ...], words: str) -> None:
    done = dpadmm("train", "--data", "functional-sim", "--algorithm", "fdp-admm", *BUDGET, "--agents", 2, *flags)
    assert done.exit_code == 2
    assert words in " ".join(done.stderr.split())


def test_a_curve_without_points_is_named(dpadmm: Any, tmp_path: Path) -> None:
    path = tmp_path / "holes.csv"
    path.write_text("t1,t2,t3,y\n1,2,3,1\n,,,2\n1,2,1,0\n")
    flags = ("--curve", "t", "--target", "y", "--task", "regression", "--basis", "cosine:2", "--agents", 1)
    done = dpadmm("train", "--data", path, *flags, "--algorithm", "f-admm")
    assert done.exit_code == 2
    assert "row 2" in done.stderr


def test_a_model_of_no_curves_has_no_slope(dpadmm: Any, records: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    dpadmm("train", "--data", records, "--target", "ill", "--owner", "clinic", "--rounds", 1, *BUDGET, "--out", out)
    done = dpadmm("slope", out)
    assert done.exit_code == 2
    assert "not one of curves" in done.stderr
