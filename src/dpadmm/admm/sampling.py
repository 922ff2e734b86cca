"""Which records a step looks at. What was drawn is as secret as the noise: it is made of the same words.

Both kinds of draw cost what they draw, not what there is to draw from, and an agent's draw depends on its own words and
record count alone, never on who shares its batch of agents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.solvers.base import RandomBits

Draw = Callable[[RandomBits, str, IntArray, FloatArray], tuple[IntArray, IntArray]]
"""Records drawn for one step, by (words, purpose, record counts, rates): numbers within their agent, the agents' one
after another, and how many each agent has."""

_FIRST_WORDS = 64  # asked for at once; doubled each time they do not reach the last record


def poisson(random_bits: RandomBits, purpose: str, counts: IntArray, rates: FloatArray) -> tuple[IntArray, IntArray]:
    """Every record by a coin of its own, which falls right with the agent's rate.

    The gaps between records drawn are geometric, and made by inversion from one word each: independent coins, exact but
    for the rounding of a logarithm.
    """
    with np.errstate(divide="ignore"):
        decay = np.log1p(-rates)[:, None]  # minus infinity at rate one: no gaps
    last = np.full(counts.size, -1.0)
    found: list[FloatArray] = []
    for turn in itertools.count(1):
        drawn = random_bits(f"{purpose}.{turn}", _FIRST_WORDS << min(turn - 1, 10))
        uniform = (drawn.astype(np.float64) + 0.5) * 2.0**-64
        places = last[:, None] + np.cumsum(np.floor(np.log(uniform) / decay) + 1.0, axis=1)
        found.append(places)
        last = places[:, -1]
        if (last >= counts).all():
            break
    places = np.concatenate(found, axis=1)
    kept = places < counts[:, None]
    return places[kept].astype(np.int64), kept.sum(axis=1)


def uniform(random_bits: RandomBits, purpose: str, counts: IntArray, rates: FloatArray) -> tuple[IntArray, IntArray]:
    """One record of every agent, all equally likely."""
    share = (random_bits(purpose, 1)[:, 0] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.floor(share * counts).astype(np.int64), np.ones_like(counts)


SAMPLINGS: dict[str, Draw] = {"poisson": poisson, "uniform": uniform}
