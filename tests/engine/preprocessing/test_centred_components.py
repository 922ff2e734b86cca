"""Components of the covariance around a private mean (004, 2.1; theory 7.2): one release and its lemma."""

import math

import numpy as np
import pytest

from dpadmm import Experiment
from dpadmm.audit.run import audit
from dpadmm.engine.prepare import prepare
from dpadmm.engine.preprocessing.components import Rule, components
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import GaussianDpEvent, Relation
from dpadmm.problems.losses.statistics import MeanAndProducts, pack
from dpadmm.problems.shards import gather
from dpadmm.release import rows as release_rows
from dpadmm.release.sums import RowsAndProducts

RUN = {
    "source": "functional-sim",
    "basis": "cosine:5",
    "algorithm": "fdp-admm",
    "tau": (0.5,),
    "agents": 4,
    "rounds": 3,
    "epsilon": 4.0,
    "delta": 1e-5,
    "intercept": True,
    "components": "3",
    "centred": True,
}


def contribution(row, scale):
    return np.concatenate([scale * row, pack(np.outer(row, row))])


@pytest.mark.parametrize("scale", [0.1, 1.0, 1.5, 5.0])
@pytest.mark.parametrize("relation", list(Relation), ids=str)
def test_no_two_rows_are_farther_apart_and_two_are_as_far(scale, relation):
    loss, bound, draw = MeanAndProducts(scale), 1.5, np.random.default_rng(0)
    limit = loss.sensitivity(bound, relation)
    farthest = 0.0
    for _ in range(3000):
        a, b = (
            row * bound * draw.choice([1.0, draw.random()]) / np.linalg.norm(row) for row in draw.normal(size=(2, 2))
        )
        if relation is Relation.ZERO_OUT:
            b = 0.0 * b
        farthest = max(farthest, np.linalg.norm(contribution(a, scale) - contribution(b, scale)))
    assert 0.98 * limit <= farthest <= limit * (1.0 + 1e-12)


@pytest.mark.parametrize("scale", [0.01, 1.0, 40.0])
def test_the_integer_bounds_hold_and_are_tight(scale):
    """Integers of the longest rows, as Python counts them, in all directions of a plane."""
    query, side = RowsAndProducts(scale), 2**22
    bounds, cell = query.bounds(2, 1.0), release_rows.cell(1.0)
    factor = query._factor(cell)

    def integers(angle):
        x, y = (int(math.floor(side * abs(v)) * math.copysign(1, v)) for v in (math.cos(angle), math.sin(angle)))
        assert x * x + y * y <= side * side
        return [factor * x, factor * y, 12 * x * x, 17 * x * y, 12 * y * y]

    def length(vector):
        return math.isqrt(sum(v * v for v in vector))

    vectors = [integers(angle) for angle in np.linspace(0.0, 2.0 * math.pi, 73)]
    apart = max(length([p - q for p, q in zip(a, b, strict=True)]) for a in vectors for b in vectors)
    assert 0.97 * bounds.apart <= apart <= bounds.apart
    assert max(map(length, vectors)) <= bounds.norm
    assert max(sum(map(abs, v)) for v in vectors) <= bounds.norm1
    if factor < 2**28:  # beyond, a column's unit is worth more than the others'
        real = MeanAndProducts(scale).sensitivity(1.0, Relation.REPLACE)
        assert real <= bounds.apart * bounds.worth <= 1.005 * real


def test_components_are_those_of_the_covariance_around_the_mean():
    """Rows around a long mean: uncentred, it is the first component; centred, the direction they vary in is."""
    draw = np.random.default_rng(1)
    mean, along = np.array([0.6, 0.0, 0.0]), np.array([0.0, 0.8, 0.6])
    rows = mean + 0.2 * draw.normal(size=(500, 1)) * along
    moments = rows.T @ rows / len(rows)
    plain, centred = components(moments, 0.0, Rule(1)), components(moments, 0.0, Rule(1), rows.mean(axis=0))
    assert abs(plain.rotation[0, 0]) > 0.99
    assert abs(centred.rotation[:, 0] @ along) > 0.9999
    covariance = np.cov(rows.T, bias=True)
    np.testing.assert_allclose(centred.spectrum, np.linalg.eigvalsh(covariance)[::-1], atol=1e-12)


def test_models_say_of_rows_as_they_came_what_they_said_of_centred_ones():
    draw = np.random.default_rng(2)
    rows = 0.2 * draw.normal(size=(50, 3)) + [0.3, 0.1, 0.0]
    view = components(rows.T @ rows / 50, 0.0, Rule(2), rows.mean(axis=0))
    shards = gather(rows, np.zeros(50), np.zeros(50, dtype=int), norm_bound=2.0, intercept=True)
    with_ones = shards.real_rows
    turned = view.rows(shards, True)
    assert (np.linalg.norm(turned.real_rows[:, :-1], axis=1) <= 2.0).all()
    model = draw.normal(size=(1, 3))
    np.testing.assert_allclose(with_ones @ view.models(model, True)[0], turned.real_rows @ model[0], atol=1e-5)


def test_the_mean_is_paid_for_in_one_release():
    prepared = prepare(Experiment().changed(**RUN))
    stage = prepared.stage
    assert stage.plan.algorithm.name == "private-covariance"
    assert stage.plan.setting.problem.loss == MeanAndProducts(prepared.experiment.run.clip)
    assert stage.plan.setting.dimension == 5 + 15
    (event,) = set(stage.plan.events(1))
    assert isinstance(event, GaussianDpEvent)
    spent = prepared.plan.accounts().worst(1e-5).epsilon
    steps = prepared.plan.events(1)[0].noise_multiplier
    mu = math.sqrt(1.0 / event.noise_multiplier**2 + 3.0 / steps**2)
    assert spent == pytest.approx(gaussian.epsilon(mu, 1e-5), rel=1e-9)
    assert 3.99 < spent <= 4.0
    shared = gaussian.mu(4.0, 1e-5) ** 2 * 0.1
    assert 1.0 / event.noise_multiplier**2 == pytest.approx(shared, rel=1e-6)
    found = train(Experiment().changed(**RUN))
    assert found.summary()["components"] == 3
    assert np.isfinite(found.models).all()
    silent = {name: value for name, value in RUN.items() if name not in ("epsilon", "delta")}
    assert train(Experiment().changed(**(silent | {"algorithm": "linearised-admm", "loss": "quantile"}))).models.shape


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_an_audit_finds_what_the_release_leaks_and_no_more(epsilon):
    found = audit("private-covariance", epsilon, 1e-5, transcripts=10_000, seed=1)
    assert 0.7 <= found.ratio <= 1.0
    assert audit("private-covariance", epsilon, 1e-5, claimed=0.5 * epsilon, transcripts=10_000, seed=1).violated


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"intercept": False}, "centred components need an intercept"),
        ({"components": None}, "centred is about components"),
    ],
    ids=str,
)
def test_what_centring_does_not_go_with_is_refused(changes, said):
    given = {name: value for name, value in (RUN | changes).items() if value is not None}
    with pytest.raises(InputError, match=said):
        prepare(Experiment().changed(**given))
