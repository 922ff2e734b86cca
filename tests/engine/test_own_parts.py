"""Parts of one's own, by value: run, written down by import path, resumed, predicted with and compared."""

import importlib
import sys

import networkx
import numpy as np
import pytest
from own_parts import forget

from dpadmm.engine.compare import compare
from dpadmm.engine.output.model import Model
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.problems.losses import Logistic, SmoothedHinge
from dpadmm.problems.sets import Affine
from dpadmm.spec.part import Part
from dpadmm.spec.toml import read


class Interrupted(Exception):
    pass


def stop_in(round):
    def stop(first, reached, history):
        if reached == round:
            raise Interrupted

    return stop


@pytest.fixture
def own(somebody):
    """One part of every kind."""
    return {
        "algorithm": somebody.recipes.MINE,
        "loss": somebody.losses.MyLoss(0.25),
        "schedule": somebody.others.MySchedule(0.2),
        "penalty": somebody.others.MyPenalty(),
        "set": somebody.others.MySet(0.5),
        "rho_schedule": somebody.others.MyRho(),
    }


WRITTEN = {
    "algorithm": "somebody.recipes:MINE",
    "loss": "somebody.losses:MyLoss:0.25",
    "schedule": "somebody.others:MySchedule:0.2",
    "penalty": "somebody.others:MyPenalty",
    "set": "somebody.others:MySet:0.5",
    "rho_schedule": "somebody.others:MyRho",
}


def test_own_parts_run_as_the_registered_ones_that_they_copy(own, experiment, same):
    """They differ from those in their names only."""
    mine = train(experiment(), **own)
    names = {"loss": "smoothed-hinge:0.25", "schedule": "fixed:0.2", "set": "box:0.5"}
    same(mine, train(experiment(), **names))
    assert mine.plan.algorithm.name == "mine"
    assert mine.guarantee.epsilon <= 2.0
    assert mine.summary()["algorithm"] == WRITTEN["algorithm"]


def test_parts_may_be_named_by_path(own, experiment, same):
    same(train(experiment(), **own), train(experiment().changed(**WRITTEN)))


def test_a_folder_keeps_the_paths(own, experiment, tmp_path):
    train(experiment(), out=tmp_path / "run", **own)
    kept = read(tmp_path / "run" / "spec.toml").run
    assert {name: getattr(kept, name) for name in WRITTEN} == WRITTEN


def test_a_kept_spec_runs_again_where_nothing_is_imported_yet(own, experiment, same, tmp_path):
    first = train(experiment(), out=tmp_path / "run", **own)
    forget()
    again = train(read(tmp_path / "run" / "spec.toml"))
    assert "somebody.losses" in sys.modules
    same(first, again)


@pytest.mark.parametrize("fresh", [False, True], ids=["same process", "imported anew"])
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(own, experiment, same, tmp_path, fresh):
    spec, out = experiment(), tmp_path / "run"
    whole = train(spec, **own)
    with pytest.raises(Interrupted):
        train(spec, out=out, checkpoint_every=3, progress=stop_in(8), **own)
    assert list(out.glob("checkpoint-*.npz"))
    if fresh:
        forget()
        resumed = train(read(out / "spec.toml"), out=out, resume=True)
    else:
        resumed = train(spec, out=out, resume=True, **own)
    same(whole, resumed)


def test_another_part_does_not_resume_the_run(own, somebody, experiment, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Interrupted):
        train(experiment(), out=out, checkpoint_every=3, progress=stop_in(8), **own)
    with pytest.raises(InputError, match="another spec"):
        train(experiment(), out=out, resume=True, **{**own, "loss": somebody.losses.MyLoss(0.5)})


def test_a_model_predicts_with_its_own_loss(own, experiment, tmp_path):
    result = train(experiment(), out=tmp_path / "run", **own)
    forget()
    model = Model.load(tmp_path / "run")
    assert model.description["loss"] == WRITTEN["loss"]
    assert type(model.loss) is importlib.import_module("somebody.losses").MyLoss
    assert model.loss.width == 0.25
    np.testing.assert_array_equal(model.coefficients, result.models[0])


def test_auto_chooses_for_an_own_loss(somebody, experiment, same):
    mine = train(experiment("auto"), loss=somebody.losses.MyLoss(0.25))
    assert "loss somebody.losses:MyLoss:0.25" in " ".join(mine.reasons)
    same(mine, train(experiment("auto"), loss="smoothed-hinge:0.25"))


def test_an_own_loss_goes_with_a_statistic_before_the_rounds(somebody, experiment, same):
    terms = experiment(standardise=0.2)
    same(train(terms, loss=somebody.losses.MyLoss(0.25)), train(terms, loss="smoothed-hinge:0.25"))


