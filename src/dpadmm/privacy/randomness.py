"""Where the noise gets its bits.

A source of randomness hands out random bits, 64 at a time, and a mechanism turns a fixed number of them into each
number by a fixed formula. So the bits of one agent in one round can be asked for directly, by name, without generating
anybody else's: a batch of n agents gets what n batches of one would get, bit for bit.

Two sources. `SeededRandomness` is for simulations: everybody who knows the seed can subtract the noise.
`SystemRandomness` is for real releases: keys from the operating system's cryptographic generator, never seeded, used
once and forgotten.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dpadmm._arrays import IntArray, WordArray

AES_BLOCK = 16
_BLOCK = 4
"""Words that Philox makes from one value of its counter."""


class Randomness(Protocol):
    """Hands out random bits for the rows of a batch; row b belongs to agent `agents[b]` in repetition `runs[b]`."""

    @property
    def simulated(self) -> bool:
        """True if the bits can be repeated, so that noise made of them protects nobody."""

    def random_bits(self, runs: IntArray, agents: IntArray, round: int, purpose: str, count: int) -> WordArray:
        """`count` words for each row, as an array (len(agents), count)."""


@dataclass(frozen=True)
class SeededRandomness:
    """Repeatable words, keyed by (seed, run, agent, round, purpose, count).

    The counter-based generator Philox can start anywhere in its stream. Run, round, purpose and count are hashed into
    its key; agent i starts at counter i * ceil(count / 4), so neighbouring agents lie side by side in one stream and
    an ordinary batch costs one call per run. The count is part of the key because it sets the stride: otherwise two
    requests of different size under one purpose would overlap.
    """

    seed: int
    simulated: ClassVar[bool] = True

    def random_bits(self, runs: IntArray, agents: IntArray, round: int, purpose: str, count: int) -> WordArray:
        runs, agents = np.asarray(runs), np.asarray(agents)
        blocks = -(-count // _BLOCK)
        random_bits = np.empty((len(agents), count), dtype=np.uint64)
        breaks = np.flatnonzero((np.diff(runs) != 0) | (np.diff(agents) != 1)) + 1
        edges = [0, *breaks.tolist(), len(agents)]
        for start, stop in itertools.pairwise(edges):
            if start == stop:
                continue
            key = _key(self.seed, int(runs[start]), round, purpose, count)
            stream = np.random.Philox(key=key, counter=int(agents[start]) * blocks)
            raw = stream.random_raw((stop - start) * blocks * _BLOCK)
            random_bits[start:stop] = raw.reshape(stop - start, blocks * _BLOCK)[:, :count]
        return random_bits


@dataclass(frozen=True)
class SystemRandomness:
    """Fresh words, keyed by the operating system; the names of the rows are ignored and nothing can be repeated."""

    simulated: ClassVar[bool] = False

    def random_bits(self, runs: IntArray, agents: IntArray, round: int, purpose: str, count: int) -> WordArray:
        shape = (len(agents), count)
        # A fresh key from the system for every call, stretched by AES-256 in counter mode: several times faster than
        # asking the system for all the bytes, and forgotten when the call ends.
        cipher = Cipher(AES(os.urandom(32)), CTR(os.urandom(16))).encryptor()
        stream = bytearray(8 * shape[0] * shape[1] + AES_BLOCK)
        cipher.update_into(bytes(8 * shape[0] * shape[1]), stream)
        return np.frombuffer(stream, dtype=np.uint64, count=shape[0] * shape[1]).reshape(shape)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """An ordinary NumPy generator for what is no release: splitting data, drawing a simulated problem."""
    return np.random.Generator(np.random.Philox(key=_key(seed, purpose)))


def derived(seed: int, purpose: str) -> int:
    """Another seed, for what must not share its words with anything drawn by the first."""
    return _key(seed, "derived", purpose)


def _key(*names: int | str) -> int:
    """A 128-bit Philox key. `repr` of the tuple keeps 1 and "1", and ("a", "b") and ("ab",), apart."""
    return int.from_bytes(hashlib.blake2b(repr(names).encode(), digest_size=16).digest(), "little")
