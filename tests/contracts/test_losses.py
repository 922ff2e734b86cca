"""What every loss of the registry must keep: derivatives, public constants, convexity, targets and predictions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist

from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import Quantiles, SmoothedQuantile, Softmax
from dpadmm.problems.shards import gather
from dpadmm.testing.bounds import check_bounds
from dpadmm.testing.derivatives import check_convexity, check_derivative, check_positive, check_smoothness
from dpadmm.testing.problems import at_each, crossed

ROUNDING = 1.0 + 1e-12


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240)


# Derivatives


def test_gradient_is_the_derivative_of_the_values(case: Any, rng: np.random.Generator) -> None:
    shards = case.shards(case.rows(rng, 1000), case.targets(rng, 1000))
    for x in case.models(rng, 4):
        exact = check_derivative(case, shards, np.tile(x, (1000, 1)), np.ones(1000), order=1)
        assert np.abs(exact).max() > 0.1


def test_hessian_is_the_derivative_of_the_gradient(case: Any, rng: np.random.Generator) -> None:
    if not case.bends:
        pytest.skip("a loss with kinks has no Hessian")
    shards = case.shards(case.rows(rng, 1000), case.targets(rng, 1000))
    for x in case.models(rng, 4):
        exact = check_derivative(case, shards, np.tile(x, (1000, 1)), np.ones(1000), order=2)
        assert np.abs(exact).max() > 0.1 * case.loss.curvature_bound(case.bound)


def test_hessian_is_continuous_exactly_if_the_loss_says_so(case: Any) -> None:
    assert (check_smoothness(case) < 0.01) == case.loss.twice_differentiable


def test_values_are_convex_along_segments(case: Any, rng: np.random.Generator) -> None:
    assert case.loss.convex
    between, chord = check_convexity(case, rng)
    assert (between < 0.9 * chord).any()


def test_hessian_is_symmetric_and_positive(case: Any, rng: np.random.Generator) -> None:
    if not case.bends:
        pytest.skip("a loss with kinks has no Hessian")
    check_positive(case, *case.random_records(rng, 2000))


# Public constants


def test_no_record_exceeds_a_bound_and_some_approach_it(case: Any, rng: np.random.Generator) -> None:
    reached = check_bounds(case, rng)
    assert reached["gradient_bound in the 2-norm"] > 0.99
    assert reached["gradient_bound in the 1-norm"] > 0.99
    assert reached["sensitivity (replace, 2-norm)"] > 0.97
    assert reached["norm of the query, in cells"] > 0.99
    assert reached["norm1 of the query, in cells"] > 0.98
    assert reached["apart of the query, in cells"] > 0.97
    assert ("curvature_bound" in reached) == case.bends
    near = 0.75 if case.loss.name == "capped-softmax" else 0.9  # it states what softmax does, and bends 2 c (1 - c)
    assert reached.get("curvature_bound", 1.0) > near


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
    rows, targets = crossed(case.adversarial_rows(rng), case.every_target())
    models = case.adversarial_models(rng)
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
    models = np.stack([np.outer(1000.0 * np.eye(width)[-1], mix).ravel() for mix in case.mixes()])
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
    features = csr_array(rows) if sparse else rows
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
