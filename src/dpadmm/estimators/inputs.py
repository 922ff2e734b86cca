"""Rows, bounds and owners, from what scikit-learn hands over to what a run wants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm._arrays import BoolArray
from dpadmm.errors import InputError

DELTA = 1e-5
SPARSE = ("csr", "csc", "coo", "bsr")  # read as they are stored; what else there is cannot repeat a column
TEXT = "UST"  # kinds of NumPy's types
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


def canonical(rows: Any) -> Any:
    """Sparse rows with columns in order, each once and none of them zero, as new CSR; dense rows as they are.

    Numbers that are stored for one column add up in the order in which they are stored. A row depends on nothing else:
    SciPy's own sums may depend on whether the columns of another row are in order.
    """
    if isinstance(rows, np.ndarray):
        return rows
    table = rows.tocoo(copy=False)
    order = np.lexsort((table.col, table.row))  # stable
    row, column, numbers = table.row[order], table.col[order], table.data[order]
    new = np.ones(numbers.size, dtype=np.bool_)
    new[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    sums = np.zeros(int(new.sum()))
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(sums, np.cumsum(new) - 1, numbers)  # one after another
    kept = sums != 0.0
    starts = np.concatenate(([0], np.cumsum(np.bincount(row[new][kept], minlength=table.shape[0]))))
    small = np.int32 if max(sums.size, *table.shape) < 2**31 else np.int64  # compiled loops then know one kind of rows
    return csr_array((sums[kept], column[new][kept].astype(small), starts.astype(small)), shape=table.shape)


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


def scaled(rows: Any, bound: float) -> tuple[Any, BoolArray]:
    """The rows in units of the bound, as an array of their own: recipes are tuned for rows of length one.

    Also which of them are finite; the others become zero.
    """
    sparse = not isinstance(rows, np.ndarray)
    with np.errstate(over="ignore"):  # a warning would tell of a record
        numbers = (rows.data if sparse else rows) / bound
    good = np.isfinite(numbers)
    numbers[~good] = 0.0
    if not sparse:
        return np.ascontiguousarray(numbers), good.all(axis=1)
    finite = np.ones(rows.shape[0], dtype=np.bool_)
    finite[np.repeat(np.arange(finite.size), np.diff(rows.indptr))[~good]] = False
    return csr_array((numbers, rows.indices, rows.indptr), shape=rows.shape), finite


def clipped(targets: NDArray[np.float64], bound: float) -> tuple[NDArray[np.float64], BoolArray]:
    """Targets in units of the bound, from -1 to 1, and which are numbers at all; 0 stands for those that are not."""
    with np.errstate(over="ignore"):
        numbers = np.clip(targets / bound, -1.0, 1.0)
    usable = np.isfinite(numbers)
    return np.where(usable, numbers, 0.0), usable


def labels_apart(y: Any) -> Any:
    """Labels in a list as objects: as an array of one type, one label would change how all others are written."""
    return np.array(y, dtype=object) if isinstance(y, list | tuple) else y


def coded(y: NDArray[Any], known: NDArray[Any]) -> tuple[NDArray[np.int64], BoolArray]:
    """The place of each label among those that are known, and which are known; 0 stands for those that are not."""
    if "O" not in y.dtype.kind + known.dtype.kind and (y.dtype.kind in TEXT) != (known.dtype.kind in TEXT):
        raise InputError(f"classes {known.tolist()!r}: y is of type {y.dtype}, so no label can be one of them.")
    places = {label: place for place, label in enumerate(known.tolist())}

    def code(label: Any) -> int:
        try:
            return places.get(label, -1)
        except TypeError:  # not hashable
            return -1

    codes = np.fromiter(map(code, y.tolist()), dtype=np.int64, count=y.size)
    return codes.clip(min=0), codes >= 0


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
