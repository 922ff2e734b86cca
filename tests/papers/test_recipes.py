"""The contract of every recipe: it runs, changes nothing in itself, repeats, spends its budget, and has its twin."""

import copy
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from dpadmm.admm.perturbations import Objective
from dpadmm.admm.perturbations.batches import UniformCost
from dpadmm.admm.setting import Multiplier, TotalBudget
from dpadmm.admm.solvers import Exact, GradientSteps
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import NonPrivateDpEvent, Relation, flatten
from dpadmm.problems.losses import LOSSES, STATISTICS, Logistic
from dpadmm.problems.penalties import L1, L2, PENALTIES
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum
from dpadmm.problems.sets import Box
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.testing.privacy import check_twin
from dpadmm.testing.runs import SmallRun, bits, check_alone

PRIVATE = {name: recipe for name, recipe in ALGORITHMS.items() if recipe.private}
every_recipe = pytest.mark.parametrize("recipe", ALGORITHMS.values(), ids=ALGORITHMS)
every_private_recipe = pytest.mark.parametrize("recipe", PRIVATE.values(), ids=PRIVATE)
SAMPLED = {name: recipe for name, recipe in ALGORITHMS.items() if any(p.solver.sampled for p in recipe.phases)}
WITH_ANCHOR = {"scas-admm", "ps-admm", "ps-admm-anchor", "scas-admm-paper", "ps-admm-paper"}
BUDGETED = {name: recipe for name, recipe in PRIVATE.items() if not recipe.as_printed}
every_budgeted_recipe = pytest.mark.parametrize("recipe", BUDGETED.values(), ids=BUDGETED)
# A recipe of a statistic goes with that alone, any other with all losses. One with a rounded kink is enough.
KINDS = {name: kind() for name, kind in LOSSES.items() if name != "smoothed-quantile"}

PROBLEM = Problem(penalty=L2(), strength=0.05)
BUDGET = Budget(1.5, 1e-5)


def losses_of(recipe):
    statistic = STATISTICS.get(recipe.base_loss)
    return KINDS if statistic is None else {recipe.base_loss: statistic()}


def with_losses(recipes):
    pairs = {
        f"{name}-{kind}": (recipe, loss) for name, recipe in recipes.items() for kind, loss in losses_of(recipe).items()
    }
    return pytest.mark.parametrize(("recipe", "loss"), pairs.values(), ids=pairs)


def penalties_for(loss):
    """All of them for one loss; for the others the convex ones, and where the loss has a kink, one of either kind."""
    if isinstance(loss, Logistic):
        return [penalty() for penalty in PENALTIES.values()]
    if loss.curvature_bound(1.0) is None:
        return [L1(), L2()]
    return [penalty() for penalty in PENALTIES.values() if penalty.convex]


def problem_for(recipe, penalty=PROBLEM.penalty):
    """A logistic regression, or what the recipe is for if that is a statistic."""
    return Problem(next(iter(losses_of(recipe).values())), penalty, PROBLEM.strength)


@pytest.fixture(autouse=True)
def split_of_noise(monkeypatch):
    """Of `ps-admm-paper`: a choice of the proof that takes a second to tune, and of which nothing here depends."""
    monkeypatch.setattr(UniformCost, "_best_split", lambda cost, agent, multiplier: 0.03)


def request_for(recipe):
    """A budget, or where its search would take long the noise that it might come to."""
    if not recipe.private:
        return Multiplier(0.0)
    return Multiplier(50.0) if recipe.name in SAMPLED else TotalBudget((BUDGET,))


def short(recipe):
    """The same recipe with three steps a round, where it takes ten."""
    return recipe.tuned(updates=3) if isinstance(recipe.phases[0].solver, GradientSteps) else recipe


def brief(recipe):
    """The same recipe with a few steps a round on large mini-batches, where it draws any: their account is quick."""
    return recipe.tuned(updates=2, batch=0.5) if recipe.name in SAMPLED else recipe


def accepts(recipe, setting):
    try:
        recipe.check(setting)
    except InputError:
        return False
    return True


def may_refuse(recipe, loss, penalty=PROBLEM.penalty):
    """Objective perturbation has lemmas for few problems; variance reduction is for losses without kinks; exact solves
    are for convex penalties, and but for those of f-admm too fine to be proved where the loss has a kink."""
    by_objective = any(isinstance(phase.perturbation, Objective) for phase in recipe.phases)
    by_exact_solves = any(isinstance(phase.solver, Exact) for phase in recipe.phases)
    kink = loss.curvature_bound(1.0) is None
    if by_exact_solves and (not penalty.convex or (kink and recipe.name != "f-admm")):
        return True
    return by_objective or (recipe.name in WITH_ANCHOR and kink)


