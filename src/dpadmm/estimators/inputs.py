"""Rows, bounds and owners, from what scikit-learn hands over to what a run wants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm.errors import InputError

DELTA = 1e-5
DEGREES = {"l1": 1, "l2": 2}  # of the penalties, in the length of the model


def positive(name: str, value: Any) -> float:
    """A positive and finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} {value!r}: must be a positive number.") from None
    if not 0.0 < number < math.inf:
        raise InputError(f"{name} {value!r}: must be a positive number.")
    return number


def longest(rows: Any) -> float:
    """The length of the longest row; 1 where all are zero, because a bound must be positive."""
    dense = isinstance(rows, np.ndarray)
    squares = np.einsum("ij,ij->i", rows, rows) if dense else rows.multiply(rows).sum(axis=1)
    return _bound(math.sqrt(float(np.max(squares))))


def farthest(targets: NDArray[np.float64]) -> float:
    """The largest target, in size; 1 where all are zero."""
    return _bound(float(np.abs(targets).max()))


def _bound(found: float) -> float:
    if not math.isfinite(found):
        raise InputError("the rows are too long for their lengths to be finite numbers; scale them, or give a bound.")
    return found or 1.0


def scaled(rows: Any, bound: float) -> Any:
    """The rows in units of the bound, as an array of their own: recipes are tuned for rows of length one."""
    if isinstance(rows, np.ndarray):
        return np.ascontiguousarray(rows / bound)
    found = csr_array(rows)
    if found.nnz < 2**31:  # compiled loops then know one kind of sparse rows, and not two
        parts = (found.data / bound, found.indices.astype(np.int32), found.indptr.astype(np.int32))
        return csr_array(parts, shape=found.shape)
    return found / bound


def owner_names(owners: Any, records: int) -> NDArray[np.str_] | None:
    """The owner of each record, by name."""
    if owners is None:
        return None
    names = np.asarray(owners)
    if names.ndim != 1 or names.size != records:
        raise InputError(f"owners of shape {names.shape}: name one owner for each of the {records} records.")
    missing = np.array([name is None or name != name for name in names.tolist()])  # NaN is not equal to itself
    if missing.any():
        raise InputError(f"owners: record {int(np.argmax(missing))} has none; name one for each record.")
    return names.astype(np.str_)


def default_delta(owners: NDArray[np.str_] | None, records: int, agents: int) -> float:
    """The smaller of 1e-5 and 1/(10 m), for the m records of the largest owner: numbers that are public."""
    largest = -(-records // agents) if owners is None else int(np.unique(owners, return_counts=True)[1].max())
    return min(DELTA, 1.0 / (10 * largest))


def strength(penalty: str, weight: float, bound: float, target_bound: float = 1.0, degree: int = 2) -> float:
    """What a penalty's weight beside the mean loss comes to where rows and targets are in units of their bounds.

    A model x of the original rows and targets is x * bound / target_bound there, and a loss of this degree in the
    targets is target_bound ** degree smaller.
    """
    power = DEGREES[penalty]
    return weight * target_bound ** (power - degree) / bound**power
