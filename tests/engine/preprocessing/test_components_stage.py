"""Rows turned onto components that are found and paid for first: one account, one budget, models as if nothing was."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from scipy.sparse import csr_array

from dpadmm.admm.perturbations.batches import UniformCost
from dpadmm.datasets import simulate
from dpadmm.datasets.registry import DATASETS, NamedDataset
from dpadmm.engine.prepare import prepare, with_choices
from dpadmm.engine.preprocessing import stage as module
from dpadmm.engine.preprocessing.components import Components
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import LaplaceDpEvent, NonPrivateDpEvent
from dpadmm.problems.losses import STATISTICS

WIDTH, ROUNDS, DELTA = 6, 12, 1e-5


def stretched(seed=0):
    """Rows that lie mostly along a few directions, none of them an axis."""
    data = simulate("regression", 200, WIDTH, seed)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(WIDTH, WIDTH)))[0]
    return replace(data, features=data.features * np.geomspace(1.0, 0.05, WIDTH) @ turn)


@pytest.fixture(autouse=True)
def data(monkeypatch):
    monkeypatch.setitem(DATASETS, "stretched", NamedDataset(stretched, "for tests"))


@pytest.fixture
def asked(experiment):
    """asked(algorithm, **changes): three components of records with five agents, within (2, 1e-5) where private."""

    def make(algorithm="fdp-admm", **changes):
        usual = {"source": "stretched", "components": "3", "rounds": ROUNDS, "loss": "quantile", "test": 0.2}
        return experiment(algorithm, **(usual | changes))

    return make


def mus(plan):
    """(of the second moments, of a round) for every agent, from the noise that is drawn."""
    before = [event.noise_multiplier for event in plan.before]
    return 1.0 / np.array(before), 1.0 / plan.noise[0].mechanism.noise_multiplier


def pooled(prepared, intercept=False):
    """The mean over agents of their mean outer products, of the rows as they are trained on."""
    rows = prepared.shards.real_rows[:, :-1] if intercept else prepared.shards.real_rows
    spans = zip(prepared.shards.starts, prepared.shards.stops, strict=True)
    return np.mean([rows[i:j].T @ rows[i:j] / (j - i) for i, j in spans], axis=0)


# One account


@pytest.mark.parametrize("share", [0.1, 0.4])
@pytest.mark.parametrize("relation", ["replace", "zero-out"])
def test_the_account_is_one_release_of_second_moments_and_all_rounds(asked, share, relation):
    result = train(asked(components_share=share, relation=relation))
    plan = result.plan
    assert all(isinstance(event, GaussianDpEvent) for event in plan.before)
    first, step = mus(plan)
    for agent in range(5):
        assert plan.accounts().tally(agent) == {plan.before[agent]: 1, plan.events(1)[agent]: ROUNDS}
    total = np.sqrt(first**2 + ROUNDS * step**2)
    np.testing.assert_allclose(first**2 / total**2, share, rtol=1e-6)
    np.testing.assert_allclose(total, gaussian.mu(2.0, DELTA), rtol=1e-6)
    assert (1.0 - 1e-6) * 2.0 <= result.guarantee.epsilon <= 2.0
    assert result.guarantee.epsilon == pytest.approx(gaussian.epsilon(total[0], DELTA), rel=1e-9)
    assert result.guarantee.accountant == "exact"
    assert result.guarantee.delta == DELTA
    # The course of the account begins with what came before round one.
    course = result.history["epsilon"][:, 0]
    assert course[0] == pytest.approx(gaussian.epsilon(math.hypot(first[0], step[0]), DELTA), rel=1e-9)
    assert course[-1] == result.guarantee.epsilon


@pytest.mark.parametrize(("relation", "unit"), [("replace", math.sqrt(2.0)), ("zero-out", 1.0)])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_noise_of_the_second_moments_is_that_of_their_event(asked, relation, unit, intercept):
    """s = Delta_F / (sqrt(2) mu) for every agent, and of the mean of five the root of the sum of squares over five.

    The rows are as long as they are without the intercept's one.
    """
    prepared = prepare(asked(relation=relation, intercept=intercept))
    stage = prepared.stage
    first, _ = mus(prepared.plan)
    apart = unit / prepared.shards.counts / first  # of packed numbers, sqrt(2) times those off the diagonal
    # Pairs of columns count by 17/12 in place of sqrt(2), and the diagonal by 12: at most 145 for 144 in the squares.
    exact = math.sqrt((apart**2).sum()) / 5
    assert exact <= stage.deviation <= exact * math.sqrt(145 / 144) * (1.0 + 1e-6)
    found = [stage.find(prepared.shards, 1, run) for run in range(3)]
    assert {one.noise for one in found} == {2.0 * (stage.deviation / math.sqrt(2.0)) * math.sqrt(WIDTH)}


def test_the_moments_that_components_are_made_of_are_as_far_from_the_true_ones_as_their_noise(asked, monkeypatch):
    seen = []
    real = module.components
    monkeypatch.setattr(module, "components", lambda moments, *rest: seen.append(moments) or real(moments, *rest))
    prepared = prepare(asked(epsilon=50.0))
    for run in range(200):
        prepared.stage.find(prepared.shards, 1, run)
    noise, s = np.array(seen) - pooled(prepared), prepared.stage.deviation / math.sqrt(2.0)
    row, column = np.triu_indices(WIDTH, 1)
    assert noise[:, row, column].std() == pytest.approx(s, rel=0.05)
    assert noise[:, range(WIDTH), range(WIDTH)].std() == pytest.approx(math.sqrt(2.0) * s, rel=0.08)
    assert np.abs(noise.mean(axis=0)).max() < 5.0 * math.sqrt(2.0) * s / math.sqrt(200)
    np.testing.assert_array_equal(noise, noise.transpose(0, 2, 1))


def test_agents_with_budgets_of_their_own_spend_each_its_own(asked):
    epsilons = (0.5, 1.0, 2.0, 4.0, 8.0)
    changes = {"epsilon": None, "delta": None, "epsilons": epsilons, "deltas": (DELTA,)}
    spec = replace(asked(), run=replace(asked().run, **changes))
    result = train(spec)
    for given, spent in zip(epsilons, result.by_agent, strict=True):
        assert (1.0 - 1e-6) * given <= spent.epsilon <= given
    first, step = mus(result.plan)
    assert (np.diff(first) > 0).all()
    assert (np.diff(step) > 0).all()
    np.testing.assert_allclose(first**2, 0.1 * (first**2 + ROUNDS * step**2), rtol=1e-6)


@pytest.mark.parametrize(
    "changes", [{"algorithm": "obj-l"}, {"algorithm": "fdp-admm", "mechanism": "laplace"}], ids=str
)
def test_what_is_not_gaussian_shares_epsilon_and_delta_and_stays_within(asked, changes):
    result = train(asked(**changes, components_share=0.3))
    plan = result.plan
    assert result.guarantee.epsilon <= 2.0
    assert result.guarantee.delta == DELTA
    alone = gaussian.epsilon(mus(plan)[0][0], 0.3 * DELTA)
    assert alone == pytest.approx(0.3 * 2.0, rel=1e-6)
    rounds = replace(plan, before=()).accounts().worst(0.0)
    assert (0.999 * 0.7 * 2.0) <= rounds.epsilon <= 0.7 * 2.0
    assert result.guarantee.epsilon > 0.6 * 2.0  # neither part was forgotten


# Noise, or none


@pytest.mark.parametrize("algorithm", ["f-admm", "linearised-admm"])
def test_a_run_that_is_not_private_takes_the_true_components(asked, algorithm):
    spec = asked(algorithm, rounds=2)
    prepared = prepare(spec)
    values, vectors = np.linalg.eigh(pooled(prepared))
    found = prepared.turned(0).view
    np.testing.assert_allclose(found.spectrum, values[::-1], atol=1e-8)  # of a lattice
    np.testing.assert_allclose(np.abs(found.rotation.T @ vectors[:, :-4:-1]), np.eye(3), atol=1e-5)
    assert found.noise == 0.0
    result = train(spec)
    assert result.guarantee is None
    assert not result.fully_accounted
    assert result.plan.before == (NonPrivateDpEvent(),) * 5


SLOW = {"ps-admm", "ps-admm-anchor", "ps-admm-sgd"}  # to account for: mini-batches take seconds


@pytest.mark.parametrize("name", [name for name, recipe in ALGORITHMS.items() if recipe.private and name not in SLOW])
def test_no_private_recipe_sees_components_without_noise(name, asked, monkeypatch):
    monkeypatch.setattr(UniformCost, "_best_split", lambda cost, agent, multiplier: 0.03)  # takes a second to tune
    recipe = ALGORITHMS[name]
    changes = {"loss": "smoothed-quantile", "rounds": 2}
    if recipe.base_loss in STATISTICS:
        with pytest.raises(InputError, match=f"algorithm '{name}' releases a statistic itself; leave components and"):
            prepare(asked(name, loss=None))
        return
    if recipe.as_printed:  # a paper's own noise, which costs more than it says
        with pytest.raises(InputError, match="components takes a share of a total budget"):
            prepare(asked(name, **changes))
        return
    stage = prepare(asked(name, **changes)).stage
    assert stage.plan.algorithm.name == "private-components"
    assert (stage.plan.noise[0].mechanism.noise_multiplier > 0.1).all()
    assert stage.deviation > 0.0


def test_noise_of_the_components_is_not_that_of_the_rounds(asked, monkeypatch):
    """The same seed, agents, run and round, and the same purpose: only the seed derived for it keeps them apart."""
    prepared = prepare(asked())
    cohorts, real = [], module.Cohort.of
    monkeypatch.setattr(module.Cohort, "of", lambda *given: cohorts.append(real(*given)) or cohorts[-1])
    prepared.turned(0)
    result = train(asked())
    asked_for = (np.zeros(1, dtype=int), np.zeros(1, dtype=int), 1, "gradient")
    words = {tuple(cohort.randomness.stream(*asked_for).words(0, 4)[0]) for cohort in cohorts}
    assert len(cohorts) == 3  # found here, found again, and the rounds
    assert len(words) == 2
    assert result.models.shape == (1, WIDTH)


# Models as if nothing was


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("tau", [(0.3,), (0.2, 0.5, 0.9)])
def test_models_are_handed_back_in_the_coordinates_that_rows_came_in(asked, intercept, tau):
    spec = asked(tau=tau, intercept=intercept, epsilon=20.0, repeats=2)
    result, prepared = train(spec), prepare(spec)
    assert result.models.shape == result.mean_models.shape == (2, (WIDTH + intercept) * len(tau))
    loss, test = prepared.plan.setting.problem.loss, prepared.test
    errors = loss.errors(test.real_rows, test.targets, result.models)
    np.testing.assert_allclose(errors, result.history.last("test_error"), rtol=1e-5)  # rows are rounded
    predicted = loss.predictions(test.real_rows, result.models).reshape(2, len(test.targets), -1)
    np.testing.assert_allclose(result.coverage, (test.targets[:, None] <= predicted).mean(axis=(0, 1)))
    # Slopes lie in the span of the components of their run; an intercept is not turned.
    slopes = result.models[1].reshape(WIDTH + intercept, -1)[:WIDTH]
    rotation = result.components.rotation
    assert rotation.shape == (WIDTH, 3)
    np.testing.assert_allclose(rotation @ (rotation.T @ slopes), slopes, atol=1e-12)
    assert result.plan.setting.dimension == (3 + intercept) * len(tau)


def test_a_column_of_ones_stays_one_and_no_row_grows(asked):
    prepared = prepare(asked(intercept=True))
    part = prepared.turned(0)
    for before, after in ((prepared.shards, part.shards), (prepared.test, part.test)):
        np.testing.assert_allclose(after.real_rows[:, -1], 1.0, rtol=0.0, atol=after.cell)
        lengths = [np.linalg.norm(shards.real_rows, axis=1) for shards in (before, after)]
        assert (lengths[1] <= lengths[0] + 2.0 * after.cell).all()
        np.testing.assert_array_equal(after.targets, before.targets)
    # The components are of the rows without it.
    np.testing.assert_allclose(
        prepare(asked("f-admm", intercept=True)).turned(0).view.spectrum,
        np.linalg.eigvalsh(pooled(prepared, intercept=True))[::-1],
        atol=1e-8,
    )
    assert part.plan.setting.norm_bound == prepared.experiment.run.row_bound


def test_all_components_are_a_change_of_coordinates_and_nothing_else(asked):
    plain = train(asked("linearised-admm", components=None, schedule="fixed:0.5"))
    whole = train(asked("linearised-admm", components=str(WIDTH), schedule="fixed:0.5"))
    np.testing.assert_allclose(whole.models, plain.models, atol=1e-5)
    np.testing.assert_allclose(whole.mean_models, plain.mean_models, atol=1e-5)


def test_models_of_several_levels_are_lifted_level_by_level():
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0]
    models = np.arange(12.0).reshape(2, 6)  # two components and an intercept, at two levels
    found = Components(rotation, np.ones(5), 0.0).models(models, True).reshape(2, 6, 2)
    for run in range(2):
        np.testing.assert_allclose(found[run, :5], rotation @ models[run].reshape(3, 2)[:2], atol=1e-15)
        np.testing.assert_array_equal(found[run, 5], models[run].reshape(3, 2)[2])


def test_sparse_rows_are_turned_as_dense_ones_are(asked):
    prepared = prepare(asked())
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(WIDTH, 2)))[0]
    found = Components(rotation, np.ones(WIDTH), 0.0)
    sparse = replace(prepared.shards, features=csr_array(prepared.shards.features))
    dense = found.rows(prepared.shards, False)
    np.testing.assert_array_equal(found.rows(sparse, False).features, dense.features)
    shown = found.shown(prepared.shards, False)
    np.testing.assert_allclose(shown.real_rows, dense.real_rows, rtol=0.0, atol=1.01 * dense.cell)


# Repeats, seeds, interruptions


def test_every_repeat_finds_components_of_its_own_and_one_seed_repeats(asked, same):
    spec = asked(repeats=3)
    result = train(spec)
    spans = []
    for model in result.models:
        assert np.abs(model).max() > 0.0
        spans.append(model / np.linalg.norm(model))
    rotations = [prepare(spec).turned(run).view.rotation for run in range(3)]
    assert np.abs(rotations[0] - rotations[1]).max() > 1e-3
    for span, rotation in zip(spans, rotations, strict=True):
        np.testing.assert_allclose(rotation @ (rotation.T @ span), span, atol=1e-12)
    same(result, train(spec))
    np.testing.assert_array_equal(result.models[:1], train(asked(repeats=1)).models)
    assert (train(asked(repeats=3, seed=8)).models != result.models).all()


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("at", [(0, 8), (1, 8)])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(asked, same, tmp_path, at):
    def stop(first, reached, history):
        if (first, reached) == at:
            raise Interrupted

    spec = asked(repeats=2)
    whole = train(spec)
    with pytest.raises(Interrupted):
        train(spec, out=tmp_path / "out", checkpoint_every=3, progress=stop)
    resumed = train(spec, out=tmp_path / "out", resume=True)
    same(whole, resumed)
    np.testing.assert_array_equal(whole.components.rotation, resumed.components.rotation)
    assert whole.guarantee == resumed.guarantee


def test_a_rule_may_find_another_number_in_every_run(asked):
    result = train(asked(components="noise", epsilon=4.0, repeats=3))
    assert result.models.shape == (3, WIDTH)
    assert 1 <= result.components.rotation.shape[1] <= WIDTH
    assert result.summary()["components"] == result.components.rotation.shape[1]
    share = train(asked("f-admm", components="share:0.9", rounds=2)).components
    taken = share.rotation.shape[1]
    assert share.spectrum[:taken].sum() >= 0.9 * share.spectrum.sum() > share.spectrum[: taken - 1].sum()


@pytest.mark.parametrize("changes", [{"weighting": "records"}, {"split": "dirichlet:1"}], ids=str)
def test_other_terms_of_the_run_hold_for_its_components(asked, changes):
    result = train(asked(**changes))
    assert result.models.shape == (1, WIDTH)
    assert result.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert result.guarantee.epsilon <= 2.0
    np.testing.assert_allclose(1.0 / mus(result.plan)[0], 1.0 / mus(result.plan)[0][0], rtol=1e-12)


# What is refused

REFUSED = {
    "more than there are": ({"components": "7"}, "7 components of rows with 6 columns"),
    "more than there are without the intercept": ({"components": "7", "intercept": True}, "rows with 6 columns"),
    "no rule": ({"components": "many"}, "must be a whole number such as 5, 'noise', or 'share:0.95'"),
    "all of the budget": ({"components_share": 1.0}, "components_share = 1.0 must be a number from"),
    "none of it": ({"components_share": 0.0}, "components_share = 0.0 must be a number from"),
    "noise instead of a budget": (
        {"noise_multiplier": 3.0, "delta": DELTA},
        "components takes a share of a total budget",
    ),
    "a paper's noise": ({"paper_noise": True}, "components takes a share of a total budget"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_meaning_is_refused_before_anything_is_released(asked, changes, message):
    with pytest.raises(InputError, match=message):
        prepare(asked(**changes))


def test_an_evaluation_as_well_is_refused(asked):
    spec = asked("dp-admm", source="tiny", loss="logistic", components="2", evaluation_epsilon=0.5)
    with pytest.raises(InputError, match="components, standardise and evaluation_epsilon each take a part"):
        prepare(spec)


def test_mini_batches_that_the_engine_chooses_are_those_that_run(asked, monkeypatch):
    monkeypatch.setattr("dpadmm.engine.prepare.choose", lambda asked, *public: (asked.tuned(updates=2), ()))
    chosen = with_choices(prepare(asked("obj-g", updates=1)))  # which has no mini-batches, and is quick to account for
    for part in (chosen, chosen.turned(0)):
        assert part.plan.algorithm.phases[0].solver.updates == part.experiment.run.updates == 2
        assert isinstance(part.plan.before[0], GaussianDpEvent)


def test_without_a_delta_second_moments_have_pure_noise_as_well(asked):
    spec = asked("obj-l", components_share=0.3)
    result = train(replace(spec, run=replace(spec.run, delta=None)))
    assert isinstance(result.plan.before[0], LaplaceDpEvent)
    assert 1.0 / result.plan.before[0].noise_multiplier == pytest.approx(0.3 * 2.0, rel=1e-6)
    assert result.guarantee.accountant == "pure"
    assert result.guarantee.delta == 0.0
    assert 0.999 * 2.0 <= result.guarantee.epsilon <= 2.0