def test_the_registry_names_its_recipes_and_their_twins():
    for name, recipe in ALGORITHMS.items():
        assert recipe.name == name
        assert recipe.about
        assert recipe.paper
        assert (recipe.twin is not None) == recipe.private
        if recipe.twin:
            twin = ALGORITHMS[recipe.twin]
            assert not twin.private
            assert twin.consensus == recipe.consensus
            assert [type(p.solver) for p in twin.phases] == [type(p.solver) for p in recipe.phases]
    stochastic = {"ps-admm", "ps-admm-anchor", "ps-admm-sgd", "ps-admm-full", "ps-admm-paper"}
    on_graphs = {"pvp-graph", "dvp-graph", "m-admm-penalty", "private-r-admm", "private-mr-admm"}
    on_graphs |= {"dp-admm-graph", "pvp-r-admm", "pvp-mr-admm"}
    around_a_server = {"pvp", "dvp", "dp-admm", "dpsgd", "obj-g", "obj-l", "out-g", "out-l", "fdp-admm"}
    our_own = {"dp-accelerated"}
    of_a_statistic = {"private-components", "private-column-moments", "private-covariance"}
    assert set(PRIVATE) == around_a_server | our_own | stochastic | on_graphs | of_a_statistic
    assert {name for name, recipe in PRIVATE.items() if recipe.base_loss in STATISTICS} == of_a_statistic
    assert all(recipe.base_loss in LOSSES | STATISTICS for recipe in ALGORITHMS.values())
    assert on_graphs < {name for name, recipe in ALGORITHMS.items() if recipe.consensus.decentralised}
    assert set(SAMPLED) == {*stochastic - {"ps-admm-full"}, "scas-admm", "sgd-admm", "scas-admm-paper"}
    assert [name for name, recipe in ALGORITHMS.items() if recipe.as_printed] == ["ps-admm-paper"]


@every_recipe
def test_it_runs(recipe, simulated, terms, played):
    shards = simulated()
    states = played(recipe.plan(terms(problem_for(recipe), shards, recipe), request_for(recipe)), shards)
    assert [state.round for state in states] == [1, 2, 3, 4, 5]
    assert all(np.isfinite(state.shared.model).all() for state in states)
    assert (states[-1].shared.model != 0).all()


@every_private_recipe
def test_no_random_bits_are_asked_for_twice(recipe, simulated, terms, played, monkeypatch):
    """Each noise and each mini-batch of a round has a purpose of its own, from which its bits follow."""
    shards, asked, honest = simulated(), [], SeededRandomness.stream

    def listening(source, runs, agents, round, purpose):
        asked.extend((run, agent, round, purpose) for run, agent in zip(runs.tolist(), agents.tolist(), strict=True))
        return honest(source, runs, agents, round, purpose)

    monkeypatch.setattr(SeededRandomness, "stream", listening)
    played(short(recipe).plan(terms(problem_for(recipe), shards, recipe, rounds=3), Multiplier(20.0)), shards)
    assert len(asked) == len(set(asked)) >= 3 * len({phase.perturbation.name for phase in recipe.phases})
    rounds = {round for *_, round, _ in asked}
    assert rounds == ({1, 3} if "free" in {phase.perturbation.name for phase in recipe.phases} else {1, 2, 3})


@every_recipe
def test_it_is_a_frozen_value(recipe, simulated, terms, played):
    before, mark = copy.deepcopy(recipe), hash(recipe)
    shards = simulated()
    played(recipe.plan(terms(problem_for(recipe), shards, recipe), request_for(recipe)), shards)
    assert recipe == before
    assert hash(recipe) == mark == hash(before)
    with pytest.raises(FrozenInstanceError):
        recipe.name = "other"
    assert recipe != recipe.tuned(schedule=ALGORITHMS["dpsgd"].schedule.__class__(0.123))


@every_recipe
@pytest.mark.parametrize("penalty", [L1(), L2()], ids=["l1", "l2"])
def test_twice_from_one_seed_is_the_same_run(recipe, penalty, simulated, terms, played):
    recipe, shards = short(recipe), simulated()
    setting = terms(problem_for(recipe, penalty), shards, recipe)
    if not accepts(recipe, setting):
        assert may_refuse(recipe, Logistic())
        return
    plan = recipe.plan(setting, request_for(recipe))
    first = bits(played(plan, shards, seed=3))
    again = bits(played(recipe.plan(setting, request_for(recipe)), shards, seed=3))
    assert first == again
    assert (bits(played(plan, shards, seed=4)) == first) == (not recipe.private and recipe.name not in SAMPLED)


