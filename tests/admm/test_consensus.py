"""The star's duals and means, and the descent's step, are those of the spec."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.consensus import CONSENSUS, Descent, PenalisedStar, Server, Star
from dpadmm.admm.perturbations.batches import UniformCost
from dpadmm.admm.rounds import absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.admm.setting import Multiplier
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.problems.penalties import L1, L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Box

PENALISED = [name for name, recipe in ALGORITHMS.items() if type(recipe.consensus) is PenalisedStar]
STARS = [name for name, recipe in ALGORITHMS.items() if type(recipe.consensus) is Star]


@pytest.fixture(autouse=True)
def split_of_noise(monkeypatch):
    """Of `ps-admm-paper`: a choice of the proof that takes a second to tune, and of which nothing here depends."""
    monkeypatch.setattr(UniformCost, "_best_split", lambda cost, agent, multiplier: 0.03)


def combined(consensus, setting, common, releases, eta):
    """The broadcast after a round, from a server whose mean dual is some number."""
    server = Server(common, np.full_like(common, 0.3), 0.9 * common, 0.5 * common)
    return consensus.combine(setting, server, releases, round=3, eta=eta, rho=0.5, next_rho=0.7).common


def played(name, shards, setting, drawing, rounds=6):
    """(state before, release, broadcast before and after, state after) of each round, driven by hand."""
    recipe = ALGORITHMS[name]
    if name in ("ps-admm", "ps-admm-anchor", "ps-admm-sgd"):
        setting = replace(setting, relation=Relation.ZERO_OUT)
    plan = recipe.plan(setting, Multiplier(2.0 if recipe.private else 0.0))
    state, server = begin(plan), first_state(plan, 1).server
    for k in range(1, rounds + 1):
        rows = np.repeat(server.common, setting.agents, axis=0)
        release, during = solve_and_perturb(plan, state, shards, rows, k, drawing(setting.agents, round=k))
        after = next_server(plan, server, release.value[None], k)
        absorbed = absorb(plan, during, np.repeat(after.common, setting.agents, axis=0), k)
        yield state, release.value, server, after, absorbed
        state, server = absorbed, after


@pytest.mark.parametrize("name", STARS)
def test_duals_sum_to_zero_and_the_server_averages(name, simulated, terms, drawing):
    """F4, for every recipe on the star: sum of duals 0 each round, z the mean of what was released."""
    shards = simulated()
    setting = terms(Problem(penalty=L2(), strength=0.01), shards)
    for before, value, _, server, after in played(name, shards, setting, drawing):
        common = server.common
        size = np.abs(after.dual).max()
        assert size > 1e-3
        assert np.abs(after.dual.sum(axis=0)).max() <= 1e-14 * max(1.0, size)
        np.testing.assert_allclose(common[0], value.mean(axis=0), rtol=1e-15, atol=1e-16)
        # The server's whole step, with the duals it never sees (theory 3.1 step 2).
        whole = value.mean(axis=0) - before.dual.mean(axis=0) / setting.rho
        np.testing.assert_allclose(common[0], whole, atol=1e-12 * max(1.0, np.abs(value).max()))
        np.testing.assert_array_equal(after.dual, before.dual - setting.rho * (value - common))


@pytest.mark.parametrize("name", STARS)
def test_one_agent_has_no_dual(name, simulated, terms, drawing):
    """F4: with n = 1 the dual stays 0, exactly."""
    shards = simulated(agents=1)
    for *_, after in played(name, shards, terms(Problem(), shards), drawing):
        np.testing.assert_array_equal(after.dual, 0.0)


@pytest.mark.parametrize("penalty", [L1(), L2()], ids=["l1", "l2"])
@pytest.mark.parametrize("name", PENALISED)
def test_a_server_with_the_penalty_keeps_the_mean_of_the_agents_duals(name, penalty, simulated, terms, drawing):
    """Which do not sum to zero: in the end they balance the penalty's slope (theory 5.1)."""
    shards, strength = simulated(), 0.05
    setting = terms(Problem(penalty=penalty, strength=strength), shards, rho=0.3)
    for before, value, earlier, server, after in played(name, shards, setting, drawing):
        size = max(1.0, np.abs(value).max())
        np.testing.assert_allclose(earlier.dual[0], before.dual.mean(axis=0), atol=1e-13 * size)
        np.testing.assert_allclose(server.dual[0], after.dual.mean(axis=0), atol=1e-13 * size)
        np.testing.assert_array_equal(after.dual, before.dual - setting.rho * (value - server.common))
        # The optimality of the server's step: strength R'(z) + mean(y) - rho (mean(x) - z) has a zero in it.
        slope = before.dual.mean(axis=0) - setting.rho * (value.mean(axis=0) - server.common[0])
        if penalty.name == "l2":
            np.testing.assert_allclose(slope + strength * server.common[0], 0.0, atol=1e-13 * size)
        else:
            still = server.common[0] == 0.0
            assert (np.abs(slope[still]) <= strength * (1 + 1e-9)).all()
            np.testing.assert_allclose(slope[~still], -strength * np.sign(server.common[0][~still]), atol=1e-12 * size)
    assert np.abs(server.dual).max() > 1e-3


