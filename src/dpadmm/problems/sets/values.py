"""Numbers that describe a set: checked once, when it is made, and compared by value."""

from __future__ import annotations

from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._ranges import ENTRIES, PublicRange, shown
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone


def number(value: Any, place: str, name: str, within: PublicRange = ENTRIES) -> float:
    """One number of the range."""
    within.check(place, name, value)
    return float(value) + 0.0  # no negative zero: it would differ by value


def table(value: Any, place: str, name: str, axes: int) -> FloatArray:
    """Numbers of the range `ENTRIES` in an array with so many axes, which cannot be written to."""
    try:
        found: Any = np.array(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        found = np.array(None)
    if found.dtype.kind not in "iuf" or found.ndim != axes:
        kind = ("a number", "a list of numbers", "a table of numbers, with rows of equal length")[axes]
        raise InputError(f"{place}: {name} must be {kind}, not {shown(value)}.")
    found = np.asarray(found.astype(np.float64) + 0.0)  # no negative zeros: they would differ by value
    size = np.abs(found)
    fits = (size == 0.0) | ((size >= ENTRIES.low) & (size <= ENTRIES.high))
    if not fits.all():
        ENTRIES.check(place, name, float(found[~fits][0]))
    found.flags.writeable = False
    return found


def lengths(x: FloatArray) -> FloatArray:
    """The Euclidean length of each row. The largest entry is taken out, so that no square overflows."""
    size = np.abs(x).max(axis=-1, initial=0.0)
    part = x / np.where(size > 0.0, size, 1.0)[..., None]
    return size * np.sqrt((part * part).sum(axis=-1))


def expect(name: str, width: int, dimension: int) -> None:
    """Raises an `InputError` if a set of models with `width` coefficients is asked about others."""
    if width != dimension:
        raise InputError(
            f"set {name!r} is one of models with {width} coefficient(s), and the model has {dimension}; give one "
            "number, or one column, for each coefficient (an intercept counts)."
        )


class ByValue:
    """For frozen dataclasses with arrays: equal if their fields are; what they cached is not copied or pickled."""

    @cached_property
    def _key(self) -> tuple[Any, ...]:
        return type(self), *(_plain(getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ByValue) and self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, Cone):
        rest = (value.zero, value.nonnegative, value.second_order)
        return (_plain(value.rows.toarray()), _plain(value.limits), *rest)
    return value
