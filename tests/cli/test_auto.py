"""`dpadmm train --algorithm auto`: what it chooses is said, kept and can be run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.spec.toml import read

BUDGET = ("--epsilon", 1, "--delta", 1e-5)
TERMS = ("train", "--data", "synthetic", "--algorithm", "auto", "--agents", 4, *BUDGET)


def test_what_was_chosen_is_said_to_people_and_to_programs(dpadmm: Any) -> None:
    told = dpadmm(*TERMS).stdout
    assert "dp-accelerated on synthetic" in told
    assert "auto chose" in told
    found = json.loads(dpadmm(*TERMS, "--json").stdout)
    assert (found["algorithm"], found["loss"], found["fully_accounted"]) == ("dp-accelerated", "capped-logistic", True)
    assert found["epsilon"] <= 1.0
    assert any("standardised" in reason for reason in found["reasons"])


def test_a_kept_run_is_a_plain_spec_that_gives_the_same_again(dpadmm: Any, tmp_path: Path) -> None:
    first = json.loads(dpadmm(*TERMS, "--out", tmp_path / "run", "--json").stdout)
    kept = read(tmp_path / "run" / "spec.toml")
    assert kept.run.algorithm == "dp-accelerated"
    assert kept.run.standardise is not None
    again = json.loads(dpadmm("train", "--spec", tmp_path / "run" / "spec.toml", "--json").stdout)
    assert again["test_error"] == first["test_error"]
    assert again["train_loss"] == first["train_loss"]
    assert again["reasons"] == []


def test_a_kept_model_predicts_as_it_was_tested(dpadmm: Any, records: Path, tmp_path: Path) -> None:
    """In the coordinates that records came in: nobody who predicts has to standardise anything."""
    out = tmp_path / "run"
    flags = ("--data", records, "--target", "ill", "--owner", "clinic", "--algorithm", "auto", "--test", 0)
    assert dpadmm("train", *flags, "--epsilon", 100, "--delta", 1e-3, "--out", out).exit_code == 0
    found = json.loads(dpadmm("predict", out, "--data", records, "--json").stdout)
    truth = [line.split(",") for line in records.read_text().splitlines()]
    labels = [line[truth[0].index("ill")] for line in truth[1:]]
    assert np.mean([one == other for one, other in zip(found["predictions"], labels, strict=True)]) > 0.7


def test_what_is_named_stays_and_what_does_not_go_together_is_refused(dpadmm: Any) -> None:
    flags = ("--rounds", 7, "--momentum", 0.5, "--standardise", 0.4, "--no-intercept", "--loss", "logistic")
    found = json.loads(dpadmm(*TERMS, *flags, "--json").stdout)
    assert (found["rounds"], found["loss"], found["dimension"]) == (7, "logistic", 20)
    assert "40% of the budget" in " ".join(found["reasons"])
    refused = dpadmm("train", "--data", "synthetic", "--algorithm", "auto", "--noise-multiplier", 3)
    assert refused.exit_code == 2
    assert "algorithm 'auto' chooses for a total budget" in refused.stderr
    share = dpadmm(*TERMS, "--standardise", 1.5)
    assert share.exit_code == 2
    assert "standardise = 1.5 must be 0 or a number from" in share.stderr


def test_a_graph_has_no_server_to_accelerate(dpadmm: Any) -> None:
    terms = ("train", "--data", "synthetic", "--algorithm", "auto", "--topology", "ring:5", *BUDGET, "--json")
    found = json.loads(dpadmm(*terms).stdout)
    assert (found["algorithm"], found["agents"], found["loss"]) == ("pvp-graph", 5, "logistic")
    assert found["epsilon"] <= 1.0