@with_losses(PRIVATE)
def test_without_noise_it_is_its_twin_bit_for_bit(recipe, loss, simulated, terms, played):
    """F12: the twin with the same resolved schedule, tuned to noise that is then not added."""
    recipe, shards = short(recipe), simulated(loss)
    for penalty in penalties_for(loss):
        setting = terms(Problem(loss, penalty, 0.05), shards, recipe)
        if not accepts(recipe, setting):
            assert may_refuse(recipe, loss, penalty)
            continue
        loud = recipe.plan(setting, Multiplier(3.0))
        silent = replace(loud, noise=recipe.plan(setting, Multiplier(0.0)).noise)
        twin = replace(short(ALGORITHMS[recipe.twin]), schedule=recipe.schedule)
        twin_plan = replace(loud, algorithm=twin, noise=twin.plan(setting, Multiplier(0.0)).noise)
        assert (loud.level.sigma > 0).all()
        mine = played(silent, shards)
        assert bits(mine) == bits(played(twin_plan, shards))
        assert bits(mine) != bits(played(loud, shards))
        assert [set(flatten({event: 1})) for event in silent.events(1)] == [{NonPrivateDpEvent()}] * 3


@every_private_recipe
def test_zero_noise_asked_for_from_the_start_is_the_twin_as_it_is(recipe, simulated, terms):
    shards = simulated()
    setting = terms(problem_for(recipe), shards, recipe)
    check_twin(SmallRun(recipe, setting, shards), ALGORITHMS[recipe.twin])


@with_losses(ALGORITHMS)
def test_a_batch_of_n_is_n_batches_of_one_bit_for_bit(recipe, loss, simulated, terms):
    """Each agent alone, with its own rows of the plan, its own words and the same broadcasts."""
    few = 3 if loss.curvature_bound(1.0) is not None else 20  # test_kinks.py: what f-admm cannot prove of three records
    recipe, shards = short(recipe), simulated(loss, sizes=(few, 1100, 40, 7 * few))  # one agent has several chunks
    setting = terms(Problem(loss, L2(), 0.05), shards, recipe)
    if not accepts(recipe, setting):
        assert may_refuse(recipe, loss)
        return
    check_alone(SmallRun(recipe, setting, shards), recipe.plan(setting, request_for(recipe)))


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize(
    ("name", "rounds", "near"), [("admm", 300, 1e-6), ("linearised-admm", 1500, 1e-4)], ids=["admm", "linearised"]
)
def test_without_noise_the_pooled_optimum_is_reached(name, rounds, near, penalty, simulated, terms, played):
    shards = simulated(sizes=(20, 30, 25))
    problem = Problem(Logistic(), PENALTIES[penalty](), 0.05)
    recipe = ALGORITHMS[name]
    if name == "linearised-admm" and penalty == "l1":
        near = 2e-2  # theorem 3's steps fall like 1/sqrt(k), and a subgradient method hovers
    state = played(recipe.plan(terms(problem, shards, rounds=rounds), Multiplier(0.0)), shards)[-1]
    best = optimum(problem, shards, 3)
    assert np.linalg.norm(best) > 0.3
    np.testing.assert_allclose(state.shared.model[0], best, atol=near)
    np.testing.assert_allclose(state.agents.released, np.tile(best, (3, 1)), atol=2 * near)


def test_gradient_descent_reaches_the_pooled_optimum(simulated, terms, played):
    shards = simulated(sizes=(20, 30, 25))
    recipe = ALGORITHMS["gradient-descent"].tuned(schedule=ALGORITHMS["dpsgd"].schedule.__class__(2.0))
    state = played(recipe.plan(terms(PROBLEM, shards, rounds=400), Multiplier(0.0)), shards)[-1]
    np.testing.assert_allclose(state.shared.model[0], optimum(PROBLEM, shards, 3), atol=1e-7)


@pytest.mark.parametrize("name", ["dp-admm", "dpsgd"])
def test_gradient_noise_keeps_every_broadcast_in_the_box(name, simulated, terms, played):
    shards = simulated()
    plan = ALGORITHMS[name].plan(terms(Problem(domain=Box(0.05)), shards), Multiplier(3.0))
    for state in played(plan, shards):
        assert np.abs(state.shared.model).max() <= 0.05 * (1 + 1e-15)  # a mean of bounds is a bound, to a bit
        if name == "dp-admm":
            assert np.abs(state.agents.released).max() == 0.05


