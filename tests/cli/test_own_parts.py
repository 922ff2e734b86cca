"""Parts of one's own on the command line, by import path: train, resume, report, predict, compare and audit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from own_parts import forget

from dpadmm.spec.toml import read

MINE, LOSS = "somebody.recipes:MINE", "somebody.losses:MyLoss:0.25"
PARTS = ("--algorithm", MINE, "--loss", LOSS, "--schedule", "somebody.others:MySchedule:0.2")
BUDGET = ("--epsilon", 50, "--delta", 1e-3)


@pytest.fixture
def flags(records: Path) -> tuple[Any, ...]:
    """A run over the small file, with parts of somebody's own."""
    return ("--data", records, "--target", "ill", "--owner", "clinic", "--rounds", 30, *PARTS, *BUDGET)


@pytest.fixture
def run(dpadmm: Any, flags: tuple[Any, ...], somebody: ModuleType, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    result = dpadmm("train", *flags, "--out", out)
    assert result.exit_code == 0, result.stderr
    forget()  # so that what follows must find them by their paths
    return out


def test_a_folder_keeps_the_paths(run: Path) -> None:
    kept = read(run / "spec.toml").run
    assert (kept.algorithm, kept.loss, kept.schedule) == (MINE, LOSS, "somebody.others:MySchedule:0.2")
    assert json.loads((run / "result.json").read_text())["algorithm"] == MINE


def test_a_resumed_run_equals_the_uninterrupted_one(
    dpadmm: Any, run: Path, flags: tuple[Any, ...], tmp_path: Path
) -> None:
    from dpadmm.engine.output import checkpoint

    out, save = tmp_path / "stopped", checkpoint.save

    def stop(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", stop)
        assert dpadmm("train", *flags, "--out", out).exit_code == 130
    forget()
    assert dpadmm("train", "--out", out, "--resume").exit_code == 0
    for name in ("history.csv", "model.json"):
        assert (out / name).read_text() == (run / name).read_text()


def test_a_report_imports_nothing_and_names_the_parts(dpadmm: Any, run: Path, tmp_path: Path) -> None:
    result = dpadmm("report", run, "--output", tmp_path / "report.html")
    assert result.exit_code == 0, result.stderr
    page = (tmp_path / "report.html").read_text()
    assert MINE in page
    assert LOSS in page
    assert "somebody" not in sys.modules


def test_a_model_predicts(dpadmm: Any, run: Path, records: Path) -> None:
    result = dpadmm("predict", run, "--data", records)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines()[0] == "prediction,score"
    assert len(result.stdout.splitlines()) == 61
    assert "somebody.losses" in sys.modules


def test_another_process_finds_the_parts_as_well(run: Path, records: Path) -> None:
    """With nothing but the folder of the package on PYTHONPATH."""
    script = "from dpadmm.cli.main import main; main()"
    command = [sys.executable, "-c", script, "predict", str(run), "--data", str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("prediction,score")


def test_a_package_that_is_gone_is_told_of(
    dpadmm: Any, run: Path, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "installed" not in entry])
    for words in (("predict", run, "--data", records), ("train", "--spec", run / "spec.toml")):
        result = dpadmm(*words)
        assert result.exit_code == 2
        assert "No module named 'somebody'" in result.stderr
        assert "Install the package that has it" in result.stderr


def test_compare_takes_recipes_and_losses_by_path(dpadmm: Any, somebody: ModuleType, tmp_path: Path) -> None:
    words = ("--data", "breast-cancer", "--agents", 4, "--epsilon", "1,4", "--delta", 1e-4, "--repeats", 1)
    own = ("--algorithms", f"dp-admm,{MINE}", "--loss", LOSS, "--rounds", 3, "--seed", 1)
    picture, cells = tmp_path / "frontier.svg", tmp_path / "cells.csv"
    result = dpadmm("compare", *words, *own, "--picture", picture, "--csv", cells)
    assert result.exit_code == 0, result.stderr
    assert MINE in result.stdout
    assert MINE in cells.read_text()
    assert picture.stat().st_size > 0
    told = json.loads(dpadmm("compare", *words, *own, "--json").stdout)
    assert {cell["algorithm"] for cell in told["cells"]} == {"dp-admm", MINE, "dpsgd"}
    assert {cell["recipe"] for cell in told["cells"] if cell["algorithm"] == MINE} == {"mine"}
    assert told["left_out"] == []


SHORT = ("--transcripts", 500, "--seed", 1, "--json")


def test_audit_takes_a_recipe_by_path(dpadmm: Any, somebody: ModuleType) -> None:
    words = ("audit", "--epsilon", 2, "--delta", 1e-5, *SHORT)
    told = json.loads(dpadmm(*words, "--algorithm", MINE).stdout)
    assert told["algorithm"] == "mine"
    assert told["claimed"] == pytest.approx(2.0)
    assert told["violated"] is False
    same = json.loads(dpadmm(*words, "--algorithm", "dp-admm", "--loss", told["loss"]).stdout)
    assert same["claimed"] == told["claimed"]


def test_audit_takes_a_loss_by_path(dpadmm: Any, somebody: ModuleType) -> None:
    words = ("audit", "--epsilon", 2, "--delta", 1e-5, "--algorithm", "dp-admm", *SHORT)
    own, named = (
        json.loads(dpadmm(*words, "--loss", loss).stdout) for loss in ("somebody.losses:MyLoss", "smoothed-hinge")
    )
    assert own["loss"] == "my-loss"
    assert own["lower_bound"] == named["lower_bound"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--algorithm", "nobody.recipes:MINE"), "No module named 'nobody'"),
        (("--algorithm", "somebody.recipes:OTHER"), "has no attribute 'OTHER'"),
        (
            ("--algorithm", "somebody.losses:NARROW"),
            "must be a registry name, an import path or an instance of Algorithm",
        ),
        (("--algorithm", "somebody.recipes:PLAIN"), "'plain' claims no privacy"),
        (("--algorithm", "dp-admm", "--loss", "somebody.recipes:MINE"), "an instance of Loss"),
    ],
)
def test_what_is_no_part_is_refused_in_one_line(
    dpadmm: Any, somebody: ModuleType, words: tuple[str, ...], said: str
) -> None:
    result = dpadmm("audit", "--epsilon", 2, "--delta", 1e-5, *SHORT, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
