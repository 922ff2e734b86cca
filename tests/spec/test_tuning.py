"""Mini-batches and inner steps chosen for the least noise: from public facts, and within what was left open."""

import math

import numpy as np
import pytest

from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.spec import resolve
from dpadmm.spec import tuning as module
from dpadmm.spec.declare import RunSpec
from dpadmm.spec.toml import read

COUNTS = np.full(3, 400)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """A small grid: an account takes a second."""
    monkeypatch.setattr(module, "BATCHES", (0.05, 0.4))
    monkeypatch.setattr(module, "UPDATES", (2, 20))


def choose(run):
    """What is chosen for three owners and five columns, as a spec, and all that was looked at."""
    chosen, table = module.choose(resolve.resolved(run), COUNTS, 5, 2)
    assert chosen.recipe == resolve.recipe(chosen.run)
    return chosen.run, table


def spec(algorithm="ps-admm-sgd", **changes):
    given = {"epsilon": 1.0, "delta": 1e-4, "relation": "zero-out", "rounds": 10}
    return RunSpec(algorithm=algorithm, **(given | changes))


@pytest.mark.parametrize("algorithm", ["ps-admm", "ps-admm-sgd"])
def test_every_pair_is_looked_at_and_says_what_its_plan_says(algorithm):
    run, table = choose(spec(algorithm))
    assert [(c.batch, c.updates) for c in table] == [(0.05, 2), (0.05, 20), (0.4, 2), (0.4, 20)]
    for choice in table:
        plan = resolve.plan(spec(algorithm, batch=choice.batch, updates=choice.updates), COUNTS, 5, 2)
        steps, radius = 10 * choice.updates, 100.0
        assert choice.sigma == pytest.approx(plan.level.sigma[0])  # a record's longest gradient is 1, and weights 1/m
        variance = 5 * plan.level.sigma[0] ** 2
        if algorithm == "ps-admm-sgd":
            of = 2 ** (10 - math.frexp(choice.batch)[1])  # chances are whole numbers of ten binary digits over this
            drawn = round(choice.batch * of) / of
            variance += (1.0 - drawn) / (400 * drawn)
        assert choice.noise == pytest.approx(radius * np.sqrt(variance / steps))
        assert choice.way == pytest.approx(radius**2 * (0.25 + 0.1) / (2 * steps))
    chosen = [choice for choice in table if choice.chosen]
    assert [(run.batch, run.updates)] == [(choice.batch, choice.updates) for choice in chosen]
    least = min(choice.error for choice in table)
    assert chosen[0].error <= 1.02 * least
    assert all(c.records >= chosen[0].records for c in table if c.error <= 1.02 * least)


def test_records_read_in_a_round_are_counted():
    _, plain = choose(spec("ps-admm-sgd", batch=0.05))
    _, anchored = choose(spec("ps-admm", batch=0.05))
    assert [choice.records for choice in plain] == [2 * 60, 20 * 60]
    assert [choice.records for choice in anchored] == [1200 + 60, 1200 + 19 * 60]


def test_of_choices_as_good_the_one_that_reads_least_is_taken(monkeypatch):
    monkeypatch.setattr(module, "AS_GOOD", 1e9)
    run, _ = choose(spec())
    assert (run.batch, run.updates) == (0.05, 2)


def test_what_is_given_is_kept():
    run, table = choose(spec(batch=40.0))
    assert {choice.batch for choice in table} == {40.0}
    assert run.batch == 40.0
    run, table = choose(spec(updates=7))
    assert {choice.updates for choice in table} == {7}
    assert run.updates == 7


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithm": "dp-admm"}, "no mini-batches"),
        ({"algorithm": "ps-admm-full"}, "no mini-batches"),
        ({"algorithm": "ps-admm-paper", "relation": "replace"}, "no mini-batches"),
        ({"algorithm": "sgd-admm", "epsilon": None, "delta": None}, "needs a total budget"),
        ({"epsilon": None, "noise_multiplier": 3.0}, "needs a total budget"),
        ({"paper_noise": True}, "needs a total budget"),
    ],
    ids=str,
)
def test_there_must_be_something_to_choose_and_a_budget_to_choose_for(changes, said):
    with pytest.raises(InputError, match=said):
        choose(spec(**changes))


def test_a_run_says_what_was_chosen_and_writes_it_down(experiment, same, tmp_path):
    given = experiment("ps-admm-sgd", rounds=3)
    chosen = train(given, tune_batches=True, out=tmp_path / "run")
    assert len(chosen.choices) == 4
    assert sum(choice["chosen"] for choice in chosen.summary()["choices"]) == 1
    kept = read(tmp_path / "run" / "spec.toml").run
    assert (kept.batch, kept.updates) == (chosen.experiment.run.batch, chosen.experiment.run.updates)
    assert kept.batch in (0.05, 0.4)
    assert chosen.guarantee.epsilon <= 2.0
    plain = train(given.changed(batch=kept.batch, updates=kept.updates))
    assert plain.choices == ()
    same(chosen, plain)
