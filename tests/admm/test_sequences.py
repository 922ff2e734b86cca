"""Penalties and noise as they are listed: what a round uses is what stands there, and the account is made of that."""

import math
from functools import partial

import numpy as np
import pytest
from graph_walks import SIZES, walk

from dpadmm import Experiment
from dpadmm._registry import build
from dpadmm.admm.noise_schedule import NOISE_SCHEDULES, GeometricNoise, NoiseSchedule, SequenceNoise
from dpadmm.admm.rho import RHO_SCHEDULES, SequenceRho
from dpadmm.admm.setting import Density, Multiplier, PaperNoise, TotalBudget
from dpadmm.admm.topology.graph import parse_topology
from dpadmm.audit.run import audit
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import NonPrivateDpEvent, Relation
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem
from dpadmm.spec import resolve
from dpadmm.spec.sequences import from_file, table_text
from dpadmm.spec.toml import dumps, read

PROBLEM = Problem(penalty=L2(), strength=0.05)
THETAS = np.array([[0.05, 0.1, 0.2, 0.06, 0.08], [0.06, 0.1, 0.3, 0.07, 0.08], [0.06, 0.2, 0.3, 0.09, 0.1]])
LOUD = np.array([[1.0, 2.0, 1.0, 0.5, 1.5], [0.8, 2.0, 1.0, 0.25, 3.0], [0.4, 2.0, 1.0, 4.0, 1.0]])
BUDGET = Budget(1.5, 1e-5)
VARIED = ("pvp-graph", "pvp-mr-admm", "dvp-graph", "private-mr-admm", "m-admm-penalty")


def rule(table, kind=SequenceRho):
    return kind(table.shape[1], tuple(table.ravel().tolist()))


@pytest.fixture
def nodes(terms):
    """nodes(**changes): the terms of five nodes on a path."""
    return lambda **changes: terms(PROBLEM, list(SIZES), graph=parse_topology("path:5"), **changes)


@pytest.mark.parametrize("name", ["mr-admm", "m-admm"])
def test_every_node_has_its_penalty_of_every_cycle(name, nodes):
    plan = ALGORITHMS[name].tuned(rho=rule(THETAS)).plan(nodes(rounds=9), Multiplier(0.0))
    for round in range(1, 10):
        cycle = (round + 1) // 2 if name == "mr-admm" else round
        np.testing.assert_array_equal(plan.rho(round), THETAS[min(cycle, 3) - 1])
        np.testing.assert_array_equal(plan.take([3, 1]).rho(round), THETAS[min(cycle, 3) - 1][[3, 1]])


def test_around_a_server_a_list_is_the_same_for_all(terms):
    listed = SequenceRho(1, (0.1, 0.2, 0.7))
    plan = ALGORITHMS["admm"].tuned(rho=listed).plan(terms(PROBLEM, [4, 5], rounds=5), Multiplier(0.0))
    assert [plan.rho(k) for k in range(1, 6)] == [0.1, 0.2, 0.7, 0.7, 0.7]
    with pytest.raises(InputError, match="a penalty for every node is for graphs"):
        ALGORITHMS["admm"].tuned(rho=rule(THETAS)).plan(terms(PROBLEM, list(SIZES)), Multiplier(0.0))


@pytest.mark.parametrize("name", VARIED)
def test_multipliers_stand_in_the_listed_ratios(name, nodes):
    recipe = ALGORITHMS[name].tuned(noise_schedule=rule(LOUD, SequenceNoise))
    plan = recipe.plan(nodes(rounds=8), Multiplier(1.3))
    plain = ALGORITHMS[name].plan(nodes(rounds=8), Multiplier(1.3))
    phases = len(recipe.phases)
    for round in range(1, 9):
        if phases == 2 and round % 2 == 0:
            continue
        time = (round - 1) // phases + 1
        usual = plain.noise_in(round).mechanism.noise_multiplier
        np.testing.assert_allclose(plan.noise_in(round).mechanism.noise_multiplier, usual * LOUD[min(time, 3) - 1])


