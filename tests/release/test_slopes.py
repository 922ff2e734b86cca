"""Slopes of records as integers: within their bounds whatever the model and the target, and wherever a record lies."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from dpadmm._kernels.class_scores import Shape, residuals_of
from dpadmm.problems.losses import (
    CappedLogistic,
    CappedSoftmax,
    ClippedSquared,
    Logistic,
    Loss,
    Quantile,
    Quantiles,
    SmoothedHinge,
    SmoothedQuantile,
    Softmax,
)
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.kernels import slopes as kernels
from dpadmm.release.kernels.slopes import BITS, LARGEST, make_whole, whole
from dpadmm.release.kernels.softmax import slopes_of
from dpadmm.testing.integers import integers

CLASSES = 3
MARGINS = [Logistic(), SmoothedHinge(0.1), ClippedSquared(0.3), Quantile(0.3), SmoothedQuantile(0.8, 0.05)]
SEVERAL = [Quantiles((0.2, 0.7)), Softmax(), CappedSoftmax(0.1)]
EXTREME = [
    ClippedSquared(1e-6),
    ClippedSquared(1e6),
    CappedLogistic(1e-3),
    CappedLogistic(0.999),
    SmoothedHinge(1e-6),
    SmoothedQuantile(0.001, 1e-6),
    Quantile(0.999),
    CappedSoftmax(1e-3),
    CappedSoftmax(0.999),
]
BOTH = pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
AWFUL = [math.nan, math.inf, -math.inf, 1e300, -1e300, 1e-300, 3e38, -3e38, 1e16, 0.0]


def named(loss: Loss) -> str:
    return str(loss)


def records(loss: Loss, rows: Any, owner: Any, seed: int = 0, sparse: bool = False) -> Shards:
    rng = np.random.default_rng(seed)
    regression = loss.task == "regression"
    classes = 2 if loss.task == "binary" else CLASSES
    targets = rng.normal(size=len(rows)) if regression else rng.integers(classes, size=len(rows))
    table = csr_array(rows) if sparse else rows
    return gather(table, loss.encode(targets, classes), np.asarray(owner), norm_bound=1.5)


def models(loss: Loss, agents: int, width: int, rng: np.random.Generator) -> Any:
    return rng.normal(size=(agents, loss.dimension(width, CLASSES))) * 3.0


def singles(shards: Shards) -> Shards:
    places = np.arange(shards.targets.size)
    return replace(shards, starts=places, stops=places + 1, names=tuple(map(str, places)))


def each(loss: Loss, shards: Shards, x: Any) -> Any:
    """What every record contributes, each at the model of its agent."""
    owner = np.repeat(np.arange(shards.agents), shards.counts)
    return integers(loss.query(CLASSES).total(singles(shards), x[owner]))


def assert_within(loss: Loss, shards: Shards, found: Any) -> None:
    """In Python integers: none is longer than the query says, in both norms, and no two are farther apart."""
    bounds = loss.query(CLASSES).bounds(shards.width, shards.row_bound)
    for contribution in found:
        assert sum(number**2 for number in contribution) <= bounds.norm**2
        assert sum(abs(number) for number in contribution) <= bounds.norm1
    lengths = [sum(number**2 for number in contribution) for contribution in found]
    longest = found[np.argsort(lengths)[-12:]]
    for one in longest:
        for other in longest:
            assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) <= bounds.apart**2


# One number


@given(number=st.floats(), most=st.integers(0, 2**BITS))
@settings(max_examples=500, deadline=None)
def test_a_slope_is_the_nearest_integer_within_its_bound(number: float, most: int) -> None:
    found = whole(number, float(most))
    assert abs(found) <= most
    assert found == int(found)
    if math.isnan(number):
        assert found == 0.0
    elif abs(number) <= most:
        assert abs(found - number) <= 0.5
    else:
        assert found == math.copysign(most, number)


def test_slopes_have_twenty_binary_digits() -> None:
    """With rows of 22 and chunks of 2,048 records that is what a double holds."""
    assert LARGEST == 2.0**20 == 2.0**BITS


several = arrays(np.float64, st.integers(1, 12), elements=st.one_of(st.floats(-2.0, 2.0), st.floats()))


@given(values=several, scale=st.sampled_from([1.0, LARGEST / 2.0, LARGEST, 1e300]))
@settings(max_examples=500, deadline=None)
def test_slopes_of_one_record_are_integers_within_both_norms(values: Any, scale: float) -> None:
    made = values.copy()
    make_whole(made, scale)
    found = [int(number) for number in made]
    assert all(number == int(number) for number in made)
    assert sum(number**2 for number in found) <= 2**40
    assert sum(map(abs, found)) ** 2 <= 2**41


@pytest.mark.parametrize("size", [2, 3, 10, 1000])
def test_residuals_on_the_bound_keep_all_but_a_little_of_their_length(size: int) -> None:
    values = np.r_[-1.0, np.full(size - 1, 1.0 / (size - 1))] * math.sqrt(0.5)  # 1-norm sqrt(2), as long as can be
    made = values.copy()
    make_whole(made, LARGEST)
    assert np.linalg.norm(made) >= (1.0 - 2.0**-16) * LARGEST * np.linalg.norm(values) - math.sqrt(size)


def test_what_is_no_residual_is_cut_or_counts_for_nothing() -> None:
    for values in ([1.0, 1.0], [0.7, 0.7, 0.7], np.full(100, 0.1), [0.9, 0.2675, 0.2675]):  # the last: 1-norm 1.435
        made = np.array(values)
        make_whole(made, LARGEST)
        assert not made.any()


def test_slopes_that_are_not_released_stay_as_they_are() -> None:
    values = np.array([0.3, math.nan, -1e300])
    made = values.copy()
    make_whole(made, 0.0)
    np.testing.assert_array_equal(made, values)
    assert kernels.LARGEST == LARGEST


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("own", [-1, 3, 10**9, -(2**62)])
def test_a_target_that_is_no_class_has_no_slope(own: int, kind: Any) -> None:
    out = np.full(3, 7.0)
    slopes_of(Shape(3), np.array([1.0, 2.0, 3.0], dtype=kind), own, 1.0, out)
    assert not out.any()


@given(
    scores=arrays(np.float32, st.integers(2, 9), elements=st.floats(-200.0, 200.0, width=32)),
    cap=st.sampled_from([1.0, 0.3, 1e-3]),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_residuals_are_those_of_the_capped_probabilities(scores: Any, cap: float, data: Any) -> None:
    own = data.draw(st.integers(0, scores.size - 1))
    out = np.empty(scores.size)
    residuals_of(scores.copy(), own, cap, out)
    exact = np.exp(scores.astype(np.longdouble) - scores.max())
    others = np.delete(exact, own).sum()
    missed = others / exact.sum()
    expected = exact * (cap / others if missed > cap else 1.0 / exact.sum())
    expected[own] = -min(missed, cap)
    np.testing.assert_allclose(out, expected.astype(float), rtol=1e-5, atol=1e-6 * cap)


# Any model, any target


@BOTH
@pytest.mark.parametrize("width", [4, 20])
@pytest.mark.parametrize("loss", [*MARGINS, *SEVERAL, *EXTREME], ids=named)
def test_no_contribution_is_too_long_whatever_model_and_target_are(loss: Loss, width: int, sparse: bool) -> None:
    rng = np.random.default_rng(width)
    rows = np.vstack([rng.normal(size=(12, width)) * 3.0, np.eye(width)[:3] * 2.0, np.zeros((1, width))])
    shards = records(loss, rows, np.arange(len(rows)), sparse=sparse)
    dimension = loss.dimension(width, CLASSES)
    awful = [np.full(dimension, number) for number in AWFUL]
    mixed = [rng.choice(AWFUL, dimension) for _ in range(8)]
    plain = [rng.normal(size=dimension) * size for size in (0.0, 1.0, 1e3, 1e6)]
    wrong = [-1, CLASSES, 2**40] if shards.targets.dtype.kind == "i" else [math.nan, math.inf, -1e300, 0.0, 7.0]
    targets = [shards.targets, *(np.full_like(shards.targets, each) for each in wrong)]
    with np.errstate(all="ignore"):
        for truth in targets:
            found = np.vstack(
                [each(loss, replace(shards, targets=truth), np.tile(x, (len(rows), 1))) for x in awful + mixed + plain]
            )
            assert_within(loss, shards, found)


@BOTH
@pytest.mark.parametrize("loss", [*MARGINS, *SEVERAL], ids=named)
def test_a_record_whose_slope_is_no_number_does_not_spoil_the_others(loss: Loss, sparse: bool) -> None:
    """Infinite models times rows of one column: NaN where the row is zero, and a slope within bounds elsewhere."""
    shards = records(loss, np.eye(4), np.zeros(4, dtype=int), sparse=sparse)
    x = np.zeros((1, loss.dimension(4, CLASSES)))
    x[0, 0] = math.inf
    with np.errstate(all="ignore"):
        together = integers(loss.query(CLASSES).total(shards, x))[0]
        apart = each(loss, shards, x).sum(axis=0)
        rest = replace(shards, starts=shards.starts + 1)
        others = integers(loss.query(CLASSES).total(rest, x))[0]
    np.testing.assert_array_equal(together, apart)
    bounds = loss.query(CLASSES).bounds(4, shards.row_bound)
    assert sum(int(number) ** 2 for number in together - others) <= bounds.norm**2


@pytest.mark.parametrize("shape", [(1, 3), (2, 4), (2, 3, 1), (6,)])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(), Quantiles((0.2, 0.7))], ids=named)
def test_models_of_another_shape_are_refused(loss: Loss, shape: tuple[int, ...]) -> None:
    """Compiled loops would read what lies behind a model, which may depend on any record."""
    shards = records(loss, np.eye(3)[:2], [0, 1])
    with pytest.raises((ValueError, IndexError)):
        loss.query(CLASSES).total(shards, np.zeros(shape))


# Any place

WIDTHS = [1, 2, 3, 4, 5, 7, 8, 9, 13, 14, 15, 16, 17, 32, 33, 104]
SIZES = [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 127, 128, 129, 300]


def assert_same_everywhere(loss: Loss, shards: Shards, x: Any) -> None:
    """Each agent's sum is that of its records, one by one, in any order and with others before and after."""
    query, rng = loss.query(CLASSES), np.random.default_rng(9)
    alone, owner = each(loss, shards, x), np.repeat(np.arange(shards.agents), shards.counts)
    expected = np.stack([alone[owner == agent].sum(axis=0) for agent in range(shards.agents)])
    np.testing.assert_array_equal(integers(query.total(shards, x)), expected)
    order = np.concatenate([rng.permutation(np.flatnonzero(owner == agent)) for agent in range(shards.agents)])
    mixed = replace(shards, features=shards.features[order], targets=shards.targets[order])
    np.testing.assert_array_equal(integers(query.total(mixed, x)), expected)
    prepended = replace(shards, starts=shards.starts[-1:] - 5, stops=shards.stops[-1:], names=shards.names[-1:])
    five = integers(query.total(replace(prepended, stops=prepended.starts + 5), x[-1:]))
    np.testing.assert_array_equal(integers(query.total(prepended, x[-1:])), expected[-1:] + five)


