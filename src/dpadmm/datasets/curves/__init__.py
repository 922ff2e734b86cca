"""Curves become rows of features, by operations on one record at a time and public facts only.

A curve's features are its coefficients in a basis that was chosen beforehand. No other curve has a say in them, so
they cost no privacy; a basis that is made of the curves is another matter.

    curves.py      Curves: on a common grid, perhaps with holes, or each at points of its own
    bases.py       orthonormal bases by name
    smoothing.py   a curve's coefficients in a basis
    slope.py       the coefficient function of a model, and its distance from a truth
    simulation.py  the simulation of paper 004
    encoder.py     a table with a column for each time, and a reader for files of such
    published.py   published curves, which do not ship
"""

from __future__ import annotations

from dpadmm.datasets.curves.bases import BASES, Basis, BSpline, Cosine, Fourier, Legendre, parse
from dpadmm.datasets.curves.curves import Curves
from dpadmm.datasets.curves.encoder import CurveEncoder, find_columns, load_curves_file
from dpadmm.datasets.curves.published import load_tecator, load_weather
from dpadmm.datasets.curves.simulation import TRUTH, beta, error_quantile, simulate_curves
from dpadmm.datasets.curves.slope import coefficient_function, integrated_squared_error
from dpadmm.datasets.curves.smoothing import scores

__all__ = [
    "BASES",
    "TRUTH",
    "BSpline",
    "Basis",
    "Cosine",
    "CurveEncoder",
    "Curves",
    "Fourier",
    "Legendre",
    "beta",
    "coefficient_function",
    "error_quantile",
    "find_columns",
    "integrated_squared_error",
    "load_curves_file",
    "load_tecator",
    "load_weather",
    "parse",
    "scores",
    "simulate_curves",
]