@pytest.mark.parametrize("name", ["dp-admm", "dpsgd", "pvp", "obj-g", "out-g", "pvp-graph", "pvp-mr-admm"])
def test_the_account_of_gaussian_noise_is_the_sum_of_squares_of_each_agent(name, nodes):
    recipe = ALGORITHMS[name].tuned(noise_schedule=rule(LOUD, SequenceNoise))
    plan = recipe.plan(nodes(rounds=6), TotalBudget((BUDGET, BUDGET, Budget(0.7, 1e-6), BUDGET, BUDGET)))
    accounts, phases = plan.accounts(), len(recipe.phases)
    for agent in range(5):
        squares = 0.0
        for round in range(1, 7, phases):
            z = plan.noise_in(round).mechanism.noise_multiplier[agent]
            squares += plan.algorithm.phases[0].solver.steps / z**2
        delta, budget = (1e-6, 0.7) if agent == 2 else (1e-5, 1.5)
        spent = accounts.guarantee(agent, delta).epsilon
        assert spent == pytest.approx(gaussian.epsilon(math.sqrt(squares), delta), rel=1e-9)
        assert budget * (1.0 - 1e-6) < spent <= budget


@pytest.mark.parametrize("relation", list(Relation), ids=str)
@pytest.mark.parametrize("name", ["dvp-graph", "private-mr-admm", "m-admm-penalty"])
def test_budgets_are_exhausted_with_noise_in_the_objective(name, relation, nodes):
    recipe = ALGORITHMS[name].tuned(noise_schedule=rule(LOUD, SequenceNoise), rho=rule(THETAS))
    plan = recipe.plan(nodes(rounds=4, relation=relation), TotalBudget((BUDGET,)))
    assert 1.5 * (1.0 - 1e-4) < plan.accounts().worst(1e-5).epsilon <= 1.5


def test_alpha_is_divided_by_what_is_listed(nodes):
    """003's alpha_i(k): here 0.8 / scale, so a round costs alpha_i(k) w s + ln(1 + kappa)."""
    recipe = ALGORITHMS["private-mr-admm"].tuned(mechanism="gamma-norm", noise_schedule=rule(LOUD, SequenceNoise))
    terms = nodes(rounds=5)
    plan = recipe.plan(terms, Density((0.8,)))
    for time in range(1, 4):
        noise = plan.noise_in(2 * time - 1)
        alpha = 1.0 / (noise.mechanism.noise_multiplier * terms.gradient_sensitivity())
        np.testing.assert_allclose(alpha, 0.8 / LOUD[time - 1], rtol=1e-12)


