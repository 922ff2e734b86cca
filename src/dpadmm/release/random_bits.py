"""Random bits for releases: every row of a batch has a stream of its own, which can be read anywhere.

The stream of a row is AES-256 in counter mode. Its blocks are (number of the row: 64 bits, counter: 64 bits), both
big-endian, so that rows never share a block, and two rows under one key are two parts of one counter-mode stream. All
rows of one key are computed in one cipher call (encrypting counter blocks one by one, "ECB", is counter mode). A word
is 64 bits, two to a block, little-endian.

A real release uses `SystemRandomness`: a key from the operating system's cryptographic generator for every stream. A
simulation uses `SeededRandomness`: whoever knows the seed can subtract the noise. Nothing else differs between them.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

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

    Guarantee: if the keys are secret and uniform, and were given to no other stream, then the words of all rows
    cannot be told from independent uniform words without breaking AES-256.
    """

    def __init__(self, keys: Sequence[bytes], key_of_row: IntArray, numbers: WordArray) -> None:
        """Row b reads the blocks of number `numbers[b]` under the key `keys[key_of_row[b]]`."""
        self._keys = keys
        self._key_of_row = key_of_row
        self._numbers = numbers

    @property
    def rows(self) -> int:
        """How many rows the batch has."""
        return len(self._numbers)

    def words(self, start: int, count: int) -> WordArray:
        """Words start, ..., start + count - 1 of each row's own stream, as an array (rows, count).

        Any part can be asked for again, in any order, and is the same. A stream has 2^64 words.
        """
        if start < 0 or count < 0 or start + count > 2**64:
            raise InputError(
                f"random words {start} to {start + count}: a stream has words 0 to 2^64 - 1; ask for those"
            )
        first, skipped = divmod(start, 2)
        blocks = (skipped + count + 1) // 2
        counters = np.empty((self.rows, blocks, 2), dtype=">u8")
        counters[:, :, 0] = self._numbers[:, None]
        counters[:, :, 1] = np.arange(first, first + blocks, dtype=np.uint64)
        # The cipher wants room for one more block than it writes.
        encrypted = np.empty(self.rows * blocks * _BLOCK + _BLOCK, dtype=np.uint8)
        changes = np.flatnonzero(np.diff(self._key_of_row)) + 1
        for begin, end in itertools.pairwise((0, *changes.tolist(), self.rows)):
            if begin < end and blocks:
                cipher = Cipher(AES(self._keys[self._key_of_row[begin]]), ECB()).encryptor()
                part = encrypted[begin * blocks * _BLOCK : end * blocks * _BLOCK + _BLOCK]
                cipher.update_into(counters[begin:end].reshape(-1).view(np.uint8).data, part.data)
        words = encrypted[:-_BLOCK].view("<u8").reshape(self.rows, 2 * blocks)
        return words[:, skipped : skipped + count].astype(np.uint64, copy=False)

    def take(self, rows: IntArray) -> Stream:
        """The streams of some rows of the batch."""
        return Stream(self._keys, self._key_of_row[rows], self._numbers[rows])


class Randomness(Protocol):
    """A source of streams; row b belongs to agent `agents[b]` in repetition `runs[b]`."""

    @property
    def simulated(self) -> bool:
        """True if the bits can be repeated, so that noise made of them protects nobody."""

    def stream(self, runs: IntArray, agents: IntArray, round: int, purpose: str) -> Stream:
        """The streams of a batch. Whatever is drawn twice in a round has two purposes."""


@dataclass(frozen=True)
class SeededRandomness:
    """Repeatable bits: a function of (seed, run, agent, round, purpose), whatever batch an agent is in.

    There is one key per run, the SHA-256 digest of the other names; the number of a row is its agent's.
    """

    seed: int
    simulated: ClassVar[bool] = True

    def stream(self, runs: IntArray, agents: IntArray, round: int, purpose: str) -> Stream:
        distinct, key_of_row = np.unique(np.asarray(runs, dtype=np.int64), return_inverse=True)
        keys = [self._key(run, int(round), purpose) for run in distinct.tolist()]
        return Stream(keys, key_of_row.astype(np.int64), np.asarray(agents, dtype=np.int64).astype(np.uint64))

    def _key(self, run: int, round: int, purpose: str) -> bytes:
        # `repr` of the tuple keeps 1 and "1", and ("a", "b") and ("ab",), apart.
        return hashlib.sha256(repr((_LABEL, int(self.seed), run, round, purpose)).encode()).digest()


@dataclass(frozen=True)
class SystemRandomness:
    """Fresh bits: every stream has a new key from the operating system, and the names of its rows are ignored."""

    simulated: ClassVar[bool] = False

    def stream(self, runs: IntArray, agents: IntArray, round: int, purpose: str) -> Stream:
        rows = len(agents)
        return Stream([os.urandom(32)], np.zeros(rows, dtype=np.int64), np.arange(rows, dtype=np.uint64))
