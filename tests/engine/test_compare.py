"""Recipes side by side."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dpadmm
from dpadmm.datasets import simulate
from dpadmm.datasets.registry import DATASETS, NamedDataset
from dpadmm.engine.compare import arrange, compare
from dpadmm.engine.frontier import Cell
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.spec.declare import AUTO, Experiment

RUN: dict[str, Any] = {"source": "tiny", "rounds": 4, "seed": 3}
TERMS: dict[str, Any] = {**RUN, "agents": (3, 5), "epsilons": (2.0, 0.5), "delta": 1e-5, "repeats": 3}
ONE = {**TERMS, "agents": (3,), "epsilons": (1.0,)}


@pytest.mark.parametrize(
    ("names", "terms"), [(("dp-admm", "pvp", "pvp-graph", "obj-l"), TERMS), (("ps-admm-sgd",), ONE)]
)
def test_a_cell_is_what_train_gives_alone(names: tuple[str, ...], terms: dict[str, Any]) -> None:
    found = compare(algorithms=names, **terms)
    assert found.finished
    assert not found.left_out
    assert len(found.cells) == len(terms["agents"]) * len(terms["epsilons"]) * (len(names) + 1)
    for cell in found.cells:
        on = f"complete:{cell.agents}" if cell.algorithm == "pvp-graph" else None
        alone = dpadmm.train(
            **RUN, agents=cell.agents, algorithm=cell.algorithm, epsilon=cell.epsilon, delta=1e-5, repeats=3,
            relation="zero-out", topology=on,
        )  # fmt: skip
        errors = alone.history.last("test_error")
        assert cell.mean == errors.mean()
        assert cell.standard_error == pytest.approx(np.std(errors, ddof=1) / math.sqrt(3), rel=1e-12)
        assert alone.guarantee is not None
        assert cell.epsilon_spent == alone.guarantee.epsilon
        assert (cell.recipe, cell.rounds, cell.repeats, cell.topology) == (cell.algorithm, 4, 3, on)


def test_nothing_costs_more_than_it_may() -> None:
    found = compare(**ONE)
    names = {cell.algorithm for cell in found.cells}
    assert {"dpsgd", "ps-admm", "private-mr-admm", "dvp"} <= names
    for cell in found.cells:
        assert cell.epsilon is not None
        assert cell.epsilon_spent is not None
        assert 0.9 * cell.epsilon <= cell.epsilon_spent <= cell.epsilon
    private = {name for name, recipe in ALGORITHMS.items() if recipe.private}
    assert names | {each.algorithm for each in found.left_out} == private | {AUTO}


def test_the_same_seed_gives_the_same_table() -> None:
    one, again, other = (compare(algorithms="dp-admm,pvp", **{**TERMS, "seed": seed}) for seed in (3, 3, 4))
    assert one == again
    assert one.cells != other.cells


def test_one_line_without_privacy_for_each_number_of_agents() -> None:
    found = compare(algorithms="dp-admm", **TERMS)
    assert [cell.agents for cell in found.non_private] == [3, 5]
    for cell in found.non_private:
        assert (cell.algorithm, cell.repeats, cell.epsilon, cell.epsilon_spent) == ("optimum", 1, None, None)
        assert cell.standard_error is None
        # ADMM without noise comes to it, given rounds enough.
        near = dpadmm.train(**{**RUN, "rounds": 300}, agents=cell.agents, algorithm="admm", rho=0.01).test_error
        assert cell.mean == pytest.approx(near, abs=0.01)


def test_cells_are_in_order_whatever_came_first() -> None:
    seen: list[tuple[int, int, int]] = []
    found = compare(
        algorithms="pvp,dp-admm",
        progress=lambda by_now, done, total: seen.append((len(by_now.cells), done, total)),
        **TERMS,
    )
    assert found.algorithms == ("pvp", "dp-admm", "dpsgd")
    places = [(cell.agents, found.algorithms.index(cell.algorithm), cell.epsilon) for cell in found.cells]
    assert places == sorted(places)
    assert [done for _, done, _ in seen] == list(range(1, 15))
    assert {total for *_, total in seen} == {14}
    assert [cells for cells, *_ in seen] == [0, 0, *range(1, 13)]
    jobs = arrange(algorithms="pvp,dp-admm", **TERMS).jobs
    assert [job.algorithm for job in jobs] == ["optimum"] * 2 + (["dp-admm"] * 2 + ["dpsgd"] * 2) * 2 + ["pvp"] * 4


def test_what_is_known_by_now_is_not_finished() -> None:
    steps = list(arrange(algorithms="dp-admm", **TERMS))
    assert [step.finished for step in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1] == compare(algorithms="dp-admm", **TERMS)


def test_what_refuses_is_left_out_with_its_reason() -> None:
    found = compare(algorithms="ps-admm,fdp-admm,private-components,pvp", relation="replace", **ONE)
    reasons = {each.algorithm: each.reason for each in found.left_out}
    assert "zero-out" in reasons["ps-admm"]
    assert "is for regression targets" in reasons["fdp-admm"]
    assert "is for regression targets" in reasons["private-components"]
    assert [cell.algorithm for cell in found.cells] == ["pvp", "dpsgd"]


def test_a_claim_that_is_not_true_is_left_out() -> None:
    found = compare(algorithms="ps-admm-paper", relation="replace", updates=1, **{**ONE, "rounds": 1})
    reasons = {each.algorithm: each.reason for each in found.left_out}
    assert reasons["ps-admm-paper"].startswith("its true total is epsilon ")
    assert float(reasons["ps-admm-paper"].split()[5].rstrip(",")) > 1.0
    assert reasons["dpsgd"] == "algorithm 'dpsgd' has no updates to set."
    assert not found.cells


def test_solvers_that_fail_are_left_out_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(experiment: Experiment) -> Any:
        if experiment.run.algorithm == "pvp":
            raise ConvergenceError("short of\nits tolerance.")
        return dpadmm.train(experiment)

    monkeypatch.setattr("dpadmm.engine.compare.train", stuck)
    found = compare(algorithms="pvp,dp-admm", **{**TERMS, "agents": (3,)})
    assert [(each.algorithm, each.epsilon, each.reason) for each in found.left_out] == [
        ("pvp", 0.5, "short of its tolerance."),
        ("pvp", 2.0, "short of its tolerance."),
    ]
    assert found.ranked(3)[-1:] != ("pvp",)
    assert len(found.cells) == 4


def test_a_run_that_diverges_has_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverged(experiment: Experiment) -> Any:
        result = dpadmm.train(experiment)
        result.history.last("test_error")[:] = np.nan
        return result

    monkeypatch.setattr("dpadmm.engine.compare.train", diverged)
    found = compare(algorithms="dpsgd", **TERMS)
    assert not found.cells
    assert {each.reason for each in found.left_out} == {"its error is not finite: the run has diverged."}


def test_auto_is_one_more_name(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Experiment] = []

    def chosen(experiment: Experiment) -> Any:
        if experiment.run.algorithm == AUTO:
            given.append(experiment)
            experiment = experiment.changed(algorithm="dp-admm", rounds=2)
        return dpadmm.train(experiment)

    monkeypatch.setattr("dpadmm.engine.compare.train", chosen)
    found = compare(algorithms="auto", **{**TERMS, "agents": (3,)})
    assert [(cell.algorithm, cell.recipe, cell.rounds) for cell in found.cells if cell.algorithm == AUTO] == [
        (AUTO, "dp-admm", 2)
    ] * 2
    # It has a loss of its own, unless one is asked for.
    assert [(each.run.epsilon, each.run.delta, each.run.loss) for each in given] == [
        (0.5, 1e-5, None),
        (2.0, 1e-5, None),
    ]
    jobs = arrange(algorithms="auto", loss="smoothed-hinge", **TERMS).jobs
    assert {job.experiment.run.loss for job in jobs} == {"smoothed-hinge"}


@pytest.mark.parametrize(
    ("source", "loss", "measure"),
    [("tiny", "logistic", "test error"), ("tiny-multiclass", "softmax", "test error"),
     ("tiny-regression", "squared", "RMSE")],
)  # fmt: skip
def test_the_data_say_which_loss_it_is(source: str, loss: str, measure: str) -> None:
    found = compare(algorithms="dp-admm,dvp,fdp-admm,private-components", **{**ONE, "source": source})
    assert (found.loss, found.measure) == (loss, measure)
    left = {each.algorithm: each.reason for each in found.left_out}
    assert ("dvp" in left) == (loss != "logistic")  # it needs a loss that bends smoothly, of one margin
    assert "private-components" in left
    assert ("fdp-admm" in left) == (measure == "test error")
    given = dpadmm.train(
        **{**RUN, "source": source}, agents=3, algorithm="dp-admm", loss=loss, epsilon=1.0, delta=1e-5, repeats=3,
        relation="zero-out",
    )  # fmt: skip
    assert found.row("dp-admm", 3)[1.0].mean == given.test_error


def test_a_loss_that_is_asked_for() -> None:
    comparison = arrange(**{**TERMS, "source": "tiny-regression", "loss": "smoothed-quantile:0.3"})
    found = comparison.empty
    assert {job.experiment.run.loss for job in comparison.jobs} == {"smoothed-quantile:0.3"}
    assert (found.loss, found.measure) == ("smoothed-quantile:0.3", "check loss")


def test_networks_are_of_the_kind_asked_for() -> None:
    found = compare(algorithms="pvp-graph", topology="random-regular:2", **TERMS)
    assert {(cell.agents, cell.topology) for cell in found.cells if cell.algorithm == "pvp-graph"} == {
        (3, "random-regular:3:2"),
        (5, "random-regular:5:2"),
    }
    assert {cell.topology for cell in found.cells if cell.algorithm == "dpsgd"} == {None}


def test_one_agent_has_no_network() -> None:
    found = compare(algorithms="pvp-graph", **{**ONE, "agents": (1,)})
    assert [(each.algorithm, "at least 2" in each.reason) for each in found.left_out] == [("pvp-graph", True)]


def test_owners_say_themselves_how_many_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = np.array(["north", "south", "east", "west"])[np.arange(200) % 4]

    def owned(seed: int = 0) -> Any:
        return replace(simulate("classification", 200, 4, seed), owners=owners)

    monkeypatch.setitem(DATASETS, "owned", NamedDataset(owned, "for tests"))  # type: ignore[arg-type]
    terms = {**ONE, "source": "owned", "agents": ()}
    found = compare(algorithms="dp-admm,pvp-graph", **terms)
    assert found.agents == (4,)
    assert found.row("pvp-graph", 4)[1.0].topology == "complete:4"
    with pytest.raises(InputError, match="agents 3: the data name 4 owners"):
        arrange(**{**terms, "agents": (3,)})


def test_ranks_and_the_best() -> None:
    def cell(name: str, epsilon: float, mean: float) -> Cell:
        return Cell(name, name, 5, epsilon, epsilon, mean, None, 1, 10, "logistic", None, 0.0)

    empty = replace(arrange(algorithms="dp-admm,pvp,dvp", **TERMS).empty)
    found = empty
    for each in (cell("dp-admm", 0.5, 0.1), cell("dp-admm", 2.0, 0.3), cell("dvp", 0.5, 0.01), cell("pvp", 2.0, 0.2)):
        found = found.plus(each)
    assert found.ranked(5) == ("pvp", "dp-admm", "dvp")
    assert found.ranked(3) == ()
    assert found.best(5, 0.5) == cell("dvp", 0.5, 0.01)
    assert found.best(5, 2.0) == cell("pvp", 2.0, 0.2)
    assert found.best(3, 2.0) is None


def test_warnings_are_told_once() -> None:
    found = compare(algorithms="dp-admm", **{**TERMS, "delta": 0.01})
    assert len(found.warnings) == 2  # one for each number of agents
    assert all("permits giving away whole records" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"algorithms": "dp-adm"}, "did you mean 'dp-admm'"),
        ({"algorithms": ()}, "algorithms: name some"),
        ({"algorithms": ""}, "algorithms: name some"),
        ({"algorithms": "admm"}, "'admm' is not private"),
        ({"epsilons": ()}, "epsilons none"),
        ({"epsilons": (1.0, 0.0)}, "epsilons 1, 0: give total budgets"),
        ({"epsilons": (math.inf,)}, "positive numbers"),
        ({"epsilons": (math.nan,)}, "positive numbers"),
        ({"delta": None}, "delta None: give one"),
        ({"delta": 1.0}, "delta = 1.0 must be 0 or a number from"),
        ({"agents": (3, 1000)}, "agents 1000: must lie between 1 and the number of training records"),
        ({"agents": (0,)}, "agents 0"),
        ({"repeats": 0}, "repeats = 0 must be a whole number"),
        ({"rounds": 0}, "rounds"),
        ({"relation": "delete"}, "unknown relation"),
        ({"loss": "cubic"}, "unknown loss"),
        ({"loss": "squared"}, "is for regression targets"),
        ({"source": "nowhere"}, "unknown data set"),
        ({"topology": "rung"}, "unknown topology"),
        ({"topology": "grid:7"}, "no kind of network that could have 3 nodes"),
        ({"test": 0.0}, "no records are held out"),
        ({"noise_multiplier": 1.0}, "noise_multiplier: a comparison gives every recipe the same total budget"),
        ({"epsilon": 1.0}, "epsilon: a comparison"),
    ],
)
def test_bad_input_costs_nothing(changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.engine.compare.train", lambda *one, **more: pytest.fail("it has begun"))
    with pytest.raises(InputError, match=said):
        compare(**{**TERMS, **changes})
