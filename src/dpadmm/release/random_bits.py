"""Random bits for releases: every row of a batch has a stream of its own, which can be read anywhere.

The stream of a row is AES-256 in counter mode, with blocks (number of the row: 64 bits, counter: 64 bits), both
big-endian, so rows under one key never share a block. All rows of one key are computed in one cipher call (encrypting
counter blocks one by one, "ECB", is counter mode). A word is 64 bits, two to a block, little-endian.

Real releases use `SystemRandomness`. Simulations use `SeededRandomness`: whoever knows the seed can subtract the noise.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from dpadmm._arrays import IntArray, WordArray
from dpadmm.errors import InputError

_BLOCK = 16  # bytes that AES encrypts at once
_LABEL = "dpadmm random bits of releases, version 1"


class Stream:
    """The random bits of the rows of a batch for one purpose.

    Guarantee: with secret, uniform keys that no other stream has, words of rows of different numbers or keys cannot be
    told from independent uniform ones without breaking AES-256.
    """

    def __init__(self, keys: Sequence[bytes], key_of_row: IntArray, numbers: WordArray) -> None:
        """Row b reads the blocks of number `numbers[b]` under the key `keys[key_of_row[b]]`."""
        self._keys, self._key_of_row, self._numbers = keys, key_of_row, numbers

    @property
    def rows(self) -> int:
        """How many rows the batch has."""
        return len(self._numbers)

    def words(self, start: int, count: int) -> WordArray:
        """Words start, ..., start + count - 1 of each row's own stream (rows, count); the same whenever asked for."""
        if start < 0 or count < 0 or start + count > 2**64:
            raise InputError(f"random words {start} to {start + count}: a stream has words 0 to 2^64 - 1")
        first, skipped = divmod(start, 2)
        blocks = (skipped + count + 1) // 2
        counters = np.empty((self.rows, blocks, 2), dtype=">u8")
        counters[:, :, 0] = self._numbers[:, None]
        counters[:, :, 1] = np.arange(first, first + blocks, dtype=np.uint64)
        # The cipher wants room for one more block than it writes.
        encrypted = np.empty(counters.nbytes + _BLOCK, dtype=np.uint8)
        source, target, size = counters.reshape(-1).view(np.uint8).data, encrypted.data, blocks * _BLOCK
        changes = (np.flatnonzero(np.diff(self._key_of_row)) + 1).tolist()
        for begin, end in itertools.pairwise((0, *changes, self.rows)):
            if begin < end and blocks:
                cipher = Cipher(AES(self._keys[self._key_of_row[begin]]), ECB()).encryptor()
                cipher.update_into(source[begin * size : end * size], target[begin * size : end * size + _BLOCK])
        words = encrypted[:-_BLOCK].view("<u8").reshape(self.rows, 2 * blocks)
        return words[:, skipped : skipped + count].astype(np.uint64, copy=False)

    def take(self, rows: IntArray) -> Stream:
        """The streams of some rows of the batch."""
        return Stream(self._keys, self._key_of_row[rows], self._numbers[rows])


@dataclass(frozen=True)
class SeededRandomness:
    """Repeatable bits: a run's key is a digest of (seed, run, round, purpose), a row's number is its agent's."""

    seed: int
    simulated: ClassVar[bool] = True

    def stream(self, runs: IntArray, agents: IntArray, round: int, purpose: str) -> Stream:
        distinct, key_of_row = np.unique(np.asarray(runs, dtype=np.int64), return_inverse=True)
        # `repr` of a tuple keeps 1 and "1", and ("a", "b") and ("ab",), apart.
        names = [repr((_LABEL, int(self.seed), run, int(round), purpose)) for run in distinct.tolist()]
        keys = [hashlib.sha256(name.encode()).digest() for name in names]
        return Stream(keys, key_of_row.astype(np.int64), np.asarray(agents, dtype=np.int64).astype(np.uint64))


@dataclass(frozen=True)
class SystemRandomness:
    """Fresh bits: every stream has a new key from the operating system, and the names of its rows are ignored."""

    simulated: ClassVar[bool] = False

    def stream(self, runs: IntArray, agents: IntArray, round: int, purpose: str) -> Stream:
        rows = len(agents)
        return Stream([os.urandom(32)], np.zeros(rows, dtype=np.int64), np.arange(rows, dtype=np.uint64))
