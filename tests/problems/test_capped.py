"""Capped losses: the largest convex functions below the plain ones that pull no harder than the cap, at any score."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array
from scipy.special import logsumexp, softmax

from dpadmm.errors import InputError
from dpadmm.problems.losses import CappedLogistic, CappedSoftmax, Logistic, Loss, Softmax
from dpadmm.problems.shards import Shards, gather

ROUNDING = 1.0 + 1e-12  # of a formula in doubles
CAPS = [0.05, 0.3, 0.5, 0.9]
CLASSES = 4


def shards_of(loss: Loss, rows: Any, targets: Any, classes: int = CLASSES, **rules: Any) -> Shards:
    """Every record is an agent of its own."""
    encoded = loss.encode(np.asarray(targets), classes)
    return gather(rows, encoded, np.arange(len(targets)), **({"norm_bound": 1.0} | rules))


def of_scores(loss: Loss, scores: Any, targets: Any, **rules: Any) -> tuple[Shards, NDArray[Any]]:
    """Rows of a single one, so that the models (rows) are the scores."""
    scores = np.atleast_2d(np.asarray(scores, dtype=float))
    classes = max(2, scores.shape[1])
    return shards_of(loss, np.ones((len(scores), 1)), targets, classes, **rules), scores


def values(loss: Loss, scores: Any, targets: Any) -> NDArray[Any]:
    shards, x = of_scores(loss, scores, targets)
    return loss.values(shards, x, np.ones(len(x)))


def gradients(loss: Loss, scores: Any, targets: Any, **rules: Any) -> NDArray[Any]:
    shards, x = of_scores(loss, scores, targets, **rules)
    return loss.gradient(shards, x, np.ones(len(x)))


def plain(scores: Any, target: int) -> float:
    return float(logsumexp(scores) - scores[target])


# What they are


@pytest.mark.parametrize("cap", CAPS)
def test_the_value_is_the_cheapest_way_to_lift_the_own_score(cap: float) -> None:
    """min over s >= 0 of l(u + s e_b) + c s, found by a search that knows nothing of the formula."""
    rng = np.random.default_rng(1)
    scores, targets = 3.0 * rng.normal(size=(40, CLASSES)), rng.integers(CLASSES, size=40)
    margins, signs = 4.0 * rng.normal(size=40), rng.integers(2, size=40)

    def least(row: Any, target: int) -> float:
        lifted = lambda s: plain(row + s * np.eye(len(row))[target], target) + cap * s  # noqa: E731
        found = minimize_scalar(lifted, bounds=(0.0, 60.0), method="bounded", options={"xatol": 1e-10})
        return min(float(found.fun), lifted(0.0))

    expected = [least(*record) for record in zip(scores, targets, strict=True)]
    np.testing.assert_allclose(values(CappedSoftmax(cap), scores, targets), expected, rtol=1e-9)
    expected = [least(np.array([0.0, m]), sign) for m, sign in zip(margins, signs, strict=True)]
    np.testing.assert_allclose(values(CappedLogistic(cap), margins[:, None], signs), expected, rtol=1e-9)
    straight = values(CappedSoftmax(cap), scores, targets) < values(Softmax(), scores, targets) - 1e-9
    assert 3 < straight.sum() < 40  # the search saw both parts


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("kind", [CappedLogistic, CappedSoftmax])
def test_they_are_the_plain_loss_up_to_the_corner_and_below_it_beyond(kind: Any, cap: float) -> None:
    ordinary = Logistic() if kind is CappedLogistic else Softmax()
    width = 1 if kind is CappedLogistic else CLASSES
    rng = np.random.default_rng(2)
    scores, targets = 3.0 * rng.normal(size=(300, width)), rng.integers(2, size=300)
    mine, theirs = values(kind(cap), scores, targets), values(ordinary, scores, targets)
    near = theirs <= -math.log1p(-cap)
    assert near.any()
    assert not near.all()
    np.testing.assert_allclose(mine[near], theirs[near], rtol=1e-12, atol=1e-15)
    assert (mine[~near] < theirs[~near]).all()
    assert (mine > 0.0).all()


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("kind", [CappedLogistic, CappedSoftmax])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_gradient_is_the_derivative_of_the_values(kind: Any, cap: float, sparse: bool) -> None:
    """Once differentiable everywhere, at the corner as well."""
    loss, rng = kind(cap), np.random.default_rng(3)
    classes = 2 if kind is CappedLogistic else CLASSES
    rows, targets = rng.normal(size=(60, 3)), rng.integers(classes, size=60)
    shards = shards_of(loss, csr_array(rows) if sparse else rows, targets, classes)
    x, one, h = 2.0 * rng.normal(size=(60, loss.dimension(3, classes))), np.ones(60), 1e-6
    gradient = loss.gradient(shards, x, one)
    for j in range(x.shape[1]):
        step = h * np.eye(x.shape[1])[j]
        slope = (loss.values(shards, x + step, one) - loss.values(shards, x - step, one)) / (2 * h)
        np.testing.assert_allclose(gradient[:, j], slope, atol=1e-5)


scores_of_any_size = arrays(float, CLASSES, elements=st.floats(-1e6, 1e6))


@given(scores_of_any_size, scores_of_any_size, st.floats(0.0, 1.0), st.sampled_from(CAPS), st.integers(0, CLASSES - 1))
@settings(max_examples=100)
def test_they_are_convex(one: Any, other: Any, share: float, cap: float, target: int) -> None:
    between, lost = share * one + (1.0 - share) * other, 1e-14 * max(1e3, np.abs(one).max(), np.abs(other).max())
    for loss, pick, b in ((CappedSoftmax(cap), slice(None), target), (CappedLogistic(cap), slice(1), target % 2)):
        ends = [values(loss, u[None, pick], [b])[0] for u in (one, other)]
        chord = share * ends[0] + (1.0 - share) * ends[1]
        middle = values(loss, between[None, pick], [b])[0]
        assert middle <= chord + lost
        # And above its tangent.
        slope = gradients(loss, one[None, pick], [b])[0] @ (other - one)[pick]
        assert ends[1] >= ends[0] + slope - lost


@pytest.mark.parametrize("cap", CAPS)
def test_two_classes_of_the_softmax_are_the_logistic_loss(cap: float) -> None:
    margins = np.concatenate([np.linspace(-40.0, 40.0, 81), [-1e6, -1e3, 1e3, 1e6]])[:, None]
    pairs = np.hstack([np.zeros_like(margins), margins])
    for target in (0, 1):
        targets = np.full(len(margins), target)
        found = values(CappedSoftmax(cap), pairs, targets)
        np.testing.assert_allclose(found, values(CappedLogistic(cap), margins, targets), rtol=1e-9, atol=1e-14)
        pulls = gradients(CappedSoftmax(cap), pairs, targets)
        np.testing.assert_allclose(pulls[:, 1:], gradients(CappedLogistic(cap), margins, targets), atol=1e-15)
        np.testing.assert_allclose(pulls[:, 0], -pulls[:, 1], atol=1e-15)


@pytest.mark.parametrize(("capped", "ordinary"), [(CappedLogistic, Logistic), (CappedSoftmax, Softmax)])
def test_a_cap_near_one_is_no_cap(capped: Any, ordinary: Any) -> None:
    rng = np.random.default_rng(4)
    width, targets = 1 if capped is CappedLogistic else CLASSES, rng.integers(2, size=100)
    scores = 3.0 * rng.normal(size=(100, width))
    for method in (values, gradients):
        near, plain = method(capped(1.0 - 1e-6), scores, targets), method(ordinary(), scores, targets)
        np.testing.assert_allclose(near, plain, rtol=1e-13, atol=1e-15)


# How hard a record pulls


def pulls(loss: Loss, scores: Any, targets: Any) -> NDArray[Any]:
    return np.linalg.norm(gradients(loss, scores, targets), axis=1)


def released(loss: Loss, scores: Any, targets: Any) -> NDArray[Any]:
    """Lengths of what is released, in units of the bound that is enforced."""
    shards, x = of_scores(loss, scores, targets)
    query = loss.query(max(2, x.shape[1]))
    bounds, total = query.bounds(1, shards.row_bound), query.total(shards, x)
    return np.linalg.norm(total.high * 2.0**26 + total.low, axis=1) / bounds.norm


@pytest.mark.parametrize("cap", CAPS)
def test_no_record_pulls_harder_than_the_cap_whatever_the_scores(cap: float) -> None:
    rng = np.random.default_rng(5)
    sizes = np.geomspace(1e-3, 1e6, 400)[:, None]
    random = sizes * rng.normal(size=(400, CLASSES))
    extreme = np.array([s * np.array(u) for s in (1e3, 1e6) for u in np.ndindex(3, 3, 3, 3)]) - 1e3
    for scores in (random, extreme):
        targets = rng.integers(CLASSES, size=len(scores))
        loss, worst = CappedSoftmax(cap), math.sqrt(2.0) * cap
        assert pulls(loss, scores, targets).max() <= worst * ROUNDING
        assert released(loss, scores, targets).max() <= 1.0
        assert np.isfinite(values(loss, scores, targets)).all()
        one = CappedLogistic(cap)
        assert pulls(one, scores[:, :1], targets % 2).max() <= cap * ROUNDING
        assert released(one, scores[:, :1], targets % 2).max() <= 1.0
        assert np.isfinite(values(one, scores[:, :1], targets % 2)).all()


@pytest.mark.parametrize("cap", [1e-3, 1e-5, 1e-6])
def test_small_caps_hold_just_beyond_the_corner(cap: float) -> None:
    """Where the own class has nearly all of the probability, and what it misses is a difference of like numbers."""
    loss = CappedSoftmax(cap)
    gaps = math.log((1.0 - cap) / cap) - np.geomspace(1e-6, 10.0, 2000)
    scores = np.stack([gaps, np.zeros(2000), np.full(2000, -60.0)], axis=1)
    found = pulls(loss, scores, np.zeros(2000, dtype=int))
    assert found.max() <= math.sqrt(2.0) * cap * ROUNDING
    assert released(loss, scores, np.zeros(2000, dtype=int)).max() <= 1.0
    assert found.min() >= 0.999 * math.sqrt(2.0) * cap


@pytest.mark.parametrize("size", [1e3, 1e6])
@pytest.mark.parametrize("cap", CAPS)
def test_the_bound_is_attained_by_whoever_is_quite_wrong(cap: float, size: float) -> None:
    """All of the others' probability on one class, the own far below; three classes alike pull a little less."""
    row = [-size, size, 0.0, 0.0]
    assert pulls(CappedSoftmax(cap), [row], [0])[0] == pytest.approx(math.sqrt(2.0) * cap, rel=1e-14)
    assert pulls(CappedSoftmax(cap), [[-size, 0.0, 0.0, 0.0]], [0])[0] == pytest.approx(
        cap * math.sqrt(4.0 / 3.0), rel=1e-14
    )
    assert pulls(CappedLogistic(cap), [[-size]], [1])[0] == pytest.approx(cap, rel=1e-14)
    assert values(CappedLogistic(cap), [[-size]], [1])[0] == pytest.approx(cap * size, rel=1e-2)


