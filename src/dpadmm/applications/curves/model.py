"""A trained quantile regression on curves: Q_tau(y | X) = intercept + integral of beta_tau(t) X(t) dt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._plots import empty_figure, save
from dpadmm.datasets.curves import Basis, Curves, coefficient_function, parse, scores
from dpadmm.datasets.curves.slope import slopes
from dpadmm.engine.output.model import Model
from dpadmm.engine.result import Result
from dpadmm.errors import InputError
from dpadmm.problems.rows import RowRules
from dpadmm.release.rows import cell


@dataclass(frozen=True, eq=False)
class CurveModel:
    """Coefficients of every level in a basis, and what rows were clipped to when they were found."""

    basis: Basis
    levels: tuple[float, ...]
    weights: FloatArray  # (levels, size of the basis)
    intercepts: FloatArray  # (levels,), zeros without one
    norm_bound: float
    smoothing: float = 0.0
    guarantee: str = "none"
    truth: Callable[[FloatArray], FloatArray] | None = None

    @classmethod
    def of(cls, result: Result, run: int = 0) -> CurveModel:
        """The model of one of a simulation's runs."""
        terms, data, loss = result.experiment.run, result.dataset, result.plan.setting.problem.loss
        guarantee = str(result.guarantee) if result.guarantee else "none: the recipe is not private"
        if data.basis is None:
            raise InputError(f"the records of {data.name!r} are no curves; a coefficient function needs some.")
        smoothing = result.experiment.data.smoothing or 0.0
        return cls._made(
            data.basis, loss.name, loss.levels, result.models[run], terms.clip, smoothing, guarantee, data.truth
        )

    @classmethod
    def load(cls, folder: Path) -> CurveModel:
        """The model that `dpadmm train --out` has saved."""
        given, coefficients = (found := Model.load(folder)).description, found.coefficients
        if not given.get("basis"):
            raise InputError(f"the model in {str(folder)!r} is not one of curves; it has no coefficient function.")
        basis, curve, levels = parse(given["basis"]), (given["encoder"] or {}).get("curve"), max(len(found.levels), 1)
        smoothing = curve.get("smoothing", 0.0) if isinstance(curve, dict) else 0.0
        fits = coefficients.size in (levels * basis.size, levels * (basis.size + 1))
        if not fits or not isinstance(smoothing, int | float) or not isinstance(given["norm_bound"], int | float):
            raise InputError(f"the model in {str(folder)!r} does not say what a model of curves says; was it changed?")
        bound, guarantee = given["norm_bound"], given["guarantee"]
        return cls._made(basis, given["loss"], found.levels, coefficients, bound, smoothing, guarantee, None)

    @classmethod
    def _made(
        cls,
        basis: Basis,
        loss: str,
        levels: tuple[float, ...],
        coefficients: FloatArray,
        norm_bound: float,
        smoothing: float,
        guarantee: str,
        truth: Callable[[FloatArray], FloatArray] | None,
    ) -> CurveModel:
        if not levels:
            raise InputError(f"a coefficient function of loss {loss!r}: only quantile regressions have one here.")
        columns = coefficients.reshape(-1, len(levels))
        has_intercept = len(columns) > basis.size
        intercepts = columns[-1] if has_intercept else np.zeros(len(levels))
        weights = slopes(coefficients[None, :], basis.size, len(levels))[0]
        return cls(basis, levels, weights, intercepts, norm_bound, smoothing, guarantee, truth)

    def slope(self, t: FloatArray) -> FloatArray:
        """beta_tau at every time in [0, 1]; (levels, times)."""
        return coefficient_function(self.basis, self.weights, t)

    def predict(self, curves: Curves, ordered: bool = False) -> FloatArray:
        """The quantiles of every curve's target, (curves, levels); put in order if asked for.

        Rows are smoothed and clipped as they were in training.
        """
        rows, _, _ = RowRules(self.norm_bound).apply(scores(curves, self.basis, self.smoothing))
        quantiles = cell(self.norm_bound) * rows @ self.weights.T + self.intercepts
        return np.sort(quantiles, axis=1) if ordered else quantiles

    def coverage(self, curves: Curves, targets: FloatArray) -> FloatArray:
        """The share of targets at or below each level's quantile, which should be that level; (levels,)."""
        return np.mean(np.asarray(targets)[:, None] <= self.predict(curves), axis=0)

    def crossings(self, curves: Curves) -> int:
        """How many curves have a higher level's quantile below a lower one's."""
        return int((np.diff(self.predict(curves), axis=1) < 0.0).any(axis=1).sum())


POINTS = 401


def draw(model: CurveModel, path: Path, title: str = "") -> None:
    """beta_tau(t) of every level, and the truth where it is known."""
    t = np.linspace(0.0, 1.0, POINTS)
    figure = empty_figure((8.0, 4.5))
    axes = figure.subplots()
    for level, values in zip(model.levels, model.slope(t), strict=True):
        axes.plot(t, values, label=f"tau = {level:g}")
    if model.truth is not None:
        axes.plot(t, model.truth(t), color="black", linestyle="--", linewidth=1.0, label="truth")
    axes.axhline(0.0, color="grey", linewidth=0.5)
    axes.set(xlabel="t, over the interval of the curves", ylabel="beta(t)")
    axes.set_title(title or f"{model.basis.text}\n{model.guarantee}", fontsize="medium")
    axes.legend()
    save(figure, path, "--draw")
