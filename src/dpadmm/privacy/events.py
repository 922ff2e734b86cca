"""What was released, as far as privacy is concerned, and under which relation; both as text and bytes for a ledger.

A guarantee means nothing until it says what it hides. Both relations here keep the number of records public; they
differ in what may happen to one record. Events already carry the relation inside their sensitivity (sigma divided by
the sensitivity *under that relation*), so accountants never rescale a noise multiplier because of it.

An event is a frozen, hashable value that says how much noise a release carried in units of its sensitivity. It says
nothing about the numbers released. Google's `dp_accounting` has the vocabulary; this module passes it on and adds the
one word it lacks: `PureDpEvent`, any mechanism whose privacy loss never exceeds epsilon.

Events and arrays are kept as text and bytes that read back exactly.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import attr
import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
from numpy.typing import NDArray

from dpadmm._files import json_value
from dpadmm.errors import unknown

__all__ = [
    "ComposedDpEvent",
    "DpEvent",
    "GaussianDpEvent",
    "GaussianObjectiveDpEvent",
    "LaplaceDpEvent",
    "MixtureOfGaussiansDpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "PoissonSampledDpEvent",
    "PureDpEvent",
    "RandomizedResponseDpEvent",
    "Relation",
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "Tally",
    "canonical",
    "digest",
    "dominating",
    "event_from_dict",
    "event_to_dict",
    "flatten",
    "pack",
    "tally_to_list",
    "unpack",
]


class Relation(StrEnum):
    """Which two databases count as neighbours: the relation a guarantee is stated under."""

    REPLACE = "replace"
    ZERO_OUT = "zero-out"

    @classmethod
    def parse(cls, text: str) -> Relation:
        """The relation of that name, as written on the command line and in spec files.

        Args:
            text: `replace` or `zero-out`.

        Returns:
            The relation.

        Raises:
            InputError: There is none of this name.
        """
        try:
            return cls(text)
        except ValueError:
            raise unknown("relation", text, [relation.value for relation in cls]) from None

    @property
    def description(self) -> str:
        """One sentence for a person."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Relation.REPLACE: "One record of one agent may take any other value; the number of records is public.",
    Relation.ZERO_OUT: (
        "One record of one agent may be blanked, its loss counted as zero; the number of records is public."
    ),
}


Tally = Mapping[DpEvent, int]
"""How often each event happened: run-length coded, because rounds repeat."""


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PureDpEvent(DpEvent):  # type: ignore[misc]  # dp_accounting ships no types
    """Any epsilon-differentially private release, about which nothing else is known.

    Gamma-norm noise and objective perturbation are accounted for by this event.
    """

    epsilon: float = attr.ib(validator=attr.validators.ge(0.0))


@attr.s(frozen=True, slots=True, auto_attribs=True)
class GaussianObjectiveDpEvent(DpEvent):  # type: ignore[misc]
    """The exact minimiser of an objective with a Gaussian linear term (see `objective`): not a Gaussian release.

    `noise_multiplier` is over the gradient's sensitivity under the relation in force. `kappa` is the most curvature a
    record can add, over the curvature that is guaranteed without it. `one_sided` says that the loss's slope never
    changes its sign.
    """

    noise_multiplier: float = attr.ib(validator=attr.validators.ge(0.0))
    kappa: float = attr.ib(validator=attr.validators.ge(0.0))
    one_sided: bool


def dominating(event: DpEvent) -> DpEvent:
    """The event dp_accounting knows that costs at least as much; only `PureDpEvent` needs translating.

    It becomes randomised response on two buckets. No epsilon-DP mechanism tells its two neighbours apart better than
    one that says which neighbour it is with odds e^epsilon to 1 (Kairouz, Oh & Viswanath 2015), so composing this one
    bounds composing the other. dp_accounting's parameter p is the probability of answering at random:
    (1 - p/2) / (p/2) = e^epsilon.

    The odds are e^epsilon only between two *ordinary* inputs: account for it under REPLACE_ONE. Under REPLACE_SPECIAL
    dp_accounting compares an input with a coin toss, which is a smaller loss.
    """
    if not isinstance(event, PureDpEvent):
        return event
    if event.epsilon == 0.0:
        return NoOpDpEvent()
    # 2 / (1 + e^epsilon), written so that a large epsilon underflows to 0 (which means non-private), not overflows.
    decay = math.exp(-event.epsilon)
    return RandomizedResponseDpEvent(noise_parameter=2.0 * decay / (1.0 + decay), num_buckets=2)


