"""`dpadmm reconstruct`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_the_json(dpadmm: Any, tmp_path: Path) -> None:
    picture = tmp_path / "digits.png"
    result = dpadmm("reconstruct", "--rounds", 3, "--epsilon", "8,1", "--seed", 1, "--picture", picture, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert list(found) == [
        *("data", "algorithm", "twin", "records", "rounds", "seed", "delta", "attacks", "picture"),
    ]
    assert (found["data"], found["algorithm"], found["twin"]) == ("digits", "dp-admm", "linearised-admm")
    assert (found["records"], found["rounds"], found["seed"], found["delta"]) == (1, 3, 1, 1e-5)
    assert [attack["epsilon"] for attack in found["attacks"]] == [None, 8.0, 1.0]
    bare, _, private = found["attacks"]
    assert list(bare) == ["epsilon", "guarantee", "relative_error", "cosine", "label_right"]
    assert bare["guarantee"] is None
    assert bare["relative_error"][0] < 1e-6  # rows are rounded to integers of 22 bits
    assert bare["label_right"] == [True]
    assert "epsilon 1.000" in private["guarantee"]
    assert private["relative_error"][0] > 0.5
    assert found["picture"] == str(picture)
    assert picture.stat().st_size > 0


def test_the_table_of_a_table(dpadmm: Any) -> None:
    result = dpadmm("reconstruct", "--data", "breast-cancer", "--records", 2, "--rounds", 4, "--epsilon", "1")
    assert result.exit_code == 0
    for part in (
        "linearised-admm, no privacy",
        "dp-admm, epsilon 1",
        "mean radius",
        "right",
        "total, replace relation",
    ):
        assert part in result.stdout


def test_a_file_of_records(dpadmm: Any, records: Path) -> None:
    lines = records.read_text().splitlines()
    records.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")  # without the clinics
    result = dpadmm("reconstruct", "--data", records, "--target", "ill", "--rounds", 4, "--epsilon", "1")
    assert result.exit_code == 0
    assert "height" in result.stdout
    assert "recovered times their labels" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--data", "digit"), "unknown data set 'digit'; did you mean 'digits'?"),
        (("--data", "synthetic-regression"), "the attack is on classifiers"),
        (("--records", 21), "records 21: the attack takes between 1 and 20."),
        (("--records", 20, "--agents", 90), "need 1,800, and 'digits' has 1,797; take fewer."),
        (("--algorithm", "ps-admm"), "name one of pvp, dvp, dp-admm, dpsgd"),
        (("--algorithm", "dvp"), "perturbation 'objective' needs"),
        (("--epsilon", "8;1"), "--epsilon 8;1: must be numbers, separated by commas"),
        (("--epsilon", "0"), "epsilon = 0.0 must be a number from"),
        (("--picture", "digits.txt"), "--picture 'digits.txt': the name must end in .png, .svg, .pdf."),
    ],
)
def test_what_is_wrong_is_said(dpadmm: Any, arguments: tuple[object, ...], said: str) -> None:
    result = dpadmm("reconstruct", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
