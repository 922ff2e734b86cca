"""What a check says: a counterexample, or what it measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray

ROUNDING = 1.0 + 1e-12  # what a formula may lose in its last digits


class ContractError(AssertionError):
    """A part does not keep a promise; the message says which, where, by how much, and what to do."""

    def __init__(self, part: str, promise: str, found: str, remedy: str) -> None:
        super().__init__(f"{part} breaks {promise!r}: {found} {remedy}")
        self.part, self.promise = part, promise

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it can come back from another process."""
        return _restored, (str(self), self.part, self.promise)


def _restored(message: str, part: str, promise: str) -> ContractError:
    error = ContractError.__new__(ContractError)
    error.args, error.part, error.promise = (message,), part, promise
    return error


@dataclass(frozen=True)
class Report:
    """All promises held: which ones, and what was measured on the way.

    Attributes:
        part: The part that was checked.
        promises: What holds, by name.
        measured: What was measured on the way, by name.
    """

    part: str
    promises: tuple[str, ...]
    measured: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.part}: {len(self.promises)} promises hold", *(f"  {each}" for each in self.promises)]
        return "\n".join([*lines, *(f"  {name}: {value:.6g}" for name, value in self.measured.items())])


def numbers(values: Any) -> str:
    """A row or a model for a message, no longer than a line."""
    flat = np.atleast_1d(np.asarray(values, dtype=np.float64)).ravel()
    shown = ", ".join(f"{value:.6g}" for value in flat[:8])
    return f"({shown}{', ...' if flat.size > 8 else ''})"


def told(found: float, bound: float) -> str:
    """A number that is above a bound, with as many digits as it takes to see it."""
    short = f"{found:.8g}"
    return short if short != f"{bound:.8g}" else f"{found:.17g}"


def first(wrong: Any) -> tuple[int, ...]:
    """Where the first entry is that is wrong."""
    return tuple(int(place) for place in np.argwhere(wrong)[0])


def different(one: FloatArray, other: FloatArray) -> bool:
    """Bit for bit; NaN equals itself."""
    return one.shape != other.shape or not np.array_equal(one, other, equal_nan=True)
