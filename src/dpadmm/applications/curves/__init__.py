"""Quantile regression on curves (paper 004): what curves are, what a trained model says of them, and its picture.

How curves become rows lies with the data sets (`datasets/curves`), since any spec may name them; how rows are turned
onto private principal components lies with the engine (`engine/preprocessing`), since it works for rows of any kind.
Here is what only curves have: coefficient functions, quantiles of new curves, and whether those quantiles keep their
promise.
"""

from __future__ import annotations

from dpadmm.applications.curves.model import CurveModel
from dpadmm.datasets.curves import (
    BASES,
    Basis,
    BSpline,
    Cosine,
    Curves,
    Fourier,
    Legendre,
    parse,
    scores,
    simulate_curves,
)

__all__ = [
    "BASES",
    "BSpline",
    "Basis",
    "Cosine",
    "CurveModel",
    "Curves",
    "Fourier",
    "Legendre",
    "parse",
    "scores",
    "simulate_curves",
]
