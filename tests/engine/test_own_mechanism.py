"""A mechanism of one's own in a recipe by value: calibrated, run, attacked, and refused where it has no meaning."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from dpadmm.admm.algorithm import Phase
from dpadmm.admm.perturbations import Gradient, Output
from dpadmm.admm.solvers import Exact, Linearised
from dpadmm.audit.run import audit
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget, noise_multipliers
from dpadmm.privacy.events import GaussianDpEvent, PureDpEvent
from dpadmm.privacy.mechanisms import Gaussian, Laplace


@dataclass(frozen=True, eq=False)
class Copy(Laplace):
    """Laplace noise under another name."""

    name = "copy"


@dataclass(frozen=True, eq=False)
class TooCheap(Laplace):
    """Laplace noise that costs three times what its event says."""

    name = "too-cheap"

    @staticmethod
    def event(noise_multiplier):
        return PureDpEvent(1.0 / (3.0 * noise_multiplier))


def recipe(mechanism):
    return replace(ALGORITHMS["dp-admm"], name="mine", phases=(Phase(Linearised(), Gradient(mechanism=mechanism)),))


def test_a_class_gives_the_numbers_of_the_registered_mechanism_that_it_copies(experiment, same):
    terms = experiment(delta=1e-5)
    mine = train(terms, algorithm=recipe(Copy))
    same(mine, train(terms, algorithm=recipe("laplace")))
    assert mine.plan.noise[0].mechanism.name == "copy"
    assert mine.guarantee.epsilon <= 2.0


def test_it_is_calibrated_by_its_own_event():
    @dataclass(frozen=True, eq=False)
    class Loud(Copy):
        @staticmethod
        def event(noise_multiplier):
            return PureDpEvent(2.0 / noise_multiplier)

    (plain,) = noise_multipliers([Budget(1.0, 0.0)], 10, Copy)
    (loud,) = noise_multipliers([Budget(1.0, 0.0)], 10, Loud)
    assert plain == noise_multipliers([Budget(1.0, 0.0)], 10, "laplace")[0]
    np.testing.assert_allclose(loud, 2.0 * plain, rtol=1e-9)


def test_a_class_like_gaussian_noise_is_calibrated_by_the_accountant():
    @dataclass(frozen=True, eq=False)
    class Normal(Gaussian):
        name = "normal"

    (mine,) = noise_multipliers([Budget(1.0, 1e-5)], 10, Normal)
    np.testing.assert_allclose(mine, noise_multipliers([Budget(1.0, 1e-5)], 10, "gaussian"), rtol=1e-6)
    assert Normal(np.ones(1)).events() == (GaussianDpEvent(1.0),)


@pytest.mark.parametrize("perturbation", [Gradient, Output])
def test_an_attack_knows_its_density(perturbation):
    solver = Linearised() if perturbation is Gradient else Exact()
    mine, named = (
        replace(ALGORITHMS["dp-admm"], name="mine", phases=(Phase(solver, perturbation(mechanism=each)),))
        for each in (Copy, "laplace")
    )
    found, other = (audit(each, 2.0, 1e-5, transcripts=2000, seed=1) for each in (mine, named))
    assert found.lower_bound == other.lower_bound > 0.3
    assert not found.violated


def test_noise_below_its_price_is_refuted():
    assert audit(recipe(TooCheap), 2.0, 1e-5, transcripts=4000, seed=1).violated


def test_the_papers_have_no_noise_for_it(experiment):
    with pytest.raises(InputError, match="no paper has a rule for 'copy' noise"):
        train(experiment(paper_noise=True), algorithm=recipe(Copy))


def test_noise_in_an_objective_refuses_it(experiment):
    with pytest.raises(InputError, match="has a lemma for 'gamma-norm' and 'gaussian' noise only"):
        train(experiment(), algorithm=ALGORITHMS["dvp"].tuned(mechanism=Copy))


def test_flags_and_spec_files_name_mechanisms_of_the_registry_only(experiment):
    with pytest.raises(InputError, match="mechanism"):
        experiment().changed(mechanism=Copy)
