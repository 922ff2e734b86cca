"""Numbers that describe a set: checked once, when it is made, and compared by value."""

from __future__ import annotations

import numbers
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.problems.sets.conic.cone import Cone

LARGEST, SMALLEST = 1e30, 1e-30  # squares and quotients of such numbers are still numbers


def number(value: Any, what: str) -> float:
    """One finite number."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise InputError(f"{what} must be a number, not {_short(value)}.")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise InputError(f"{what}: {_short(value)} is too large; use other units.")
    return float(table(float(value), what, 0))


def table(value: Any, what: str, axes: int) -> FloatArray:
    """Finite numbers in an array with so many axes, which cannot be written to."""
    try:
        found: Any = np.array(value)
    except (ValueError, TypeError, OverflowError, RecursionError):
        found = np.array(None)
    if found.dtype.kind not in "iuf" or found.ndim != axes:
        kind = ("a number", "a list of numbers", "a table of numbers, with rows of equal length")[axes]
        raise InputError(f"{what} must be {kind}, not {_short(value)}.")
    found = np.asarray(found.astype(np.float64) + 0.0)  # no negative zeros: they would differ by value
    size = np.abs(found)
    wrong = ~np.isfinite(found) | (size > LARGEST) | ((size < SMALLEST) & (size > 0.0))
    if wrong.any():
        first = found[wrong][0]
        raise InputError(
            f"{what}: {first!s} cannot be used; every number must be 0 or have a size from {SMALLEST:g} to {LARGEST:g}."
        )
    found.flags.writeable = False
    return found


def expect(name: str, width: int, dimension: int) -> None:
    """Raises an `InputError` if a set of models with `width` coefficients is asked about others."""
    if width != dimension:
        raise InputError(
            f"set {name!r} is one of models with {width} coefficient(s), and the model has {dimension}; give one "
            "number, or one column, for each coefficient (an intercept counts)."
        )


def _short(value: Any) -> str:
    text = "an integer with many digits" if isinstance(value, int) and abs(value) > LARGEST else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


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