@given(
    arrays(float, 3, elements=st.floats(-2.0, 2.0)),
    arrays(float, (3, CLASSES), elements=st.floats(-1e4, 1e4)),
    st.integers(0, CLASSES - 1),
    st.floats(0.01, 0.99),
)
@settings(max_examples=100)
def test_gradients_are_no_longer_than_their_bound_says(row: Any, model: Any, target: int, cap: float) -> None:
    for loss, x, b in (
        (CappedSoftmax(cap), model.reshape(1, -1), target),
        (CappedLogistic(cap), model[:, 0][None], target % 2),
    ):
        shards = shards_of(loss, row[None], [b], CLASSES if loss.task == "multiclass" else 2)
        gradient, used = loss.gradient(shards, x, np.ones(1))[0], shards.real_rows[0]
        assert np.linalg.norm(gradient) <= loss.gradient_bound(float(np.linalg.norm(used))) * (1.0 + 1e-13)
        in_one_norm = loss.gradient_bound(float(np.abs(used).sum()), norm=1)
        assert np.abs(gradient).sum() <= in_one_norm * (1.0 + 1e-13)


def test_a_cap_leaves_the_sum_of_the_residuals_at_zero() -> None:
    rng = np.random.default_rng(6)
    found = gradients(CappedSoftmax(0.2), 5.0 * rng.normal(size=(100, CLASSES)), rng.integers(CLASSES, size=100))
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-15)
    assert (found.min(axis=1) >= -0.2).all()


