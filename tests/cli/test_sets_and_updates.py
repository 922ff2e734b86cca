"""`dpadmm train` over sets, with local updates, penalties by round and weights: Ryu & Kim's side of it."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.engine.run import train
from dpadmm.privacy.claims import Claim
from dpadmm.spec.toml import read

SMALL = ("--data", "synthetic", "--agents", 4, "--rounds", 4)
BUDGET = ("--epsilon", 1, "--delta", 1e-5)
OBJ_G = ("train", *SMALL, *BUDGET, "--algorithm", "obj-g")
NARROW = '{"ball": {"radius": 0.01}}'


@pytest.fixture
def trained(dpadmm: Any, tmp_path: Path) -> Any:
    """Runs `train --out`, and gives the summary, the spec that was kept and the model."""
    runs: list[Path] = []

    def run(*flags: object) -> tuple[dict[str, Any], dict[str, Any], Any]:
        out = tmp_path / f"run {len(runs)}"
        runs.append(out)
        result = dpadmm(*flags, "--out", out, "--json")
        assert result.exit_code == 0, result.stderr
        spec = tomllib.loads((out / "spec.toml").read_text())
        coefficients = json.loads((out / "model.json").read_text())["coefficients"]
        return json.loads(result.stdout), spec, np.array(coefficients)

    return run


# -- sets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("box:0.1,ball:2", lambda x: np.abs(x).max() <= 0.1 + 1e-9),
        ("box:0.01,ball:0.02", lambda x: np.abs(x).max() <= 0.01 + 1e-9 and np.linalg.norm(x) <= 0.02 + 1e-9),
        (NARROW, lambda x: np.linalg.norm(x) <= 0.01 + 1e-9),
        ("simplex:0.5", lambda x: x.min() >= -1e-9 and x.sum() == pytest.approx(0.5)),
        ("range:-0.01:0.002", lambda x: x.min() >= -0.01 - 1e-9 and x.max() <= 0.002 + 1e-9),
    ],
    ids=["intersection", "narrow intersection", "JSON", "simplex", "range"],
)
def test_a_set_is_written_on_the_command_line(trained: Any, text: str, inside: Any) -> None:
    """DP-ADMM's model is a mean of releases, which lie in the set."""
    flags = ("train", *SMALL, *BUDGET, "--algorithm", "dp-admm")
    summary, spec, model = trained(*flags, "--set", text)
    assert summary["set"] == spec["run"]["set"] == text
    assert summary["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert inside(model)
    assert not inside(trained(*flags)[2])  # where it would have gone without
    other, _, server = trained(*OBJ_G, "--set", text)
    assert other["set"] == text
    assert np.isfinite(server).all()


def test_a_set_from_a_file_is_kept_as_its_text_and_the_file_is_not_needed_again(
    dpadmm: Any, trained: Any, tmp_path: Path
) -> None:
    file = tmp_path / "ball.json"
    file.write_text(f"  {NARROW}\n\n")
    summary, spec, model = trained(*OBJ_G, "--set", f"@{file}")
    assert summary["set"] == spec["run"]["set"] == NARROW
    file.unlink()
    again = json.loads(dpadmm("train", "--spec", tmp_path / "run 0" / "spec.toml", "--json").stdout)
    assert again["train_loss"] == summary["train_loss"]
    direct, _, same = trained(*OBJ_G, "--set", NARROW)
    np.testing.assert_array_equal(model, same)
    assert direct["train_loss"] == summary["train_loss"]


def test_a_run_with_a_set_from_a_file_resumes_without_the_file(
    dpadmm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpadmm.engine.output import checkpoint

    file, save = tmp_path / "ball.json", checkpoint.save
    file.write_text(NARROW)
    flags = (*OBJ_G, "--set", f"@{file}", "--rounds", 25, "--updates", 2)
    assert dpadmm(*flags, "--out", tmp_path / "whole").exit_code == 0

    def stop(*arguments: Any) -> None:
        save(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", stop)
        assert dpadmm(*flags, "--out", tmp_path / "parts").exit_code == 130
    file.unlink()
    assert dpadmm("train", "--out", tmp_path / "parts", "--resume", "--json").exit_code == 0
    for name in ("spec.toml", "history.csv", "model.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("domain", ["whole", "box:0.1"])
def test_digits_with_and_without_a_box(trained: Any, domain: str) -> None:
    """Side by side, as the README shows them: 64 pixels, ten classes."""
    flags = ("train", "--data", "digits", "--loss", "softmax", "--algorithm", "obj-g", "--agents", 5, "--rounds", 3)
    summary, _, model = trained(*flags, "--epsilon", 8, "--delta", 1e-5, "--set", domain)
    assert (summary["dimension"], summary["records"], summary["set"]) == (640, 1438, domain)
    assert model.shape == (640,)
    assert summary["epsilon"] == pytest.approx(8.0, rel=1e-6)
    assert 0.0 < summary["test_error"] < 1.0
    assert np.isfinite(summary["objective"])


# -- local updates -----------------------------------------------------------------------------------------------------


def test_paper_noise_counts_local_updates_in_the_claim_and_in_the_truth(dpadmm: Any) -> None:
    """40 rounds of 3 are 120 steps, by the paper's formula and by the exact accountant."""
    flags = ("train", "--data", "synthetic", "--agents", 4, "--rounds", 40, "--measure-every", 40)
    paper = ("--algorithm", "obj-g", "--epsilon", 0.2, "--delta", 1e-6, "--paper-noise")
    three, one = (json.loads(dpadmm(*flags, *paper, "--updates", updates, "--json").stdout) for updates in (3, 1))
    assert three["claimed_epsilon"] == pytest.approx(Claim("001", 0.2, 1e-6, 120).total, rel=1e-12)
    assert one["claimed_epsilon"] == pytest.approx(Claim("001", 0.2, 1e-6, 40).total, rel=1e-12)
    assert three["noise_multiplier"] == one["noise_multiplier"]
    assert three["epsilon"] > 1.5 * one["epsilon"]
    multiplier = math.sqrt(2 * math.log(1.25e6)) / 0.2
    direct = json.loads(
        dpadmm(
            "privacy", "spent", "--releases", 120, "--noise-multiplier", multiplier, "--delta", 1e-6, "--json"
        ).stdout
    )
    assert three["epsilon"] == pytest.approx(direct["epsilon"], rel=1e-9)
    text = " ".join(dpadmm(*flags, *paper, "--updates", 3).stdout.split())
    assert f"epsilon {three['epsilon']:#.4g}, delta 1e-06 in total" in text
    assert f"By its paper's formula the total would be epsilon {three['claimed_epsilon']:#.4g}" in text


def test_laplace_noise_needs_no_delta_and_its_claim_is_a_sum(dpadmm: Any) -> None:
    flags = ("train", *SMALL, "--algorithm", "obj-l", "--updates", 3, "--epsilon", 0.5)
    total = json.loads(dpadmm(*flags, "--json").stdout)
    assert (total["delta"], total["accountant"], total["claimed_epsilon"]) == (0.0, "pure", None)
    assert total["epsilon"] == pytest.approx(0.5, rel=1e-6)
    assert total["noise_multiplier"] == pytest.approx(12 / 0.5, rel=1e-6)
    paper = json.loads(dpadmm(*flags, "--paper-noise", "--json").stdout)
    assert paper["claimed_epsilon"] == paper["epsilon"] == pytest.approx(6.0, rel=1e-9)


def test_updates_are_kept_in_the_spec_and_change_the_run(trained: Any) -> None:
    one, spec_one, model_one = trained(*OBJ_G)
    two, spec_two, model_two = trained(*OBJ_G, "--updates", 2)
    assert "updates" not in spec_one["run"]
    assert spec_two["run"]["updates"] == 2
    assert two["noise_multiplier"] == pytest.approx(math.sqrt(2) * one["noise_multiplier"], rel=1e-6)
    assert (model_one != model_two).all()


# -- rho ---------------------------------------------------------------------------------------------------------------


def test_a_rho_means_a_constant_one_also_where_the_algorithm_has_a_schedule(trained: Any) -> None:
    """The growing penalty depends on the noise; a rho given does not, and is the schedule 'constant' with that rho."""
    plain, given, again = (trained(*OBJ_G, *flags)[2] for flags in ((), ("--rho", 0.3), ("--rho", 0.3)))
    np.testing.assert_array_equal(given, again)
    assert (plain != given).all()
    default = trained(*OBJ_G, "--rho-schedule", "constant")[2]
    np.testing.assert_array_equal(default, trained(*OBJ_G, "--rho", 0.1)[2])
    assert (default != given).all()


def test_a_rho_schedule_with_its_numbers(trained: Any) -> None:
    growing, spec, model = trained(*OBJ_G, "--rho-schedule", "growing:2:5:10000")
    assert spec["run"]["rho_schedule"] == "growing:2:5:10000"
    np.testing.assert_array_equal(model, trained(*OBJ_G)[2])  # the algorithm's own
    other = trained(*OBJ_G, "--rho-schedule", "balanced", "--set", "box:1")[0]
    assert other["epsilon"] == growing["epsilon"]
    assert other["objective"] != growing["objective"]


# -- weights, output noise ---------------------------------------------------------------------------------------------


def test_weighting_is_the_algorithms_unless_it_is_named(trained: Any) -> None:
    ragged = ("--split", "dirichlet:0.5")
    models = {w: trained(*OBJ_G, *ragged, "--weighting", w)[2] for w in ("owners", "records")}
    summary, spec, own = trained(*OBJ_G, *ragged)
    assert "weighting" not in spec["run"]
    np.testing.assert_array_equal(own, models["records"])
    assert (models["owners"] != models["records"]).all()
    assert summary["agents"] == 4


def test_unit_gain_is_louder_output_noise(trained: Any, tmp_path: Path) -> None:
    flags = ("train", *SMALL, *BUDGET, "--algorithm", "out-g")
    (step, _, _), (unit, spec, _) = trained(*flags), trained(*flags, "--unit-gain")
    assert spec["run"]["unit_gain"] is True
    assert unit["epsilon"] == step["epsilon"]
    assert unit["noise_multiplier"] == step["noise_multiplier"]
    quiet, loud = (_noise(tmp_path / name) for name in ("run 0", "run 1"))
    assert loud > 5 * quiet > 0


def _noise(out: Path) -> float:
    """How far apart two runs end that differ in their noise only."""
    one, other = train(read(out / "spec.toml").changed(repeats=2)).models
    return float(np.linalg.norm(one - other))
