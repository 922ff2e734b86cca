"""`auto` chooses by public facts alone, keeps what is named, stays within the budget, and says why."""

from dataclasses import fields, replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpadmm.datasets import simulate
from dpadmm.datasets.registry import DATASETS, NamedDataset
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.spec import resolve, toml
from dpadmm.spec.auto import Facts, choose
from dpadmm.spec.declare import Experiment, RunSpec
from dpadmm.spec.toml import loads

DELTA = 1e-5
KINDS = {"tiny": "capped-logistic", "tiny-multiclass": "capped-softmax", "tiny-regression": "squared:0.1"}


@pytest.fixture
def asked():
    """asked(**changes): five agents, within (4, 1e-5); what is None is left out."""

    def make(**changes):
        usual = {"source": "tiny", "agents": 5, "epsilon": 4.0, "delta": DELTA, "test": 0.25, "seed": 7}
        given = {name: value for name, value in (usual | changes).items() if value is not None}
        return Experiment().changed(algorithm="auto", **given)

    return make


def quick(**changes):
    """Few rounds, where only what happens around them matters."""
    return {"rounds": 6} | changes


# What it looks at


def facts_of(classes=2, counts=(40, 40), width=5, plain=True):
    return Facts(np.array(counts), width, classes, plain)


def test_it_is_told_nothing_but_facts_that_are_public():
    assert {field.name for field in fields(Facts)} == {"counts", "width", "classes", "plain"}


@pytest.mark.parametrize("source", KINDS)
def test_other_records_of_the_same_counts_lead_to_the_same_spec(source, asked, monkeypatch):
    spec = asked(source=source)
    first = prepare(spec)
    data = DATASETS[source].load()
    shuffled = np.random.default_rng(0).permutation(len(data.targets))
    others = [
        replace(data, targets=data.targets[shuffled]),
        replace(data, features=data.features[::-1]),
        replace(data, features=np.zeros_like(data.features)),
        replace(data, features=1e3 * np.abs(data.features)),
        replace(data, targets=np.zeros_like(data.targets)),
    ]
    for other in others:
        monkeypatch.setitem(DATASETS, source, NamedDataset(lambda seed=0, other=other: other, "for tests"))
        found = prepare(spec)
        assert found.experiment == first.experiment
        assert found.reasons == first.reasons


def test_the_same_facts_are_settled_in_the_same_way():
    run = RunSpec("auto", epsilon=1.0, delta=DELTA)
    one, other = (choose(run, facts_of()) for _ in range(2))
    assert one == other
    more = choose(run, facts_of(counts=(4000, 4000)))
    assert more[0].algorithm == one[0].algorithm
    assert more[1] != one[1]  # the noise is another, and said so


def test_targets_decide_the_loss_and_nothing_else_does(asked):
    for source, loss in KINDS.items():
        assert resolve.loss_text(prepare(asked(source=source)).experiment.run).split(":")[0] == loss.split(":")[0]


# What it keeps

NAMED = {
    "rounds": 17,
    "loss": "smoothed-hinge",
    "momentum": 0.35,
    "schedule": "fixed:0.7",
    "standardise": 0.33,
    "intercept": False,
    "penalty": "l1",
    "strength": 0.02,
    "norm_bound": 0.8,
    "relation": "zero-out",
    "weighting": "records",
    "mechanism": "gamma-norm",
    "set": "box:2.0",
    "components": "2",
    "evaluation_epsilon": 0.5,
}


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_is_kept(name, asked):
    run = prepare(asked(**{name: NAMED[name]})).experiment.run
    assert getattr(run, name) == NAMED[name]
    assert run.algorithm in ALGORITHMS


def test_no_momentum_is_a_momentum_that_is_named(asked):
    assert prepare(asked(momentum=0.0)).experiment.run.momentum == 0.0


def test_all_of_it_named_is_the_spec_as_it_was_but_for_the_recipe(asked):
    named = {name: NAMED[name] for name in ("rounds", "loss", "momentum", "schedule", "standardise", "intercept")}
    spec = asked(**named)
    assert prepare(spec).experiment == spec.changed(algorithm=prepare(spec).experiment.run.algorithm)


@pytest.mark.parametrize(
    "changes",
    [{"set": "box:2.0"}, {"components": "2"}, {"evaluation_epsilon": 0.5}],
    ids=lambda changes: next(iter(changes)),
)
def test_rows_are_not_standardised_where_they_cannot_be(changes, asked):
    assert prepare(asked(**changes)).experiment.run.standardise is None


def test_sparse_rows_stay_sparse(asked, monkeypatch):
    data = simulate("classification", 200, 4, 0)
    sparse = replace(data, features=csr_array(data.features))
    monkeypatch.setitem(DATASETS, "sparse", NamedDataset(lambda seed=0: sparse, "for tests"))
    result = train(asked(source="sparse", **quick()))
    assert result.experiment.run.standardise is None
    assert result.guarantee.epsilon <= 4.0


def test_loud_noise_leaves_rows_as_they_are(asked):
    """At some budget their means and squares would be noise; from some other on they are worth their share."""
    shares = [prepare(asked(epsilon=epsilon)).experiment.run.standardise for epsilon in (1e-4, 1e4)]
    assert shares[0] is None
    assert 0.0 < shares[1] < 1.0


ON_A_GRAPH = {"rho": 0.7, "dual_rho": 0.2, "tolerance": 1e-6, "rho_schedule": "growing:0.3:0.1:2", "rounds": 3}


