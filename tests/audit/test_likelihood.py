"""The evidence: exact likelihood ratios, and messages that are public."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.perturbations import Free, Output, base
from dpadmm.admm.setting import Multiplier, TotalBudget
from dpadmm.audit.likelihood import BYTES, NOISE, RATIO, _subproblem, evidence, noise_scale, silent
from dpadmm.audit.observed import messages
from dpadmm.audit.scene import Scenario, scene
from dpadmm.audit.transcripts import SideBySide, _cohort, _opened, transcripts
from dpadmm.engine.cohort import SimulationState
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import Budget
from dpadmm.release import perturb
from dpadmm.release.perturb import add_noise, noise_scales
from dpadmm.release.random_bits import SeededRandomness

EXACT = {
    **{name: ALGORITHMS[name] for name in ("dp-admm", "pvp", "dpsgd", "fdp-admm", "obj-g", "out-g", "obj-l", "out-l")},
    **{name: ALGORITHMS[name] for name in ("dvp", "dvp-graph", "m-admm-penalty", "private-r-admm", "private-mr-admm")},
    **{
        name: ALGORITHMS[name]
        for name in ("private-components", "private-covariance", "private-column-moments", "dp-accelerated")
    },
    "dp-accelerated with gamma-norm noise": ALGORITHMS["dp-accelerated"].tuned(mechanism="gamma-norm"),
    "pvp with gamma-norm noise": ALGORITHMS["pvp"].tuned(mechanism="gamma-norm"),
    "dvp with gaussian noise": ALGORITHMS["dvp"].tuned(mechanism="gaussian"),
}
GAUSSIAN = (
    *("dp-admm", "pvp", "dpsgd", "fdp-admm", "obj-g", "out-g", "pvp-graph", "private-components"),
    "dp-accelerated",
)


@pytest.mark.parametrize("stage", [Scenario(), Scenario(rho=0.05, width=3, agents=3)], ids=["worst", "other"])
@pytest.mark.parametrize("recipe", EXACT.values(), ids=EXACT)
def test_a_likelihood_ratio_has_mean_one(recipe, stage):
    """Under the first data set the mean of p(second)/p(first) is one, whatever the mechanism, and the other way round:
    a density that is off by anything misses it."""
    found = transcripts(scene(recipe, Multiplier(3.0, 1e-5), stage), 10_000, seed=3)[..., RATIO].sum(axis=2)
    for side, sign in ((0, 1.0), (1, -1.0)):
        ratios = np.exp(sign * found[side])
        assert abs(ratios.mean() - 1.0) <= 4.5 * ratios.std() / np.sqrt(ratios.size) + 1e-9


@pytest.mark.parametrize("mechanism", ["gamma-norm", "gaussian"])
def test_a_likelihood_ratio_has_mean_one_where_records_bend_the_objective(mechanism):
    """One logistic record and little else: without the Jacobian, or the extra curvature, the ratio is far off."""
    recipe = ALGORITHMS["dvp"].tuned(mechanism=mechanism, extra_curvature=0.5)
    stage = Scenario(loss="logistic", relation="zero-out", rounds=2, records=1, agents=1, rho=0.3, broadcast=(2.0, 1.0))
    found = transcripts(scene(recipe, Multiplier(3.0, 1e-5), stage), 10_000, seed=3)[..., RATIO].sum(axis=2)
    for ratios in (np.exp(found[0]), np.exp(-found[1])):
        assert abs(ratios.mean() - 1.0) <= 4.5 * ratios.std() / np.sqrt(ratios.size)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_worst_gaussian_transcripts_are_two_normals_mu_apart(name):
    """The loss of a whole transcript is N(±mu²/2, mu²) with the mu of the account: the worst case is attained."""
    run = scene(ALGORITHMS[name], TotalBudget((Budget(4.0, 1e-5),)), Scenario())
    mu, count = gaussian.mu(4.0, 1e-5), 20_000
    found = transcripts(run, count, seed=2)[..., RATIO].sum(axis=2)
    for side, sign in zip(found, (-1.0, 1.0), strict=True):
        assert side.mean() == pytest.approx(sign * mu**2 / 2.0, abs=4.5 * mu / np.sqrt(count))
        assert side.var() == pytest.approx(mu**2, rel=4.5 * np.sqrt(2.0 / count))


@pytest.mark.parametrize("name", GAUSSIAN)
def test_the_noise_that_is_needed_is_standard_where_it_was_drawn(name):
    noise = transcripts(scene(ALGORITHMS[name], Multiplier(2.0, 1e-5), Scenario()), 10_000, seed=4)[0, :, :, NOISE]
    assert np.allclose(noise.mean(axis=0), 0.0, atol=0.05)
    assert np.allclose(np.cov(noise, rowvar=False), np.eye(noise.shape[1]), atol=0.06)


def test_rounds_that_read_no_records_say_nothing_unless_they_did():
    """Lemma V.1: an even round's release is a function of the others, to the last bit."""
    recipe = ALGORITHMS["private-r-admm"]
    sound = transcripts(scene(recipe, Multiplier(3.0), Scenario()), 500, seed=1)
    assert np.all(sound[:, :, 1::2, :BYTES] == 0.0)
    assert np.all(sound[:, :, ::2, NOISE] != 0.0)

    class Leaks(Free):
        def release(self, task):
            made, memory = super().release(task)
            return replace(made, value=made.value + 1e-9 * task.subproblem.loss_gradient(made.value)), memory

    broken = replace(recipe, phases=(recipe.phases[0], replace(recipe.phases[1], perturbation=Leaks())))
    leaky = transcripts(scene(broken, Multiplier(3.0), Scenario()), 500, seed=1)
    assert np.all(leaky[0, :, 1, NOISE] * leaky[1, :, 1, NOISE] < 0.0)  # which side it is shows in its sign


