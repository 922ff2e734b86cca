"""What every loss of the registry must keep: derivatives, public constants, convexity, targets and predictions."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from dpadmm.errors import InputError
from dpadmm.privacy.relations import Relation
from dpadmm.problems.losses import Quantiles, SmoothedQuantile, Softmax
from dpadmm.problems.shards import gather

ROUNDING = 1.0 + 1e-12
SCALES = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 10.0, 1000.0]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240)


def at_each(method: Any, shards: Any, models: NDArray[Any]) -> NDArray[Any]:
    """A method's answer for every model and every agent: (models, agents, ...)."""
    x = np.repeat(models, shards.agents, axis=0)
    answers = method(shards.tile(len(models)), x, np.ones(len(x)))
    return answers.reshape(len(models), shards.agents, *answers.shape[1:])


def slopes(method: Any, shards: Any, x: NDArray[Any], step: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Central differences of a method along every coordinate (last axis), and how far the method itself moved."""
    moves = step * np.eye(x.size)
    ahead, behind = at_each(method, shards, x + moves), at_each(method, shards, x - moves)
    gaps = np.abs(ahead - behind).reshape(x.size, shards.agents, -1).max(axis=(0, 2))
    return np.moveaxis((ahead - behind) / (2.0 * step), 0, -1), gaps


def adversarial_rows(case: Any, rng: np.random.Generator) -> NDArray[Any]:
    """Rows on the bound: random ones, axes, and nearly opposite pairs that one model can still see alike."""
    random = case.rows(rng, 16)
    random[:8] *= case.bound / np.linalg.norm(random[:8], axis=1, keepdims=True)
    u, v = case.bound * np.eye(case.width)[:2]
    pairs = [sign * math.sqrt(1.0 - t * t) * u - t * v for t in (0.05, 0.2) for sign in (1.0, -1.0)]
    return np.vstack([random, u, -u, v, -v, *pairs])


def adversarial_models(case: Any, rng: np.random.Generator) -> NDArray[Any]:
    """Models that see one direction only, with every mix of outputs and every strength, and random ones."""
    outputs = case.loss.outputs(case.classes)
    mixes = [np.array(mix) for mix in itertools.product((-1.0, 0.0, 1.0), repeat=outputs) if any(mix)]
    axes = np.eye(case.width)[:2] / case.bound
    single = [np.outer(scale * axis, mix).ravel() for scale in SCALES for axis in axes for mix in mixes]
    random = case.models(rng, 40, np.repeat([[0.1], [1.0], [10.0], [1000.0]], 10, axis=0))
    return np.vstack([single, random])


def crossed(rows: NDArray[Any], targets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Every row with every target."""
    return np.repeat(rows, len(targets), axis=0), np.tile(targets, len(rows))


def random_records(case: Any, rng: np.random.Generator, count: int) -> tuple[Any, NDArray[Any]]:
    """Records of agents of one, half of them on the bound, and a model for each, of any size."""
    rows = case.rows(rng, count)
    rows[::2] *= case.bound / np.maximum(np.linalg.norm(rows[::2], axis=1, keepdims=True), 1e-9)
    x = case.models(rng, count, 10.0 ** rng.uniform(-2.0, 3.0, (count, 1)))
    return case.shards(rows, case.targets(rng, count)), x


# Derivatives


def test_gradient_is_the_derivative_of_the_values(case: Any, rng: np.random.Generator) -> None:
    shards = case.shards(case.rows(rng, 1000), case.targets(rng, 1000))
    for x in case.models(rng, 4):
        numeric, _ = slopes(case.loss.values, shards, x, 1e-5)
        exact = at_each(case.loss.gradient, shards, x[None])[0]
        _, jumps = slopes(case.loss.gradient, shards, x, 1e-5)
        smooth = jumps < 0.1 * case.loss.gradient_bound(case.bound)
        assert smooth.all() if case.bends else smooth.mean() > 0.9
        assert np.abs(exact).max() > 0.1
        np.testing.assert_allclose(exact[smooth], numeric[smooth], atol=1e-7)


def test_hessian_is_the_derivative_of_the_gradient(case: Any, rng: np.random.Generator) -> None:
    if not case.bends:
        pytest.skip("a loss with kinks has no Hessian")
    bound = case.loss.curvature_bound(case.bound)
    shards = case.shards(case.rows(rng, 1000), case.targets(rng, 1000))
    for x in case.models(rng, 4):
        numeric, _ = slopes(case.loss.gradient, shards, x, 1e-6)
        exact = at_each(case.loss.hessian, shards, x[None])[0]
        _, jumps = slopes(case.loss.hessian, shards, x, 1e-6)
        smooth = jumps < 0.01 * bound
        assert smooth.all() if case.loss.twice_differentiable else smooth.mean() > 0.9
        assert np.abs(exact[smooth]).max() > 0.1 * bound
        np.testing.assert_allclose(exact[smooth], numeric[smooth], atol=1e-4 * bound)


def test_hessian_is_continuous_exactly_if_the_loss_says_so(case: Any) -> None:
    if not case.bends:
        assert not case.loss.twice_differentiable
        return
    outputs = case.loss.outputs(case.classes)
    line = np.outer(np.eye(case.width)[0], np.arange(1.0, outputs + 1.0)).ravel() / case.bound
    models = np.linspace(-4.0, 4.0, 40_001)[:, None] * line
    row = case.bound * np.eye(case.width)[:1]
    hessians = at_each(case.loss.hessian, case.shards(row, np.zeros(1, dtype=int)), models)[:, 0]
    largest_jump = np.abs(np.diff(hessians, axis=0)).max() / case.loss.curvature_bound(case.bound)
    assert hessians.any()
    assert (largest_jump < 0.01) == case.loss.twice_differentiable


def test_values_are_convex_along_segments(case: Any, rng: np.random.Generator) -> None:
    assert case.loss.convex
    shards = case.shards(case.rows(rng, 2000), case.targets(rng, 2000))
    ones = np.ones(2000)
    one, other = (case.models(rng, 2000, 10.0 ** rng.uniform(-1.0, 2.0, (2000, 1))) for _ in range(2))
    share = rng.random(2000)
    between = case.loss.values(shards, share[:, None] * one + (1.0 - share[:, None]) * other, ones)
    chord = share * case.loss.values(shards, one, ones) + (1.0 - share) * case.loss.values(shards, other, ones)
    assert (between <= chord + 1e-12 * (1.0 + np.abs(chord))).all()
    assert (between < 0.9 * chord).any()


def test_hessian_is_symmetric_and_positive(case: Any, rng: np.random.Generator) -> None:
    if not case.bends:
        pytest.skip("a loss with kinks has no Hessian")
    shards, x = random_records(case, rng, 2000)
    hessians = case.loss.hessian(shards, x, np.ones(2000))
    np.testing.assert_allclose(hessians, hessians.transpose(0, 2, 1), atol=1e-12)
    assert np.linalg.eigvalsh(hessians).min() > -1e-12


# Public constants


def test_no_gradient_exceeds_its_bound_and_some_approach_it(case: Any, rng: np.random.Generator) -> None:
    bound = case.loss.gradient_bound(case.bound)
    shards, x = random_records(case, rng, 5000)
    sampled = np.linalg.norm(case.loss.gradient(shards, x, np.ones(5000)), axis=1)
    shards = case.shards(*crossed(adversarial_rows(case, rng), case.every_target()))
    worst = np.linalg.norm(at_each(case.loss.gradient, shards, adversarial_models(case, rng)), axis=-1).max()
    assert sampled.max() <= bound * ROUNDING
    assert 0.99 * bound <= worst <= bound * ROUNDING


def test_no_hessian_exceeds_its_bound_and_some_approach_it(case: Any, rng: np.random.Generator) -> None:
    if not case.bends:
        pytest.skip("a loss with kinks has no Hessian")
    bound = case.loss.curvature_bound(case.bound)
    shards, x = random_records(case, rng, 5000)
    sampled = np.linalg.eigvalsh(case.loss.hessian(shards, x, np.ones(5000)))
    shards = case.shards(*crossed(adversarial_rows(case, rng)[-12:], case.every_target()))
    worst = np.linalg.eigvalsh(at_each(case.loss.hessian, shards, adversarial_models(case, rng))).max()
    near = 0.75 if case.loss.name == "capped-softmax" else 0.9  # it states what softmax does, and bends 2 c (1 - c)
    assert sampled.max() <= bound * ROUNDING
    assert near * bound <= worst <= bound * ROUNDING


def test_constants_scale_with_the_norm_bound_as_a_margin_does(case: Any) -> None:
    assert case.loss.gradient_bound(3.0) == pytest.approx(3.0 * case.loss.gradient_bound(1.0))
    if case.bends:
        assert case.loss.curvature_bound(3.0) == pytest.approx(9.0 * case.loss.curvature_bound(1.0))


def neighbours(
    case: Any, rng: np.random.Generator, old: tuple[Any, Any], new: tuple[Any, Any] | None
) -> tuple[Any, Any]:
    """For each record of `old` an agent with six more, and the same agents with it replaced by `new`, or left out."""
    count = len(old[1])
    others, labels = case.rows(rng, 6 * count), case.targets(rng, 6 * count)
    owner = np.repeat(np.arange(count), 6)

    def agents(special: tuple[Any, Any] | None) -> Any:
        if special is None:
            return case.shards(others, labels, owner)
        rows, targets = np.vstack([others, special[0]]), np.concatenate([labels, special[1]])
        return case.shards(rows, targets, np.concatenate([owner, np.arange(count)]))

    return agents(old), agents(new)


@pytest.mark.parametrize("relation", Relation)
def test_no_neighbour_moves_the_gradient_by_more_than_the_sensitivity(
    case: Any, rng: np.random.Generator, relation: Relation
) -> None:
    count = 1000
    old, new = ((case.rows(rng, count), case.targets(rng, count)) for _ in range(2))
    shards, neighbour = neighbours(case, rng, old, new if relation is Relation.REPLACE else None)
    x = case.models(rng, count, 10.0 ** rng.uniform(-2.0, 3.0, (count, 1)))
    weights = rng.uniform(0.01, 3.0, count)
    moved = case.loss.gradient(shards, x, weights) - case.loss.gradient(neighbour, x, weights)
    limit = weights * case.loss.sensitivity(case.bound, relation)
    assert (np.linalg.norm(moved, axis=1) <= limit * (1.0 + 1e-9)).all()


@pytest.mark.parametrize("relation", Relation)
def test_an_adversarial_neighbour_reaches_the_sensitivity(
    case: Any, rng: np.random.Generator, relation: Relation
) -> None:
    rows, targets = crossed(adversarial_rows(case, rng), case.every_target())
    models = adversarial_models(case, rng)
    gradients = at_each(case.loss.gradient, case.shards(rows, targets), models)
    if relation is Relation.REPLACE:
        reached = np.stack([cdist(one, one) for one in gradients])
        model, first, second = np.unravel_index(reached.argmax(), reached.shape)
        new = (rows[[second]], targets[[second]])
    else:
        reached = np.linalg.norm(gradients, axis=2)
        model, first = np.unravel_index(reached.argmax(), reached.shape)
        new = None
    shards, neighbour = neighbours(case, rng, (rows[[first]], targets[[first]]), new)
    x, weight = models[[model]], np.array([0.37])
    moved = np.linalg.norm(case.loss.gradient(shards, x, weight) - case.loss.gradient(neighbour, x, weight))
    limit = 0.37 * case.loss.sensitivity(case.bound, relation)
    assert 0.97 * limit <= moved <= limit * (1.0 + 1e-9)


@pytest.mark.parametrize("relation", Relation)
def test_no_neighbour_moves_the_gradient_by_more_than_the_sensitivity_in_the_1_norm(
    case: Any, rng: np.random.Generator, relation: Relation
) -> None:
    """Rows are bounded in the 2-norm, so in the 1-norm by sqrt(width) times that."""
    count = 1000
    old, new = ((case.rows(rng, count), case.targets(rng, count)) for _ in range(2))
    old[0][::2] = case.level(rng, count // 2)  # the longest there are in the 1-norm
    shards, neighbour = neighbours(case, rng, old, new if relation is Relation.REPLACE else None)
    x = case.models(rng, count, 10.0 ** rng.uniform(-2.0, 3.0, (count, 1)))
    weights = rng.uniform(0.01, 3.0, count)
    moved = np.abs(case.loss.gradient(shards, x, weights) - case.loss.gradient(neighbour, x, weights)).sum(axis=1)
    row_bound = case.bound * math.sqrt(case.width)
    assert (moved <= weights * case.loss.sensitivity(row_bound, relation, norm=1) * (1.0 + 1e-9)).all()
    # The 2-norm's number would not do: this is what the square root is for.
    assert (moved > weights * case.loss.sensitivity(case.bound, relation, norm=2) * (1.0 + 1e-9)).any()


@pytest.mark.parametrize("width", [4, 64])
@pytest.mark.parametrize("relation", Relation)
def test_an_adversarial_neighbour_comes_close_to_the_sensitivity_in_the_1_norm(
    case: Any, rng: np.random.Generator, relation: Relation, width: int
) -> None:
    """Rows of numbers of one size. Blanking one reaches the bound; two that a model sees alike through their last
    number can differ in all the others, so replacing reaches all but one part in `width` of it.
    """
    case = replace(case, width=width)
    row = np.full(width, case.bound / math.sqrt(width))
    turned = np.append(-row[:-1], row[-1])
    rows, targets = crossed(np.stack([row, turned]), case.every_target())
    outputs = case.loss.outputs(case.classes)
    mixes = [np.array(mix) for mix in itertools.product((-1.0, 0.0, 1.0), repeat=outputs) if any(mix)]
    models = np.stack([np.outer(1000.0 * np.eye(width)[-1], mix).ravel() for mix in mixes])
    gradients = at_each(case.loss.gradient, case.shards(rows, targets), models)
    if relation is Relation.REPLACE:
        reached, share = max(cdist(one, one, "cityblock").max() for one in gradients), 1.0 - 1.0 / width
    else:
        reached, share = np.abs(gradients).sum(axis=2).max(), 1.0
    limit = case.loss.sensitivity(case.bound * math.sqrt(width), relation, norm=1)
    assert 0.999 * share * limit <= reached <= limit * ROUNDING


@pytest.mark.parametrize("norm", [1, 2])
def test_a_replaced_record_counts_twice_in_either_norm(case: Any, norm: int) -> None:
    blanked = case.loss.sensitivity(1.7, Relation.ZERO_OUT, norm)
    assert blanked == case.loss.gradient_bound(1.7, norm) > 0.0
    assert case.loss.sensitivity(1.7, Relation.REPLACE, norm) == 2.0 * blanked
    assert case.loss.sensitivity(3.4, Relation.ZERO_OUT, norm) == pytest.approx(2.0 * blanked)


def test_the_2_norm_is_the_one_meant_where_none_is_named(case: Any) -> None:
    for relation in Relation:
        assert case.loss.sensitivity(1.7, relation) == case.loss.sensitivity(1.7, relation, 2)
    # Of p - e_b the 2-norm is below sqrt(2) and the 1-norm below 2; a margin has one slope, and so has each level.
    slopes = np.ones(2) if isinstance(case.loss, Softmax) else np.ones(1)
    if isinstance(case.loss, Quantiles):
        slopes = np.maximum(case.loss.levels, np.subtract(1.0, case.loss.levels))
    ratio = case.loss.gradient_bound(1.7, 1) / case.loss.gradient_bound(1.7)
    assert ratio == pytest.approx(slopes.sum() / np.linalg.norm(slopes))


def test_softmax_probabilities_keep_the_bounds_its_constants_rest_on(rng: np.random.Generator) -> None:
    scores = rng.normal(size=(5000, 5)) * 10.0 ** rng.uniform(-2.0, 1.0, (5000, 1))
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    distances = np.linalg.norm(p[:, None, :] - np.eye(5), axis=2)
    tops = np.linalg.eigvalsh(np.einsum("ij,jk->ijk", p, np.eye(5)) - np.einsum("ij,ik->ijk", p, p))[:, -1]
    assert 1.4 < distances.max() < math.sqrt(2.0)
    assert tops.max() <= 0.5 * ROUNDING
    # The loss itself: a record of length one has p - e_y as its gradient, and diag(p) - ppᵀ as its Hessian.
    shards = _one_column(5, np.arange(5))
    x = np.repeat(scores[:1000], 5, axis=0)
    gradients = Softmax().gradient(shards.tile(1000), x, np.ones(5000)).reshape(1000, 5, 5)
    np.testing.assert_allclose(gradients, p[:1000, None, :] - np.eye(5), atol=1e-14)
    hessians = Softmax().hessian(shards.tile(1000), x, np.ones(5000))[::5]
    np.testing.assert_allclose(np.linalg.eigvalsh(hessians)[:, -1], tops[:1000], atol=1e-14)


def _one_column(classes: int, targets: NDArray[Any]) -> Any:
    ones = np.ones((targets.size, 1))
    return gather(ones, Softmax().encode(targets, classes), np.arange(targets.size), norm_bound=1.0)


# Targets and predictions


def test_encode_refuses_what_is_no_target_and_names_row_and_value(case: Any, rng: np.random.Generator) -> None:
    wrong = [np.nan, np.inf] if case.loss.task == "regression" else [case.classes, -1, 0.5, np.nan]
    for value in wrong:
        targets = case.targets(rng, 10).astype(float)
        targets[7] = value
        with pytest.raises(InputError, match=rf"{case.loss.name}.*{value}.*row 7\b"):
            case.loss.encode(targets, case.classes)


def test_a_binary_loss_refuses_three_classes(case: Any) -> None:
    if case.loss.task != "binary":
        pytest.skip("not a binary loss")
    with pytest.raises(InputError, match="two classes apart, the data have 3"):
        case.loss.encode(np.array([0, 1, 2]), 3)


@pytest.mark.parametrize("sparse", [False, True])
def test_predictions_equal_a_loop_over_models_and_records(case: Any, rng: np.random.Generator, sparse: bool) -> None:
    rows, models = case.rows(rng, 50), case.models(rng, 6)
    naive = np.array([[_predict(case, model, row) for row in rows] for model in models])
    features = case.shards(rows, case.targets(rng, 50), sparse=sparse).features
    predicted = case.loss.predictions(features, models)
    assert predicted.shape == naive.shape
    if case.loss.task == "regression":
        np.testing.assert_allclose(predicted, naive, atol=1e-13)
    else:
        np.testing.assert_array_equal(predicted, naive)
        assert set(naive.ravel()) == set(range(case.classes))
    np.testing.assert_allclose(case.loss.predict(features, models[2]), naive[2], atol=1e-13)


def _predict(case: Any, model: NDArray[Any], row: NDArray[Any]) -> Any:
    outputs = case.loss.outputs(case.classes)
    scores = [sum(model[j * outputs + k] * row[j] for j in range(case.width)) for k in range(outputs)]
    if case.loss.task == "regression":
        return scores if isinstance(case.loss, Quantiles) else scores[0]
    return int(scores[0] > 0) if case.loss.task == "binary" else int(np.argmax(scores))


def test_the_predicted_target_is_the_one_with_the_smallest_loss(case: Any, rng: np.random.Generator) -> None:
    """With several levels: one of the predicted targets, between which the loss is linear. A kink that is rounded away
    from its level's slope moves it, by less than the rounding is high."""
    off = 3.0 / 16.0 * case.loss.width if isinstance(case.loss, SmoothedQuantile) else 1e-12
    rows, models = case.rows(rng, 50), case.models(rng, 6)
    predicted = case.loss.predictions(rows, models).reshape(6, 50, -1)

    def values(truth: NDArray[Any], model: NDArray[Any]) -> Any:
        return at_each(case.loss.values, case.shards(rows, truth), model[None])[0]

    for at, model in enumerate(models):
        losses = [values(np.full(50, target), model) for target in case.every_target()]
        own = np.min([values(truth, model) for truth in predicted[at].T], axis=0)
        assert (own <= np.min(losses, axis=0) + off).all()
        assert (own < np.max(losses, axis=0) - 1e-3).any()
