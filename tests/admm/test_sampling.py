"""Every record by a fair coin of its own, or one record and none more likely: draws checked against their laws."""

import numpy as np
import pytest
from scipy import stats

from dpadmm.admm import sampling
from dpadmm.admm.sampling import SAMPLINGS, SMALLEST_RATE, odds_of, poisson, uniform
from dpadmm.release.random_bits import SeededRandomness, Stream, SystemRandomness

ROWS = 20_000


def keyed(rows, seed=0, source=None):
    """The streams of these rows."""
    names = np.arange(rows) if isinstance(rows, int) else np.asarray(rows)
    return (source or SeededRandomness(seed)).stream(np.zeros_like(names), names, 1, "batch")


class Written(Stream):
    """Rows whose words are all those of a list, again and again."""

    def __init__(self, words, rows=1):
        self._given, self._rows = np.asarray(words, dtype=np.uint64), rows

    @property
    def rows(self):
        return self._rows

    def words(self, start, count):
        return np.tile(self._given[np.arange(start, start + count) % self._given.size], (self._rows, 1))

    def take(self, rows):
        return Written(self._given, len(rows))


def coins(rate, records=30, rows=ROWS, seed=0):
    """(rows, records) of 0 and 1: who was drawn, in one draw of many agents alike."""
    drawn, sizes = poisson(keyed(rows, seed), *spread_over(rows, records, rate))
    table = np.zeros((rows, records), dtype=np.int64)
    np.add.at(table, (np.repeat(np.arange(rows), sizes), drawn), 1)
    return table


def spread_over(rows, records, rate):
    return np.full(rows, records), odds_of(np.full(rows, rate))


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


# -- odds ------------------------------------------------------------------------------------------------------------


def test_odds_are_small_whole_numbers_near_the_rate():
    rates = np.concatenate([np.exp(np.random.default_rng(0).uniform(np.log(SMALLEST_RATE), 0.0, 5000)), [1.0, 0.5]])
    rates = np.append(rates, [SMALLEST_RATE, np.nextafter(0.5, 1.0), np.nextafter(1.0, 0.0)])
    drawn, of = odds_of(rates)
    assert drawn.dtype == of.dtype == np.int64
    assert ((drawn >= 1) & (drawn <= 2**10) & (drawn <= of)).all()
    assert ((of & (of - 1)) == 0).all()
    assert (2**32 % of == 0).all()
    np.testing.assert_allclose(drawn / of, rates, rtol=1e-3)
    np.testing.assert_array_equal((drawn / of)[-5:-3], [1.0, 0.5])


@pytest.mark.parametrize("rate", [1.0, 0.7, 1 / 3, 0.05, 1e-4, SMALLEST_RATE])
def test_a_coin_falls_for_exactly_its_share_of_all_words(rate):
    """The words below A 2^32 / B and no others: the last one that does, and the first that does not."""
    drawn, of = (int(part[0]) for part in odds_of(np.array([rate])))
    last = drawn * 2**32 // of - 1
    assert (last + 1) * of == drawn * 2**32
    for word, falls in ((0, True), (last, True), (last + 1, False), (2**32 - 1, rate == 1.0)):
        if word < 2**32:
            both = Written([word | word << 32])
            found, sizes = poisson(both, np.array([5]), odds_of(np.array([rate])))
            assert sizes.tolist() == [5 * falls]
            np.testing.assert_array_equal(found, np.arange(5 * falls))


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
    np.testing.assert_allclose(np.diag(together), 1.0, atol=4.5 / np.sqrt(ROWS * rate * (1 - rate)))


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
    drawn, sizes = poisson(keyed(300, 2), *spread_over(300, records, rate))
    each = split(drawn, sizes)
    law = rate * (1 - rate) ** np.arange(60)
    first = np.array([places[0] for places in split(*poisson(keyed(ROWS, 3), *spread_over(ROWS, 200, rate)))])
    assert chi_square(np.bincount(np.minimum(first, 59), minlength=60), ROWS * law) > 0.005
    # Far from the end, which cuts long gaps off.
    gaps = [np.diff(places[places < records - 100]) - 1 for places in each]
    joined = np.concatenate(gaps)
    assert joined.size > 100_000
    assert chi_square(np.bincount(np.minimum(joined, 59), minlength=60), joined.size * law) > 0.005
    pairs = np.concatenate([np.stack([gap[:-1], gap[1:]]) for gap in gaps], axis=1)
    assert abs(np.corrcoef(pairs)[0, 1]) < 4.5 / np.sqrt(pairs.shape[1])


def test_at_rate_one_all_are_drawn_and_at_tiny_rates_hardly_any():
    counts = np.array([1, 7, 1000, 64, 65])
    drawn, sizes = poisson(keyed(5), counts, odds_of(np.ones(5)))
    np.testing.assert_array_equal(sizes, counts)
    np.testing.assert_array_equal(drawn, np.concatenate([np.arange(count) for count in counts]))
    drawn, sizes = poisson(keyed(1000), *spread_over(1000, 1000, SMALLEST_RATE))
    assert drawn.size == sizes.sum() <= 3
    empty = (poisson(keyed(ROWS), *spread_over(ROWS, 100, 1e-4))[1] == 0).mean()
    assert empty == pytest.approx((1 - 1e-4) ** 100, abs=0.003)