@BOTH
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("loss", [Logistic(), Softmax()], ids=named)
def test_a_slope_does_not_depend_on_where_its_record_lies(loss: Loss, width: int, sparse: bool) -> None:
    """Softmax has scores in single precision: one that came out differently would be seen in the slopes."""
    rng = np.random.default_rng(width)
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    shards = records(loss, rng.normal(size=(owner.size, width)), owner, sparse=sparse)
    assert_same_everywhere(loss, shards, models(loss, len(SIZES), width, rng))


@BOTH
@pytest.mark.parametrize("width", WIDTHS)
def test_a_margin_does_not_depend_on_where_its_record_lies(width: int, sparse: bool) -> None:
    """At a kink the last bit of a margin decides about the slope, and targets here are margins but for that bit."""
    rng, loss = np.random.default_rng(width), Quantile(0.3)
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    shards = records(loss, rng.normal(size=(owner.size, width)), owner, sparse=sparse)
    x = models(loss, len(SIZES), width, rng)
    rows = shards.features.toarray() if sparse else shards.features
    margins = (rows.astype(float) * (x * shards.cell)[owner]).sum(axis=1)
    near = margins + rng.integers(-2, 3, owner.size) * np.spacing(margins)
    shards = replace(shards, targets=near)
    slopes = set(np.sign(each(loss, shards, x).astype(float) * rows).sum(axis=1).tolist())
    assert min(slopes) < 0.0 < max(slopes)
    assert_same_everywhere(loss, shards, x)


