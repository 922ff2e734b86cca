"""The one place where a statistic of the data may enter the features, and where that is written down."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.encoding import Encoder, Numeric
from dpadmm.errors import unknown

SCALINGS = ("public", "max")
"""By public facts, or by the maxima of the records, which is not private."""


def scaled(dataset: Dataset, scaling: str) -> Dataset:
    """The data set as public facts made it ("public"), or with every column divided by its maximum ("max").

    The maxima are what papers 000 and 003 use. One record can move a maximum arbitrarily, so no useful noise
    covers it, and what follows from it is not private: the result says so. The maximum is that of the magnitude,
    which is the same thing for columns that are never negative.
    """
    if scaling not in SCALINGS:
        raise unknown("scaling", scaling, SCALINGS)
    if scaling == "public":
        return dataset
    maxima = _largest_magnitudes(dataset.features)
    divisors = np.where(maxima > 0, maxima, 1.0)  # a column of zeros stays one
    return _divided(dataset, divisors)


def _divided(dataset: Dataset, divisors: np.ndarray) -> Dataset:
    # Without an encoder raw records are the features; what is to be divided has to be said all the same.
    encoder = dataset.encoder or Encoder(tuple(Numeric(name) for name in dataset.feature_names))
    before = encoder.divisors or (1.0,) * len(divisors)
    encoder = replace(encoder, divisors=tuple((divisors * before).tolist()))
    # Held-out records by the divisors of the others: a model learns the scale of what it was fitted to.
    held_out = None if dataset.held_out is None else _divided(dataset.held_out, divisors)
    return replace(
        dataset,
        features=_divide_columns(dataset.features, divisors),
        encoder=encoder,
        public_preprocessing=False,
        held_out=held_out,
        basis=None,  # divided, they are no longer coefficients of functions
        truth=None,
    )


def _largest_magnitudes(features: np.ndarray | sparse.csr_array) -> np.ndarray:
    if isinstance(features, np.ndarray):
        return np.asarray(np.maximum(features.max(axis=0), -features.min(axis=0)))
    return np.asarray(abs(features).max(axis=0).toarray()).ravel()


def _divide_columns(features: np.ndarray | sparse.csr_array, divisors: np.ndarray) -> np.ndarray | sparse.csr_array:
    if isinstance(features, np.ndarray):
        return np.asarray(features / divisors)
    return sparse.csr_array(features @ sparse.diags_array(1.0 / divisors))