@pytest.mark.parametrize("name", ["dp-admm", "pvp", "dvp", "obj-g", "ps-admm-full", "private-mr-admm", "dpsgd"])
def test_a_message_holds_nothing_private(name):
    """What a solver remembers is overwritten before every round; the messages stay the same."""
    run = scene(ALGORITHMS[name], Multiplier(3.0, 1e-5), Scenario())
    victims = np.arange(0, 20 * run.agents, run.agents)
    cohort = _cohort(run, 10, SideBySide(1, run.agents))
    for message in messages(cohort, SimulationState.of(cohort), victims):
        solver = message.phase.solver
        fresh = solver.start(message.before.released)
        assert np.array_equal(message.before.memory.point, fresh.point)
        assert not message.before.memory.private


def test_evidence_is_of_the_release_that_was_made():
    run = scene(ALGORITHMS["dp-admm"], Multiplier(3.0, 1e-5), Scenario())
    cohort = _cohort(run, 5, SideBySide(1, run.agents))
    victims = np.arange(0, 10 * run.agents, run.agents)
    message = next(messages(cohort, SimulationState.of(cohort), victims))
    sides = run.victims(10, 0), run.victims(10, 1)
    moved = replace(message, release=message.release + 1.0)
    assert np.all(evidence(message, sides) != evidence(moved, sides))
    swapped = evidence(message, (sides[1], sides[0]))
    assert np.allclose(swapped[:, RATIO], -evidence(message, sides)[:, RATIO])


