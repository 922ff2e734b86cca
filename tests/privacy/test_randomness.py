"""Words by name: any part of a batch is the same words as in the whole."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpadmm.privacy.randomness import SeededRandomness, SystemRandomness, generator

RUNS = np.repeat(np.arange(3), 7)
AGENTS = np.tile(np.arange(7), 3)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 104])
@given(rows=st.lists(st.integers(0, 20), max_size=30))
def test_any_selection_of_rows_gets_the_words_of_the_full_batch(count: int, rows: list[int]) -> None:
    source = SeededRandomness(11)
    full = source.random_bits(RUNS, AGENTS, 4, "release", count)
    chosen = np.array(rows, dtype=np.int64)
    part = source.random_bits(RUNS[chosen], AGENTS[chosen], 4, "release", count)
    assert part.dtype == np.uint64
    assert part.shape == (len(rows), count)
    np.testing.assert_array_equal(part, full[chosen])


def test_every_part_of_the_name_matters_and_no_words_are_shared() -> None:
    agents = np.arange(5)
    zeros, ones = np.zeros(5, dtype=np.int64), np.ones(5, dtype=np.int64)
    draws = [
        SeededRandomness(1).random_bits(zeros, agents, 0, "a", 8),
        SeededRandomness(2).random_bits(zeros, agents, 0, "a", 8),
        SeededRandomness(1).random_bits(ones, agents, 0, "a", 8),
        SeededRandomness(1).random_bits(zeros, agents, 1, "a", 8),
        SeededRandomness(1).random_bits(zeros, agents, 0, "b", 8),
        SeededRandomness(1).random_bits(zeros, agents, 0, "a", 4),
    ]
    everything = np.concatenate([draw.ravel() for draw in draws])
    assert len(np.unique(everything)) == len(everything)


def test_system_words_are_fresh_and_not_called_simulated() -> None:
    source, agents = SystemRandomness(), np.arange(3)
    first, second = (source.random_bits(agents, agents, 0, "a", 4) for _ in range(2))
    assert first.shape == (3, 4)
    assert not np.any(first == second)
    assert not source.simulated
    assert SeededRandomness(0).simulated


def test_generator_is_keyed_by_seed_and_purpose() -> None:
    same = [generator(3, "split").integers(2**62) for _ in range(2)]
    assert same[0] == same[1]
    assert len({same[0], generator(4, "split").integers(2**62), generator(3, "data").integers(2**62)}) == 3
