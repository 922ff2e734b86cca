"""Every record by a fair coin of its own, or one record and none more likely: draws checked against their laws."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dpadmm.admm.sampling import SAMPLINGS, poisson, uniform
from dpadmm.privacy.randomness import SeededRandomness, SystemRandomness

ROWS = 20_000


def keyed(rows, seed=0, source=None):
    """Words for these rows, another stream for every purpose."""
    names = np.arange(rows) if isinstance(rows, int) else np.asarray(rows)
    runs, given = np.zeros_like(names), source or SeededRandomness(seed)
    return lambda purpose, count: given.random_bits(runs, names, 1, purpose, count)


def coins(rate, records=30, rows=ROWS, seed=0):
    """(rows, records) of 0 and 1: who was drawn, in one draw of many agents alike."""
    drawn, sizes = poisson(keyed(rows, seed), "batch", np.full(rows, records), np.full(rows, rate))
    table = np.zeros((rows, records), dtype=np.int64)
    np.add.at(table, (np.repeat(np.arange(rows), sizes), drawn), 1)
    return table


def split(drawn, sizes):
    return np.split(drawn, np.cumsum(sizes)[:-1])


def chi_square(observed, expected):
    """Its p-value; cells with few expected are put together at the end."""
    few = expected < 10
    observed = np.append(observed[~few], observed[few].sum())
    expected = np.append(expected[~few], expected[few].sum())
    kept = expected > 0
    return stats.chisquare(observed[kept], expected[kept] * observed.sum() / expected[kept].sum()).pvalue


def test_the_samplings_by_name():
    assert {"poisson": poisson, "uniform": uniform} == SAMPLINGS


# -- coins -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
def test_every_record_is_drawn_with_the_rate_and_by_a_coin_of_its_own(rate):
    table = coins(rate)
    assert table.max() == 1
    error = np.sqrt(rate * (1 - rate) / ROWS)
    assert np.abs(table.mean(axis=0) - rate).max() < 4.5 * error
    together = np.cov(table, rowvar=False) / (rate * (1 - rate))
    apart = together[~np.eye(30, dtype=bool)]
    assert np.abs(apart).max() < 5.5 / np.sqrt(ROWS)
    np.testing.assert_allclose(np.diag(together), 1.0, atol=0.12)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5, 0.9])
def test_the_size_of_a_batch_is_binomial(rate):
    sizes = coins(rate, seed=1).sum(axis=1)
    variance = 30 * rate * (1 - rate)
    assert abs(sizes.mean() - 30 * rate) < 4.5 * np.sqrt(variance / ROWS)
    assert sizes.var() == pytest.approx(variance, rel=0.06)
    observed = np.bincount(sizes, minlength=31)
    assert chi_square(observed, ROWS * stats.binom(30, rate).pmf(np.arange(31))) > 0.005


def test_gaps_between_records_drawn_are_geometric():
    """Before the first record and between all others: (1 - q)^k q, and a gap says nothing of the next one."""
    rate, records = 0.2, 2000
    drawn, sizes = poisson(keyed(300, 2), "batch", np.full(300, records), np.full(300, rate))
    each = split(drawn, sizes)
    law = rate * (1 - rate) ** np.arange(60)
    first = np.array([places[0] for places in split(*poisson(keyed(ROWS, 3), "b", *spread_over(ROWS, 200, rate)))])
    assert chi_square(np.bincount(np.minimum(first, 59), minlength=60), ROWS * law) > 0.005
    # Far from the end, which cuts long gaps off.
    gaps = [np.diff(places[places < records - 100]) - 1 for places in each]
    joined = np.concatenate(gaps)
    assert joined.size > 100_000
    assert chi_square(np.bincount(np.minimum(joined, 59), minlength=60), joined.size * law) > 0.005
    pairs = np.concatenate([np.stack([gap[:-1], gap[1:]]) for gap in gaps], axis=1)
    assert abs(np.corrcoef(pairs)[0, 1]) < 4.5 / np.sqrt(pairs.shape[1])


def spread_over(rows, records, rate):
    return np.full(rows, records), np.full(rows, rate)


def test_at_rate_one_all_are_drawn_and_at_tiny_rates_hardly_any():
    counts = np.array([1, 7, 1000, 64, 65])
    drawn, sizes = poisson(keyed(5), "batch", counts, np.ones(5))
    np.testing.assert_array_equal(sizes, counts)
    np.testing.assert_array_equal(drawn, np.concatenate([np.arange(count) for count in counts]))
    drawn, sizes = poisson(keyed(1000), "batch", *spread_over(1000, 10_000, 1e-12))
    assert drawn.size == sizes.sum() == 0
    empty = (poisson(keyed(ROWS), "batch", *spread_over(ROWS, 100, 1e-4))[1] == 0).mean()
    assert empty == pytest.approx((1 - 1e-4) ** 100, abs=0.003)


def test_rates_and_counts_are_each_agent_s_own():
    counts, rates = np.array([5, 400, 40, 1, 3000]), np.array([0.9, 0.02, 0.5, 1.0, 0.3])
    totals = np.zeros(5)
    for seed in range(200):
        drawn, sizes = poisson(keyed(5, seed), "batch", counts, rates)
        assert drawn.size == sizes.sum()
        assert drawn.dtype.kind == "i"
        for places, count in zip(split(drawn, sizes), counts, strict=True):
            assert (np.diff(places) > 0).all()
            assert ((places >= 0) & (places < count)).all()
        totals += sizes
    error = np.sqrt(counts * rates * (1 - rates) * 200)
    assert (np.abs(totals - 200 * counts * rates) <= 4.5 * error).all()


def test_a_draw_does_not_depend_on_the_company():
    """Bit for bit, also where a neighbour needs many more words."""
    counts, rates = np.array([5, 4000, 40, 3]), np.array([0.4, 0.9, 0.1, 1.0])
    together = split(*poisson(keyed([7, 3, 12, 0]), "batch", counts, rates))
    for row, name in enumerate([7, 3, 12, 0]):
        alone, size = poisson(keyed([name]), "batch", counts[[row]], rates[[row]])
        np.testing.assert_array_equal(alone, together[row])
        assert size == alone.size


def test_long_draws_take_new_words_in_every_turn_and_stay_fair_across_them():
    asked = []
    random_bits = keyed(200, 4)

    def listening(purpose, count):
        asked.append((purpose, count))
        return random_bits(purpose, count)

    rate = 0.8
    drawn, sizes = poisson(listening, "batch.3", *spread_over(200, 1500, rate))
    assert len(asked) == len({purpose for purpose, _ in asked}) >= 5
    assert all(purpose.startswith("batch.3.") for purpose, _ in asked)
    assert all(after[1] == 2 * before[1] for before, after in itertools.pairwise(asked))
    table = np.zeros((200, 1500))
    table[np.repeat(np.arange(200), sizes), drawn] = 1
    blocks = table.reshape(200, 30, 50).mean(axis=(0, 2))
    assert np.abs(blocks - rate).max() < 4.5 * np.sqrt(rate * (1 - rate) / 10_000)
    neighbours = np.mean(table[:, :-1] * table[:, 1:])
    assert neighbours == pytest.approx(rate**2, abs=0.005)


def test_the_two_ends_of_the_words_draw_what_they_should():
    def all_alike(word):
        return lambda purpose, count: np.full((1, count), word, dtype=np.uint64)

    drawn, _ = poisson(all_alike(2**64 - 1), "batch", np.array([100]), np.array([0.3]))
    np.testing.assert_array_equal(drawn, np.arange(100))  # no gap is the likeliest gap
    drawn, _ = poisson(all_alike(0), "batch", np.array([1000]), np.array([0.5]))
    np.testing.assert_array_equal(drawn, np.arange(65, 1000, 66))  # 2^-65: sixty-five coins fell wrong
    for word, place in ((0, 0), (2**64 - 1, 9), (2**63, 5), (2**63 - 2**11, 4)):
        drawn, sizes = uniform(all_alike(word), "batch", np.array([10]), np.array([0.1]))
        assert (drawn.tolist(), sizes.tolist()) == ([place], [1])


# -- one record --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [1, 2, 7, 1000])
def test_one_record_of_every_agent_all_equally_likely(records):
    counts = np.full(50_000, records)
    drawn, sizes = uniform(keyed(50_000, 5), "batch", counts, 1.0 / counts)
    np.testing.assert_array_equal(sizes, 1)
    assert drawn.min() == 0
    assert drawn.max() == records - 1
    if records > 1:
        assert stats.chisquare(np.bincount(drawn, minlength=records)).pvalue > 0.005


def test_one_record_is_within_each_agent_s_own():
    counts = np.array([1, 3, 50, 2])
    seen = np.array([uniform(keyed(4, seed), "batch", counts, 1.0 / counts)[0] for seed in range(400)])
    assert (seen < counts).all()
    np.testing.assert_array_equal(seen[:, [0, 1, 3]].max(axis=0), [0, 2, 1])
    alone = [uniform(keyed([2], seed), "batch", counts[[2]], 1.0 / counts[[2]])[0][0] for seed in range(400)]
    np.testing.assert_array_equal(seen[:, 2], alone)


# -- for real releases -------------------------------------------------------------------------------------------------


def test_the_system_s_words_draw_as_well_and_never_twice_the_same():
    random_bits = keyed(400, source=SystemRandomness())
    draws = [poisson(random_bits, "batch", *spread_over(400, 500, 0.2)) for _ in range(2)]
    for drawn, sizes in draws:
        assert sizes.sum() == pytest.approx(400 * 100, abs=6 * np.sqrt(400 * 80))
        assert all((np.diff(places) > 0).all() for places in split(drawn, sizes))
    assert not np.array_equal(draws[0][0], draws[1][0])
    ones = [uniform(random_bits, "batch", np.full(400, 1000), np.full(400, 1e-3))[0] for _ in range(2)]
    assert (ones[0] != ones[1]).mean() > 0.9
    assert max(one.max() for one in ones) < 1000
