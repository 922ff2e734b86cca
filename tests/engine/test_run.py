"""From a spec to a result: repeatable, in any grouping; accounted; and clear about what it will not do."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpadmm._threads import one_thread_pool
from dpadmm.admm.rounds import begin
from dpadmm.engine import run as module
from dpadmm.engine.cohort import RUN, Cohort, SimulationState
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.owner.agent import Agent
from dpadmm.owner.request import Request
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.accounting import best
from dpadmm.privacy.claims import Claim
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.problems.shards import gather
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_one_seed_is_one_result(algorithm, experiment, same):
    spec = experiment(algorithm)
    first = train(spec)
    same(first, train(spec))
    other = train(spec, seed=8)
    assert (first.models != other.models).any()


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "dvp", "dpsgd"])
def test_only_the_noise_differs_between_repeats(algorithm, experiment):
    result = train(experiment(algorithm, repeats=4))
    assert result.models.shape == (4, 4)
    assert len(np.unique(result.models[:, 0])) == 4
    silent = {"noise_multiplier": 0.0}
    quiet = train(experiment(algorithm, repeats=4, **silent))
    assert np.ptp(quiet.models, axis=0).max() == 0.0


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "dp-admm"},
        {"algorithm": "dp-admm", "penalty": "l1"},
        {"algorithm": "pvp"},
        {"algorithm": "pvp", "penalty": "l1"},
        {"algorithm": "dvp"},
        {"algorithm": "dpsgd"},
        {"algorithm": "pvp", "loss": "softmax", "source": "tiny-multiclass"},
    ],
    ids=lambda changes: "-".join(changes.values()),
)
def test_repeats_side_by_side_are_repeats_one_by_one(changes, experiment, same, monkeypatch):
    spec = experiment(repeats=3, **changes)
    together = train(spec)
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 1)
    prepared = prepare(spec)
    assert [list(group) for group in module._groups(prepared)] == [[0], [1], [2]]
    same(together, train(spec))


def test_regression_repeats_side_by_side_are_repeats_one_by_one(experiment, monkeypatch):
    """Models bit for bit; the test error goes through a matrix product whose last bits depend on its shape."""
    spec = experiment(loss="squared", source="tiny-regression", repeats=3)
    together = train(spec)
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 1)
    apart = train(spec)
    np.testing.assert_array_equal(together.models, apart.models)
    for name in together.history.metrics:
        np.testing.assert_allclose(together.history[name], apart.history[name], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp"])
def test_a_run_is_the_same_in_a_larger_experiment(algorithm, experiment):
    few, many = train(experiment(algorithm, repeats=2)), train(experiment(algorithm, repeats=5))
    np.testing.assert_array_equal(few.models, many.models[:2])
    for name in few.history.metrics:
        np.testing.assert_array_equal(few.history[name], many.history[name][:, :2], err_msg=name)


def test_measuring_less_often_changes_no_number(experiment):
    always, rarely = train(experiment()), train(experiment(measure_every=5))
    assert rarely.history.rounds == [5, 10, 12]  # and the last
    np.testing.assert_array_equal(rarely.models, always.models)
    for name in always.history.metrics:
        np.testing.assert_array_equal(rarely.history[name], always.history[name][[4, 9, 11]], err_msg=name)


@pytest.mark.parametrize(("per_round", "true", "claimed"), [(0.1, 0.784, 0.992), (0.2, 1.657, 1.984)])
@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "dpsgd"])
def test_paper_noise_tells_the_exact_total_beside_the_claimed_one(algorithm, per_round, true, claimed, experiment):
    """The table of claims A1: (0.1, 1e-6) and (0.2, 1e-6) over 100 rounds."""
    result = train(experiment(algorithm, paper_noise=True, epsilon=per_round, delta=1e-6, rounds=100))
    assert result.guarantee.epsilon == pytest.approx(true, abs=5e-4)
    assert result.guarantee.accountant == "exact"
    assert result.claimed == pytest.approx(claimed, abs=5e-4)
    assert result.summary()["epsilon"] == result.guarantee.epsilon
    assert result.summary()["claimed_epsilon"] == result.claimed
    assert result.plan.noise[0].mechanism.noise_multiplier[0] == pytest.approx(
        math.sqrt(2 * math.log(1.25e6)) / per_round, rel=1e-12
    )


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "dvp", "dpsgd"])
def test_a_total_budget_is_what_the_result_says_was_spent(algorithm, experiment):
    result = train(experiment(algorithm, epsilon=0.7))
    assert 0.999 * 0.7 < result.guarantee.epsilon <= 0.7
    assert result.guarantee.delta == 1e-5
    assert result.guarantee.relation == "replace"
    assert result.claimed is None
    assert result.fully_accounted
    summary = result.summary()
    # A seeded run adds up like a private one, and protects nobody.
    assert (summary["fully_accounted"], summary["simulated"], summary["private"]) == (True, True, False)
    assert replace(result, simulated=False).private


def test_a_run_without_noise_has_no_guarantee(experiment):
    result = train(experiment("admm"))
    assert result.guarantee is None
    assert not result.fully_accounted
    assert result.summary()["epsilon"] is None
    assert "epsilon" not in result.history
    silent = train(experiment("dp-admm", noise_multiplier=0.0))
    assert math.isinf(silent.guarantee.epsilon)
    assert not silent.fully_accounted
    assert silent.summary()["epsilon"] is None


def test_a_multiplier_needs_the_delta_to_report_at(experiment):
    with pytest.raises(InputError, match="delta at which epsilon"):
        train(experiment("dp-admm", noise_multiplier=2.0))
    assert train(experiment("dp-admm", noise_multiplier=2.0, delta=1e-5)).guarantee.epsilon > 0


def test_a_large_delta_is_warned_of(experiment):
    """150 training records over 5 agents: 30 each, and 1/(10 m) is 0.0033."""
    assert train(experiment(delta=1e-5)).warnings == ()
    (warning,) = train(experiment(delta=0.01)).warnings
    assert "delta 0.01 is above 1/(10 m) = 0.0033" in warning
    assert "m = 30" in warning
    assert train(experiment("admm")).warnings == ()


def test_scaling_by_maxima_of_the_data_is_not_private(experiment):
    result = train(experiment(scaling="max"))
    assert result.guarantee.epsilon <= 2.0
    assert not result.fully_accounted
    assert not replace(result, simulated=False).private
    assert any("not private" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": "squared"}, r"loss 'squared' is for regression targets; 'synthetic' has classes"),
        ({"source": "tiny-regression"}, r"loss 'logistic' is for binary targets; 'synthetic-regression' has numbers"),
        ({"source": "tiny-multiclass"}, r"loss 'logistic' tells two classes apart, the data have 3"),
        ({"agents": 0}, r"agents 0: must lie between 1 and the number of training records, 150"),
        ({"agents": 151}, r"agents 151"),
        ({"repeats": 0}, r"repeats = 0 must be a whole number from 1"),
        ({"measure_every": 0}, r"measure_every"),
        ({"rounds": 0}, r"rounds = 0 must be a whole number from 1"),
        ({"algorithm": "dp-adm"}, r"unknown algorithm 'dp-adm'; did you mean 'dp-admm'"),
        ({"source": "tyny"}, r"unknown data set 'tyny'; did you mean 'tiny'"),
        ({"split": "randm"}, r"unknown split 'randm'"),
        ({"algorithm": "pvp", "set": "box:1"}, r"perturbation 'output' .* set 'box'"),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(changes, said, experiment, tmp_path):
    with pytest.raises(InputError, match=said):
        train(experiment(**changes), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("source", "loss", "dimension"),
    [("tiny", "smoothed-hinge", 4), ("tiny-multiclass", "softmax", 12), ("tiny-regression", "squared", 4)],
)
def test_every_task_trains(source, loss, dimension, experiment):
    result = train(experiment(source=source, loss=loss, intercept=False))
    assert result.models.shape == (1, dimension)
    assert np.isfinite(result.test_error)
    with_intercept = train(experiment(source=source, loss=loss, intercept=True))
    assert with_intercept.models.shape == (1, dimension * 5 // 4)
    assert with_intercept.plan.setting.norm_bound == pytest.approx(math.sqrt(2.0))


def test_progress_is_told_every_measured_round(experiment):
    told = []
    train(
        experiment(measure_every=4),
        progress=lambda first, round, history: told.append((first, round, len(history.rounds))),
    )
    assert told == [(0, 4, 1), (0, 8, 2), (0, 12, 3)]


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["obj-g", "dp-admm"])
def test_a_batch_of_agents_is_batches_of_one(algorithm, experiment):
    """Each agent by itself, over its own records gathered apart, gives the rows of the cohort bit for bit."""
    prepared = prepare(experiment(algorithm, loss="softmax", source="tiny-multiclass", split="dirichlet:0.5"))
    plan, shards, seeded = prepared.plan, prepared.shards, SeededRandomness(3)
    together = Cohort.of(plan, shards, [0], seeded)
    alone = [together.whole.agent(SimulationState.of(together).agents, 0)]
    for i, (first, last) in enumerate(zip(shards.starts, shards.stops, strict=True)):
        own = gather(
            shards.real_rows[first:last],
            shards.targets[first:last],
            np.zeros(last - first, dtype=int),
            norm_bound=shards.norm_bound,
        )
        np.testing.assert_array_equal(own.features, shards.features[first:last])
        rows = plan.take([i])
        agent = Agent(own, None, MemoryLedger(1, rows.setting.relation), seeded, members=[i])
        agent.simulate(RUN, rows, begin(rows), 0)
        alone.append(agent)
    for round in range(1, 5):
        common = np.random.default_rng(round).normal(size=(1, 12))
        with one_thread_pool():
            batch, *single = (agent.answer(Request(RUN, RUN, round, common)).value for agent in alone)
        np.testing.assert_array_equal(batch, np.concatenate(single))


# -- local updates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "delta", "claimed"),
    [
        ("obj-g", 1e-6, Claim("001", 0.2, 1e-6, 36).total),
        ("out-g", 1e-6, Claim("001", 0.2, 1e-6, 36).total),
        ("obj-l", None, 36 * 0.2),
        ("out-l", 1e-6, 36 * 0.2),
    ],
)
def test_paper_noise_counts_every_local_update(algorithm, delta, claimed, experiment):
    """12 rounds of 3: the claim and the truth are both of 36 steps."""
    terms = {"source": "tiny", "agents": 5, "rounds": 12, "epsilon": 0.2, "paper_noise": True, "updates": 3}
    result = train(Experiment().changed(algorithm=algorithm, delta=delta, **terms))
    assert result.claimed == pytest.approx(claimed, rel=1e-12)
    event = result.plan.noise[0].mechanism.events()[0]
    truth = best({event: 36}, delta or 0.0, Relation.REPLACE)
    assert result.guarantee == truth
    assert truth.epsilon > best({event: 12}, delta or 0.0, Relation.REPLACE).epsilon
    one = train(Experiment().changed(algorithm=algorithm, delta=delta, **terms | {"updates": 1}))
    assert one.claimed < result.claimed
    assert one.guarantee.epsilon < result.guarantee.epsilon
    # The noise of a step is the same: the papers do not share a budget out.
    np.testing.assert_array_equal(
        one.plan.noise[0].mechanism.noise_multiplier, result.plan.noise[0].mechanism.noise_multiplier
    )