# Second derivatives


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("kind", [CappedLogistic, CappedSoftmax])
def test_the_hessian_is_the_gradient_s_derivative_away_from_the_corner(kind: Any, cap: float) -> None:
    """Over an agent's rows together, of which some are capped and others not."""
    loss, rng = kind(cap), np.random.default_rng(7)
    classes = 2 if kind is CappedLogistic else CLASSES
    rows, targets = rng.normal(size=(80, 3)), rng.integers(classes, size=80)
    x = 1.5 * rng.normal(size=loss.dimension(3, classes))
    scores = rows @ x.reshape(3, -1)
    scores = np.hstack([np.zeros((80, 1)), scores]) if classes == 2 else scores
    missed = 1.0 - softmax(scores, axis=1)[np.arange(80), targets]
    away = np.abs(missed - cap) > 1e-3
    rows, targets, missed = rows[away], targets[away], missed[away]
    assert 0 < (missed > cap).sum() < len(rows)
    shards = gather(rows, loss.encode(targets, classes), np.zeros(len(rows), dtype=int), norm_bound=1e9)
    weight, h = np.full(1, 0.37), 1e-6
    hessian = loss.hessian(shards, x[None], weight)[0]
    for j in range(x.size):
        step = h * np.eye(x.size)[j]
        pair = [loss.gradient(shards, (x + sign * step)[None], weight)[0] for sign in (1, -1)]
        np.testing.assert_allclose(hessian[j], (pair[0] - pair[1]) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-15)
    eigenvalues = np.linalg.eigvalsh(hessian)
    assert eigenvalues.min() > -1e-12
    longest = float(np.linalg.norm(rows, axis=1).max())
    assert eigenvalues.max() <= 0.37 * len(rows) * loss.curvature_bound(longest)


