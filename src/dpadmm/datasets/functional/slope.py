"""The coefficient function of a model with curves as predictors, and how far it is from a known truth.

With weights w on a curve's coefficients in a basis, a prediction is the integral of beta(t) X(t) with
beta = sum of w_k phi_k, on the rescaled time [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpadmm.datasets.functional.base import Basis, gauss_legendre
from dpadmm.errors import InputError


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
    basis: Basis, weights: Any, truth: Callable[[np.ndarray], np.ndarray], nodes: int = 256
) -> np.ndarray:
    """The integral over [0, 1] of (beta(t) - truth(t))², by Gauss-Legendre; exact to rounding for smooth functions."""
    t, lengths = gauss_legendre(nodes)
    return (coefficient_function(basis, weights, t) - truth(t)) ** 2 @ lengths


def grid_squared_error(
    basis: Basis, weights: Any, truth: Callable[[np.ndarray], np.ndarray], points: int = 100
) -> np.ndarray:
    """The same integral as paper 004 takes it, on a grid of equally spaced points; by the trapezoid rule.

    For cosines it happens to be exact, as long as two of them together have fewer than 2 (points - 1) half waves, so
    in the paper's simulation it differs from the integral by rounding; for other functions by more.
    """
    t = np.linspace(0.0, 1.0, points)
    squares = (coefficient_function(basis, weights, t) - truth(t)) ** 2
    return np.asarray(np.trapezoid(squares, t, axis=-1))
