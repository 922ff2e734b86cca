"""Which records a step looks at. What was drawn is as secret as the noise: it is made of random bits like it.

An agent's draw depends on its own random bits and record count alone, never on who shares its batch of agents. Chances
are exact: coins and numbers are whole random words compared with whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.release.random_bits import Stream

Draw = Callable[[Stream, IntArray, tuple[IntArray, IntArray]], tuple[IntArray, IntArray]]
"""Records drawn for one step, by (random bits, record counts, odds A / B): numbers within their agent, the agents' one
after another, and how many each agent has."""

COIN_BITS = 32
DIGITS = 10  # binary digits of the A of odds A / B
SMALLEST_RATE = 2.0 ** (DIGITS - COIN_BITS)  # down to which A has all its digits
_COINS_AT_ONCE = 2**22  # of all agents together, so that agents of very different sizes take little memory


def odds_of(rates: FloatArray) -> tuple[IntArray, IntArray]:
    """Chances as odds A / B: whole numbers, one of each for every rate from `SMALLEST_RATE` to 1.

    B is a power of two and at most 2^32, and A is at most 2^10, so that coins are exact and sums of mini-batches can be
    weighted in integers. A / B is within one part in a thousand of the rate.
    """
    _, exponent = np.frexp(rates)  # rate = share 2^exponent, share from 1/2 to 1
    above = np.clip(DIGITS - exponent, 0, COIN_BITS)
    of = np.left_shift(1, above.astype(np.int64))
    return np.clip(np.rint(np.ldexp(rates, above)).astype(np.int64), 1, of), of


def poisson(stream: Stream, counts: IntArray, odds: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """Every record by a coin of its own: 32 random bits that lie below A 2^32 / B, for B a divisor of 2^32."""
    drawn, of = odds
    below = drawn * (2**COIN_BITS // of)
    numbers, owners = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    first, agents = 0, np.flatnonzero(counts)
    while agents.size:
        left = int(counts[agents].max()) - first
        some = max(2, min(left + 1, _COINS_AT_ONCE // agents.size) // 2 * 2)  # even: two coins to a word
        coins = stream.take(agents).words(first // 2, some // 2).view(np.uint32)
        taken = (coins < below[agents, None]) & (first + np.arange(some) < counts[agents, None])
        row, number = np.nonzero(taken)
        numbers.append(first + number)
        owners.append(agents[row])
        first += some
        agents = agents[counts[agents] > first]
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    return np.concatenate(numbers)[order], np.bincount(owner, minlength=counts.size)


def uniform(stream: Stream, counts: IntArray, odds: tuple[IntArray, IntArray]) -> tuple[IntArray, IntArray]:
    """One record of every agent, all equally likely: the first random word that lies below the largest multiple of the
    record count, modulo the count."""
    found = np.full(counts.size, -1, dtype=np.int64)
    largest = np.array([2**64 // count * count - 1 for count in counts.tolist()], dtype=np.uint64)
    turn = 0
    while (found < 0).any():
        words = stream.words(turn, 1)[:, 0]
        fits = (found < 0) & (words <= largest)
        found[fits] = (words[fits] % counts[fits].astype(np.uint64)).astype(np.int64)
        turn += 1
    return found, np.ones_like(counts)


SAMPLINGS: dict[str, Draw] = {"poisson": poisson, "uniform": uniform}
