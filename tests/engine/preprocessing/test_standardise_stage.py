"""Rows standardised by moments that are released first: one account, one budget, models as if nothing was."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from scipy.sparse import csr_array

from dpadmm.datasets import simulate
from dpadmm.datasets.registry import DATASETS, NamedDataset
from dpadmm.engine.prepare import prepare
from dpadmm.engine.preprocessing import stage as module
from dpadmm.engine.preprocessing.standardise import BOUND, Standard, standard
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import LaplaceDpEvent, NonPrivateDpEvent, Relation
from dpadmm.problems.losses import STATISTICS, ColumnMoments
from dpadmm.release.rows import LARGEST_SQUARE, SIDE
from dpadmm.spec.declare import RunSpec

WIDTH, ROUNDS, DELTA = 5, 12, 1e-5


def uneven(kind):
    """Columns of different sizes, all of them off centre."""

    def make(seed=0):
        data = simulate(kind, 300, WIDTH, seed)
        rows = data.features * np.geomspace(1.0, 0.05, WIDTH) + np.linspace(0.3, -0.3, WIDTH)
        return replace(data, features=rows)

    return make


@pytest.fixture(autouse=True)
def data(monkeypatch):
    for kind in ("classification", "multiclass", "regression"):
        monkeypatch.setitem(DATASETS, f"uneven-{kind}", NamedDataset(uneven(kind), "for tests"))
    sparse = NamedDataset(lambda seed=0: _sparse(uneven("classification")(seed)), "for tests")
    monkeypatch.setitem(DATASETS, "uneven-sparse", sparse)


def _sparse(data):
    return replace(data, features=csr_array(data.features))


@pytest.fixture
def asked(experiment):
    """asked(algorithm, **changes): rows standardised for a fifth of (2, 1e-5), where private."""

    def make(algorithm="dp-accelerated", **changes):
        usual = {"source": "uneven-classification", "standardise": 0.2, "rounds": ROUNDS, "loss": "logistic"}
        return experiment(algorithm, **(usual | {"intercept": True, "test": 0.2} | changes))

    return make


def asking(spec, **changes):
    """With fields of the run that `changed` cannot empty."""
    return replace(spec, run=replace(spec.run, **changes))


def mus(plan):
    """(of the moments, of a round) for every agent, from the noise that is drawn."""
    before = [event.noise_multiplier for event in plan.before]
    return 1.0 / np.array(before), 1.0 / plan.noise[0].mechanism.noise_multiplier


def pooled(prepared):
    """The mean over agents of their means of rows and of squares, of the rows as they are clipped."""
    rows = prepared.shards.real_rows[:, :-1] if prepared.experiment.run.intercept else prepared.shards.real_rows
    spans = list(zip(prepared.shards.starts, prepared.shards.stops, strict=True))
    first = np.mean([rows[i:j].mean(axis=0) for i, j in spans], axis=0)
    second = np.mean([(rows[i:j] ** 2).mean(axis=0) for i, j in spans], axis=0)
    return np.concatenate([prepared.experiment.run.clip * first, second])


# One account


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("relation", ["replace", "zero-out"])
def test_the_account_is_one_release_of_moments_and_all_rounds(asked, share, relation):
    result = train(asked(standardise=share, relation=relation))
    plan = result.plan
    assert all(isinstance(event, GaussianDpEvent) for event in plan.before)
    first, step = mus(plan)
    for agent in range(5):
        assert plan.accounts().tally(agent) == {plan.before[agent]: 1, plan.events(1)[agent]: ROUNDS}
    total = np.sqrt(first**2 + ROUNDS * step**2)
    np.testing.assert_allclose(first**2 / total**2, share, rtol=1e-6)
    np.testing.assert_allclose(total, gaussian.mu(2.0, DELTA), rtol=1e-6)
    assert (1.0 - 1e-6) * 2.0 <= result.guarantee.epsilon <= 2.0
    assert result.guarantee.accountant == "exact"
    # The course of the account begins with what came before round one.
    course = result.history["epsilon"][:, 0]
    assert course[0] == pytest.approx(gaussian.epsilon(math.hypot(first[0], step[0]), DELTA), rel=1e-9)
    assert course[-1] == result.guarantee.epsilon


@pytest.mark.parametrize("share", [0.01, 0.03, 0.1, 0.2, 1.0 / 3.0, 0.7, 0.9])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (1.0, 1e-5), (30.0, 1e-3)])
def test_two_parts_of_a_budget_never_exceed_it(asked, share, epsilon, delta):
    plan = prepare(asked(standardise=share, epsilon=epsilon, delta=delta)).plan
    spent = plan.accounts().worst(delta).epsilon
    assert (1.0 - 1e-5) * epsilon <= spent <= epsilon


@pytest.mark.parametrize("exact", [True, False])
def test_parts_are_parts(exact):
    for share in np.linspace(0.01, 0.9, 30):
        whole = Budget(1.3, 1e-6)
        first, rest = module._parts(whole, float(share), exact)
        assert min(first.epsilon, rest.epsilon) > 0.0
        assert max(first.epsilon, rest.epsilon) < whole.epsilon
        if exact:
            assert first.delta == rest.delta == whole.delta
            together = math.hypot(gaussian.mu(first.epsilon, 1e-6), gaussian.mu(rest.epsilon, 1e-6))
            assert together <= gaussian.mu(1.3, 1e-6)
        else:
            assert first.epsilon + rest.epsilon <= whole.epsilon
            assert first.delta + rest.delta <= whole.delta


def test_agents_with_budgets_of_their_own_spend_each_its_own(asked):
    epsilons = (0.5, 1.0, 2.0, 4.0, 8.0)
    result = train(asking(asked(), epsilon=None, delta=None, epsilons=epsilons, deltas=(DELTA,)))
    for given, spent in zip(epsilons, result.by_agent, strict=True):
        assert (1.0 - 1e-6) * given <= spent.epsilon <= given
    first, step = mus(result.plan)
    assert (np.diff(first) > 0).all()
    assert (np.diff(step) > 0).all()
    np.testing.assert_allclose(first**2, 0.2 * (first**2 + ROUNDS * step**2), rtol=1e-6)


def test_what_is_not_gaussian_shares_epsilon_and_delta_and_stays_within(asked):
    result = train(asked(mechanism="gamma-norm", standardise=0.3))
    plan = result.plan
    assert isinstance(plan.before[0], GaussianDpEvent)
    assert result.guarantee.epsilon <= 2.0
    assert result.guarantee.delta == DELTA
    assert gaussian.epsilon(mus(plan)[0][0], 0.3 * DELTA) == pytest.approx(0.3 * 2.0, rel=1e-6)
    rounds = replace(plan, before=()).accounts().worst(0.0)
    assert 0.999 * 0.7 * 2.0 <= rounds.epsilon <= 0.7 * 2.0
    assert result.guarantee.epsilon > 0.6 * 2.0  # neither part was forgotten


@pytest.mark.parametrize("share", [0.01, 0.25, 0.9])
def test_without_a_delta_both_parts_have_pure_noise(asked, share):
    result = train(asking(asked(mechanism="laplace", standardise=share), delta=None))
    before = result.plan.before[0]
    assert isinstance(before, LaplaceDpEvent)  # which real owners can add
    assert 1.0 / before.noise_multiplier == pytest.approx(share * 2.0, rel=1e-6)
    assert result.guarantee.accountant == "pure"
    assert result.guarantee.delta == 0.0
    assert 0.999 * 2.0 <= result.guarantee.epsilon <= 2.0


@pytest.mark.parametrize("relation", ["replace", "zero-out"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_noise_of_the_moments_is_that_of_their_event(asked, relation, intercept):
    """Of the mean of five the root of the sum of squares over five; rows are as long as without the intercept."""
    prepared = prepare(asked(relation=relation, intercept=intercept, norm_bound=0.7))
    stage, (first, _) = prepared.stage, mus(prepared.plan)
    unit = ColumnMoments(0.7).sensitivity(0.7, Relation.parse(relation))
    apart = unit / prepared.shards.counts / first
    assert stage.deviation == pytest.approx(math.sqrt((apart**2).sum()) / 5, rel=1e-6)
    assert stage.plan.setting.dimension == 2 * WIDTH
    assert stage.plan.setting.problem.loss == ColumnMoments(0.7)


@pytest.mark.parametrize("pure", [False, True])
def test_the_moments_are_as_far_from_the_true_ones_as_their_noise(asked, pure, monkeypatch):
    seen, real = [], module.standard
    monkeypatch.setattr(module, "standard", lambda *given, tight: seen.append(given[0]) or real(*given, tight=tight))
    spec = asking(asked(mechanism="laplace", epsilon=50.0), delta=None) if pure else asked(epsilon=50.0)
    prepared = prepare(spec)
    for run in range(200):
        prepared.stage.find(prepared.shards, 1, run)
    noise, s = np.array(seen) - pooled(prepared), prepared.stage.deviation
    assert noise.shape == (200, 2 * WIDTH)
    assert noise.std() == pytest.approx(s, rel=0.08)
    assert np.abs(noise.mean(axis=0)).max() < 5.0 * s / math.sqrt(200)


def test_noise_of_the_moments_is_not_that_of_the_rounds(asked, monkeypatch):
    """The same seed, agents, run and round, and the same purpose: only the seed derived for it keeps them apart."""
    cohorts, real = [], module.Cohort.of
    monkeypatch.setattr(module.Cohort, "of", lambda *given: cohorts.append(real(*given)) or cohorts[-1])
    train(asked())
    wanted = (np.zeros(1, dtype=int), np.zeros(1, dtype=int), 1, "gradient")
    assert len({tuple(cohort.randomness.stream(*wanted).words(0, 4)[0]) for cohort in cohorts}) == len(cohorts) == 2


SLOW = {"ps-admm", "ps-admm-anchor", "ps-admm-sgd", "ps-admm-paper"}  # to account for: mini-batches take seconds
OTHERS = [
    name
    for name, recipe in ALGORITHMS.items()
    if recipe.private and recipe.base_loss not in STATISTICS and name not in SLOW
]


@pytest.mark.parametrize("name", OTHERS)
def test_no_private_recipe_sees_moments_without_noise(name, asked):
    prepared = prepare(asked(name, rounds=2, intercept=False))
    assert prepared.stage.plan.algorithm.name == "private-column-moments"
    assert prepared.stage.deviation > 0.0
    assert prepared.plan.accounts().worst(DELTA).epsilon <= 2.0


# The run as if by hand


def by_hand(prepared, view, momentum, eta, strength):
    """Standardised, clipped, a constant beside: Nesterov's method over the rows, and the mean of its points."""
    shards = prepared.shards
    rows = (shards.real_rows[:, :-1] - view.centre) * view.scale
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = np.hstack([rows * np.minimum(1.0, view.length / lengths), np.full((len(rows), 1), view.constant)])
    w = ahead = mean = np.zeros(rows.shape[1])
    for k in range(1, ROUNDS + 1):
        slopes = []
        for start, stop in zip(shards.starts, shards.stops, strict=True):
            a, b = rows[start:stop], shards.targets[start:stop]
            slopes.append(-(a.T @ (b / (1.0 + np.exp(b * (a @ ahead))))) / (stop - start))
        before, w = w, ahead - (1.0 - momentum) * eta * (np.mean(slopes, axis=0) + strength * ahead)
        ahead = w + momentum * (w - before)
        mean = mean + 2.0 / (k + 1) * (w - mean)
    slopes = mean[:-1] * view.scale
    return np.append(slopes, mean[-1] * view.constant - slopes @ view.centre)


