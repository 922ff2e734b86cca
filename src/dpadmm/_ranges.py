"""Public ranges: between which numbers every parameter of a run's terms must lie.

Terms come from strangers, and a number that is finite can still do harm: a half-width of 1e-110 overflows where it is
cubed, a strength of 2^52 absorbs the gradient that it is added to. So a part declares a range beside each of its
numbers, in the field's metadata, and checks all of them when it is made. A range is wide enough for every problem that
makes sense, and narrow enough that formulas of its numbers neither overflow nor underflow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Real
from typing import Any

from dpadmm.errors import InputError

RANGE, AXES = "range", "axes"  # keys in a field's metadata
_ARRAYS = ("IntArray", "FloatArray")  # types of fields
_LONGEST = 60  # characters of a value that a message shows


@dataclass(frozen=True)
class PublicRange:
    """All numbers from `low` to `high`, both included.

    Attributes:
        low: The smallest number.
        high: The largest number.
        zero: Whether 0 is allowed as well.
        signed: Whether the range is one of sizes, and numbers may be negative.
        whole: Whether numbers must be whole.
    """

    low: float
    high: float
    zero: bool = False
    signed: bool = False
    whole: bool = False

    def holds(self, value: Any) -> bool:
        """Whether this is a number of the range; booleans, texts and NaN are none."""
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        number: Any = value
        size = -number if self.signed and number < 0 else number
        if not (self.low <= size <= self.high or (self.zero and number == 0)):
            return False
        return not self.whole or number == int(number)

    def check(self, place: str, name: str, value: Any) -> None:
        """Raises an `InputError` that names the place, the value and the range, unless the range holds the value."""
        if not self.holds(value):
            raise InputError(f"{place}: {name} = {shown(value)} must be {self}.")

    def check_all(self, place: str, name: str, values: Any, axes: int = 1) -> None:
        """The same of an array with so many axes, which may hold millions of numbers."""
        import numpy as np  # which the command line's help does without

        kinds = "iu" if self.whole else "iuf"
        if type(values) is not np.ndarray or values.ndim != axes or values.dtype.kind not in kinds:
            raise InputError(f"{place}: {name} = {shown(values)} must be an array, and each entry {self}.")
        sizes = np.abs(values) if self.signed else values
        good = ((self.low <= sizes) & (sizes <= self.high)) | (self.zero & (values == 0))
        if not good.all():
            self.check(place, name, values.flat[np.argmin(good)].item())

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        ends = f"from {_plain(self.low)} to {_plain(self.high)}"
        return ("0 or " if self.zero else "") + (f"{kind} whose size is {ends}" if self.signed else f"{kind} {ends}")


def ranged(within: PublicRange, default: Any = MISSING, axes: int = 1) -> Any:
    """A field of a dataclass whose numbers must lie in this range; `axes` is how many an array of them has."""
    return field(default=default, metadata={RANGE: within, AXES: axes})


def range_of(part: Any, name: str) -> PublicRange:
    """The range that a field of a dataclass, or of one's instance, was declared with."""
    return next(entry.metadata[RANGE] for entry in fields(part) if entry.name == name)


def check_ranges(part: Any, place: str) -> None:
    """Raises an `InputError` where a number of a dataclass's instance is outside the range of its field.

    A field that holds a list of numbers is checked number by number, and one that holds an array all at once. None is
    fine where the field may be None.
    """
    for entry in fields(part):
        if entry.init and RANGE in entry.metadata:
            within, held = entry.metadata[RANGE], getattr(part, entry.name)
            kind = str(entry.type)
            if kind.removesuffix(" | None") in _ARRAYS:
                if not (held is None and kind.endswith("None")):
                    within.check_all(place, entry.name, held, entry.metadata.get(AXES, 1))
                continue
            for value in _numbers(entry, held):
                within.check(place, entry.name, value)


def _numbers(entry: Field[Any], value: Any) -> Iterator[Any]:
    kind = str(entry.type)
    if isinstance(value, tuple) and "tuple[" in kind:
        yield from value
    elif not (value is None and kind.endswith("None")):
        yield value


def _plain(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:g}"


def shown(value: Any) -> str:
    """The value for a message: Python writes out no integer of thousands of digits."""
    text = "an integer with many digits" if isinstance(value, int) and abs(value) > 10**_LONGEST else repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


SIZES = PublicRange(1e-9, 1e9)
"""Of steps, penalties, radii, bounds and scales."""

SIZES_OR_ZERO = PublicRange(1e-9, 1e9, zero=True)
"""Of what may also be left out."""

WIDTHS = PublicRange(1e-12, 1e9)
"""Of the half-width over which a kink is rounded: the largest number that a formula makes of it is 1 / width^3."""

WIDTHS_OR_ZERO = PublicRange(1e-12, 1e9, zero=True)
"""The same, with 0 for a kink as it is."""

SHARES = PublicRange(1e-6, 1.0 - 1e-6)
"""Of a part of a whole: levels of quantiles, caps of probabilities, shares of a budget."""

SHARES_OR_ZERO = PublicRange(1e-6, 1.0 - 1e-6, zero=True)
"""Of a share of a budget that may be left out."""

RATIOS = PublicRange(0.0, 1.0)
"""Of a mixture of two, each of which may be left out."""

STRENGTHS = PublicRange(1e-12, 1e9, zero=True)
"""Of a penalty's weight."""

TOLERANCES = PublicRange(1e-12, 1.0)
"""Of the gradient that an exact solver may leave."""

UPDATES = PublicRange(1, 10_000, whole=True)
"""Of steps in a round."""

BATCHES = PublicRange(1e-6, 1e9)
"""Of a mini-batch: records, or a share below 1."""

EPSILONS = PublicRange(1e-9, 1e15)
"""Of a budget; far above what protects anybody, for comparisons with next to no noise."""

DELTAS = PublicRange(1e-100, 1.0 - 1e-6, zero=True)
"""Of a budget; 0 where noise is pure."""

COUNTS = PublicRange(1, 10**9, whole=True)
"""Of rounds, columns, one agent's records."""

PLACES = PublicRange(0, 10**9, whole=True)
"""Of positions among the agents."""

TOTALS = PublicRange(1, 10**15, whole=True)
"""Of the records of all agents together."""

ENTRIES = PublicRange(1e-15, 1e9, zero=True, signed=True)
"""Of a number in a vector or table that describes a set."""

BROADCASTS = PublicRange(0.0, 1e9, signed=True)
"""Of a number that an agent is sent. What it adds to one still sees changes of 1e-7, and no square overflows."""