def test_zero_noise_is_the_twin_with_penalties_and_noise_as_listed(nodes, simulated):
    shards = simulated(agents=5)
    nodes = partial(nodes, counts=shards.counts)
    for name in ("pvp-mr-admm", "private-mr-admm"):
        recipe = ALGORITHMS[name].tuned(rho=rule(THETAS), noise_schedule=rule(LOUD, SequenceNoise))
        twin = ALGORITHMS[recipe.twin].tuned(rho=rule(THETAS))
        silent, quiet = (r.plan(nodes(rounds=6), Multiplier(0.0)) for r in (recipe, twin))
        for mine, theirs in zip(walk(silent, shards)[0], walk(quiet, shards)[0], strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert isinstance(silent.events(3)[2], NonPrivateDpEvent)


@pytest.mark.parametrize("name", ["dp-admm", "pvp-mr-admm"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_an_audit_finds_what_varied_noise_leaks_and_no_more(name, epsilon):
    recipe = ALGORITHMS[name].tuned(noise_schedule=GeometricNoise(0.7))
    found = audit(recipe, epsilon, 1e-5, transcripts=5_000, seed=1)
    assert 0.6 <= found.ratio <= 1.0
    # Were each time accounted as loud as the first, the claim would be smaller, and refuted.
    assert audit(recipe, epsilon, 1e-5, claimed=0.4 * epsilon, transcripts=5_000, seed=1).violated


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_lists_that_do_not_fit_are_refused(nodes):
    for table, said in (
        (THETAS[::-1], "a penalty falls from one cycle to the next"),
        (THETAS[:, :3], "3 numbers a round, and 5 agents"),
        (0.0 * THETAS, "numbers = 0.0 must be"),
    ):
        with pytest.raises(InputError, match=said):
            ALGORITHMS["mr-admm"].tuned(rho=rule(table)).plan(nodes(), Multiplier(0.0))
    with pytest.raises(InputError, match="5 numbers in all make no whole rounds of 3"):
        SequenceNoise(3, (1.0,) * 5)
    for noise in (SequenceNoise(4, (1.0,) * 8), GeometricNoise((1.0, 1.1))):
        with pytest.raises(InputError, match="and 5 agents: give one, or one for each"):
            ALGORITHMS["pvp-graph"].tuned(noise_schedule=noise).plan(nodes(), Multiplier(1.0))
    with pytest.raises(InputError, match="'sampled-gradient' has the same noise in all rounds"):
        ALGORITHMS["ps-admm"].tuned(noise_schedule=GeometricNoise(0.9)).plan(
            nodes(relation=Relation.ZERO_OUT), TotalBudget((BUDGET,))
        )
    with pytest.raises(InputError, match="the papers' noise is the same in all rounds"):
        ALGORITHMS["dp-admm"].tuned(noise_schedule=GeometricNoise(0.9)).plan(nodes(), PaperNoise(BUDGET))
    with pytest.raises(InputError, match="too many to plan"):
        ALGORITHMS["dp-admm"].tuned(noise_schedule=GeometricNoise(0.9)).plan(nodes(rounds=10**9), Multiplier(1.0))


class Endless(NoiseSchedule):
    """A rule of one's own whose numbers are none."""

    name = "endless"
    about = "-"

    def scale(self, setting, time):
        return math.inf


def test_a_rule_of_ones_own_must_keep_to_the_public_range(nodes):
    with pytest.raises(InputError, match="noise schedule 'endless': each number must be"):
        ALGORITHMS["dp-admm"].tuned(noise_schedule=Endless()).plan(nodes(), Multiplier(1.0))


# -- how they are given ------------------------------------------------------------------------------------------------


def test_arrays_lists_and_files_come_to_one_text(tmp_path):
    text = table_text("rho_schedule", THETAS)
    np.testing.assert_array_equal(build("rho schedule", RHO_SCHEDULES, text).rows, THETAS)
    assert table_text("rho_schedule", THETAS.tolist()) == text
    np.savetxt(tmp_path / "theta.csv", THETAS, delimiter=",", fmt="%.17g", header="a line for every cycle")
    np.save(tmp_path / "theta.npy", THETAS)
    for name in ("theta.csv", "theta.npy"):
        assert from_file("rho_schedule", f"@{tmp_path / name}") == text
        spec = tmp_path / "spec.toml"
        spec.write_text(f'[run]\nalgorithm = "mr-admm"\nrho_schedule = "@{name}"\n')
        assert read(spec).run.rho_schedule == text
    lists = tmp_path / "lists.toml"
    lists.write_text(f"[run]\nrho_schedule = {THETAS.tolist()}\nnoise_schedule = [1, 2, 4]\n")
    found = read(lists)
    assert found.run.rho_schedule == text
    assert build("noise schedule", NOISE_SCHEDULES, found.run.noise_schedule).rows.tolist() == [[1.0], [2.0], [4.0]]
    kept = tmp_path / "kept.toml"
    kept.write_text(dumps(found))
    assert read(kept) == found
    assert resolve.recipe(Experiment().changed(algorithm="mr-admm", rho_schedule=THETAS).run).rho == rule(THETAS)


@pytest.mark.parametrize(
    ("content", "said"),
    [("1,2\n3\n", "as many in each row"), ("1,a\n", "cannot be read"), ("# nothing\n", "a table of shape")],
)
def test_files_that_are_no_tables_are_refused(content, said, tmp_path):
    (tmp_path / "bad.csv").write_text(content)
    with pytest.raises(InputError, match=said):
        from_file("noise_schedule", "@bad.csv", tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        from_file("noise_schedule", "@nowhere.csv", tmp_path)
