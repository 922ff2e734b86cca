"""PS-ADMM: its bound holds, its noise is the audit's, its releases are made of noisy gradients alone (theory 5, B5)."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dpadmm.admm.consensus import Star
from dpadmm.admm.perturbations import Gradient, Output, SampledGradient, base
from dpadmm.admm.perturbations.batches import UniformCost
from dpadmm.admm.schedules import Fixed, Stable
from dpadmm.admm.setting import Multiplier, PaperNoise, Setting, TotalBudget
from dpadmm.admm.solvers import GradientSteps, LocalUpdates, Sgd, Svrg
from dpadmm.errors import InputError, Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import ACCOUNTANTS, best, deltas
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import Relation, VarianceReducedDpEvent, flatten
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.problems.losses import Logistic, SmoothedHinge
from dpadmm.problems.penalties import L2, PENALTIES
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum
from dpadmm.problems.sets import Box
from dpadmm.release.random_bits import SystemRandomness
from dpadmm.release.sums import MarginGradient
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec

ZERO_OUT, REPLACE = Relation.ZERO_OUT, Relation.REPLACE
PROBLEM = Problem(penalty=L2(), strength=0.05)


@pytest.fixture
def split_of_noise(monkeypatch):
    """Of one uniform record: a choice of the proof that takes seconds to tune."""
    monkeypatch.setattr(UniformCost, "_best_split", lambda cost, agent, multiplier: 0.03)


# -- F11: convergence --------------------------------------------------------------------------------------------------

SIZES, RHO, RUNS, D = (20, 40, 30), 0.1, 30, 3


def gaps(name, strength, eta, updates, average, rounds, noise, simulated, terms, played):
    """(runs,) of sum f_i - f*, and of residuals; x* and the noise of each agent from the lemma, not from the plan.

    The penalty is put into f_i, so that the sum is strongly convex as the bounds need it.
    """
    problem, shards = Problem(penalty=L2(), strength=strength), simulated(sizes=SIZES)
    best_point = optimum(problem, shards, D)
    recipe = ALGORITHMS[name].tuned(updates=updates, schedule=Fixed(eta), average=average, batch=0.2)
    recipe = replace(recipe, consensus=Star())
    plan = recipe.plan(terms(problem, shards, recipe, rounds=rounds, rho=RHO), Multiplier(noise))
    state = played(plan, shards, runs=range(RUNS))[-1]
    at_best = problem.objective(shards, np.tile(best_point, (3, 1)))
    gap = problem.objective(shards.tile(RUNS), state.mean_local).reshape(RUNS, 3) - at_best
    apart = np.linalg.norm(state.mean_local.reshape(RUNS, 3, D) - state.shared.mean_model[:, None], axis=2)
    return gap.sum(axis=1), apart.sum(axis=1), best_point @ best_point, noise / np.array(SIZES)


@pytest.mark.parametrize("noise", [0.0, 20.0])
@pytest.mark.parametrize("rounds", [2, 8])
def test_the_plain_mean_stays_below_its_bound(rounds, noise, simulated, terms, played):
    """Spec 5.2: eta <= min(1/v_L, mu_f / (16 v_f²)), S >= 2/(eta mu_f). With tau = 0.1 no more than 100 times below it
    (15 times without noise)."""
    mu_f = 1.0
    v_f = 0.25 + mu_f
    eta = min(1 / (v_f + RHO), mu_f / (16 * v_f**2))
    updates = math.ceil(2 / (eta * mu_f))
    given = mu_f, eta, updates, "plain", rounds, noise
    gap, apart, far, sigma = gaps("ps-admm", *given, simulated, terms, played)
    for tau in (0.0, 0.1, 1.0):
        left = gap + tau * apart
        each = ((mu_f / 2 - 2 * eta * v_f**2) + RHO / 2) * far / rounds + tau**2 / (2 * RHO * rounds)
        bound = float((each + eta * D * sigma**2).sum())
        assert left.mean() + 3 * left.std() / math.sqrt(RUNS) <= bound
        if tau == 0.1:
            assert left.mean() > bound / (100 if noise else 15)
    assert (gap.std() > 1e-4) == (noise > 0)


@pytest.mark.parametrize("noise", [0.0, 20.0])
def test_the_printed_mean_stays_below_the_printed_bound_with_the_factor_it_misses(noise, simulated, terms, played):
    """Theorem 3, where its three conditions hold; the noise term carries the n that the paper left out (claims C3)."""
    mu_f, rounds = 1.0, 2
    v_L = 0.25 + mu_f + RHO
    mu_L = mu_f + RHO
    eta, updates = 0.03, 150
    xi = 4 * eta / (1 - 2 * eta * v_L)
    assert eta <= 1 / (2 * v_L)
    assert eta <= (4 * mu_L - 4 * RHO - 3 * mu_f) / (8 * v_L**2 + 2 * mu_f * v_L)
    kept = 1 - RHO * xi / 2 - mu_f * xi / 4 + 4 * eta**2 * v_L**2 * updates / (1 - 2 * eta * v_L)
    assert kept <= updates * eta * mu_f / 2
    given = mu_f, eta, updates, "over-relaxed", rounds, noise
    gap, apart, far, sigma = gaps("ps-admm", *given, simulated, terms, played)
    left = gap + 0.1 * apart
    each = (mu_f / 4 + RHO / 2) * far / rounds + 0.1**2 / (2 * RHO * rounds)
    bound = float((each + 2 * eta / (1 - 2 * eta * v_L) * D * sigma**2).sum())
    assert left.mean() + 3 * left.std() / math.sqrt(RUNS) <= bound
    assert left.mean() > bound / (100 if noise else 15)


def test_the_bound_can_fail(simulated, terms, played):
    """Twenty times the noise it is told of, one step a round: the test above is not satisfied by anything."""
    gap, _, far, sigma = gaps("ps-admm", 1.0, 0.7, 1, "plain", 2, 100.0, simulated, terms, played)
    wrong = 3 * 0.55 * far / 2 + 0.04 * D * ((sigma / 20) ** 2).sum()
    assert gap.mean() > wrong


@pytest.mark.parametrize("penalty", ["l2", "l1"])
@pytest.mark.parametrize(("name", "rounds", "near"), [("gradient-admm", 250, 1e-6), ("scas-admm", 120, 1e-2)])
def test_without_noise_the_pooled_optimum_is_reached(name, rounds, near, penalty, simulated, terms, played):
    """Variance reduction reaches it too, with steps that are small; plain mini-batches hover."""
    shards = simulated(sizes=(20, 30, 25))
    problem = Problem(Logistic(), PENALTIES[penalty](), 0.05)
    recipe = ALGORITHMS[name]
    if name == "scas-admm":
        recipe = recipe.tuned(batch=0.3, schedule=Stable(8.0))
    state = played(recipe.plan(terms(problem, shards, rounds=rounds), Multiplier(0.0)), shards)[-1]
    best_point = optimum(problem, shards, 3)
    assert np.linalg.norm(best_point) > 0.3
    np.testing.assert_allclose(state.shared.model[0], best_point, atol=near)
    np.testing.assert_allclose(state.agents.released, np.tile(best_point, (3, 1)), atol=3 * near)


# -- claims B5: noise --------------------------------------------------------------------------------------------------

M, K, S = 6838, 50, 100
LOOSE, TIGHT = Budget(0.5, 1e-3), Budget(1.0, 1e-5)


def audited(relation=ZERO_OUT, **changes):
    return replace(Setting(Problem(), np.array([M]), 3, norm_bound=1.0, relation=relation, rounds=K), **changes)


def sigma_of(perturbation, solver, setting, request):
    """The noise on a gradient in units of G, and the plan of it."""
    noise = perturbation.calibrate(setting, solver, request)
    return float((noise.mechanism.noise_multiplier * setting.gradient_sensitivity())[0]), noise


@pytest.mark.parametrize(
    ("solver", "budget", "expected"),
    [
        pytest.param(Svrg(S, batch=64), LOOSE, 0.0512, id="svrg-64-loose"),
        pytest.param(Svrg(S, batch=64), TIGHT, 0.0423, id="svrg-64-tight"),
        pytest.param(Svrg(S, batch=512), LOOSE, 0.0481, id="svrg-512-loose"),
        pytest.param(Svrg(S, batch=1), LOOSE, 0.457, id="svrg-1-loose"),
        pytest.param(Sgd(S, batch=64), LOOSE, 0.050, id="sgd-64-loose"),
        pytest.param(Sgd(S, batch=64), TIGHT, 0.041, id="sgd-64-tight"),
    ],
)
def test_calibrated_noise_is_the_audit_s(solver, budget, expected):
    setting = audited()
    found, noise = sigma_of(SampledGradient(), solver, setting, TotalBudget((budget,)))
    assert found == pytest.approx(expected, rel=0.02)
    spent = best({noise.events[0]: K}, budget.delta, ZERO_OUT).epsilon
    assert 0.999 * budget.epsilon < spent <= budget.epsilon


def test_calibrated_noise_of_a_noisy_anchor_is_the_audit_s():
    setting = audited()
    found, noise = sigma_of(SampledGradient(anchor_share=0.1), Svrg(S, batch=64), setting, TotalBudget((LOOSE,)))
    assert found == pytest.approx(0.0515, rel=0.01)
    anchor = noise.anchor.noise_multiplier[0] * setting.gradient_sensitivity()[0]
    assert anchor == pytest.approx(0.0155, rel=0.05)  # so that mu² has the share where steps cost their mean shift
    assert best({noise.events[0]: K}, 1e-3, ZERO_OUT).epsilon <= 0.5


@pytest.mark.parametrize(("relation", "expected"), [(ZERO_OUT, 0.0477), (REPLACE, 0.0953)], ids=str)
def test_calibrated_noise_of_whole_gradients_is_the_audit_s(relation, expected):
    found, _ = sigma_of(Gradient(), GradientSteps(S), audited(relation), TotalBudget((LOOSE,)))
    assert found == pytest.approx(expected, rel=0.01)


def test_one_uniform_record_needs_half_the_audit_s_noise_by_renyi_and_a_third_less_as_it_is_accounted():
    setting, solver = audited(REPLACE), Svrg(S, batch=1, sampling="uniform")
    found, noise = sigma_of(SampledGradient(), solver, setting, TotalBudget((LOOSE,)))
    assert best({noise.events[0]: K}, 1e-3, REPLACE).epsilon <= 0.5
    assert 0.6 * 1.49 < found < 0.7 * 1.49  # corrections of slopes that keep their sign are half as long
    cost = UniformCost(setting, solver, 1e-3)

    def renyi(sigma):
        level = sigma / float(setting.gradient_sensitivity()[0])
        splits = (0.02, 0.04)
        return min(
            ACCOUNTANTS["rdp"].epsilon(flatten({cost._with(0, level, split): K}), 1e-3, REPLACE) for split in splits
        )

    assert renyi(1.49 * 1.05) < 0.5 < renyi(1.49 * 0.95)


@pytest.mark.parametrize(("claimed", "sigma", "true"), [(0.1, 0.27, 9.65), (0.5, 0.054, 722.6)])
def test_the_printed_noise_buys_far_less_than_it_claims(claimed, sigma, true):
    """c = 1, by the worst of linked shifts for B = 1. With little noise an observer knows in the end whether the record
    was ever drawn."""
    setting = audited()
    found, noise = sigma_of(SampledGradient(), Svrg(S, batch=1), setting, PaperNoise(Budget(claimed, 1e-3)))
    assert found == pytest.approx(sigma, rel=0.01)
    assert found == pytest.approx(math.sqrt(K * S * math.log(1e3)) / (M * claimed), rel=1e-9)
    assert best({noise.events[0]: K}, 1e-3, ZERO_OUT).epsilon == pytest.approx(true, rel=0.01)
    (step,) = (event for event in flatten({noise.events[0]: 1}) if isinstance(event, VarianceReducedDpEvent))
    at_claim = deltas({step: K * S}, np.array([claimed]), ZERO_OUT)[0]
    drawn = 1 - (1 - 1 / M) ** (K * S)
    assert drawn == pytest.approx(0.519, abs=5e-4)
    held = gaussian.delta(claimed, math.sqrt(K * S) / (M * found))  # by the anchor, if it never is
    assert (0.98 if claimed == 0.5 else 0.3) * drawn < at_claim < 1.005 * (drawn + held)


def test_the_printed_noise_is_asked_for_by_its_recipe_alone(split_of_noise):
    counts = np.array([500, 500])
    printed = RunSpec("ps-admm-paper", epsilon=0.5, delta=1e-3, rounds=3, updates=4)
    assert resolve.noise_request(printed) == PaperNoise(Budget(0.5, 1e-3))
    plan = resolve.plan(printed, counts, 4, 2)
    sigma = plan.level.sigma
    np.testing.assert_allclose(sigma, math.sqrt(12 * math.log(1e3)) / (500 * 0.5), rtol=1e-9)
    assert plan.accounts().worst(1e-3).epsilon > 0.5
    sound = RunSpec("ps-admm", epsilon=0.5, delta=1e-3, relation="zero-out")
    assert resolve.noise_request(sound) == TotalBudget((Budget(0.5, 1e-3),))
    with pytest.raises(InputError, match="evaluation_epsilon is a part of a total budget"):
        resolve.noise_request(replace(printed, evaluation_epsilon=0.1))


# -- post-processing ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Watching(MarginGradient):
    """Writes down which sums are asked for: of how many rows of each agent, of which rows, and at which point."""

    calls: list = field(default_factory=list, compare=False, hash=False)

    def total(self, table, x):
        self.calls.append((table.counts.copy(), table.features.copy(), x.copy()))
        return super().total(table, x)


@dataclass(frozen=True)
class Watched(Logistic):
    calls: list = field(default_factory=list, compare=False, hash=False)

    def query(self, classes=2):
        return Watching(self.tag, self.slope_bound, calls=self.calls)

    def _never(self, *given):
        raise AssertionError("records are reached by gradients only")

    gradient = values = hessian = predictions = predict = errors = mistakes = _never


@pytest.mark.parametrize(
    ("name", "whole", "drawn"),
    [("ps-admm", 1, 8), ("ps-admm-anchor", 1, 8), ("ps-admm-sgd", 0, 5), ("ps-admm-full", 5, 0)],
)
def test_a_round_reaches_records_by_gradients_of_what_was_drawn(name, whole, drawn, simulated, terms, played):
    shards, loss = simulated(sizes=(30, 40)), Watched()
    problem = Problem(loss, L2(), 0.05)
    recipe = ALGORITHMS[name].tuned(updates=5)
    plan = recipe.plan(terms(problem, shards, recipe, rounds=3), Multiplier(3.0))
    played(plan, shards)
    everything = [call for call in loss.calls if np.array_equal(call[0], shards.counts)]
    some = [call for call in loss.calls if not np.array_equal(call[0], shards.counts)]
    assert (len(everything), len(some)) == (3 * whole, 3 * drawn)
    known = [{row.tobytes() for row in shards.features[a:b]} for a, b in zip(shards.starts, shards.stops, strict=True)]
    for counts, features, _ in some:
        assert (counts < shards.counts / 2).all()
        for agent, rows in enumerate(np.split(features, [counts[0]])):
            assert all(row.tobytes() in known[agent] for row in rows)
    if whole == 1:  # a mini-batch is asked at the point and at the anchor, which is where the whole gradient was
        anchors = [call[2].tobytes() for call in everything]
        for i, (counts, features, point) in enumerate(some[1::2]):
            assert point.tobytes() == anchors[i // 4]
            other_counts, other_features, other_point = some[2 * i]
            assert counts.tobytes() + features.tobytes() == other_counts.tobytes() + other_features.tobytes()
            assert not np.array_equal(point, other_point)


@pytest.mark.parametrize("name", ["ps-admm", "ps-admm-anchor", "ps-admm-sgd", "ps-admm-full", "ps-admm-paper"])
def test_a_release_is_a_function_of_noisy_gradients_alone(name, simulated, terms, played, split_of_noise, monkeypatch):
    """Other records with the noisy gradients of the first ones: the same releases, bit for bit."""
    shards, others = simulated(sizes=(30, 40)), simulated(sizes=(30, 40), seed=1)
    recipe = ALGORITHMS[name].tuned(updates=4)
    plan = recipe.plan(terms(PROBLEM, shards, recipe, rounds=3), Multiplier(3.0))
    honest, noisy = base.add_noise, []

    def listening(counts, mechanism, sensitivity, stream):
        noisy.append(honest(counts, mechanism, sensitivity, stream))
        assert (noisy[-1] != counts).all()
        return noisy[-1]

    monkeypatch.setattr(base, "add_noise", listening)
    first = [state.agents.released for state in played(plan, shards)]
    assert len(noisy) == 3 * (5 if name == "ps-admm-anchor" else 4)
    monkeypatch.setattr(base, "add_noise", honest)
    theirs = [state.agents.released for state in played(plan, others)]
    replayed = iter(noisy)
    monkeypatch.setattr(base, "add_noise", lambda *_: next(replayed))
    again = [state.agents.released for state in played(plan, others)]
    for mine, repeated, other in zip(first, again, theirs, strict=True):
        np.testing.assert_array_equal(mine, repeated)
        assert (mine != other).any()
    assert next(replayed, None) is None


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Sgd(batch=0), r"'sgd': batch = 0 must be"),
        (lambda: Svrg(batch=-3), r"'svrg': batch = -3 must be"),
        (lambda: Sgd(batch=math.nan), r"batch = nan must be"),
        (lambda: Sgd(batch=math.inf), r"batch = inf must be"),
        (lambda: Sgd(batch=1.5), r"batch 1.5 must be a whole number of records, or a share below 1"),
        (lambda: Svrg(batch=64, sampling="uniform"), r"uniform sampling draws one record, not 64; set batch to 1"),
        (lambda: Svrg(batch=0.05, sampling="uniform"), r"uniform sampling draws one record, not 0.05"),
        (lambda: Svrg(batch=1, sampling="unifrom"), r"unknown sampling 'unifrom'; did you mean 'uniform'"),
        (lambda: GradientSteps(average="plane"), r"unknown average 'plane'; did you mean 'plain'"),
        (lambda: Svrg(reach=0.0), r"reach = 0.0 must be"),
        (lambda: Svrg(reach=math.nan), r"reach = nan must be"),
        (lambda: GradientSteps(updates=0), r"'gradient-steps': updates = 0 must be"),
        (lambda: SampledGradient(anchor_share=1.0), r"anchor_share = 1.0 must be"),
    ],
)
def test_parts_that_make_no_sense_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()


def with_phase(name, **parts):
    recipe = ALGORITHMS[name]
    return replace(recipe, phases=(replace(recipe.phases[0], **parts),))


@dataclass(frozen=True)
class Kinked(Logistic):
    """Its curvature has no bound."""

    def curvature_bound(self, norm_bound):
        return None


UNIFORM = {"batch": 1, "sampling": "uniform"}
REFUSED = {
    "batch over records": (
        ALGORITHMS["ps-admm"].tuned(batch=9),
        {},
        r"batches of 9 records, but agent 1 has 8: .*rate over 1",
    ),
    "hinge": (ALGORITHMS["ps-admm"], {"problem": Problem(Kinked())}, r"'svrg' needs a loss without kinks"),
    "box": (
        ALGORITHMS["ps-admm-paper"],
        {"problem": Problem(domain=Box(1.0)), "relation": REPLACE},
        r"over-relaxed average may leave the set 'box'",
    ),
    "box, averaged": (
        ALGORITHMS["ps-admm-full"].tuned(average="over-relaxed"),
        {"problem": Problem(domain=Box(1.0))},
        r"over-relaxed average may leave the set",
    ),
    "replace": (ALGORITHMS["ps-admm"], {"relation": REPLACE}, r"--relation zero-out"),
    "replace, sgd": (ALGORITHMS["ps-admm-sgd"], {"relation": REPLACE}, r"--relation zero-out"),
    "replace, anchor": (ALGORITHMS["ps-admm-anchor"], {"relation": REPLACE}, r"--relation zero-out"),
    "zero-out": (ALGORITHMS["ps-admm-paper"], {}, r"replace relation only; use --relation replace"),
    "uniform, zero-out": (ALGORITHMS["ps-admm"].tuned(**UNIFORM), {}, r"use --relation replace"),
    "uniform, persons": (
        ALGORITHMS["ps-admm"].tuned(**UNIFORM),
        {"relation": REPLACE, "unit_size": 2},
        r"no lemma for persons with several records",
    ),
    "uniform, anchor": (
        ALGORITHMS["ps-admm-anchor"].tuned(**UNIFORM),
        {"relation": REPLACE},
        r"noisy anchor needs the solver 'svrg' with Poisson",
    ),
    "sgd, anchor": (
        with_phase("ps-admm-sgd", perturbation=SampledGradient(0.3)),
        {},
        r"noisy anchor needs the solver 'svrg' with Poisson",
    ),
    "gradient on svrg": (
        with_phase("ps-admm", perturbation=Gradient()),
        {},
        r"'gradient' has a lemma for whole gradients; solver 'svrg' draws",
    ),
    "gradient on sgd": (with_phase("ps-admm-sgd", perturbation=Gradient()), {}, r"Use 'sampled-gradient' with it"),
    "output on sgd": (
        with_phase("ps-admm-sgd", perturbation=Output()),
        {},
        r"'output' has a lemma for whole gradients; solver 'sgd' draws",
    ),
    "sampled on steps": (
        with_phase("ps-admm-full", perturbation=SampledGradient()),
        {},
        r"is for mini-batches; solver 'gradient-steps' draws none",
    ),
    "sampled on others": (
        with_phase("ps-admm", solver=LocalUpdates()),
        {},
        r"is for mini-batches; solver 'local-updates' draws none",
    ),
    "step": (
        ALGORITHMS["ps-admm"].tuned(schedule=Fixed(3.0)),
        {},
        r"step 3 of agent 0 is outside the stable range; .* plain average it must be at most 2.85714",
    ),
    "step, over-relaxed": (
        ALGORITHMS["ps-admm"].tuned(schedule=Fixed(1.43), average="over-relaxed"),
        {},
        r"over-relaxed average it must be below 1.42857",
    ),
    "stable, over-relaxed": (
        ALGORITHMS["ps-admm-paper"].tuned(schedule=Stable(2.0)),
        {"relation": REPLACE},
        r"over-relaxed average it must be below",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("request_for", [Multiplier(5.0), TotalBudget((Budget(1.0, 1e-5),))], ids=["level", "budget"])
def test_what_has_no_lemma_or_does_not_converge_is_refused_before_round_one(
    case, request_for, terms, simulated, split_of_noise
):
    recipe, changes, said = REFUSED[case]
    setting = terms(PROBLEM, simulated(sizes=(20, 8)), relation=ZERO_OUT)
    if case in ("stable, over-relaxed", "step", "step, over-relaxed") and isinstance(request_for, TotalBudget):
        request_for = PaperNoise(Budget(1.0, 1e-5))  # noise is found before steps are looked at, and takes a search
    with pytest.raises(InputError, match=said):
        recipe.plan(replace(setting, **changes), request_for)


@pytest.mark.parametrize("eta", [2.857, 1.0 / 0.35])
def test_the_largest_stable_steps_are_taken(eta, simulated, terms):
    setting = terms(PROBLEM, simulated(), relation=ZERO_OUT)
    assert ALGORITHMS["ps-admm"].tuned(schedule=Fixed(eta)).plan(setting, Multiplier(5.0)).eta(1)[0] == eta
    half = ALGORITHMS["ps-admm"].tuned(schedule=Fixed(0.499 * eta), average="over-relaxed")
    assert half.plan(setting, Multiplier(5.0)).eta(1)[0] == 0.499 * eta


@pytest.mark.parametrize("name", ["ps-admm", "ps-admm-anchor", "ps-admm-sgd", "ps-admm-full", "ps-admm-paper"])
def test_gaussian_noise_needs_a_delta(name, simulated, terms):
    recipe = ALGORITHMS[name]
    request = (PaperNoise if recipe.as_printed else lambda budget: TotalBudget((budget,)))(Budget(1.0, 0.0))
    with pytest.raises(InputError, match=r"(cannot meet delta = 0|needs a delta above 0)"):
        recipe.plan(terms(PROBLEM, simulated(), recipe), request)


def test_a_loss_without_kinks_is_enough_and_mini_batches_alone_need_not_even_that(simulated, terms):
    kinked = Problem(Kinked(), L2(), 0.05)
    shards = simulated()
    for name in ("ps-admm-sgd", "ps-admm-full"):
        ALGORITHMS[name].check(terms(kinked, shards, relation=ZERO_OUT))
    ALGORITHMS["ps-admm"].check(terms(Problem(SmoothedHinge(0.5)), shards, relation=ZERO_OUT))


# -- an owner ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def owner(simulated, tmp_path):
    """An owner's agent with forty records, the system's randomness and a budget of epsilon 2."""
    shards = simulated(sizes=(40,))
    policy = Policy(dataset="patients", epsilon=2.0, delta=1e-5, relation="zero-out")
    ledger = SqliteLedger.create(tmp_path / "patients.ledger", "patients", "d" * 64, ZERO_OUT)
    return Agent(shards, policy, ledger, SystemRandomness(), members=(0,))


def agreed(algorithm="ps-admm", **changes):
    terms = {"epsilon": 1.5, "delta": 1e-5, "rounds": 2, "updates": 3, "batch": 0.5, "relation": "zero-out"}
    return Agreement(RunSpec(algorithm, **(terms | changes)), (40, 30), 3, 2)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": 31.0}, "rate over 1"),
        ({"batch": 0.0}, "batch = 0.0 must be"),
        ({"batch": -1.0}, "batch = -1.0 must be"),
        ({"batch": math.nan}, "must be a finite number"),
        ({"batch": 1.5}, "whole number of records"),
        ({"sampling": "uniform"}, "draws one record"),
        ({"sampling": "uniform", "batch": 1.0}, "--relation replace"),
        ({"sampling": "no-such"}, "unknown sampling"),
        ({"average": "no-such"}, "unknown average"),
        ({"average": "over-relaxed", "set": "box:1"}, "may leave the set"),
        ({"reach": -1.0}, "reach"),
        ({"relation": "replace"}, "relation 'replace' is not"),
        ({"delta": None}, "cannot meet delta = 0"),
        ({"schedule": "fixed:9"}, "outside the stable range"),
        ({"epsilon": 2.1}, "would come to epsilon 2.1"),
        ({"algorithm": "scas-admm", "epsilon": None, "delta": None}, "'scas-admm' is not allowed"),
    ],
    ids=str,
)
def test_a_refused_run_leaves_the_owner_s_ledger_untouched(changes, reason, owner):
    terms = agreed(**changes)
    before = (owner.ledger.spent(), owner.ledger.committed(), len([*owner.ledger.entries()]))
    with pytest.raises(Refused, match=reason):
        owner.join("run", terms)
    with pytest.raises(Refused, match="was not joined"):
        owner.answer(Request("run", "d" * 64, 1, np.zeros((1, 3))))
    assert (owner.ledger.spent(), owner.ledger.committed(), len([*owner.ledger.entries()])) == before
    assert verify(owner.ledger) == []


@pytest.mark.parametrize("algorithm", ["ps-admm", "ps-admm-anchor", "ps-admm-sgd"])
def test_an_owner_answers_with_the_system_s_randomness_and_its_ledger_says_what_that_cost(algorithm, owner):
    terms = agreed(algorithm)
    owner.join("run", terms)
    plan = terms.plan().take([0])
    for round in (1, 2):
        release = owner.answer(Request("run", terms.digest, round, np.zeros((1, 3))))
        assert release.events == plan.events(round)
        assert np.isfinite(release.value).all()
        assert (release.value != 0).all()
        spent = owner.ledger.spent()
        assert flatten(spent) == flatten({plan.events(1)[0]: round})
    assert best(spent, 1e-5, ZERO_OUT).epsilon == pytest.approx(1.5, rel=1e-3)
    assert best(spent, 1e-5, ZERO_OUT).epsilon <= 1.5
    repeated = owner.answer(Request("run", terms.digest, 2, np.zeros((1, 3))))
    np.testing.assert_array_equal(repeated.value, release.value)
    assert owner.ledger.spent() == spent
    assert verify(owner.ledger) == []
