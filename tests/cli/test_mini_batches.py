"""Mini-batches on the command line: what is asked for, what is chosen, what is claimed and what is true."""

import json
from typing import Any

import pytest

SMALL = ("train", "--data", "breast-cancer", "--agents", 3, "--rounds", 3, "--quiet")
BUDGET = ("--epsilon", 1, "--delta", 1e-3)


def test_without_zero_out_the_recipe_refuses_and_says_what_to_ask_for(dpadmm: Any) -> None:
    result = dpadmm(*SMALL, "--algorithm", "ps-admm", *BUDGET)
    assert result.exit_code == 2
    assert "--relation zero-out" in " ".join(result.stderr.split())


def test_options_reach_the_solver(dpadmm: Any) -> None:
    flags = ("--algorithm", "scas-admm", "--updates", 4, "--json")
    loss = {}
    for batch, average in ((0.2, "plain"), (64, "plain"), (0.2, "over-relaxed")):
        result = dpadmm(
            *SMALL, *flags, "--batch", batch, "--average", average, "--schedule", "stable:4", "--strength", 0.01
        )
        loss[batch, average] = json.loads(result.stdout)["train_loss"]
    assert len(set(loss.values())) == 3
    near = json.loads(dpadmm(*SMALL, *flags, "--reach", 1e-3).stdout)
    assert near["train_loss"] > 0.68  # ln 2 where it begins


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--batch", 1.5), "whole number of records, or a share below 1"),
        (("--batch", 1000), "a sampling rate over 1"),
        (("--batch", 0), "must be a number from"),
        (("--sampling", "uniform"), "set batch to 1"),
        (("--sampling", "stratified"), "stratified"),
        (("--average", "median"), "median"),
        (("--schedule", "fixed:40"), "outside the stable range"),
        (("--reach", -1), "must be a number from"),
    ],
    ids=str,
)
def test_bad_values_are_refused_with_what_to_do(flags: tuple[Any, ...], said: str, dpadmm: Any) -> None:
    result = dpadmm(*SMALL, "--algorithm", "ps-admm", "--relation", "zero-out", *BUDGET, *flags)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


def test_recipes_without_mini_batches_have_none_to_set(dpadmm: Any) -> None:
    result = dpadmm(*SMALL, "--algorithm", "dp-admm", *BUDGET, "--batch", 0.1)
    assert result.exit_code == 2
    assert "no batch to set" in " ".join(result.stderr.split())


def test_auto_shows_the_table_of_choices(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.spec.tuning.BATCHES", (0.1, 0.3))
    monkeypatch.setattr("dpadmm.spec.tuning.UPDATES", (2, 5))
    flags = ("--algorithm", "ps-admm-sgd", "--relation", "zero-out", *BUDGET, "--tune-batches")
    shown = dpadmm(*SMALL, *flags).stdout
    assert "records a round" in shown
    assert shown.count("chosen") == 1
    choices = json.loads(dpadmm(*SMALL, *flags, "--json").stdout)["choices"]
    assert [(c["batch"], c["updates"]) for c in choices] == [(0.1, 2), (0.1, 5), (0.3, 2), (0.3, 5)]


def test_auto_is_for_new_runs(dpadmm: Any, tmp_path: Any) -> None:
    result = dpadmm("train", "--tune-batches", "--resume", "--out", tmp_path)
    assert result.exit_code == 2


def test_the_printed_noise_stands_beside_its_truth(dpadmm: Any) -> None:
    flags = ("--algorithm", "ps-admm-paper", *BUDGET)
    found = json.loads(dpadmm(*SMALL, *flags, "--json").stdout)
    assert found["claimed_epsilon"] == 1.0
    assert found["epsilon"] > 50.0
    assert "which is false" in " ".join(dpadmm(*SMALL, *flags).stdout.split())