@pytest.mark.parametrize("classes", [2, 4, 5, 6, 10, 13])
def test_any_number_of_classes_is_summed_alike(classes: int) -> None:
    rng, owner = np.random.default_rng(classes), np.repeat([0, 1, 2], [5, 40, 19])
    targets = rng.integers(classes, size=owner.size)
    shards = gather(rng.normal(size=(owner.size, 11)), targets, owner, norm_bound=1.0)
    x, query = rng.normal(size=(3, 11 * classes)) * 4.0, Softmax().query(classes)
    alone = integers(query.total(singles(shards), x[owner]))
    sums = np.stack([alone[owner == agent].sum(axis=0) for agent in range(3)])
    np.testing.assert_array_equal(integers(query.total(shards, x)), sums)


@pytest.mark.parametrize("width", [3, 15, 16, 40])
@pytest.mark.parametrize("loss", [*MARGINS, *SEVERAL], ids=named)
def test_dense_and_sparse_rows_give_equal_integers_where_margins_are_exact(loss: Loss, width: int) -> None:
    """Few binary digits in rows and models: no order of a sum rounds, and ties at a kink are real ones."""
    rng = np.random.default_rng(width)
    cell = 1.5 / 2**22
    rows = rng.integers(-3, 4, (200, width)) * 2.0**16 * cell
    x = rng.integers(-3, 4, (2, loss.dimension(width, CLASSES))) / 4.0
    owner, ties = np.repeat([0, 1], 100), rng.random(200) < 0.5
    dense, sparse = (records(loss, rows, owner, sparse=kind) for kind in (False, True))
    if loss.task == "regression":
        outputs = loss.outputs(CLASSES)
        first = x[owner].reshape(200, width, outputs)[:, :, 0]
        targets = np.where(ties, (dense.features.astype(float) * (first * dense.cell)).sum(axis=1), dense.targets)
        dense, sparse = (replace(shards, targets=targets) for shards in (dense, sparse))
    np.testing.assert_array_equal(each(loss, dense, x), each(loss, sparse, x))


