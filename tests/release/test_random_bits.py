"""Streams of random bits: counter mode with a start per row, a function of names, the same in any batch."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from dpadmm.errors import InputError
from dpadmm.release import random_bits
from dpadmm.release.random_bits import SeededRandomness, SystemRandomness


def stream(seed=3, runs=(0,), agents=(0,), round=2, purpose="gradient"):
    return SeededRandomness(seed).stream(np.array(runs), np.array(agents), round, purpose)


def counter_mode(seed, run, agent, round, purpose, count):
    names = f"('dpadmm random bits of releases, version 1', {seed}, {run}, {round}, '{purpose}')"
    key = hashlib.sha256(names.encode()).digest()
    cipher = Cipher(AES(key), CTR(agent.to_bytes(8, "big") + bytes(8))).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * count)), dtype="<u8")


def test_seeded_streams_are_counter_mode_of_the_cipher():
    """By another mode of the cipher, and a name written out by hand."""
    found = stream(runs=[0, 0, 7, 7], agents=[0, 1, 1, 90_000], round=12, purpose="gradient.2").words(0, 333)
    for row, (run, agent) in enumerate([(0, 0), (0, 1), (7, 1), (7, 90_000)]):
        np.testing.assert_array_equal(found[row], counter_mode(3, run, agent, 12, "gradient.2", 333))


def test_seeded_streams_do_not_change():
    """Numbers of published simulations depend on these."""
    found = stream(runs=[0, 5], agents=[0, 4]).words(0, 2)
    assert [[hex(word) for word in row] for row in found.tolist()] == PINNED


PINNED = [["0xcc3ad5c032e8e115", "0x2bdd2c09903329b5"], ["0x38b49cc10dbf2b36", "0x410bf66945d3f995"]]


@pytest.mark.parametrize(("start", "count"), [(0, 1), (1, 1), (1, 2), (3, 40), (98, 2), (0, 0), (17, 0)])
def test_any_part_of_a_stream_is_the_same(start, count):
    for source in (stream(runs=[0, 1, 1], agents=[5, 5, 6]), SystemRandomness().stream(*np.zeros((2, 3), int), 1, "x")):
        whole = source.words(0, 100)
        np.testing.assert_array_equal(source.words(start, count), whole[:, start : start + count])


def test_a_row_has_its_bits_in_every_batch():
    runs, agents = np.array([4, 0, 4, 0, 2]), np.array([1, 1, 0, 8, 8])
    together = stream(runs=runs, agents=agents)
    alone = [stream(runs=[run], agents=[agent]).words(5, 11)[0] for run, agent in zip(runs, agents, strict=True)]
    np.testing.assert_array_equal(together.words(5, 11), alone)
    rows = np.array([3, 0])
    np.testing.assert_array_equal(together.take(rows).words(5, 11), np.array(alone)[rows])
    assert together.take(rows).rows == 2


def test_every_name_matters():
    names = [
        *({"seed": 4}, {"runs": [1]}, {"agents": [1]}, {"round": 3}, {"purpose": "gradient.2"}, {"round": 20}),
        *({"seed": -3}, {"purpose": ""}, {}),
    ]
    words = np.concatenate([stream(**name).words(0, 50)[0] for name in names])
    assert np.unique(words).size == words.size


def test_names_count_by_value():
    expected = stream().words(0, 4)
    np.testing.assert_array_equal(stream(seed=np.int64(3), round=np.int64(2)).words(0, 4), expected)
    np.testing.assert_array_equal(
        stream(runs=np.zeros(1, np.int32), agents=np.zeros(1, np.uint8)).words(0, 4), expected
    )


def test_system_randomness_never_repeats():
    zeros = np.zeros(3, dtype=np.int64)
    words = np.concatenate([SystemRandomness().stream(zeros, zeros, 1, "x").words(0, 100).ravel() for _ in range(20)])
    assert np.unique(words).size == words.size == 6_000
    assert not SystemRandomness().simulated
    assert SeededRandomness(0).simulated


def test_system_randomness_takes_a_whole_key_for_each_stream(monkeypatch):
    sizes = []

    def counted(size, urandom=os.urandom):
        sizes.append(size)
        return urandom(size)

    monkeypatch.setattr(random_bits.os, "urandom", counted)
    for _ in range(3):
        SystemRandomness().stream(np.zeros(2, int), np.zeros(2, int), 1, "x").words(0, 3)
    assert sizes == [32] * 3


def test_streams_end_where_they_end():
    source = stream()
    assert source.words(2**64 - 3, 3).shape == (1, 3)
    for start, count in ((2**64 - 3, 4), (-1, 2), (0, -1)):
        with pytest.raises(InputError, match=r"a stream has words 0 to 2\^64 - 1"):
            source.words(start, count)


def test_an_empty_batch_has_no_bits():
    assert stream(runs=[], agents=[]).words(0, 5).shape == (0, 5)