@given(arrays(float, CLASSES, elements=st.floats(-50.0, 50.0)), st.integers(0, CLASSES - 1), st.floats(0.01, 0.99))
@settings(max_examples=100)
def test_no_row_bends_more_than_the_constant(scores: Any, target: int, cap: float) -> None:
    for loss, x, b in ((CappedSoftmax(cap), scores, target), (CappedLogistic(cap), scores[:1], target % 2)):
        shards, models = of_scores(loss, x, [b])
        top = np.linalg.eigvalsh(loss.hessian(shards, models, np.ones(1))[0]).max()
        assert top <= loss.curvature_bound(1.0) * (1.0 + 1e-12)


# How rows are kept


@pytest.mark.parametrize("loss", [CappedLogistic(0.2), CappedSoftmax(0.2), Softmax()], ids=lambda loss: loss.name)
def test_sparse_rows_and_several_chunks_say_the_same_as_dense_ones(loss: Loss) -> None:
    rng = np.random.default_rng(8)
    classes = 2 if loss.task == "binary" else 3
    rows = rng.normal(size=(1300, 5)) * (rng.random((1300, 5)) < 0.5)
    targets, owner = loss.encode(rng.integers(classes, size=1300), classes), np.repeat([0, 1], [1200, 100])
    dense, sparse = (gather(table, targets, owner, norm_bound=9.0) for table in (rows, csr_array(rows)))
    x, weights = rng.normal(size=(2, loss.dimension(5, classes))), np.array([0.1, 2.0])
    np.testing.assert_allclose(loss.values(sparse, x, weights), loss.values(dense, x, weights), rtol=1e-12)
    np.testing.assert_allclose(loss.gradient(sparse, x, weights), loss.gradient(dense, x, weights), atol=1e-11)


@pytest.mark.parametrize("kind", [CappedLogistic, CappedSoftmax])
@pytest.mark.parametrize("cap", [0.0, 1.0, -0.3, 1.5, math.nan, math.inf])
def test_a_cap_outside_of_its_range_is_refused(kind: Any, cap: float) -> None:
    with pytest.raises(InputError, match=rf"loss '{kind.name}': cap = {cap!r} must be a number from 1e-06 to 0.999999"):
        kind(cap)


def test_their_second_derivative_jumps_and_they_say_so() -> None:
    for loss in (CappedLogistic(), CappedSoftmax()):
        assert not loss.twice_differentiable
        assert loss.convex
        assert loss.curvature_bound(1.0) is not None


# The plain softmax, whose kernels they share


@pytest.mark.parametrize("sparse", [False, True])
def test_the_plain_softmax_is_what_it_was(sparse: bool) -> None:
    rng = np.random.default_rng(10)
    rows, targets = rng.normal(size=(700, 4)), rng.integers(CLASSES, size=700)
    shards = gather(csr_array(rows) if sparse else rows, targets, np.zeros(700, dtype=int), norm_bound=9.0)
    x, weight, rows = rng.normal(size=(1, 4 * CLASSES)), np.full(1, 0.01), shards.real_rows
    rows = rows.toarray() if sparse else rows
    scores = rows @ x.reshape(4, CLASSES)
    losses = logsumexp(scores, axis=1) - scores[np.arange(700), targets]
    assert Softmax().values(shards, x, weight)[0] == pytest.approx(0.01 * losses.sum(), rel=1e-12)
    residuals = softmax(scores, axis=1) - np.eye(CLASSES)[targets]
    expected = 0.01 * (rows.T @ residuals).ravel()
    np.testing.assert_allclose(Softmax().gradient(shards, x, weight)[0], expected, atol=1e-12)
    if not sparse:
        p = softmax(scores, axis=1)
        bends = np.einsum("rk,kh->rkh", p, np.eye(CLASSES)) - np.einsum("rk,rh->rkh", p, p)
        hessian = 0.01 * np.einsum("ri,rj,rkh->ikjh", rows, rows, bends).reshape(16, 16)
        np.testing.assert_allclose(Softmax().hessian(shards, x, weight)[0], hessian, atol=1e-12)