_FREE = (NoOpDpEvent(), PureDpEvent(0.0))


def flatten(tally: Tally) -> dict[DpEvent, int]:
    """The same releases with compositions taken apart and no-ops left out.

    Every accountant works on a flat tally, so that a count is multiplied in one place only.
    """
    flat: Counter[DpEvent] = Counter()
    for event, count in tally.items():
        if count < 0:
            raise ValueError(f"a release cannot be taken back: {event} has count {count}")
        if isinstance(event, SelfComposedDpEvent):
            parts = flatten({event.event: event.count})
        elif isinstance(event, ComposedDpEvent):
            parts = {}
            for part in event.events:
                for leaf, times in flatten({part: 1}).items():
                    parts[leaf] = parts.get(leaf, 0) + times
        else:
            parts = {event: 1}
        for leaf, times in parts.items():
            if times * count > 0 and leaf not in _FREE:
                flat[leaf] += times * count
    return dict(flat)


_EVENTS: dict[str, type[DpEvent]] = {
    name: found for name in __all__ if isinstance(found := globals().get(name), type) and issubclass(found, DpEvent)
}
"""What a ledger can keep, by name."""


def event_to_dict(event: DpEvent) -> dict[str, Any]:
    """An event as plain JSON; numbers read back bit for bit."""
    name = type(event).__name__
    if name not in _EVENTS:
        raise TypeError(f"{name} is not an event this ledger knows how to keep")
    fields = {field.name: _plain(getattr(event, field.name)) for field in attr.fields(type(event))}
    return {"kind": name, **fields}  # not "event": sampled and composed events have a field of that name


def event_from_dict(entry: Mapping[str, Any]) -> DpEvent:
    """The event written by `event_to_dict`."""
    fields = {name: _rich(value) for name, value in entry.items() if name != "kind"}
    return _EVENTS[entry["kind"]](**fields)


def tally_to_list(tally: Tally) -> list[list[Any]]:
    """Run-length coded: pairs of an event and how often."""
    return [[event_to_dict(event), count] for event, count in tally.items()]


def canonical(value: Any) -> str:
    """JSON with one spelling, so that equal things have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(*parts: bytes | str) -> str:
    """SHA-256 over the parts, each preceded by its length so that no two lists of parts look alike."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big"))
        total.update(data)
    return total.hexdigest()


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Named arrays as bytes: a line of JSON that says what follows, and then the numbers. (NumPy's own archives take
    half a millisecond each, and an answer makes two.)"""
    kept = {name: np.asarray(values) for name, values in arrays.items()}
    if any(values.dtype.hasobject for values in kept.values()):
        raise ValueError("objects are not kept as bytes")
    about = canonical([[name, values.dtype.str, values.shape] for name, values in kept.items()])
    return b"".join([about.encode(), b"\n", *(values.tobytes() for values in kept.values())])


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays written by `pack`, bit for bit."""
    about, _, numbers = data.partition(b"\n")
    found, start = {}, 0
    for name, kind, shape in json_value(about):
        dtype = np.dtype(kind)
        count = math.prod(shape)
        found[name] = np.frombuffer(numbers, dtype, count, start).reshape(shape).copy()
        start += count * dtype.itemsize
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, DpEvent):
        return event_to_dict(value)
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _rich(value: Any) -> Any:
    if isinstance(value, Mapping):
        return event_from_dict(value)
    if isinstance(value, list):
        return tuple(_rich(entry) for entry in value)
    return value
