"""Sums of integers: exact, the same however they are computed, and of contributions within their bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from dpadmm.problems import shards as shards_module
from dpadmm.problems.array_files import ArrayBlocks
from dpadmm.problems.losses import CappedSoftmax, Logistic, Loss, Quantile, Quantiles, SecondMoment, Softmax
from dpadmm.problems.losses.statistics import ColumnMoments as ColumnMomentsLoss
from dpadmm.problems.losses.statistics import MeanAndProducts
from dpadmm.problems.losses.unrounded import lattice_sum
from dpadmm.problems.shards import Shards, gather
from dpadmm.problems.stored_shards import gather_blocks
from dpadmm.release import sums
from dpadmm.release.rows import LARGEST_SQUARE, SIDE
from dpadmm.release.sums import (
    CHUNK,
    CHUNK_OF_SQUARES,
    COARSE_BITS,
    Bounds,
    ColumnMoments,
    MarginGradient,
    Products,
    SeveralMargins,
    SoftmaxGradient,
    Total,
    add_up,
)
from dpadmm.testing.integers import integers

CLASSES = 3
SHIFTS = [0, 1, 12, 25, 26, 27, 40]
LOSSES = [
    Logistic(),
    Quantile(0.3),
    Quantiles((0.2, 0.7)),
    Softmax(),
    CappedSoftmax(0.1),
    SecondMoment(),
    ColumnMomentsLoss(1.0),
    ColumnMomentsLoss(0.01),
    ColumnMomentsLoss(30.0),
    MeanAndProducts(1.0),
    MeanAndProducts(0.01),
    MeanAndProducts(30.0),
]


def split(values: Any, carry: Any = 0) -> Total:
    """A total of these integers, so much of the high word kept in the low one."""
    high = np.array([[(int(v) >> 26) - int(carry) for v in row] for row in values], dtype=np.int64)
    low = np.array([[(int(v) & (2**26 - 1)) + (int(carry) << 26) for v in row] for row in values], dtype=np.int64)
    return Total(high, low)


# Two words


whole_numbers = st.integers(-(2**80), 2**80)


@given(
    values=st.lists(whole_numbers, min_size=1, max_size=4), carry=st.integers(0, 2**30), shift=st.sampled_from(SHIFTS)
)
@settings(max_examples=500, deadline=None)
def test_rounding_is_to_the_nearest_multiple(values: list[int], carry: int, shift: int) -> None:
    kept = [value if abs(value) < 2 ** (62 + shift) else value % 2 ** (62 + shift) for value in values]
    found = split([kept], carry).rounded(shift)[0]
    assert found.tolist() == [(value + (1 << shift >> 1)) >> shift for value in kept]
    for value, point in zip(kept, found.tolist(), strict=True):
        assert abs((point << shift) - value) <= (1 << shift) / 2


@pytest.mark.parametrize("shift", SHIFTS)
def test_numbers_around_a_half_are_rounded_up(shift: int) -> None:
    half = 1 << shift >> 1
    for multiple in (-3, -1, 0, 1, 5):
        base = multiple << shift
        near = [base, base + half, base + half - 1, base - half, base - half - 1]
        assert split([near]).rounded(shift)[0].tolist() == [(value + half) >> shift for value in near]


@given(
    one=st.lists(st.integers(-(2**60), 2**60), min_size=3, max_size=3),
    other=st.lists(st.integers(-(2**52), 2**52), min_size=3, max_size=3),
    factors=st.lists(st.integers(-(2**12), 2**12), min_size=2, max_size=2),
    carry=st.sampled_from([0, 2**28]),
    shift=st.sampled_from(SHIFTS),
)
@settings(max_examples=500, deadline=None)
def test_totals_are_added_and_weighted_as_integers_are(
    one: Any, other: Any, factors: Any, carry: int, shift: int
) -> None:
    first, second = split([one, other]), split([other, one[::-1]], carry)
    every = first.plus(second.times(-1)).times(np.array(factors))
    for agent, (a, b) in enumerate(((one, other), (other, one[::-1]))):
        exact = [factors[agent] * (p - q) for p, q in zip(a, b, strict=True)]
        assert integers(every)[agent].tolist() == exact
        if max(map(abs, exact)) < 2 ** (62 + shift):
            column = np.array([[shift], [shift]])
            assert every.rounded(column)[agent].tolist() == [(v + (1 << shift >> 1)) >> shift for v in exact]


def test_every_agent_has_its_own_shift() -> None:
    values = [[1 << 45, -(1 << 44) - 1], [3 << 44, 7]]
    found = split(values).rounded(np.array([[44], [27]]))
    assert found.tolist() == [[2, -1], [3 << 17, 0]]


def test_sums_of_more_chunks_than_one_word_holds_are_exact() -> None:
    """Two million chunks of 2^53 in a row are 2^74, which no 64-bit integer holds."""
    rng, chunks = np.random.default_rng(1), 2**21 + 1000
    parts = rng.integers(-(2**53), 2**53, (chunks, 3), endpoint=True)
    parts[:, 0] = 2**53
    parts[:, 1] = -(2**53)
    owner = (np.arange(chunks) % 7 == 0).astype(np.int64)
    high, low = np.zeros((2, 3), dtype=np.int64), np.zeros((2, 3), dtype=np.int64)
    add_up(parts.astype(np.float64), owner, high, low)
    found = integers(Total(high, low))
    for agent in (0, 1):
        mine = parts[owner == agent]
        ends = [int((mine >> 30).sum(axis=0)[j]) * 2**30 + int((mine & (2**30 - 1)).sum(axis=0)[j]) for j in range(3)]
        assert found[agent].tolist() == ends
    assert found[0][0] > 2**73
    assert Total(high, low).rounded(40)[0].tolist() == [(value + 2**39) >> 40 for value in found[0]]


def test_a_chunk_of_the_largest_contributions_is_exact_in_doubles() -> None:
    assert CHUNK * SIDE * 2**20 <= 2**53
    assert CHUNK_OF_SQUARES * LARGEST_SQUARE <= 2**53


# Bounds


@pytest.mark.parametrize("norm", [1, 2**30, 2**31 - 1, 2**31, 2**42, 2**42 + 1, 2**60])
def test_a_contribution_is_about_two_to_the_thirty_units_of_the_lattice(norm: int) -> None:
    bounds = Bounds(norm, 2 * norm, 2 * norm, 0.5, 9)
    assert COARSE_BITS == 30
    assert norm / 2**bounds.shift < 2 ** (COARSE_BITS + 1)
    assert bounds.shift == 0 or norm / 2**bounds.shift >= 2**COARSE_BITS
    assert bounds.coarse == 0.5 * 2**bounds.shift


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("norm", [2**29, 2**42 + 12345, 3**30])
def test_the_sensitivity_is_the_bound_and_what_rounding_costs(norm: int, records: int) -> None:
    bounds, dimension = Bounds(norm, 5 * norm, 3 * norm, 1.0, 50), 50
    unit, rounding = 2.0**bounds.shift, float(bounds.shift > 0)
    for replaced, which, longest, cost in (
        (False, 2, norm, math.sqrt(dimension)),
        (True, 2, 3 * norm, math.sqrt(dimension)),
        (False, 1, 5 * norm, dimension),
        (True, 1, 10 * norm, dimension),
    ):
        exact = records * longest / unit + rounding * cost
        assert exact < bounds.sensitivity(replaced, which, records) <= exact * (1.0 + 2.0**-39)


@given(
    start=st.lists(st.integers(-(2**70), 2**70), min_size=5, max_size=5),
    move=st.lists(st.integers(-(2**42), 2**42), min_size=5, max_size=5),
    shift=st.sampled_from(SHIFTS),
)
@settings(max_examples=500, deadline=None)
def test_rounding_moves_neighbours_apart_by_no_more_than_is_paid(start: Any, move: Any, shift: int) -> None:
    norm = math.isqrt(sum(number**2 for number in move)) + 1
    bounds = Bounds(max(norm, 2 ** (COARSE_BITS + shift)), sum(map(abs, move)), norm, 1.0, 5)
    kept = [value if abs(value) < 2 ** (60 + bounds.shift) else value % 2 ** (60 + bounds.shift) for value in start]
    one, other = (
        split([each]).rounded(bounds.shift)[0].tolist()
        for each in (kept, [a + b for a, b in zip(kept, move, strict=True)])
    )
    apart = [a - b for a, b in zip(one, other, strict=True)]
    assert math.sqrt(sum(number**2 for number in apart)) <= bounds.sensitivity(True, 2)
    assert sum(map(abs, apart)) <= bounds.sensitivity(False, 1)


def test_rounding_does_cost_something() -> None:
    """Two sums that are one cell apart can be rounded to different points, in every number."""
    bounds = Bounds(2**42, 2**43, 2**43, 1.0, 7)
    half = 1 << bounds.shift >> 1
    one, other = (split([[value] * 7]).rounded(bounds.shift) for value in (half - 1, half))
    assert np.abs(one - other).sum() == 7


def of(loss: Loss, rows: Any, targets: Any, bound: float = 1.5) -> Shards:
    """Every record an agent of its own."""
    encoded = loss.encode(np.asarray(targets), 2 if loss.task == "binary" else CLASSES)
    return gather(np.asarray(rows, dtype=float), encoded, np.arange(len(rows)), norm_bound=bound)


def worst_records(loss: Loss, width: int) -> tuple[Shards, Any]:
    """Rows on the bound, axes, level ones and random ones, with every target, at models far beyond every target."""
    rng = np.random.default_rng(width)
    level = np.full((1, width), 1.0)
    axes = np.eye(width)[: min(width, 3)]
    two = np.vstack([np.r_[math.cos(a), math.sin(a), np.zeros(width - 2)] for a in np.linspace(0.0, np.pi, 60)])
    rows = np.vstack([level, -level, axes, -axes, two, rng.normal(size=(20, width))])
    rows *= 1.5 / np.linalg.norm(rows, axis=1, keepdims=True)
    targets = [-1e6, 0.0, 1e6] if loss.task == "regression" else range(2 if loss.task == "binary" else CLASSES)
    return of(loss, np.repeat(rows, len(targets), axis=0), np.tile(targets, len(rows))), rows


def models(loss: Loss, width: int) -> Any:
    """Steep ones: of each output up or down along a direction."""
    rng, outputs = np.random.default_rng(5), loss.outputs(CLASSES)
    if loss.dimension(width, CLASSES) != width * outputs:
        return np.zeros((1, loss.dimension(width, CLASSES)))
    directions = np.vstack([np.eye(width)[:2], np.full((1, width), 1.0), rng.normal(size=(3, width))])
    mixes = np.vstack([np.eye(outputs), -np.eye(outputs), np.eye(outputs) - np.roll(np.eye(outputs), 1, axis=0)])
    return np.array([1e4 * np.outer(each, mix).ravel() for each in directions for mix in mixes])


@pytest.mark.parametrize("width", [2, 4, 20])
@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_no_record_exceeds_the_bounds_of_its_query_and_some_come_close(loss: Loss, width: int) -> None:
    shards, _ = worst_records(loss, width)
    query = loss.query(CLASSES)
    bounds = query.bounds(width, shards.row_bound)
    assert bounds.dimension == loss.dimension(width, CLASSES)
    reached = np.zeros(3)
    for x in models(loss, width):
        exact = integers(query.total(shards, np.tile(x, (shards.agents, 1))))
        for contribution in exact[:: max(1, len(exact) // 25)]:
            assert sum(number**2 for number in contribution) <= bounds.norm**2
            assert sum(map(abs, contribution)) <= bounds.norm1
        found = exact.astype(np.float64)  # up to 2^53 these are the integers; a bound is exceeded by more than rounding
        apart = cdist(found, found)
        reached = np.maximum(
            reached,
            [np.linalg.norm(found, axis=1).max(), np.abs(found).sum(axis=1).max(), apart.max()],
        )
        one, other = np.unravel_index(apart.argmax(), apart.shape)
        assert sum((a - b) ** 2 for a, b in zip(exact[one], exact[other], strict=True)) <= bounds.apart**2
    share = reached / [bounds.norm, bounds.norm1, bounds.apart]
    assert (share <= 1.0 + 1e-12).all()
    loose = 0.7 if isinstance(loss, SecondMoment) else 0.95  # 1-norm: 17/12 a pair, where a bound by sqrt(D) has more
    assert share[0] > 0.99
    assert share[1] > loose
    assert share[2] > 0.96


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_units_are_those_of_the_real_contribution(loss: Loss) -> None:
    """What leaves an owner without noise is the loss's gradient, but for rounding."""
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(60, 3))
    shards = of(loss, rows, rng.normal(size=60) if loss.task == "regression" else rng.integers(2, size=60))
    x = rng.normal(size=(60, loss.dimension(3, CLASSES)))
    exact, found = loss.gradient(shards, x, np.ones(60)), lattice_sum(loss.query(CLASSES), shards, x)
    np.testing.assert_allclose(found, exact, atol=4e-6 * loss.gradient_bound(1.5))
    real = shards.real_rows
    if isinstance(loss, SecondMoment):
        packed = [np.outer(row, row)[np.triu_indices(3)] for row in real]
        expected = packed * np.where(np.equal(*np.triu_indices(3)), 1.0, math.sqrt(2.0))
        np.testing.assert_allclose(exact, expected, rtol=1e-12)
    if isinstance(loss, ColumnMomentsLoss):
        np.testing.assert_allclose(exact, np.hstack([loss.scale * real, real**2]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [1, 3, 20])
@pytest.mark.parametrize("slope", [1e-6, 0.3, 1.0, 7.7, 1e6])
def test_the_bound_of_a_gradient_is_slopes_of_20_bits_times_rows_of_22(slope: float, width: int) -> None:
    query = MarginGradient(Logistic().tag, slope)
    bounds = query.bounds(width, 2.0)
    assert query.most == 2**20
    assert (bounds.norm, bounds.apart) == (2**42, 2**43)
    assert bounds.norm1 == math.isqrt(2**84 * width) + 1
    assert bounds.worth * bounds.norm == pytest.approx(2.0 * slope, rel=1e-14)
    assert bounds.shift == 12


def test_several_losses_keep_to_their_own_slopes() -> None:
    query = Quantiles((0.2, 0.7)).query()
    bounds, own = query.bounds(4, 1.0), [math.ceil(share * 2**20 / 0.8) for share in (0.8, 0.7)]
    assert [each.most for each in query._alike] == own
    assert bounds.norm == math.isqrt(sum((each * SIDE) ** 2 for each in own)) + 1
    assert bounds.apart == 2 * bounds.norm
    assert isinstance(query, SeveralMargins)


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("cap", [1.0, 0.3, 0.001])
def test_the_bound_of_several_classes_is_that_of_a_residual(classes: int, cap: float) -> None:
    bounds = SoftmaxGradient(classes, cap).bounds(6, 1.5)
    assert (bounds.norm, bounds.apart) == (2**42, 2**43)
    assert bounds.norm1 == math.isqrt(2**84 * 6 * 2) + 1
    assert bounds.worth * bounds.norm == pytest.approx(math.sqrt(2.0) * cap * 1.5, rel=2.0 * classes / 2**20)
    assert bounds.worth * bounds.norm > math.sqrt(2.0) * cap * 1.5


def test_the_bounds_of_statistics() -> None:
    products = Products().bounds(3, 1.0)
    assert products.norm == math.isqrt(145 * 16**22) + 1
    assert products.apart == math.isqrt(290 * 16**22) + 1
    for scale in (0.01, 1.0, 30.0):
        columns = ColumnMoments(scale).bounds(3, 1.0)
        factor = round(scale * SIDE)
        assert columns.norm == math.isqrt(factor**2 * 4**22 + 16**22) + 1
        assert columns.norm1 == math.isqrt((factor * SIDE) ** 2 * 3) + 1 + 4**22
    assert sums._LARGEST_FACTOR * SIDE <= 2**50


# Where records are kept


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "loss", [Logistic(), Softmax(), SecondMoment(), ColumnMomentsLoss(1.0), MeanAndProducts(1.0)], ids=str
)
def test_records_in_files_give_the_integers_of_records_in_memory(
    loss: Loss, intercept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "BLOCK_BYTES", 1)
    rng, sizes = np.random.default_rng(3), [1, 4 * CHUNK, 4 * CHUNK + 5, 37]
    owner = np.repeat(np.arange(4), sizes)
    rows = rng.normal(size=(owner.size, 4))
    classes = {"binary": 2, "multiclass": 3, "regression": None}[loss.task]
    targets = rng.normal(size=owner.size) if classes is None else rng.integers(classes, size=owner.size)
    encode = partial(loss.encode, classes=classes or 0)
    sources = []
    for agent in range(4):
        paths = tmp_path / f"{agent}.npy", tmp_path / f"{agent}.targets.npy"
        np.save(paths[0], rows[owner == agent])
        np.save(paths[1], targets[owner == agent])
        sources.append(ArrayBlocks.of(*paths, classes))
    memory = gather(rows, encode(targets), owner, norm_bound=1.0, intercept=intercept)
    disk = gather_blocks(sources, encode, norm_bound=1.0, intercept=intercept)
    query = loss.query(CLASSES)
    x = rng.normal(size=(4, loss.dimension(memory.width, CLASSES)))
    found = query.total(disk, x)
    np.testing.assert_array_equal(integers(found), integers(query.total(memory, x)))
    np.testing.assert_array_equal(lattice_sum(query, disk, x), lattice_sum(query, memory, x))
    order = rng.permutation(owner.size)
    mixed = gather(rows[order], encode(targets[order]), owner[order], norm_bound=1.0, intercept=intercept)
    np.testing.assert_array_equal(integers(found), integers(query.total(mixed, x)))


