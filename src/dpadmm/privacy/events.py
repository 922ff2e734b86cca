"""What was released, as far as privacy is concerned.

An event is a frozen, hashable value that says how much noise a release carried in units of its sensitivity. It says
nothing about the numbers released. Google's `dp_accounting` has the vocabulary; this module passes it on and adds the
one word it lacks: `PureDpEvent`, any mechanism whose privacy loss never exceeds epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import attr
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
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "Tally",
    "dominating",
    "flatten",
]

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
