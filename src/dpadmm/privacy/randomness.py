"""Seeded randomness of what is no release: splitting data, drawing a simulated problem.

The random bits of releases are in `release/random_bits.py`.
"""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, purpose: str) -> np.random.Generator:
    """An ordinary NumPy generator for what is no release: splitting data, drawing a simulated problem."""
    return np.random.Generator(np.random.Philox(key=_key(seed, purpose)))


def derived(seed: int, purpose: str) -> int:
    """Another seed, for what must not share its words with anything drawn by the first."""
    return _key(seed, "derived", purpose)


def _key(*names: int | str) -> int:
    """A 128-bit Philox key. `repr` of the tuple keeps 1 and "1", and ("a", "b") and ("ab",), apart."""
    return int.from_bytes(hashlib.blake2b(repr(names).encode(), digest_size=16).digest(), "little")