def test_without_noise_it_is_what_one_would_do_by_hand(asked):
    spec = asked("accelerated", momentum=0.7, schedule="fixed:8")
    prepared, result = prepare(spec), train(spec)
    view = standard(pooled(prepared), 0.0, 1.0, intercept=True, tight=True)
    part = prepared.turned(0)
    for name in ("centre", "scale"):
        np.testing.assert_allclose(getattr(part.view, name), getattr(view, name), rtol=1e-6)  # of a lattice
    np.testing.assert_allclose(result.models[0], by_hand(prepared, view, 0.7, 8.0, 1e-3), rtol=1e-4)
    assert result.guarantee is None
    assert not result.fully_accounted
    assert result.plan.before == (NonPrivateDpEvent(),) * 5
    assert prepared.stage.deviation == 0.0


def test_rows_of_the_rounds_are_no_longer_than_the_plan_says(asked):
    for changes in ({}, {"intercept": False}, {"norm_bound": 0.5}):
        prepared = prepare(asked(**changes))
        part = prepared.turned(0)
        assert isinstance(part.view, Standard)
        assert part.plan.setting.norm_bound == part.shards.norm_bound == BOUND
        assert (part.shards.features.astype(np.int64) ** 2).sum(axis=1).max() <= LARGEST_SQUARE
        assert part.shards.cell == BOUND / SIDE
        assert part.plan.setting.width == part.shards.width == prepared.shards.width
        np.testing.assert_array_equal(part.shards.targets, prepared.shards.targets)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    ("source", "loss"),
    [("classification", "capped-logistic"), ("multiclass", "capped-softmax"), ("regression", "squared")],
)
def test_models_are_handed_back_in_the_coordinates_that_rows_came_in(asked, intercept, source, loss):
    spec = asked(source=f"uneven-{source}", loss=loss, intercept=intercept, epsilon=20.0, repeats=2)
    result, prepared = train(spec), prepare(spec)
    outputs = 3 if source == "multiclass" else 1
    assert result.models.shape == result.mean_models.shape == (2, (WIDTH + intercept) * outputs)
    kind, test = prepared.plan.setting.problem.loss, prepared.test
    errors = kind.errors(test.real_rows, test.targets, result.models)
    np.testing.assert_allclose(errors, result.history.last("test_error"), rtol=1e-5)  # rows are rounded
    assert result.components is None
    assert result.summary()["components"] is None
    part = prepared.turned(1)
    assert part.shards.width == WIDTH + intercept
    assert (part.view.centre == 0.0).all() != intercept
    assert np.abs(test.real_rows @ result.models[1].reshape(-1, outputs)).max() > 0.01