@pytest.mark.parametrize("loss", [SecondMoment(), ColumnMomentsLoss(1.0), MeanAndProducts(1.0)], ids=str)
@pytest.mark.parametrize("sparse", [False, True])
def test_statistics_are_exact_for_the_longest_rows(loss: Loss, sparse: bool) -> None:
    """600 records on the bound and one more: beyond 512 of them a double would lose the last."""
    rows = np.zeros((601, 3))
    rows[:600, 0] = 1.0
    rows[600] = [2.0**-22, 3 * 2.0**-22, 0.0]
    table = gather(rows, np.zeros(601), np.zeros(601, dtype=int), norm_bound=1.0)
    if sparse:
        table = replace(table, features=csr_array(table.features))
    found = integers(loss.query(0).total(table, np.zeros((1, loss.dimension(3, 0)))))[0].tolist()
    if isinstance(loss, SecondMoment):
        assert found == [12 * (600 * 4**22 + 1), 17 * 3, 0, 12 * 9, 0, 0]
    elif isinstance(loss, MeanAndProducts):
        own = [12 * (600 * 4**22 + 1), 17 * 3, 0, 12 * 9, 0, 0]
        assert found == [(600 * SIDE + 1) * 12 * SIDE, 3 * 12 * SIDE, 0, *own]
    else:
        assert found == [(600 * SIDE + 1) * SIDE, 3 * SIDE, 0, 600 * 4**22 + 1, 9, 0]
