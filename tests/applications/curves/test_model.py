"""What a trained model says of curves: coefficient functions, quantiles, and whether quantiles keep their promise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.applications.curves import CurveModel, Curves, simulate_curves
from dpadmm.datasets.curves import TRUTH, beta, simulation
from dpadmm.engine.run import train
from dpadmm.errors import InputError

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulation with fewer records."""
    monkeypatch.setattr(simulation, "RECORDS", 5_000)


def exact(**changes: Any) -> Any:
    terms = {"source": "functional-sim", "algorithm": "f-admm", "agents": 5, "rounds": 15, "strength": 0.0, "rho": 0.05}
    return train(**{**terms, "penalty": "none", "measure_every": 15, **changes})


@pytest.mark.parametrize("tau", LEVELS)
def test_the_quantiles_of_a_fit_without_privacy_keep_their_promise(small: None, tau: float) -> None:
    result = exact(tau=(tau,), basis="cosine:6", rounds=25)
    # Held-out records scatter, and so does the fit of six coefficients to 5,000.
    scatter = np.sqrt(tau * (1.0 - tau) * (1.0 / 1_000 + 6.0 / 5_000))
    assert result.coverage[0] == pytest.approx(tau, abs=4.0 * scatter)
    # 0.0225 is beyond six functions; the rest is the scatter of the coefficients.
    assert 0.0225 < result.summary()["mise"] < 0.35


def test_several_levels_at_once_are_the_single_ones_where_nothing_binds_them(small: None) -> None:
    together = exact(tau=(0.25, 0.75), intercept=True, basis="cosine:4")
    for position, tau in enumerate((0.25, 0.75)):
        alone = exact(loss=f"quantiles:{tau}", intercept=True, basis="cosine:4")
        # One level's errors are shifted to have their quantile at zero, those of several stay as they were drawn.
        shift = np.array([0.0, 0.0, 0.0, 0.0, simulation.error_quantile(tau)])
        columns = together.models.reshape(5, 2)[:, position]
        np.testing.assert_allclose(columns, alone.models[0] + shift, atol=2e-3)


def test_a_run_that_must_not_cross_does_not(small: None) -> None:
    terms = {"source": "functional-sim", "agents": 5, "rounds": 8, "epsilon": 0.5, "delta": 1e-4, "tau": LEVELS}
    terms |= {"algorithm": "fdp-admm", "intercept": True, "basis": "cosine:4", "measure_every": 8}
    free, ordered = train(**terms), train(**terms, non_crossing=True)
    curves = simulation.observed(np.random.default_rng(0).normal(size=(2_000, 50)))
    assert CurveModel.of(free).crossings(curves) > 100
    assert CurveModel.of(ordered).crossings(curves) == 0
    put_right = CurveModel.of(free).predict(curves, ordered=True)
    assert (np.diff(put_right, axis=1) >= 0.0).all()
    np.testing.assert_array_equal(np.sort(CurveModel.of(free).predict(curves), axis=1), put_right)


def test_slope_is_the_sum_of_the_basis_functions(small: None) -> None:
    result = exact(tau=(0.5,), intercept=True, basis="fourier:5", rounds=3)
    model, t = CurveModel.of(result), np.linspace(0.0, 1.0, 7)
    weights = result.models[0][:5]
    np.testing.assert_allclose(model.slope(t)[0], result.dataset.basis.values(t) @ weights, rtol=1e-12)
    assert model.intercepts[0] == result.models[0][5]
    assert model.truth is beta


def test_predictions_are_those_of_rows_smoothed_and_clipped_as_in_training(small: None) -> None:
    result = exact(tau=(0.1, 0.9), intercept=True, basis="bspline:8", rounds=3)
    held_out = simulate_curves(6_000, 0, basis="cosine:50")  # the draws do not depend on the basis
    curves = simulation.observed(held_out.features[5_000:])
    predicted = CurveModel.of(result).predict(curves)
    targets = held_out.targets[5_000:]
    assert CurveModel.of(result).coverage(curves, targets) == pytest.approx(np.array(result.coverage), abs=1e-12)
    long = Curves.on_grid(simulation.GRID, np.full((1, 100), 1e6))
    at_bound = Curves.on_grid(simulation.GRID, np.full((1, 100), 3.0))
    np.testing.assert_allclose(*(CurveModel.of(result).predict(each) for each in (long, at_bound)), rtol=1e-9)
    assert predicted.shape == (1_000, 2)


def test_a_saved_model_is_the_model(small: None, tmp_path: Path) -> None:
    result = exact(tau=(0.5,), rounds=2, out=tmp_path / "run")
    saved, made = CurveModel.load(tmp_path / "run"), CurveModel.of(result)
    np.testing.assert_array_equal(saved.weights, made.weights)
    assert (saved.basis, saved.levels, saved.norm_bound, saved.guarantee) == (
        made.basis, made.levels, made.norm_bound, made.guarantee,
    )  # fmt: skip


def test_the_exact_fit_tends_to_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "RECORDS", 30_000)
    result = exact(tau=(0.5,), rounds=20, agents=5, measure_every=20)
    # 0.0045 is beyond ten functions; a coefficient scatters by k / (2 f(0) sqrt(n)), together by 0.024.
    assert 0.0045 < result.summary()["mise"] < 0.08
    assert np.abs(result.models[0][:4] - TRUTH[:4]).max() < 0.08


def test_what_is_no_curve_has_no_coefficient_function(tmp_path: Path) -> None:
    result = train(source="synthetic-regression", loss="quantile", algorithm="linearised-admm", agents=3, rounds=1,
                   out=tmp_path / "run")  # fmt: skip
    with pytest.raises(InputError, match="no curves"):
        CurveModel.of(result)
    with pytest.raises(InputError, match="not one of curves"):
        CurveModel.load(tmp_path / "run")


def test_other_losses_have_no_quantiles(small: None) -> None:
    result = train(source="functional-sim", loss="squared", algorithm="linearised-admm", agents=3, rounds=1)
    with pytest.raises(InputError, match="only quantile regressions"):
        CurveModel.of(result)