@pytest.mark.parametrize("name", ON_A_GRAPH)
def test_what_is_named_is_kept_on_a_graph_as_well(name, asked):
    run = prepare(asked(topology="ring:5", **{name: ON_A_GRAPH[name]})).experiment.run
    assert getattr(run, name) == ON_A_GRAPH[name]
    assert ALGORITHMS[run.algorithm].consensus.decentralised


def test_levels_ask_for_quantiles(asked):
    result = train(asked(source="tiny-regression", tau=(0.2, 0.8), **quick()))
    assert result.plan.setting.problem.loss.levels == (0.2, 0.8)


# The budget

BUDGETS = {
    "classes": {},
    "several classes": {"source": "tiny-multiclass"},
    "numbers": {"source": "tiny-regression"},
    "pure": {"delta": None},
    "pure, several classes": {"source": "tiny-multiclass", "delta": None},
    "pure, numbers": {"source": "tiny-regression", "delta": None, "epsilon": 50.0},
    "little": {"epsilon": 0.01},
    "unequal owners": {"split": "dirichlet:1"},
    "one owner": {"agents": 1},
    "a ring": {"topology": "ring:5"},
    "a ring, numbers": {"topology": "ring:5", "source": "tiny-regression"},
    "zero-out": {"relation": "zero-out"},
    "an evaluation": {"evaluation_epsilon": 0.5},
}


@pytest.mark.parametrize("changes", BUDGETS.values(), ids=BUDGETS)
def test_the_budget_is_spent_and_not_exceeded(changes, asked):
    rounds = {} if "topology" in changes else quick()
    spec = asked(**(rounds | changes))
    result = train(spec)
    epsilon, delta = spec.run.epsilon, spec.run.delta or 0.0
    assert 0.9 * epsilon <= result.guarantee.epsilon <= epsilon
    assert result.guarantee.delta == delta
    assert result.guarantee.accountant == ("pure" if delta == 0.0 else result.guarantee.accountant)
    assert result.fully_accounted
    assert np.isfinite(result.models).all()


def test_budgets_of_each_owner_are_kept_by_each(asked):
    epsilons = (0.5, 1.0, 2.0, 4.0, 8.0)
    spec = asked(**quick())
    result = train(replace(spec, run=replace(spec.run, epsilon=None, epsilons=epsilons)))
    for given, spent in zip(epsilons, result.by_agent, strict=True):
        assert 0.999 * given <= spent.epsilon <= given


REFUSED = {
    "a multiplier": ({"epsilon": None, "noise_multiplier": 2.0}, "algorithm 'auto' chooses for a total budget"),
    "a paper's noise": ({"paper_noise": True}, "algorithm 'auto' chooses for a total budget"),
    "a density": ({"epsilon": None, "delta": None, "alpha": (1.0,)}, "algorithm 'auto' chooses for a total budget"),
    "no budget": ({"epsilon": None, "delta": None}, "give a total budget"),
    "a delta alone": ({"epsilon": None}, "give a total budget"),
}


@pytest.mark.parametrize(("changes", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_total_budget_is_refused(changes, message, asked):
    with pytest.raises(InputError, match=message):
        prepare(asked(**changes))


def test_a_loss_for_other_targets_is_refused_as_ever(asked):
    with pytest.raises(InputError, match="loss 'squared' is for regression targets; 'synthetic' has classes"):
        prepare(asked(loss="squared"))


# The spec that it comes to


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source": "tiny-multiclass", "repeats": 2},
        {"source": "tiny-regression", "momentum": 0.3},
        {"delta": None},
        {"topology": "ring:5"},
    ],
    ids=str,
)
def test_its_spec_written_down_and_run_again_gives_the_same_bit_for_bit(changes, asked, same, tmp_path):
    rounds = {} if "topology" in changes else quick()
    first = train(asked(**(rounds | changes)), out=tmp_path / "run")
    text = toml.dumps(first.experiment)
    assert '"auto"' not in text
    assert (tmp_path / "run" / "spec.toml").read_text() == text
    again = loads(text)
    assert again == first.experiment
    second = train(again)
    same(first, second)
    assert first.guarantee == second.guarantee
    assert second.reasons == ()  # nothing was left to choose


class Interrupted(Exception):
    pass


def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(asked, same, tmp_path):
    def stop(first, reached, history):
        if (first, reached) == (0, 8):
            raise Interrupted

    spec = asked(rounds=12)
    whole = train(spec)
    with pytest.raises(Interrupted):
        train(spec, out=tmp_path / "out", checkpoint_every=3, progress=stop)
    same(whole, train(spec, out=tmp_path / "out", resume=True))


def test_reasons_are_told(asked):
    result = train(asked(**quick()))
    reasons = result.summary()["reasons"]
    assert reasons == list(result.reasons)
    told = " ".join(reasons)
    run = result.experiment.run
    for said in (run.algorithm, f"{run.rounds} rounds", resolve.loss_text(run), "5 agent(s)", "standardised"):
        assert said in told
    assert train(asked(**quick()).changed(algorithm="dp-admm")).summary()["reasons"] == []


def test_it_is_better_than_the_papers_at_their_defaults(asked):
    """One sanity check, at a budget where it matters; how much better is said by benchmarks/auto.py."""
    terms = {"source": "synthetic", "agents": 10, "epsilon": 1.0, "repeats": 4, "measure_every": 1000}
    spec = asked(**terms)
    errors = {name: train(spec.changed(algorithm=name)).test_error for name in ("auto", "dp-admm", "dpsgd")}
    assert errors["auto"] < min(errors["dp-admm"], errors["dpsgd"])