def test_transcripts_repeat_from_their_seed_and_differ_from_each_other():
    run = scene(ALGORITHMS["dp-admm"], Multiplier(3.0, 1e-5), Scenario())
    one, again, other = (transcripts(run, 300, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.isin(one[..., RATIO].ravel(), other[..., RATIO].ravel()).any()
    assert np.unique(one[..., RATIO]).size == one[..., RATIO].size


def test_what_a_cheating_server_sends_is_what_is_answered():
    run = scene(ALGORITHMS["dp-admm"], Multiplier(3.0, 1e-5), Scenario(broadcast=(3.0, -1.0)))
    cohort = _cohort(run, 5, SideBySide(1, run.agents))
    message = next(messages(cohort, _opened(run, cohort), np.arange(0, 10 * run.agents, run.agents)))
    assert np.array_equal(message.common, np.tile([3.0, -1.0], (10, 1)))


def test_every_transcript_has_noise_of_its_own(monkeypatch):
    """Also those of another batch, and those of the other data set: mistakes are counted as independent."""
    monkeypatch.setattr("dpadmm.audit.transcripts.TOGETHER", 200)
    found = transcripts(scene(ALGORITHMS["dp-admm"], Multiplier(3.0, 1e-5), Scenario()), 300, seed=1)
    assert np.unique(found[..., RATIO]).size == found[..., RATIO].size
    assert abs(np.corrcoef(*found[..., 0, NOISE])[0, 1]) < 0.25


def test_random_bits_side_by_side_are_nobody_else_s():
    """No two runs, agents or rounds share a word."""
    runs, agents = np.repeat(np.arange(50), 2), np.tile([0, 1], 50)
    words = [SideBySide(7, 2).stream(runs, agents, round, "gradient").words(0, 3) for round in (1, 2)]
    assert np.unique(words).size == 2 * 100 * 3
    alone = SeededRandomness(7).stream(np.array([0]), np.array([0]), 1, "gradient").words(0, 3)
    assert np.array_equal(words[0][:1], alone)


@pytest.mark.parametrize("name", ["dp-admm", "obj-g", "obj-l", "dpsgd", "fdp-admm", "dp-accelerated"])
def test_the_noise_that_either_data_set_needs_is_a_whole_number(name):
    """So the continuous density at a release gives the ratio of the discrete probabilities: their sums cancel."""
    run = scene(ALGORITHMS[name], Multiplier(3.0, 1e-5), Scenario())
    cohort = _cohort(run, 100, SideBySide(1, run.agents))
    for message in messages(cohort, SimulationState.of(cohort), np.arange(0, 200 * run.agents, run.agents)):
        setting = message.plan.local
        gain = message.phase.solver.gain(setting, _subproblem(message, run.victims(200, 0)).kappa[:, 0],
                                         message.plan.eta(message.round))  # fmt: skip
        cell = (gain * setting.weights)[:, None] * setting.query.units(setting.columns, setting.norm_bound)
        for side in (0, 1):
            points = (message.release - silent(message, run.victims(200, side))) / cell
            assert np.abs(points - np.rint(points)).max() < 1e-2
            assert np.abs(points).max() > 2.0**30


@pytest.mark.parametrize("name", ["dp-admm", "obj-l", "pvp", "out-l"])
def test_the_scale_is_the_one_that_was_drawn(name, monkeypatch):
    """In lattice points it is the whole number that the release path has drawn with."""
    drawn = []

    def noted(counts, mechanism, sensitivity, stream):
        drawn.append(noise_scales(mechanism, np.broadcast_to(sensitivity, mechanism.noise_multiplier.shape)))
        return add_noise(counts, mechanism, sensitivity, stream)

    monkeypatch.setattr(perturb, "add_noise", noted)
    monkeypatch.setattr(base, "add_noise", noted)
    run = scene(ALGORITHMS[name], Multiplier(3.0, 1e-5), Scenario(rho=0.05))
    cohort, victims = _cohort(run, 3, SideBySide(1, run.agents)), np.arange(0, 6 * run.agents, run.agents)
    for message in messages(cohort, SimulationState.of(cohort), victims):
        found = noise_scale(message, run.victims(6, 0))
        points = found / (found.min() / drawn[-1][victims].min())  # in lattice points, if a point is worth that
        np.testing.assert_allclose(points[:, 0], drawn[-1][victims], rtol=1e-12)
        claimed = 3.0 * _moved(message, run.victims(6, 0))
        assert np.all(found[:, 0] >= claimed)
        np.testing.assert_allclose(found[:, 0], claimed, rtol=1e-6)


def _moved(message, shards):
    """How far one record moves the answer, without what rounding adds."""
    setting, phase = message.plan.local, message.phase
    kappa, eta = _subproblem(message, shards).kappa[:, 0], message.plan.eta(message.round)
    norm = message.plan.noise_in(message.round).mechanism.norm
    if isinstance(phase.perturbation, Output):
        return phase.perturbation.sensitivity(setting, phase.solver, kappa, eta, norm)
    return phase.solver.gain(setting, kappa, eta) * setting.gradient_sensitivity(norm)


def test_progress_is_told():
    told = []
    run = scene(ALGORITHMS["dp-admm"], Multiplier(3.0, 1e-5), Scenario())
    transcripts(run, 15_000, seed=1, progress=lambda done, total: told.append((done, total)))
    assert told == [(20_000, 30_000), (30_000, 30_000)]
