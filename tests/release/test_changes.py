"""What records' contributions change by, cut in integers: never longer than said, and else the plain difference."""

import math

import numpy as np
import pytest

from dpadmm.problems.losses import Logistic, Quantile, Quantiles, Softmax
from dpadmm.problems.shards import gather
from dpadmm.release import changes
from dpadmm.release.changes import change, cut
from dpadmm.release.sums import Total

LOSSES = [Logistic(), Quantile(0.3), Softmax(), Quantiles((0.2, 0.7))]
SIZES = (4, 1, 9, 30)


def as_total(numbers):
    return Total(numbers >> 26, numbers & (2**26 - 1))


@pytest.mark.parametrize("dimension", [1, 3, 1000, 100_000])
def test_what_is_cut_is_no_longer_in_whole_numbers_and_has_lost_little(dimension):
    rng, count = np.random.default_rng(dimension), 40 if dimension <= 1000 else 12
    rows = rng.standard_normal((count, dimension)) * 2.0 ** rng.integers(0, 49, (count, 1))
    rows[:5], rows[5:10] = 2**48 // dimension, -(2**48) // dimension
    numbers = np.rint(rows).astype(np.int64)
    squares = [sum(number * number for number in row.tolist()) for row in numbers]
    for longest in (0, 1, 2, 7, 2**20 + 1, 2**42, *{math.isqrt(square) for square in squares}):
        found = cut(as_total(numbers), longest).astype(np.int64)
        for row, square, given in zip(found, squares, numbers, strict=True):
            mine = sum(number * number for number in row.tolist())
            assert mine <= longest**2
            if square <= (longest * (1.0 - 2.0**-29)) ** 2:
                np.testing.assert_array_equal(row, given)
            else:  # truncation takes less than one from each number
                assert math.sqrt(mine) >= longest * (1.0 - 2.0**-28) - math.sqrt(dimension)
            assert (np.sign(row) * np.sign(given) >= 0).all()


@pytest.fixture(params=[False, True], ids=["dense", "sparse"])
def table(request):
    from scipy.sparse import csr_array

    rng = np.random.default_rng(3)
    features = rng.standard_normal((sum(SIZES), 5)) * (rng.random((sum(SIZES), 5)) < 0.7)
    targets, owner = rng.integers(0, 3, sum(SIZES)), np.repeat(np.arange(4), SIZES)
    return gather(csr_array(features) if request.param else features, targets, owner, norm_bound=1.0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_change_is_the_sum_of_what_each_record_s_contribution_moves_by(loss, table, monkeypatch):
    """Whatever is not cut; and what is, one record after the other. In blocks as at once, and for repeated agents."""
    rng, dimension = np.random.default_rng(4), loss.dimension(5, 3)
    agents = table.take(np.array([2, 0, 3, 1, 2]))
    query = loss.query(dimension // 5)
    point, anchor = rng.standard_normal((2, 5, dimension))
    plain = change(query, agents, point, anchor, None)
    norm = query.bounds(5, 1.0).norm
    np.testing.assert_array_equal(value(change(query, agents, point, anchor, 2 * norm)), value(plain))
    longest = norm // 50
    expected = np.zeros((5, dimension), dtype=np.int64)
    for agent in range(5):
        for number in range(agents.counts[agent]):
            one = agents.take([agent]).pick(np.array([number]), np.array([1]))
            expected[agent] += cut(change(query, one, point[[agent]], anchor[[agent]], None), longest)[0].astype(int)
    assert (expected != value(plain)).any()
    for block in (changes._NUMBERS_AT_ONCE, 3 * dimension, 1):
        monkeypatch.setattr(changes, "_NUMBERS_AT_ONCE", block)
        np.testing.assert_array_equal(value(change(query, agents, point, anchor, longest)), expected)


def value(total):
    return (total.high << 26) + total.low


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_no_record_moves_a_change_further_than_said(loss, table):
    """At points far apart, with or without the record; and some records go nearly as far."""
    rng, dimension = np.random.default_rng(5), loss.dimension(5, 3)
    query = loss.query(dimension // 5)
    norm, agents, reached = query.bounds(5, 1.0).norm, table.take([3]), 0.0
    for longest in (norm // 1000, norm // 10, norm):
        point, anchor = 30.0 * rng.standard_normal((2, 1, dimension))
        whole = value(change(query, agents, point, anchor, longest))
        for number in range(30):
            others = np.delete(np.arange(30), number)
            less = value(change(query, agents.pick(others, np.array([29])), point, anchor, longest))
            moved = sum(int(each) ** 2 for each in (whole - less)[0])
            assert moved <= longest**2
            reached = max(reached, math.sqrt(moved) / longest)
    assert reached > 0.99


def test_records_without_a_batch_change_nothing(table):
    nobody = table.pick(np.zeros(0, dtype=np.int64), np.zeros(4, dtype=np.int64))
    point, anchor = np.ones((4, 5)), np.zeros((4, 5))
    for longest in (None, 100):
        assert not value(change(Logistic().query(2), nobody, point, anchor, longest)).any()
