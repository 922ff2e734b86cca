"""A fit: the model of a simulation, without a look at any record; or of owners whose noise protects."""

import numpy as np
import pytest

from dpadmm.datasets import simulate
from dpadmm.engine.fit import fit, spent
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.problems.losses import Loss
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment

LOUD = 1e8  # an epsilon at which nothing of the noise is seen


@pytest.mark.parametrize("algorithm", ["dp-admm", "dpsgd", "pvp", "private-r-admm", "fdp-admm"])
def test_a_seeded_fit_is_a_simulation_that_nobody_looks_at(algorithm, experiment, monkeypatch):
    given = experiment(algorithm, test=0.0)
    result = train(given)
    for name in ("values", "errors"):
        monkeypatch.setattr(Loss, name, lambda *_: pytest.fail("records were looked at"))
    fitted = fit(prepare(given), secure=False)
    np.testing.assert_array_equal(fitted.model, result.models[0])
    assert fitted.guarantee == result.guarantee
    assert not fitted.secure


@pytest.mark.parametrize(
    ("algorithm", "change"),
    [
        ("dp-admm", {}),
        ("pvp", {}),
        ("obj-g", {}),
        ("dpsgd", {"source": "tiny-multiclass", "loss": "softmax"}),
        ("dpsgd", {"source": "tiny-regression", "loss": "squared:1"}),
        ("private-r-admm", {"topology": "ring:5"}),
        ("dvp-graph", {"topology": "ring:5"}),
    ],
)
def test_at_an_enormous_epsilon_a_secure_fit_is_the_seeded_one(algorithm, change, experiment):
    prepared = prepare(experiment(algorithm, test=0.0, epsilon=LOUD, **change))
    seeded, secure = fit(prepared, secure=False), fit(prepared, secure=True)
    assert secure.secure
    np.testing.assert_allclose(secure.model, seeded.model, rtol=0.02, atol=0.02 * np.abs(seeded.model).max())
    assert secure.guarantees == seeded.guarantees
    for name in ("round", "epsilon"):
        np.testing.assert_array_equal(secure.history[name], seeded.history[name])
    np.testing.assert_allclose(secure.history["length"], seeded.history["length"], rtol=0.02)


@pytest.mark.parametrize("stage", [{"components": "3"}, {"standardise": 0.1, "intercept": True}])
def test_the_release_before_the_rounds_is_made_by_the_same_owners(stage, experiment, monkeypatch):
    prepared = prepare(experiment("dpsgd", test=0.0, epsilon=LOUD, **stage))
    seeded = fit(prepared, secure=False)
    assert seeded.model.size == prepared.shards.width
    np.testing.assert_array_equal(seeded.model, train(prepared.experiment).models[0])
    monkeypatch.setattr(SeededRandomness, "stream", lambda *_: pytest.fail("seeded bits were asked for"))
    secure = fit(prepared, secure=True)
    np.testing.assert_allclose(secure.model, seeded.model, rtol=0.02, atol=0.02 * np.abs(seeded.model).max())
    assert secure.guarantees == seeded.guarantees
    assert secure.guarantee.epsilon <= LOUD


@pytest.mark.parametrize("secure", [True, False])
def test_the_release_before_the_rounds_is_paid_for(secure, experiment):
    plain = fit(prepare(experiment("dpsgd", test=0.0)), secure)
    staged = fit(prepare(experiment("dpsgd", test=0.0, components="3")), secure)
    assert staged.guarantee.epsilon == pytest.approx(plain.guarantee.epsilon, rel=1e-4)
    assert staged.history["epsilon"][0] > plain.history["epsilon"][0]  # a tenth was spent before round one


def test_history_is_of_the_models_that_were_released(experiment):
    prepared = prepare(experiment("dp-admm", test=0.0))
    longer, shorter = (fit(prepare(experiment("dp-admm", test=0.0, rounds=k)), False) for k in (12, 1))
    assert list(longer.history) == ["round", "epsilon", "length", "change", "residual"]
    assert all(len(values) == 12 for values in longer.history.values())
    assert longer.history["length"][-1] == pytest.approx(np.linalg.norm(longer.model))
    assert shorter.history["change"][0] == pytest.approx(np.linalg.norm(shorter.model))  # it begins at zero
    np.testing.assert_allclose(
        longer.history["epsilon"], [prepared.plan.accounts(k).worst(1e-5).epsilon for k in range(1, 13)]
    )
    measured = train(experiment("dp-admm", test=0.0)).history["residual"]
    np.testing.assert_allclose(longer.history["residual"], np.ravel(measured))


def test_where_gradients_are_released_there_is_no_residual(experiment):
    assert "residual" not in fit(prepare(experiment("dpsgd", test=0.0)), False).history


def test_a_cost_that_is_slow_to_tell_is_told_at_the_end(experiment):
    plan = prepare(experiment("ps-admm", test=0.0, rounds=3)).plan
    found = spent(plan, 1e-5)
    assert np.isnan(found).tolist() == [True, True, False]
    assert found[-1] == plan.accounts().worst(1e-5).epsilon


def test_a_fit_without_privacy_is_refused(experiment):
    with pytest.raises(InputError, match="'admm' is not private"):
        fit(prepare(experiment("admm", test=0.0)), secure=False)


def test_owners_in_memory_keep_their_names():
    records = simulate("classification", 200, 4, 0)
    names = np.array(["west", "east"])[np.arange(200) % 2]
    dataset = type(records)(
        records.name, records.features, records.targets, records.classes, records.feature_names, names
    )
    prepared = prepare(Experiment().changed(epsilon=1.0, delta=1e-5, rounds=2), dataset=dataset)
    assert prepared.shards.names == ("east", "west")
    fitted = fit(prepared, secure=True)
    assert [found.epsilon for found in fitted.guarantees] == pytest.approx([1.0, 1.0])