@pytest.mark.parametrize("loss", [*MARGINS, Quantiles((0.2, 0.7))], ids=named)
@pytest.mark.parametrize("width", [15, 16, 104])
def test_dense_and_sparse_rows_give_equal_integers_of_a_margin(loss: Loss, width: int) -> None:
    """Margins differ in the last of 53 bits, and of a slope 20 are kept: of 600 records none is seen to differ."""
    rng, owner = np.random.default_rng(width), np.repeat([0, 1], 300)
    rows, x = rng.normal(size=(600, width)), models(loss, 2, width, rng)
    dense, sparse = (records(loss, rows, owner, sparse=kind) for kind in (False, True))
    np.testing.assert_array_equal(
        *(integers(loss.query(CLASSES).total(shards, x)) for shards in (dense, sparse)), strict=True
    )


@pytest.mark.parametrize("loss", [*MARGINS, *SEVERAL, *EXTREME], ids=named)
def test_rounded_slopes_are_those_of_the_loss(loss: Loss) -> None:
    """Half a unit of 2^-20 of the slope bound, and single precision for the scores of several classes."""
    rng = np.random.default_rng(2)
    shards = records(loss, rng.normal(size=(50, 4)), np.arange(50))
    x = models(loss, 50, 4, rng)
    query = loss.query(CLASSES)
    bounds = query.bounds(4, shards.row_bound)
    exact, found = loss.gradient(shards, x, np.ones(50)), each(loss, shards, x).astype(float) * bounds.worth
    longest = loss.gradient_bound(shards.row_bound)
    rounding = 2e-5 if isinstance(loss, Softmax) else 1.1 * 2.0**-21 * math.sqrt(loss.outputs(CLASSES))
    assert np.linalg.norm(exact - found, axis=1).max() <= rounding * longest
    assert np.linalg.norm(exact, axis=1).max() > 5.0 * rounding * longest


def test_one_sided_slopes_stay_on_their_side_whatever_the_loss_says() -> None:
    """A loss whose slope takes both signs, kept on the side that it has at the model zero; one that has none there
    contributes nothing, and a loss that keeps its sign contributes what it does without being kept."""
    rows, owner = np.ones((4, 1)), np.arange(4)
    targets = np.array([1.0, 1.0, -1.0, 0.0])
    shards = gather(rows, targets, owner, norm_bound=1.0, names=list("abcd"))
    free = ClippedSquared(1.0).query()
    kept, points = replace(free, one_sided=True), np.array([[0.5], [3.0], [3.0], [3.0]])
    slopes, limited = integers(free.total(shards, points)), integers(kept.total(shards, points))
    assert (np.sign(slopes[:, 0].astype(float)) == [-1.0, 1.0, 1.0, 1.0]).all()
    assert limited[0, 0] == slopes[0, 0]
    assert limited[2, 0] == slopes[2, 0]
    assert limited[1, 0] == limited[3, 0] == 0
    signs = gather(rows, np.array([1.0, 1.0, -1.0, -1.0]), owner, norm_bound=1.0, names=list("abcd"))
    plain = Logistic().query()
    once, again = (integers(query.total(signs, points - 1.0)) for query in (plain, replace(plain, one_sided=True)))
    assert (once == again).all()
