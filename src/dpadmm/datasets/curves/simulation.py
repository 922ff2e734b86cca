"""The simulation of paper 004: Gaussian curves, a known coefficient function, errors with heavy tails.

X = sum over k <= 50 of A_k phi_k with phi the cosine basis and A_k normal of variance k^-2, and
y = integral of beta X + an error of Student's distribution with three degrees of freedom - a shift.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from dpadmm.datasets.curves.bases import Basis, Cosine, parse
from dpadmm.datasets.curves.curves import Curves
from dpadmm.datasets.curves.smoothing import check_smoothing, scores
from dpadmm.datasets.dataset import Dataset
from dpadmm.errors import InputError
from dpadmm.privacy.randomness import generator

ABOUT = "simulated curves with a known coefficient function, as in paper 004; no data of anyone"

RECORDS = 100_000

# The paper supposes bounded scores, which Gaussian ones are not; at this norm fewer than one in 200 is clipped.
NORM = 3.0

_TERMS = np.arange(1, 51)
TRUTH = np.where(_TERMS == 1, 0.3, 4.0 * (-1.0) ** (_TERMS + 1) / _TERMS**2)
"""The coefficients of beta in the cosine basis."""
TRUTH.setflags(write=False)

_BASIS = Cosine(len(TRUTH))
_FREEDOM = 3
_POINTS = 100
# Midpoints: on them the first hundred cosines are exactly orthogonal, not only in the limit.
GRID = (np.arange(_POINTS) + 0.5) / _POINTS
_BLOCK = 10_000  # curves that are in memory, with all their points, at a time


def beta(t: np.ndarray) -> np.ndarray:
    """The true coefficient function at every t in [0, 1]."""
    return _BASIS.values(t) @ TRUTH


def error_quantile(tau: float) -> float:
    """The tau-quantile of the error: with it as the shift, the integral of beta X is the tau-quantile of y given X."""
    if not 0 < tau < 1:
        raise InputError(f"tau={tau}; a quantile's level lies between 0 and 1.")
    return float(stats.t(_FREEDOM).ppf(tau))


def simulate_curves(
    records: int = RECORDS,
    seed: int = 0,
    shift: float = 0.0,
    basis: str | Basis = "cosine:10",
    smoothing: float = 0.0,
) -> Dataset:
    """Curves as their coefficients in a basis, from 100 points each; the draws depend on the seed alone."""
    basis = parse(basis)
    check_smoothing(smoothing)
    if records < 1:
        raise InputError(f"records={records}; at least one is needed.")
    if not math.isfinite(shift):
        raise InputError(f"shift={shift}; a finite number is needed.")
    coefficients, errors = _draws(records, seed)
    return Dataset(
        name="curves",
        features=_features(coefficients, basis, smoothing),
        targets=coefficients @ TRUTH + errors - shift,
        classes=None,
        feature_names=basis.feature_names,
        about=ABOUT,
        norm_bound=NORM,
        basis=basis,
        truth=beta,
    )


@lru_cache(maxsize=1)  # figures run over the same records again and again
def _draws(records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    coefficients = generator(seed, "curves").standard_normal((records, len(TRUTH))) / _TERMS
    errors = generator(seed, "errors").standard_t(_FREEDOM, records)
    for drawn in (coefficients, errors):
        drawn.setflags(write=False)
    return coefficients, errors


def load_simulation(seed: int = 0, level: float | None = 0.5, **written: Any) -> Dataset:
    """The paper's 100,000 records, with errors whose quantile of this level is zero (None: as drawn), and as many as a
    fifth of them beside, to test on. `written` are a basis and a smoothing."""
    shift = 0.0 if level is None else error_quantile(level)
    everything = simulate_curves(RECORDS + RECORDS // 5, seed, shift, **written)
    return replace(
        everything.take(slice(RECORDS)), name="functional-sim", held_out=everything.take(slice(RECORDS, None))
    )


def observed(coefficients: np.ndarray) -> Curves:
    """The curves with these coefficients (m, 50), seen at 100 points."""
    return Curves.on_grid(GRID, coefficients @ _BASIS.values(GRID).T, (0.0, 1.0))


def _features(coefficients: np.ndarray, basis: Basis, smoothing: float) -> np.ndarray:
    if isinstance(basis, Cosine) and basis.size <= len(TRUTH) and smoothing == 0:
        # Smoothing the observed curves would give these back, since the cosines are orthogonal on the grid.
        return coefficients[:, : basis.size].copy()
    blocks = range(0, len(coefficients), _BLOCK)
    return np.concatenate([scores(observed(coefficients[at : at + _BLOCK]), basis, smoothing) for at in blocks])
