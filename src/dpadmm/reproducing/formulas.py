"""Settings that a paper's formula makes of others, where the library's own terms do not say the same.

A file names one with `formula = "..."`; it is given the run's settings and returns those to run with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations import Output
from dpadmm.admm.topology.graph import count_nodes
from dpadmm.datasets.curves import TRUTH
from dpadmm.errors import unknown
from dpadmm.privacy.calibration import classic_multiplier

if TYPE_CHECKING:
    from dpadmm.applications.power_flow.terms import Terms
    from dpadmm.applications.power_flow.zones import Decomposition

Formula = Callable[[dict[str, Any]], dict[str, Any]]
C_1 = 1.0  # 004 takes it from 000, whose algorithm it is, although its scores are longer
LOUDER = 18.0  # and without the root, so that noise is 68 (delta 1e-3) to 95 (1e-6) times as large
LENGTH = float(np.linalg.norm(TRUTH))  # c_w: of the true coefficients
WEIGHT = 1750.0  # 003's C: its records weigh C / B_i, ours 1 / B_i


def applied(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings to run with."""
    plain = dict(settings)
    name = plain.pop("formula", None)
    if name is None:
        return plain
    if name not in FORMULAS:
        raise unknown("formula", name, FORMULAS)
    return FORMULAS[name](plain)


def zhou_xiang(settings: dict[str, Any]) -> dict[str, Any]:
    """004's noise and steps: sensitivity 2 c_1 / m at every quantile, whatever rows are clipped to."""
    return _zhou_xiang(settings, 1.0)


def zhou_xiang_no_root(settings: dict[str, Any]) -> dict[str, Any]:
    """The same steps with the square root left out of sigma, and six times as loud for c_1 = 3: no formula of the
    paper's, only what comes nearest to its tables."""
    return _zhou_xiang(settings, LOUDER * math.sqrt(2.0 * math.log(1.25 / settings["delta"])))


def _zhou_xiang(settings: dict[str, Any], louder: float) -> dict[str, Any]:
    epsilon = settings.pop("epsilon", None)
    records = settings.pop("records")
    level, bound, agents = settings["tau"], settings["norm_bound"], settings["agents"]
    slope = max(level, 1.0 - level)
    sigma = 0.0 if epsilon is None else C_1 * classic_multiplier(epsilon, settings["delta"]) / (bound * slope)
    size = int(settings["basis"].rpartition(":")[2])
    unit = 2.0 * slope * bound * agents / records
    believed, drawn = size * (sigma * unit) ** 2, size * (louder * sigma * unit) ** 2
    radius = _radius(settings["penalty"], settings["strength"], size, slope * bound, believed, drawn)
    noise = {} if epsilon is None else {"noise_multiplier": louder * sigma}
    return {**settings, "radius": radius, **noise}


def _radius(penalty: str, strength: float, size: int, bound: float, believed: float, drawn: float) -> float:
    """The radius with which theorem 3's steps for our bounds are the printed ones, whose c_1 is the bound of rows."""
    radius = LENGTH
    for _ in range(20):  # an l2 penalty's own slope depends on the radius, a little
        kinds = {"l1": (math.sqrt(size), math.sqrt(size)), "l2": (LENGTH, radius)}
        theirs, ours = kinds[penalty]
        printed = (C_1 + strength * theirs) ** 2 + believed
        radius = LENGTH * math.sqrt(((bound + strength * ours) ** 2 + drawn) / printed)
    return radius


def zhang(settings: dict[str, Any]) -> dict[str, Any]:
    """003's own words: `rho` its regulariser, `eta` the penalty, `growth` the q of eta q^k, `gamma` the damping of even
    rounds, `alpha` the noise's density. All are divided by C, and so alpha, an inverse, is multiplied by it."""
    strength = settings.pop("rho") / (count_nodes(settings["topology"]) * WEIGHT)
    ours: dict[str, Any] = {"strength": strength, "rho": settings.pop("eta") / WEIGHT}
    if "gamma" in settings:
        ours["damping"] = settings.pop("gamma") / WEIGHT
    if "growth" in settings:
        ours["rho_schedule"] = f"geometric:{settings.pop('growth')}"
    if "alpha" in settings:
        ours["alpha"] = (settings.pop("alpha") * WEIGHT,)
    return {**settings, **ours}


def ryu_kim(settings: dict[str, Any]) -> dict[str, Any]:
    """001's own noise on images. Its sensitivity (6.4) is that of a record that is added, and so half of ours, of one
    that is replaced; steps are the same. (Its 1/(I + 1) is 1/I here, and rows are clipped to a public norm.)"""
    epsilon = settings.pop("epsilon")
    settings.pop("paper_noise", None)
    gaussian = settings["algorithm"].endswith("-g")
    multiplier = classic_multiplier(epsilon, settings["delta"]) if gaussian else 1.0 / epsilon
    return {**settings, "noise_multiplier": multiplier / 2.0, "schedule": f"free-5.3:{epsilon!r}"}


FORMULAS: dict[str, Formula] = {
    "ryu-kim": ryu_kim,
    "zhang": zhang,
    "zhou-xiang": zhou_xiang,
    "zhou-xiang-no-root": zhou_xiang_no_root,
}

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
    from dpadmm.applications.power_flow.formulation import Formulation

    problems = [Formulation.of(zone, terms.formulation) for zone in decomposition.zones]
    everywhere = terms.everywhere or terms.algorithm.startswith("out")
    entries = sum(problem.size if everywhere else problem.entered.size for problem in problems)
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
