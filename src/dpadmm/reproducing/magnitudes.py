"""How loud a run's noise is, as 001 plots it: expected, from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations import Output

if TYPE_CHECKING:
    from dpadmm.applications.power_flow.terms import Terms
    from dpadmm.applications.power_flow.zones import Decomposition

# E |x| of noise of scale one
MEAN_SIZE = {"gaussian": math.sqrt(2.0 / math.pi), "laplace": 1.0}
VARIANCE = {"gaussian": 1.0, "laplace": 2.0}


def of_training(plan: Plan, rounds: Sequence[int]) -> FloatArray | None:
    """(6.5): the mean over entries of |noise|, summed over agents and local updates; None for other kinds of noise."""
    phase, mechanism = plan.algorithm.phases[0], plan.noise[0].mechanism
    if not plan.algorithm.private or mechanism.name not in MEAN_SIZE:
        return None
    local = plan.local
    found = []
    for k in rounds:
        sensitivity = local.gradient_sensitivity(mechanism.norm)
        if isinstance(phase.perturbation, Output):
            kappa = plan.algorithm.consensus.kappa(local, plan.rho(k))
            sensitivity = phase.perturbation.sensitivity(local, phase.solver, kappa, plan.eta(k), mechanism.norm)
        scale = mechanism.noise_multiplier * sensitivity
        found.append(MEAN_SIZE[mechanism.name] * phase.solver.steps * float(scale.sum()))
    return np.array(found)


def of_power_flow(decomposition: Decomposition, terms: Terms) -> float:
    """(6.2) in any round, with the paper's sensitivities: summed over zones, local updates and entries, |noise|."""
    entries = sum(zone.members.size for zone in decomposition.zones)
    return MEAN_SIZE[_mechanism(terms)] * terms.updates * entries * _scale(terms)


def variance(terms: Terms) -> float:
    """Of one entry of the noise, with the paper's sensitivities: its table 1."""
    return VARIANCE[_mechanism(terms)] * _scale(terms) ** 2


def _mechanism(terms: Terms) -> str:
    assert terms.mechanism is not None
    return terms.mechanism


def _scale(terms: Terms) -> float:
    """2 beta for noise in the objective, beta for noise on the output (001, section 6.1.1)."""
    sensitivity = terms.beta if terms.algorithm.startswith("out") else 2.0 * terms.beta
    return terms.protection().multiplier * sensitivity