@every_private_recipe
def test_noise_differs_between_seeds_runs_agents_and_rounds(recipe, simulated, terms, played):
    """Four agents with the same records: without noise their answers in round one would be the same."""
    sizes = (6,)
    if recipe.name in SAMPLED:  # a mini-batch of all there is
        recipe, sizes = recipe.tuned(batch=1), (1,)
    shards = simulated(sizes=sizes).take([0, 0, 0, 0])
    setting = terms(problem_for(recipe), shards, recipe)
    plan = recipe.plan(setting, Multiplier(2.0))
    silent = played(recipe.plan(setting, Multiplier(0.0)), shards)
    assert np.ptp(silent[0].agents.released, axis=0).max() == 0.0
    first = played(plan, shards, seed=0, runs=(0, 1))
    other_seed = played(plan, shards, seed=1)
    one_round = first[0].agents.released  # (2 runs * 4 agents, D)
    everyone = np.concatenate([one_round, other_seed[0].agents.released])
    assert len(np.unique(everyone[:, 0])) == 12
    # Nor is what is new in one round what was new before.
    values = np.stack(
        [state.agents.released[:4] - quiet.agents.released for state, quiet in zip(first, silent, strict=True)]
    )
    assert len(np.unique(values)) == values.size


@every_budgeted_recipe
@pytest.mark.parametrize("relation", list(Relation), ids=str)
@pytest.mark.parametrize("rounds", [1, 37])
def test_all_rounds_together_spend_the_budget_and_no_more(recipe, relation, rounds, simulated, terms, relations):
    shards = simulated()
    for budget in (Budget(1.0, 1e-5), Budget(0.05, 1e-7), Budget(8.0, 1e-3)):
        setting = terms(problem_for(recipe), shards, rounds=rounds, relation=relation)
        request = TotalBudget((budget,))
        if relation not in relations(recipe):
            with pytest.raises(InputError, match="under the zero-out relation only"):
                recipe.plan(setting, request)
            continue
        plan = brief(recipe).plan(setting, request)
        spent = plan.accounts(rounds).worst(budget.delta)
        assert 0.999 * budget.epsilon < spent.epsilon <= budget.epsilon
        assert spent.relation is relation


@every_private_recipe
@pytest.mark.parametrize("relation", list(Relation), ids=str)
def test_a_relation_without_a_lemma_is_refused_also_where_nothing_is_searched(
    recipe, relation, simulated, terms, relations
):
    setting = terms(problem_for(recipe), simulated(), relation=relation)
    assert accepts(recipe, setting) == (relation in relations(recipe))


def test_pure_recipes_need_no_delta(simulated, terms):
    shards = simulated()
    for recipe in (ALGORITHMS[name].tuned(mechanism="gamma-norm") for name in ("dvp", "pvp")):
        plan = recipe.plan(terms(PROBLEM, shards, rounds=9), TotalBudget((Budget(0.7, 0.0),)))
        spent = plan.accounts(9).worst(0.0)
        assert 0.999 * 0.7 < spent.epsilon <= 0.7
        assert spent.accountant == "pure"


@every_budgeted_recipe
def test_each_agent_may_have_its_own_budget(recipe, simulated, terms):
    recipe, shards = brief(recipe), simulated(sizes=(10, 10, 10))
    budgets = (Budget(0.5, 1e-5), Budget(1.0, 1e-5), Budget(4.0, 1e-6))
    setting = terms(problem_for(recipe), shards, recipe)
    plan = recipe.plan(setting, TotalBudget(budgets))
    multipliers = plan.noise[0].mechanism.noise_multiplier
    assert multipliers[0] > multipliers[1] > multipliers[2] > 0
    accounts = plan.accounts(5)
    for agent, budget in enumerate(budgets):
        alone = recipe.plan(setting, TotalBudget((budget,)))
        assert alone.noise[0].mechanism.noise_multiplier[agent] == multipliers[agent]
        spent = accounts.guarantee(agent, budget.delta).epsilon
        assert 0.999 * budget.epsilon < spent <= budget.epsilon
    assert accounts.worst(1e-5).epsilon == pytest.approx(accounts.guarantee(2, 1e-5).epsilon, rel=1e-12)


@pytest.mark.parametrize("name", ["pvp", "dp-admm", "dpsgd"])
def test_zero_out_needs_half_the_noise(name, simulated, terms):
    """But for what rounding to the lattice costs, and the tolerance of minimisers, which both relations pay alike."""
    shards = simulated()
    recipe = ALGORITHMS[name].tuned(schedule=ALGORITHMS["dpsgd"].schedule)  # the same step for both
    plans = {r: recipe.plan(terms(PROBLEM, shards, relation=r), TotalBudget((BUDGET,))) for r in Relation}
    half, whole = plans[Relation.ZERO_OUT], plans[Relation.REPLACE]
    assert half.events(1) == whole.events(1)
    np.testing.assert_allclose(half.level.sigma, whole.level.sigma / 2, rtol=1e-6)
    assert (half.level.sigma > whole.level.sigma / 2).all()
    if name == "pvp":
        moved = [
            plan.algorithm.phases[0].perturbation.sensitivity(
                plan.setting, plan.algorithm.phases[0].solver, np.full(3, 0.1), np.ones(3)
            )
            for plan in (half, whole)
        ]
        np.testing.assert_allclose(moved[0], moved[1] / 2, rtol=1e-5)