def test_rates_and_counts_are_each_agent_s_own():
    counts, rates = np.array([5, 400, 40, 1, 3000]), np.array([0.9, 0.02, 0.5, 1.0, 0.3])
    totals = np.zeros(5)
    for seed in range(200):
        drawn, sizes = poisson(keyed(5, seed), counts, odds_of(rates))
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
    together = split(*poisson(keyed([7, 3, 12, 0]), counts, odds_of(rates)))
    for row, name in enumerate([7, 3, 12, 0]):
        alone, size = poisson(keyed([name]), counts[[row]], odds_of(rates[[row]]))
        np.testing.assert_array_equal(alone, together[row])
        assert size == alone.size


def test_draws_of_agents_of_very_different_sizes_are_those_of_each_alone(monkeypatch):
    """Coins are made in blocks, and small agents drop out after the first."""
    counts = np.array([3, 5000, 1, 700, 2000, 700])
    whole = poisson(keyed(6, 4), counts, odds_of(np.full(6, 0.3)))
    asked = []
    honest = Stream.words
    monkeypatch.setattr(Stream, "words", lambda self, *given: asked.append((self.rows, *given)) or honest(self, *given))
    monkeypatch.setattr(sampling, "_COINS_AT_ONCE", 600)
    in_blocks = poisson(keyed(6, 4), counts, odds_of(np.full(6, 0.3)))
    for one, other in zip(whole, in_blocks, strict=True):
        np.testing.assert_array_equal(one, other)
    assert asked[0] == (6, 0, 50)
    assert [rows for rows, *_ in asked] == sorted((rows for rows, *_ in asked), reverse=True)
    assert sum(rows * count for rows, _, count in asked) < 2 * counts.sum()
    table = np.zeros(5000)
    table[split(*whole)[1]] = 1
    assert abs(np.mean(table[:-1] * table[1:]) - 0.09) < 0.02


@pytest.mark.parametrize("most", [60, 61])
def test_no_more_coins_are_tossed_than_there_are_records(most):
    """Millions for a few records would take most of the time of a step."""
    asked = []

    class Noted(Written):
        def words(self, start, count):
            asked.append((start, count))
            return super().words(start, count)

        def take(self, rows):
            return Noted(self._given, len(rows))

    drawn, sizes = poisson(Noted([0], 3), np.array([3, 0, most]), odds_of(np.full(3, 0.5)))
    assert asked == [(0, (most + 1) // 2)]  # two coins to a word
    assert sizes.tolist() == [3, 0, most]
    assert drawn.tolist() == [*range(3), *range(most)]


# -- one record --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [1, 2, 7, 1000])
def test_one_record_of_every_agent_all_equally_likely(records):
    counts = np.full(50_000, records)
    drawn, sizes = uniform(keyed(50_000, 5), counts, None)
    np.testing.assert_array_equal(sizes, 1)
    assert drawn.min() == 0
    assert drawn.max() == records - 1
    if records > 1:
        assert stats.chisquare(np.bincount(drawn, minlength=records)).pvalue > 0.005


def test_one_record_is_within_each_agent_s_own():
    counts = np.array([1, 3, 50, 2])
    seen = np.array([uniform(keyed(4, seed), counts, None)[0] for seed in range(400)])
    assert (seen < counts).all()
    np.testing.assert_array_equal(seen[:, [0, 1, 3]].max(axis=0), [0, 2, 1])
    alone = [uniform(keyed([2], seed), counts[[2]], None)[0][0] for seed in range(400)]
    np.testing.assert_array_equal(seen[:, 2], alone)


@pytest.mark.parametrize("records", [1, 2, 3, 10, 2**20, 2**31 - 1])
def test_a_word_beyond_the_last_whole_multiple_is_passed_over(records):
    """Else some records would be a little more likely than others."""
    counts = np.array([records])
    last = 2**64 // records * records - 1
    assert uniform(Written([last]), counts, None)[0][0] == records - 1
    assert uniform(Written([records - 1, 0]), counts, None)[0][0] == records - 1
    if last < 2**64 - 1:
        assert uniform(Written([last + 1, 2**64 - 1, last - 1]), counts, None)[0][0] == (last - 1) % records


# -- for real releases -------------------------------------------------------------------------------------------------


def test_the_system_s_words_draw_as_well_and_never_twice_the_same():
    draws = [poisson(keyed(400, source=SystemRandomness()), *spread_over(400, 500, 0.2)) for _ in range(2)]
    for drawn, sizes in draws:
        assert sizes.sum() == pytest.approx(400 * 100, abs=6 * np.sqrt(400 * 80))
        assert all((np.diff(places) > 0).all() for places in split(drawn, sizes))
    assert not np.array_equal(draws[0][0], draws[1][0])
    ones = [uniform(keyed(400, source=SystemRandomness()), np.full(400, 1000), None)[0] for _ in range(2)]
    assert (ones[0] != ones[1]).mean() > 0.9
    assert max(one.max() for one in ones) < 1000
