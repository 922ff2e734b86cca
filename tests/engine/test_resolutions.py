"""Recipe, problem, noise and plan of a run are made once and passed on."""

from collections import Counter

import pytest

from dpadmm.admm.algorithm import Algorithm
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import run_prepared, train
from dpadmm.spec import resolve


@pytest.fixture
def counted(monkeypatch):
    """counted[kind][recipe]: how often recipe, problem, noise and plan were made, by the name of the recipe."""
    made = {kind: Counter() for kind in ("recipe", "problem", "_noise_request", "plan")}

    def counting(kind, whole):
        def make(run, *more):
            made[kind][str(run.algorithm)] += 1
            return whole(run, *more)

        return make

    for kind in ("recipe", "problem", "_noise_request"):
        monkeypatch.setattr(resolve, kind, counting(kind, getattr(resolve, kind)))
    plan = Algorithm.plan

    def planned(recipe, *public):
        made["plan"][recipe.name] += 1
        return plan(recipe, *public)

    monkeypatch.setattr(Algorithm, "plan", planned)
    return made


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("dp-admm", {}),
        ("dp-admm", {"repeats": 3, "norm_bound": 0.5}),
        ("dp-admm", {"evaluation_epsilon": 0.5}),
        ("admm", {}),
        ("obj-g", {"updates": 2, "schedule": "free-5.3:0.7"}),
        ("private-mr-admm", {"topology": '{"edges": [[0, 1], [1, 2], [2, 3], [3, 4]]}'}),
    ],
    ids=str,
)
def test_everything_is_made_once(counted, experiment, algorithm, changes):
    train(experiment(algorithm, **changes))
    once = Counter({algorithm: 1})
    assert counted == {"recipe": once, "problem": once, "_noise_request": once, "plan": once}


def test_a_folder_needs_nothing_made_again(counted, experiment, tmp_path):
    train(experiment(), out=tmp_path / "run")
    assert counted["recipe"] == counted["problem"] == counted["plan"] == {"dp-admm": 1}


def test_what_is_prepared_is_run_as_it_is(counted, experiment):
    prepared = prepare(experiment())
    before = {kind: Counter(number) for kind, number in counted.items()}
    run_prepared(prepared)
    assert counted == before


STATISTICS = {
    "components": ("private-components", {"components": "2"}),
    "standardise": ("private-column-moments", {"standardise": 0.3}),
}


@pytest.mark.parametrize(("statistic", "changes"), STATISTICS.values(), ids=STATISTICS)
def test_a_statistic_before_the_rounds_is_a_recipe_of_its_own(counted, experiment, statistic, changes):
    """Each of the two recipes that run is resolved once. The budget is shared once the whole run's plan is known, so
    the rest has a plan of its own; where components leave other columns, that is made once more."""
    train(experiment(**changes))
    each = Counter({"dp-admm": 1, statistic: 1})
    assert counted["recipe"] == counted["problem"] == counted["_noise_request"] == each
    assert counted["plan"][statistic] == 1
    assert counted["plan"]["dp-admm"] <= 3


def test_auto_resolves_what_it_has_chosen_once(counted, experiment):
    result = train(experiment("auto"))
    assert result.experiment.run.standardise is not None
    assert counted["recipe"] == {"dp-accelerated": 1, "private-column-moments": 1}


def test_auto_without_a_statistic_resolves_one_recipe(counted, experiment):
    train(experiment("auto", standardise=0.0))
    assert counted["recipe"] == {"dp-accelerated": 1}
    assert counted["plan"] == {"dp-accelerated": 1}


def test_auto_on_a_graph_resolves_one_recipe(counted, experiment):
    train(experiment("auto", topology="ring:5", rounds=3, standardise=0.0))
    assert counted["recipe"] == counted["plan"] == {"pvp-graph": 1}


def test_choosing_mini_batches_resolves_nothing_again(counted, experiment, monkeypatch):
    monkeypatch.setattr("dpadmm.spec.tuning.BATCHES", (0.1, 0.4))
    monkeypatch.setattr("dpadmm.spec.tuning.UPDATES", (2, 5))
    result = train(experiment("ps-admm-sgd", rounds=2), tune_batches=True)
    assert len(result.choices) == 4
    assert counted["recipe"] == counted["problem"] == counted["_noise_request"] == {"ps-admm-sgd": 1}