def test_it_helps_where_columns_have_different_sizes(asked):
    """Without noise and with few rounds: that is what it is for."""
    plain, helped = (
        train(asking(asked("accelerated", schedule="fixed:20"), standardise=share)) for share in (None, 0.2)
    )
    assert helped.train_loss < plain.train_loss
    rows, model = prepare(asked()).shards, helped.models[0]
    loss = np.log1p(np.exp(-rows.targets * (rows.real_rows @ model))).mean()
    assert loss < np.log(2.0)


def test_numbers_are_given_the_room_and_classes_are_not(asked, monkeypatch):
    seen, real = [], module.standard
    monkeypatch.setattr(module, "standard", lambda *given, tight: seen.append(tight) or real(*given, tight=tight))
    for source, loss in (("classification", "logistic"), ("multiclass", "softmax"), ("regression", "squared")):
        prepare(asked(source=f"uneven-{source}", loss=loss)).turned(0)
    assert seen == [True, True, False]


# Repeats, seeds, interruptions


def test_every_repeat_finds_a_view_of_its_own_and_one_seed_repeats(asked, same):
    spec = asked(repeats=3)
    result, prepared = train(spec), prepare(spec)
    scales = [prepared.turned(run).view.scale for run in range(3)]
    assert (scales[0] != scales[1]).all()
    assert (scales[1] != scales[2]).all()
    same(result, train(spec))
    np.testing.assert_array_equal(result.models[:1], train(asked(repeats=1)).models)
    assert (train(asked(repeats=3, seed=8)).models != result.models).all()


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("at", [(0, 8), (1, 8)])
@pytest.mark.parametrize("algorithm", ["dp-accelerated", "dp-admm"])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(asked, same, tmp_path, algorithm, at):
    def stop(first, reached, history):
        if (first, reached) == at:
            raise Interrupted

    spec = asked(algorithm, repeats=2)
    whole = train(spec)
    with pytest.raises(Interrupted):
        train(spec, out=tmp_path / "out", checkpoint_every=3, progress=stop)
    resumed = train(spec, out=tmp_path / "out", resume=True)
    same(whole, resumed)
    assert whole.guarantee == resumed.guarantee


