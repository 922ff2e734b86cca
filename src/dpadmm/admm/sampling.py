"""Which records a step looks at. What was drawn is as secret as the noise: it is made of random bits like it.

An agent's draw depends on its own random bits and record count alone, never on who shares its batch of agents. Chances
are exact: coins and numbers are whole random words compared with whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpadmm._arrays import IntArray
from dpadmm.release.random_bits import Stream

Draw = Callable[[Stream, IntArray, tuple[IntArray, IntArray]], tuple[IntArray, IntArray]]
"""Records drawn for one step, by (random bits, record counts, odds A / B): numbers within their agent, the agents' one
after another, and how many each agent has."""

COIN_BITS = 32


def poisson(stream: Stream, counts: IntArray, odds: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """Every record by a coin of its own: 32 random bits, below A 2^32 / B."""
    drawn, of = odds
    below = drawn * (2**COIN_BITS // of)
    most = int(counts.max(initial=0))
    coins = stream.words(0, -(-most // 2)).view(np.uint32)[:, :most]
    taken = (coins < below[:, None]) & (np.arange(most) < counts[:, None])
    return np.nonzero(taken)[1], taken.sum(axis=1)


def uniform(stream: Stream, counts: IntArray, odds: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """One record of every agent, all equally likely: the first random word that lies below the largest multiple of the
    record count, modulo the count."""
    found = np.full(counts.size, -1, dtype=np.int64)
    limit = (2**64 // counts.astype(object)) * counts.astype(object)
    turn = 0
    while (found < 0).any():
        words = stream.words(turn, 1)[:, 0]
        fits = (found < 0) & np.array([int(word) < most for word, most in zip(words, limit, strict=True)])
        found[fits] = (words[fits] % counts[fits].astype(np.uint64)).astype(np.int64)
        turn += 1
    return found, np.ones_like(counts)


SAMPLINGS: dict[str, Draw] = {"poisson": poisson, "uniform": uniform}
