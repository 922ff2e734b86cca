"""Terms that methods on graphs refuse: topologies, penalties and noise that do not fit."""

import math
from dataclasses import replace

import pytest
from graph_walks import ON_GRAPHS, PURE, by_objective, hand_ratio

from dpadmm.admm.rho import BalancedRho, GeometricRho, GrowingRho
from dpadmm.admm.rounds import first_state
from dpadmm.admm.setting import Density, Multiplier, PaperNoise
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.spec.declare import RunSpec


@pytest.mark.parametrize("name", ON_GRAPHS)
def test_a_network_is_needed_with_a_node_for_each(name, setting):
    request = Multiplier(1.0 if ON_GRAPHS[name].private else 0.0)
    with pytest.raises(InputError, match="consensus 'graph' needs a topology"):
        ALGORITHMS[name].plan(replace(setting(), graph=None), request)
    with pytest.raises(InputError, match="a graph of 4 nodes for 5 agents: it must have a node for each"):
        ALGORITHMS[name].plan(setting("ring:4"), request)
    with pytest.raises(InputError, match="must hold 6 nodes"):  # a plan may be of some nodes; a start is of all
        first_state(ALGORITHMS[name].plan(setting("ring:6"), request), 1)


@pytest.mark.parametrize("values", [(1.0, 1.1), (1.0, 1.1, 1.0, 1.0), (1.0,) * 6], ids=len)
@pytest.mark.parametrize("which", ["growth", "scale"])
def test_penalties_of_each_node_are_as_many_as_nodes(which, values, setting):
    recipe = ALGORITHMS["mr-admm"].tuned(rho=GeometricRho(**{which: values}))
    with pytest.raises(InputError, match=f"{len(values)} numbers for {which}, and 5 nodes: give one, or one for each"):
        recipe.plan(setting(), Multiplier(0.0))
    with pytest.raises(InputError, match=f"{len(values)} numbers for {which}"):
        ALGORITHMS["mr-admm"].tuned(dual_rho=GeometricRho(**{which: values})).plan(setting(), Multiplier(0.0))


@pytest.mark.parametrize("which", ["growth", "scale"])
@pytest.mark.parametrize("name", ["admm", "dp-admm", "dvp", "ps-admm"])
def test_around_a_server_all_use_one_penalty(name, which, setting, relations):
    recipe = ALGORITHMS[name].tuned(rho=GeometricRho(**{which: (1.0, 1.1, 1.0, 1.0, 1.0)}))
    terms = setting(relation=relations(ALGORITHMS[name])[0])
    with pytest.raises(InputError, match=f"a {which} for every node is for graphs; around a server all agents use one"):
        recipe.plan(terms, Multiplier(1.0 if recipe.private else 0.0))


@by_objective
@pytest.mark.parametrize("rule", [GrowingRho(), BalancedRho()], ids=["growing", "balanced"])
def test_a_penalty_that_follows_the_noise_is_refused(name, rule, setting):
    perturbation = ALGORITHMS[name].phases[0].perturbation.name
    said = (
        f"'{perturbation}' needs a rho that is known before its noise, and '{rule.name}' follows it; use 'constant' or"
    )
    with pytest.raises(InputError, match=said):
        ALGORITHMS[name].tuned(rho=rule).plan(setting(), Multiplier(1.0))
    twin = ALGORITHMS[ALGORITHMS[name].twin].tuned(rho=rule)  # which may have it
    assert twin.plan(setting(), Multiplier(0.0)).rho(1) > 0


@by_objective
def test_gaussian_noise_in_an_objective_has_a_lemma_for_single_records_only(name, setting):
    gaussian, terms = ALGORITHMS[name].tuned(mechanism="gaussian"), setting(unit_size=3, rounds=4)
    with pytest.raises(
        InputError, match=r"single records only; to protect 3 of a person .* in simulations, the mechanism"
    ):
        gaussian.plan(terms, Multiplier(1.0))
    plan = PURE[name].plan(terms, Multiplier(1.0))
    for i in range(5):
        ratio = hand_ratio(plan.algorithm.rho, terms.graph, i, 1)
        assert plan.events(1)[i].epsilon == pytest.approx(1.01 + 3 * math.log1p(ratio), rel=1e-8)


@by_objective
def test_an_alpha_is_of_gamma_norm_noise(name, setting):
    with pytest.raises(InputError, match="alpha is of 'gamma-norm' noise, not of 'gaussian'; give a budget instead"):
        ALGORITHMS[name].tuned(mechanism="gaussian").plan(setting(), Density((1.0,)))


@pytest.mark.parametrize("name", ["pvp-graph", "decentralised-admm", "r-admm", "dp-admm"])
def test_a_recipe_without_such_noise_takes_no_alpha(name, setting):
    with pytest.raises(InputError, match=rf"'{name}' has no noise of density exp\(-alpha \|.\|\); give a budget"):
        ALGORITHMS[name].plan(setting(), Density((1.0,)))


def test_published_noise_is_zhang_and_zhus_rule_and_the_penaltys_is_none(setting):
    asked = PaperNoise(Budget(1.0, 0.0))
    with pytest.raises(InputError, match="'penalty': its paper gives noise by its density; give an alpha, or a budget"):
        ALGORITHMS["m-admm-penalty"].plan(setting(), asked)
    for name in ("dvp-graph", "private-r-admm", "private-mr-admm"):
        with pytest.raises(InputError, match="no paper has a rule for 'gaussian' noise in an objective"):
            ALGORITHMS[name].tuned(mechanism="gaussian").plan(setting(), asked)
        with pytest.raises(InputError, match="chooses its extra curvature by itself"):
            PURE[name].tuned(extra_curvature=0.1).plan(setting(), asked)
        # 1 - 2 ln(1 + kappa) of the first round, which has the smallest penalty; the same noise in all of them.
        plan = PURE[name].plan(setting(rounds=4), asked)
        for k in (1, 3):
            for i, loud in enumerate(plan.noise_in(k).mechanism.noise_multiplier):
                kappa = hand_ratio(plan.algorithm.rho, parse_topology("ring:5"), i, 1)
                assert 1 / loud == pytest.approx(1 - 2 * math.log1p(kappa), rel=1e-9)


@pytest.mark.parametrize("name", ON_GRAPHS)
def test_on_a_graph_no_round_can_be_missed(name):
    spec = RunSpec(name, topology="ring:3", epsilon=1.0 if ON_GRAPHS[name].private else None, delta=1e-5, strength=0.1)
    assert Agreement(spec, (5, 6, 7), 3, 2).plan().setting.graph.nodes == 3
    with pytest.raises(InputError, match="on a graph no round can be missed"):
        Agreement(spec, (5, 6, 7), 3, 2, stragglers="reuse").plan()
