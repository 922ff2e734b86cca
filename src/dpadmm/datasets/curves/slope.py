"""The coefficient function of a model with curves as predictors, and how far it is from a known truth.

With weights w on a curve's coefficients in a basis, a prediction is the integral of beta(t) X(t) with
beta = sum of w_k phi_k, on the rescaled time [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.datasets.curves.bases import Basis, gauss_legendre
from dpadmm.errors import InputError

NODES = 256  # of the quadrature: exact to rounding for smooth functions


def coefficient_function(basis: Basis, weights: Any, t: Any) -> np.ndarray:
    """beta at every t in [0, 1]: weights (..., K) become (..., len(t))."""
    weights = np.asarray(weights, dtype=np.float64)
    if weights.ndim == 0 or weights.shape[-1] != basis.size:
        raise InputError(
            f"weights of shape {weights.shape} for the {basis.size} functions of {basis.text!r}; "
            f"the last axis must have {basis.size} entries."
        )
    return weights @ basis.values(t).T


def integrated_squared_error(
    basis: Basis, weights: Any, truth: Callable[[np.ndarray], np.ndarray], nodes: int = NODES
) -> np.ndarray:
    """The integral over [0, 1] of (beta(t) - truth(t))², by Gauss-Legendre; exact to rounding for smooth functions."""
    t, lengths = gauss_legendre(nodes)
    return _integrated_square(coefficient_function(basis, weights, t) - truth(t), lengths)


def _integrated_square(values: FloatArray, lengths: FloatArray) -> FloatArray:
    return values**2 @ lengths


def slopes(models: FloatArray, width: int, levels: int) -> FloatArray:
    """Models (runs, D) as coefficients in the basis, (runs, levels, width); an intercept is left out."""
    return models.reshape(len(models), -1, levels)[:, :width].swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class SlopeError:
    """The integrated squared error of every run's coefficient function, the mean over its levels (004: MISE).

    The values of basis and truth at the nodes are kept, since it is asked for after every round.
    """

    functions: FloatArray  # (nodes, width)
    truth: FloatArray  # (nodes,)
    lengths: FloatArray  # (nodes,)
    levels: int = 1

    @classmethod
    def of(
        cls,
        basis: Basis,
        truth: Callable[[np.ndarray], np.ndarray],
        levels: int = 1,
        rotation: FloatArray | None = None,
    ) -> SlopeError:
        """For models of so many levels; `rotation` turns their coefficients into those of the basis."""
        nodes, lengths = gauss_legendre(NODES)
        functions = basis.values(nodes)
        return cls(functions if rotation is None else functions @ rotation, truth(nodes), lengths, levels)

    def __call__(self, models: FloatArray) -> FloatArray:
        apart = slopes(models, self.functions.shape[1], self.levels) @ self.functions.T - self.truth
        return _integrated_square(apart, self.lengths).mean(axis=1)
