"""`dpadmm train`."""

from __future__ import annotations

import io
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

SMALL = ("--data", "synthetic", "--agents", 4, "--rounds", 4)
BUDGET = ("--epsilon", 1, "--delta", 1e-5)
KEYS = {
    *("algorithm", "agents", "rounds", "epsilon", "delta", "relation", "accountant", "noise_multiplier"),
    *("train_loss", "test_error", "seconds", "out"),
}


def test_json_is_one_object_with_the_promised_keys(dpadmm: Any) -> None:
    result = dpadmm("train", *SMALL, *BUDGET, "--json")
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert set(summary) >= KEYS
    assert (summary["algorithm"], summary["agents"], summary["rounds"]) == ("dp-admm", 4, 4)
    assert math.isclose(summary["epsilon"], 1.0, rel_tol=1e-9)
    assert summary["epsilon"] <= 1.0
    assert (summary["delta"], summary["relation"], summary["accountant"]) == (1e-5, "replace", "exact")
    assert summary["out"] is None
    assert result.stderr == ""


def test_the_same_seed_is_the_same_run(dpadmm: Any) -> None:
    first, second, other = (
        json.loads(dpadmm("train", *SMALL, *BUDGET, "--seed", seed, "--json").stdout) for seed in (1, 1, 2)
    )
    assert first["train_loss"] == second["train_loss"] != other["train_loss"]


def test_a_person_reads_the_guarantee_first(dpadmm: Any) -> None:
    text = dpadmm("train", *SMALL, *BUDGET).stdout
    assert text.index("Simulated: epsilon 1.000, delta 1e-05 in total") < text.index("training loss")
    for part in ("replace relation", "exact Gaussian composition", "global model", "agents' models", "--out FOLDER"):
        assert part in text


def test_repeats_have_a_spread(dpadmm: Any) -> None:
    assert "±" in dpadmm("train", *SMALL, *BUDGET, "--repeats", 2, "--quiet").stdout


def test_quiet_gives_no_hints(dpadmm: Any) -> None:
    assert "--out" not in dpadmm("train", *SMALL, *BUDGET, "--quiet").stdout


def test_not_private_is_said_plainly(dpadmm: Any) -> None:
    summary = json.loads(dpadmm("train", *SMALL, "--algorithm", "admm", "--json").stdout)
    assert summary["epsilon"] is None
    assert summary["private"] is False
    assert "Not private" in dpadmm("train", *SMALL, "--algorithm", "admm").stdout
    assert "Not private" in dpadmm("train", *SMALL, "--noise-multiplier", 0, "--delta", 1e-5).stdout


def test_data_dependent_scaling_is_not_private(dpadmm: Any) -> None:
    result = dpadmm("train", *SMALL, *BUDGET, "--scaling", "max")
    assert "Not private" in result.stdout
    assert "The rounds alone cost epsilon 1.000" in result.stdout
    assert result.stderr.startswith("warning: the features were scaled")


def test_paper_noise_shows_the_claim_beside_the_truth(dpadmm: Any) -> None:
    flags = ("train", "--data", "synthetic", "--agents", 4, "--rounds", 100, "--measure-every", 50)
    paper = ("--epsilon", 0.2, "--delta", 1e-6, "--paper-noise")
    summary = json.loads(dpadmm(*flags, *paper, "--json").stdout)
    assert summary["epsilon"] == pytest.approx(1.657, abs=5e-4)
    assert summary["claimed_epsilon"] == pytest.approx(1.984, abs=5e-4)
    text = dpadmm(*flags, *paper).stdout
    assert "epsilon 1.657" in text
    assert "1.984" in text


def test_a_spec_file_says_it_and_flags_override_it(dpadmm: Any, tmp_path: Path) -> None:
    spec = tmp_path / "run.toml"
    spec.write_text(
        '[run]\nalgorithm = "pvp"\nrounds = 3\nepsilon = 2\ndelta = 1e-5\n'
        '[data]\nsource = "synthetic"\nagents = 4\n[simulation]\nseed = 5\n'
    )
    said = json.loads(dpadmm("train", "--spec", spec, "--json").stdout)
    assert (said["algorithm"], said["rounds"], said["agents"], said["seed"]) == ("pvp", 3, 4, 5)
    over = json.loads(dpadmm("train", "--spec", spec, "--rounds", 2, "--algorithm", "dp-admm", "--json").stdout)
    assert (over["algorithm"], over["rounds"], over["agents"], over["seed"]) == ("dp-admm", 2, 4, 5)


def test_a_run_is_kept_with_its_resolved_spec(dpadmm: Any, tmp_path: Path) -> None:
    out = tmp_path / "new" / "run"
    summary = json.loads(dpadmm("train", *SMALL, *BUDGET, "--intercept", "--out", out, "--json").stdout)
    assert summary["out"] == str(out)
    assert json.loads((out / "result.json").read_text()) == summary
    spec = tomllib.loads((out / "spec.toml").read_text())
    assert spec["run"]["epsilon"] == 1.0
    assert spec["run"]["intercept"] is True
    assert spec["data"]["agents"] == 4
    files = ["history.csv", "model.json", "plan.json", "result.json", "spec.toml", "status.json"]
    assert sorted(path.name for path in out.iterdir()) == files
    again = json.loads(dpadmm("train", "--spec", out / "spec.toml", "--json").stdout)
    assert again["train_loss"] == summary["train_loss"]


def test_owners_of_a_file_are_the_agents_and_long_rows_are_clipped(dpadmm: Any, records: Path) -> None:
    flags = ("train", "--data", records, "--target", "ill", "--owner", "clinic", "--test", 0, "--rounds", 2)
    found = dpadmm(*flags, "--epsilon", 1, "--delta", 1e-5, "--json")
    assert "no epsilon covers which do" in found.stderr
    result = dpadmm(*flags, "--classes", "no,yes", "--epsilon", 1, "--delta", 1e-5, "--json")
    summary = json.loads(result.stdout)
    assert (json.loads(found.stdout)["fully_accounted"], summary["fully_accounted"]) == (False, True)
    assert summary["agents"] == 2
    assert summary["clipped_rows"] == 12
    assert summary["test_error"] is None
    assert result.stderr == ""
    assert "12 (20%) to norm 1" in dpadmm(*flags, "--epsilon", 1, "--delta", 1e-5).stdout


def test_a_large_delta_is_a_warning(dpadmm: Any) -> None:
    result = dpadmm("train", *SMALL, "--epsilon", 1, "--delta", 0.01, "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: delta 0.01 is above 1/(10 m) = 5e-05")
    assert len(json.loads(result.stdout)["warnings"]) == 1


def test_the_progress_bar_shows_round_loss_error_and_epsilon(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr("dpadmm.cli.progress.err", lambda: terminal)
    result = dpadmm("train", *SMALL, *BUDGET, "--repeats", 2)
    assert result.exit_code == 0
    for part in ("4/4", "loss", "error", "epsilon 1.0000"):
        assert part in screen.getvalue()
    screen.truncate(0)
    dpadmm("train", *SMALL, *BUDGET, "--json")
    assert screen.getvalue() == ""
