"""Each loss is the function its name promises: against its formula, written here once more, record by record.

The contracts say that value, gradient and Hessian fit together; only this says that it is the right function.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from dpadmm._registry import build
from dpadmm.problems.losses import (
    LOSSES,
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
from dpadmm.problems.shards import gather


def logistic(row: Any, target: int, model: Any) -> float:
    return math.log(1.0 + math.exp(-(2 * target - 1) * float(row @ model)))


def softmax(row: Any, target: int, model: Any) -> float:
    scores = row @ model.reshape(row.size, -1)
    return math.log(sum(math.exp(score) for score in scores)) - float(scores[target])


def capped(row: Any, target: int, model: Any, cap: float = 0.3) -> float:
    """-ln p where the own class misses no more than the cap; beyond it the tangent along the own score, whatever the
    others say. With two classes a model of one score has a score of zero beside it."""
    scores = row @ model.reshape(row.size, -1)
    scores = np.array([0.0, scores[0]]) if scores.size == 1 else scores
    others = math.log(sum(math.exp(score) for k, score in enumerate(scores) if k != target))
    margin = float(scores[target]) - others
    if 1.0 / (1.0 + math.exp(margin)) <= cap:
        return math.log(1.0 + math.exp(-margin))
    return -cap * margin - cap * math.log(cap) - (1.0 - cap) * math.log(1.0 - cap)


def squared(row: Any, target: float, model: Any) -> float:
    """The integral of the residual, clipped at 1."""
    return quad(lambda r: min(r, 1.0), 0.0, abs(float(row @ model) - target), points=[1.0], epsabs=1e-12)[0]


def smoothed_hinge(row: Any, target: int, model: Any) -> float:
    """The hinge averaged with the kernel 3/4 (1 - u²) over a window of half-width 1/2."""
    margin = (2 * target - 1) * float(row @ model)
    hinge, window = (lambda m: max(0.0, 1.0 - m)), (lambda u: 0.75 * (1.0 - u * u))
    kink = min(max((margin - 1.0) / 0.5, -1.0), 1.0)
    return quad(lambda u: window(u) * hinge(margin - 0.5 * u), -1.0, 1.0, points=[kink], epsabs=1e-12)[0]


def check(residual: float, level: float) -> float:
    """Koenker's check: a residual above zero weighs its level, one below it what is left to 1."""
    return level * max(residual, 0.0) + (1.0 - level) * max(-residual, 0.0)


def smoothed_check(residual: float, level: float, width: float) -> float:
    """The check averaged with the kernel 3/4 (1 - u²) over a window of this half-width."""
    kink = min(max(residual / width, -1.0), 1.0)
    window = lambda u: 0.75 * (1.0 - u * u) * check(residual - width * u, level)  # noqa: E731
    return quad(window, -1.0, 1.0, points=[kink], epsabs=1e-12)[0]


def quantiles(levels: tuple[float, ...], width: float = 0.0) -> Any:
    def formula(row: Any, target: float, model: Any) -> float:
        residuals = target - row @ model.reshape(row.size, len(levels))
        pairs = list(zip(residuals, levels, strict=True))
        return sum(smoothed_check(*pair, width) if width else check(*pair) for pair in pairs)

    return formula


FORMULAS: dict[str, Any] = {
    "logistic": logistic,
    "softmax": softmax,
    "capped-logistic": capped,
    "capped-logistic:0.8": lambda *record: capped(*record, cap=0.8),
    "capped-softmax": capped,
    "capped-softmax:0.6": lambda *record: capped(*record, cap=0.6),
    "squared": squared,
    "smoothed-hinge": smoothed_hinge,
    "quantile": quantiles((0.5,)),
    "quantile:0.3": quantiles((0.3,)),
    "smoothed-quantile": quantiles((0.5,), 0.25),
    "smoothed-quantile:0.8:1.5": quantiles((0.8,), 1.5),
    "quantiles": quantiles((0.1, 0.5, 0.9)),
    "quantiles:0.2,0.7:0.8": quantiles((0.2, 0.7), 0.8),
}


