"""Records ready to be split over owners: features, targets, and what is known about where they came from."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from dpadmm._arrays import BoolArray
from dpadmm.datasets.cells import first, place
from dpadmm.datasets.encoding import Encoder
from dpadmm.errors import InputError
from dpadmm.privacy.randomness import generator

if TYPE_CHECKING:
    from dpadmm.datasets.curves.bases import Basis
    from dpadmm.datasets.curves.encoder import CurveEncoder
from dpadmm.datasets.encoding import Numeric
from dpadmm.errors import unknown

Encodes: TypeAlias = "Encoder | CurveEncoder"
"""What makes features of raw records."""


class Described(Protocol):
    """What is known of records apart from the records: of those in memory and of those that stay in files."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> tuple[str, ...] | None: ...

    @property
    def feature_names(self) -> tuple[str, ...]: ...

    @property
    def encoder(self) -> Encodes | None: ...

    @property
    def public_preprocessing(self) -> bool: ...

    @property
    def classes_found(self) -> bool: ...

    @property
    def norm_bound(self) -> float | None: ...

    @property
    def basis(self) -> Basis | None: ...

    @property
    def truth(self) -> Callable[[np.ndarray], np.ndarray] | None: ...


@dataclass(frozen=True, eq=False)
class Dataset:
    """m records of d features.

    features: (m, d) float64 or float32, dense or `csr_array`; what is not float32 becomes float64.
    targets: class indices 0..p-1 (int64) when `classes` names the classes, float64 when `classes` is None.
    owners: one name per record, when the data say who holds it.
    encoder: makes the same features of raw records, when they came from a table.
    public_preprocessing: False when a statistic of the data entered the features.
    classes_found: whether the classes are the labels that occur, which no epsilon covers.
    about: origin and licence, in a line.
    held_out: the test records that were published with these, when there are any.
    norm_bound: a public row norm that suits them, to clip to where the user names none.
    basis: the functions whose coefficients the features are, when the records are curves.
    truth: the coefficient function the targets were simulated with, at times in [0, 1].
    usable: which records count; the others contribute zero. None: all.
    """

    name: str
    features: np.ndarray | sparse.csr_array
    targets: np.ndarray
    classes: tuple[str, ...] | None
    feature_names: tuple[str, ...]
    owners: np.ndarray | None = None
    encoder: Encodes | None = None
    public_preprocessing: bool = True
    classes_found: bool = False
    about: str = ""
    held_out: Dataset | None = None
    norm_bound: float | None = None
    basis: Basis | None = None
    truth: Callable[[np.ndarray], np.ndarray] | None = None
    usable: BoolArray | None = None

    def __post_init__(self) -> None:
        _check_lengths(self)
        _check_features(self)
        _check_targets(self)
        _check_held_out(self)
        # Only now: a cast to integers would have turned a target of NaN or 0.5 into a class.
        precision = np.float32 if self.features.dtype == np.float32 else np.float64
        features = self.features.astype(precision, copy=False)
        targets = self.targets.astype(np.float64 if self.classes is None else np.int64, copy=False)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "targets", targets)

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def take(self, rows: np.ndarray | Sequence[int] | slice) -> Dataset:
        """The data set of these records, in this order; what is held out stays as it is."""
        owners = None if self.owners is None else self.owners[rows]
        usable = None if self.usable is None else self.usable[rows]
        return replace(self, features=self.features[rows], targets=self.targets[rows], owners=owners, usable=usable)


def split(dataset: Dataset, test: int | float, seed: int) -> tuple[Dataset, Dataset | None]:
    """(train, test), drawn at random by the seed; `test` is a count or a fraction, and 0 keeps all in train."""
    if test == 0:
        return dataset, None
    if isinstance(test, float):
        if not 0 < test < 1:
            raise InputError(f"test={test} is neither a count nor a fraction between 0 and 1.")
        count = max(1, round(test * len(dataset)))
    else:
        count = operator.index(test)
    if not 0 < count < len(dataset):
        raise InputError(f"cannot keep {count} of {len(dataset)} records for the test; some must stay on each side.")
    order = generator(seed, "split").permutation(len(dataset))
    return dataset.take(order[count:]), dataset.take(order[:count])


def _check_lengths(dataset: Dataset) -> None:
    if dataset.features.ndim != 2:
        raise InputError(f"{dataset.name}: features must be a matrix; got {dataset.features.ndim} axes.")
    records, width = dataset.features.shape
    if dataset.targets.shape != (records,):
        raise InputError(f"{dataset.name}: {records} records, but targets of shape {dataset.targets.shape}.")
    if dataset.owners is not None and len(dataset.owners) != records:
        raise InputError(f"{dataset.name}: {records} records, but {len(dataset.owners)} owners.")
    if dataset.usable is not None and dataset.usable.shape != (records,):
        raise InputError(f"{dataset.name}: {records} records, but usable has the shape {dataset.usable.shape}.")
    if len(dataset.feature_names) != width:
        raise InputError(f"{dataset.name}: {width} features, but {len(dataset.feature_names)} feature names.")


def _check_features(dataset: Dataset) -> None:
    features = dataset.features
    bad = ~np.isfinite(features if isinstance(features, np.ndarray) else features.data)
    if not bad.any():
        return
    if isinstance(features, np.ndarray):
        row, column = np.argwhere(bad)[0]
    else:
        row, column = (axis[bad][0] for axis in features.tocoo().coords)
    value = features[row, column]
    raise InputError(f"{dataset.name}: {place(dataset.feature_names[column], row)} is {value}, not a finite number.")


def _check_targets(dataset: Dataset) -> None:
    targets = dataset.targets
    row = first(~np.isfinite(targets))
    if row is not None:
        raise InputError(f"{dataset.name}: the target in row {row + 1} is {targets[row]}, not a finite number.")
    if dataset.classes is None:
        return
    row = first(~np.isin(targets, np.arange(len(dataset.classes))))
    if row is not None:
        last = len(dataset.classes) - 1
        raise InputError(f"{dataset.name}: the target in row {row + 1} is {targets[row]}; classes are 0 to {last}.")


def _check_held_out(dataset: Dataset) -> None:
    held_out = dataset.held_out
    if held_out is None:
        return
    if (held_out.feature_names, held_out.classes) != (dataset.feature_names, dataset.classes):
        raise InputError(f"{dataset.name}: the held-out records have other features or classes.")
    if held_out.held_out is not None:
        raise InputError(f"{dataset.name}: the held-out records must not have held-out records themselves.")


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