# What is refused

REFUSED = {
    "all of the budget": ({"standardise": 1.0}, "standardise = 1.0 must be 0 or a number from"),
    "none of it": ({"standardise": 0.0}, "standardise 0: must lie between 0 and 1"),
    "less than none": ({"standardise": -0.2}, "standardise = -0.2 must be 0 or a number from"),
    "no number": ({"standardise": math.nan}, "standardise = nan must be a finite number"),
    "noise instead of a budget": (
        {"noise_multiplier": 3.0, "delta": DELTA},
        "private standardise takes a share of a total budget; give one, as epsilon and delta",
    ),
    "a paper's noise": ({"algorithm": "dp-admm", "paper_noise": True}, "takes a share of a total budget"),
    "components as well": ({"components": "2"}, "components, standardise and evaluation_epsilon each take a part"),
    "an evaluation as well": ({"evaluation_epsilon": 0.5}, "each take a part of the budget; give one of them"),
    "a set": ({"set": "box:1"}, "standardised rows have other coordinates than the set speaks of"),
    "sparse rows": ({"source": "uneven-sparse"}, "standardise: sparse rows would not be sparse rows any more"),
    "a statistic": (
        {"algorithm": "private-column-moments", "loss": None, "source": "uneven-regression"},
        "algorithm 'private-column-moments' releases a statistic itself; leave components and standardise out",
    ),
    "another statistic": (
        {"algorithm": "private-components", "loss": None, "source": "uneven-regression"},
        "algorithm 'private-components' releases a statistic itself",
    ),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_meaning_is_refused_before_anything_is_released(asked, changes, message):
    with pytest.raises(InputError, match=message):
        prepare(asked(**changes))


def test_quantiles_that_must_not_cross_are_refused(asked):
    spec = asked(source="uneven-regression", loss="quantiles", tau=(0.2, 0.8), non_crossing=True)
    with pytest.raises(InputError, match="standardised rows have other coordinates than the set speaks of"):
        prepare(spec)


def test_curves_are_refused(experiment):
    spec = experiment("fdp-admm", source="functional-sim", agents=5, standardise=0.2, rounds=2)
    with pytest.raises(InputError, match="standardise: curves would not be curves any more; leave it out"):
        prepare(spec)


def test_owners_are_told_that_it_is_a_run_of_its_own():
    terms = RunSpec("dp-accelerated", rounds=2, epsilon=1.0, delta=DELTA, standardise=0.2)
    with pytest.raises(InputError, match="standardise is a run of its own, 'private-column-moments', before the one"):
        Agreement(terms, (50, 50), WIDTH, 2).plan()
    Agreement(replace(terms, standardise=None), (50, 50), WIDTH, 2).plan()


def test_other_terms_of_the_run_hold_for_its_moments(asked):
    for changes in ({"weighting": "records"}, {"split": "dirichlet:1"}):
        result = train(asked(**changes))
        assert result.models.shape == (1, WIDTH + 1)
        assert (1.0 - 1e-6) * 2.0 <= result.guarantee.epsilon <= 2.0
    stage = prepare(asked(weighting="records", split="dirichlet:1")).stage
    setting = stage.plan.setting
    np.testing.assert_allclose(setting.weights, setting.weights[0])