def test_every_loss_has_a_formula() -> None:
    assert FORMULAS.keys() >= LOSSES.keys()


@pytest.mark.parametrize("name", FORMULAS)
def test_values_equal_the_formula(name: str) -> None:
    rng = np.random.default_rng(6)
    loss = build("loss", LOSSES, name)
    classes = {"binary": 2, "multiclass": 3, "regression": 0}[loss.task]
    rows, models = rng.normal(size=(60, 3)), rng.normal(size=(60, loss.dimension(3, classes)))
    targets = rng.integers(classes, size=60) if classes else rng.normal(size=60)
    shards = gather(rows, loss.encode(targets, classes), np.arange(60), norm_bound=100.0)
    expected = [FORMULAS[name](*record) for record in zip(shards.real_rows, targets, models, strict=True)]
    np.testing.assert_allclose(loss.values(shards, models, np.ones(60)), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("loss", "gradient", "curvature"),
    [
        (Logistic(), 1.0, 0.25),
        (Softmax(), math.sqrt(2.0), 0.5),
        (CappedLogistic(), 0.3, 0.21),
        (CappedLogistic(0.7), 0.7, 0.25),
        (CappedSoftmax(0.2), math.sqrt(2.0) * 0.2, 0.5),
        (ClippedSquared(), 1.0, 1.0),
        (ClippedSquared(0.2), 0.2, 1.0),
        (SmoothedHinge(), 1.0, 1.5),
        (SmoothedHinge(0.1), 1.0, 7.5),
        (SmoothedQuantile(), 0.5, 3.0),
        (SmoothedQuantile(0.3, 0.1), 0.7, 7.5),
        (Quantiles((0.3, 0.5, 0.9), 0.1), math.sqrt(0.7**2 + 0.5**2 + 0.9**2), 7.5),
    ],
)
def test_constants_are_those_of_the_specification(loss: Loss, gradient: float, curvature: float) -> None:
    assert loss.gradient_bound(1.0) == pytest.approx(gradient, rel=1e-15)
    assert loss.curvature_bound(1.0) == pytest.approx(curvature, rel=1e-15)
    assert loss.gradient_bound(2.0) == pytest.approx(2.0 * gradient, rel=1e-15)
    assert loss.curvature_bound(2.0) == pytest.approx(4.0 * curvature, rel=1e-15)


@pytest.mark.parametrize(
    ("loss", "gradient"), [(Quantile(), 0.5), (Quantile(0.8), 0.8), (Quantiles((0.3, 0.9)), math.hypot(0.7, 0.9))]
)
def test_a_kink_has_a_slope_and_no_curvature_that_could_be_stated(loss: Loss, gradient: float) -> None:
    assert loss.gradient_bound(2.0) == pytest.approx(2.0 * gradient, rel=1e-15)
    assert loss.curvature_bound(1.0) is None
    assert not loss.twice_differentiable


@pytest.mark.parametrize("margin", [-1e4, -800.0, 800.0, 1e4])
@pytest.mark.parametrize("target", [0, 1])
def test_logistic_losses_survive_extreme_margins(margin: float, target: int) -> None:
    for loss, model in ((Logistic(), [margin]), (Softmax(), [0.0, margin])):
        shards = gather(np.ones((1, 1)), loss.encode(np.array([target]), 2), np.zeros(1, dtype=int), norm_bound=1.0)
        x, one = np.array([model]), np.ones(1)
        wrong = (margin > 0) != (target == 1)
        assert loss.values(shards, x, one)[0] == (abs(margin) if wrong else 0.0)
        assert np.linalg.norm(loss.gradient(shards, x, one)) <= loss.gradient_bound(1.0)
        assert np.abs(loss.hessian(shards, x, one)).max() < 1e-300