def test_agents_do_not_see_the_penalty_that_is_the_server_s(simulated, terms, drawing):
    shards = simulated()
    first = [
        next(played("gradient-admm", shards, terms(Problem(penalty=L2(), strength=s), shards), drawing))
        for s in (0.0, 0.4)
    ]
    np.testing.assert_array_equal(first[0][1], first[1][1])
    assert (np.abs(first[1][3].common) < np.abs(first[0][3].common)).all()


def test_star_terms(simulated, terms):
    setting = terms(Problem(), simulated(), rho=0.7)
    dual, common = np.random.default_rng(0).standard_normal((2, 4, 3))
    tilt, kappa, centre = Star().terms(setting, setting.rho, dual, common, common)
    np.testing.assert_array_equal(tilt, -dual)
    np.testing.assert_array_equal(kappa, np.full((4, 1), 0.7))
    np.testing.assert_array_equal(centre, common)


@pytest.mark.parametrize("penalty", [L1(), L2()], ids=["l1", "l2"])
def test_descent_step(penalty, terms):
    """Spec 3.5: z - eta (mean of the gradients + strength R'(z)), projected."""
    setting = terms(Problem(penalty=penalty, strength=0.2), [5, 6], dimension=2)
    common, releases = np.array([[1.0, -2.0]]), np.array([[[0.5, 0.1], [0.3, -0.3]]])
    slope = np.array([0.4, -0.1]) + 0.2 * (np.sign(common[0]) if penalty.name == "l1" else common[0])
    expected = common[0] - 0.1 * slope
    eta = np.full(2, 0.1)
    np.testing.assert_allclose(combined(Descent(), setting, common, releases, eta)[0], expected, rtol=1e-14)
    boxed = replace(setting, problem=replace(setting.problem, domain=Box(0.5)))
    np.testing.assert_allclose(
        combined(Descent(), boxed, common, releases, eta)[0], np.clip(expected, -0.5, 0.5), rtol=1e-14
    )


def test_descent_keeps_no_dual_and_releases_gradients(terms):
    dual, released, common = np.random.default_rng(0).standard_normal((3, 2, 3))
    setting = terms(Problem(), [3, 4])
    assert Descent().dual(setting, 0.1, dual, released, common) is dual
    assert not Descent.releases_models
    assert Star.releases_models


@pytest.mark.parametrize("name", CONSENSUS)
def test_runs_side_by_side_do_not_mix(name, terms):
    consensus = CONSENSUS[name]()
    setting = terms(Problem(penalty=L2(), strength=0.2), np.arange(3, 20), dimension=1)
    rng = np.random.default_rng(1)
    common, releases = rng.standard_normal((5, 1)), rng.standard_normal((5, 17, 1))
    eta = np.full(17, 0.1)
    together = combined(consensus, setting, common, releases, eta)
    for run in range(5):
        alone = combined(consensus, setting, common[run : run + 1], releases[run : run + 1], eta)
        np.testing.assert_array_equal(np.split(together, 5)[run], alone)  # a row per run, or per run and node