def test_the_usual_loss_of_a_recipe_may_be_ones_own(somebody, experiment, same, tmp_path):
    terms = {"algorithm": somebody.recipes.WITH_LOSS}
    result = train(experiment(), out=tmp_path / "run", **terms)
    assert read(tmp_path / "run" / "spec.toml").run.loss == "somebody.losses:MyLoss:0.25"
    same(result, train(experiment(), algorithm=somebody.recipes.MINE, loss="smoothed-hinge:0.25"))


def test_an_own_recipe_runs_on_a_network(somebody, experiment, same):
    terms = experiment("private-mr-admm", rounds=3, topology="ring:5")
    network = networkx.cycle_graph(5)
    same(train(terms), train(terms, algorithm=somebody.recipes.ON_GRAPH, topology=network))


def test_registered_parts_by_value_are_written_as_names(experiment, tmp_path):
    domain = Affine([[1.0, 1.0, 0.0, 0.0]], [0.0])
    train(experiment(), out=tmp_path / "run", loss=SmoothedHinge(0.25), set=domain)
    kept = read(tmp_path / "run" / "spec.toml").run
    assert kept.loss == "smoothed-hinge:0.25"
    assert kept.set == '{"affine": {"rows": [[1.0, 1.0, 0.0, 0.0]], "values": [0.0]}}'


# -- parts without a path ----------------------------------------------------------------------------------------------


class _Local:
    """Makes a class that no path leads to."""

    @staticmethod
    def loss():
        class Nameless(Logistic):
            name = "nameless"

        return Nameless()


def test_a_part_without_a_path_runs(experiment, same):
    result = train(experiment(), loss=_Local.loss())
    same(result, train(experiment(), loss="logistic"))
    assert result.summary()["loss"] == "nameless"


def test_a_part_without_a_path_is_refused_with_a_folder_before_anything_is_computed(experiment, tmp_path, monkeypatch):
    def computed(*arguments):
        raise AssertionError("something was computed")

    monkeypatch.setattr("dpadmm.engine.run.prepare", computed)
    with pytest.raises(InputError, match=r"cannot be written down: no import path finds it again.*Nameless.*\(out\)"):
        train(experiment(), loss=_Local.loss(), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_part_that_is_gone_is_told_of(own, experiment, tmp_path, monkeypatch):
    train(experiment(), out=tmp_path / "run", **own)
    forget()
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if "installed" not in entry])
    importlib.invalidate_caches()
    with pytest.raises(InputError, match=r"leads nowhere .*No module named 'somebody'.*Install the package"):
        train(read(tmp_path / "run" / "spec.toml"))


# -- compare -----------------------------------------------------------------------------------------------------------

COMPARED = {"source": "tiny", "agents": (5,), "epsilons": (2.0,), "delta": 1e-5, "repeats": 2, "rounds": 4, "seed": 3}


def test_own_recipes_and_losses_are_compared(somebody):
    loss = somebody.losses.MyLoss(0.25)
    found = compare(algorithms=["dp-admm", somebody.recipes.MINE], loss=loss, **COMPARED)
    assert found.left_out == ()
    assert found.algorithms == ("dp-admm", "somebody.recipes:MINE", "dpsgd")
    assert found.loss == "somebody.losses:MyLoss:0.25"
    named = compare(algorithms="dp-admm,somebody.recipes:MINE", loss="somebody.losses:MyLoss:0.25", **COMPARED)
    assert [(cell.algorithm, cell.mean) for cell in named.cells] == [(c.algorithm, c.mean) for c in found.cells]


def test_a_recipe_with_a_loss_of_its_own_is_compared_on_the_common_one(somebody):
    found = compare(algorithms=[somebody.recipes.WITH_LOSS], **COMPARED)
    assert found.left_out == ()
    assert {cell.loss for cell in found.cells} == {"logistic"}


def test_recipes_on_graphs_of_ones_own_get_a_network(somebody):
    found = compare(algorithms=[somebody.recipes.ON_GRAPH], topology="ring", **COMPARED)
    assert {cell.topology for cell in found.cells if cell.algorithm != "dpsgd"} == {"ring:5"}


def test_two_recipes_of_one_name_are_refused(somebody):
    from dataclasses import replace

    others = [replace(somebody.recipes.MINE, base_rho=rho) for rho in (0.2, 0.3)]
    with pytest.raises(InputError, match="two recipes have the name 'mine'"):
        compare(algorithms=others, **COMPARED)
    with pytest.raises(InputError, match="two recipes have the name 'dp-admm'"):
        compare(algorithms=["dp-admm", replace(others[0], name="dp-admm")], **COMPARED)


def test_a_recipe_of_ones_own_that_is_not_private_is_refused(somebody):
    with pytest.raises(InputError, match=r"somebody\.recipes:PLAIN' is not private"):
        compare(algorithms=[somebody.recipes.PLAIN], **COMPARED)


def test_a_part_that_was_wrapped_already_is_taken_as_it_is(somebody, experiment, same):
    part = Part(somebody.losses.NARROW, "somebody.losses:NARROW")
    same(train(experiment().changed(loss=part)), train(experiment(), loss=somebody.losses.NARROW))
