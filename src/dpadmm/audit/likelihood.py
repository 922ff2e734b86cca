"""How much likelier a message is under one of two data sets: the strongest evidence there is (Neyman & Pearson).

Everything but the victim's records is known to the attacker: what was broadcast, all releases before, the plan. Given
those, a release is what the recipe would answer without noise, plus noise of a known density. So the evidence of a
round is the difference of two log-densities, and that of a transcript their sum.

A release is made of integers with discrete noise of an integer scale s (`release/`), whose probabilities are the values
of the continuous density at the integers over their sum. The sum is the same wherever the noise is centred on an
integer, so it cancels, and the continuous density at the value that was released gives the exact ratio. The scale is
the one that was really drawn: s times what a lattice point is worth, a little more than multiplier times sensitivity.

* noise on a gradient, one step a round: exact, for every mechanism that states its density;
* noise on an answer, one step: exact but for the rounding of the answer to its lattice, 2^-30 of the noise;
* noise in an objective: exact, by the change of variables from the noise to the minimiser (its whisper of output noise
  is left out);
* several steps a round, and mini-batches: what a round answers on average stands for what it answers; a good statistic,
  if not the best;
* rounds that read no records: a release that is not exactly what the others imply betrays that it did.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Phase
from dpadmm.admm.perturbations import Objective, Output, Unperturbed
from dpadmm.admm.rounds import solve_and_perturb, subproblem
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers import GradientSteps, Solver
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.audit.observed import EVALUATION, Message
from dpadmm.privacy.mechanisms import Mechanism, SimulatedMechanism
from dpadmm.problems.shards import Shards
from dpadmm.release.perturb import noise_scales, spacing
from dpadmm.release.random_bits import Stream
from dpadmm.release.sums import COARSE_BITS

RATIO, NOISE, BYTES = 0, 1, 2  # kinds of evidence; from BYTES on, what was written


def evidence(message: Message, sides: tuple[Shards, Shards]) -> FloatArray:
    """Of each transcript (row): ln p(release | second) - ln p(release | first), and the noise that the first data set
    would need for this release, in units of its scale, along the way from the first to the second."""
    if message.round != EVALUATION and not message.phase.solver.reads_records:
        apart = (message.release - silent(message, sides[0])).sum(axis=1)
        return np.stack((np.zeros_like(apart), apart), axis=1)
    (one, needed), (other, instead) = (explained(message, shards) for shards in sides)
    way = needed - instead
    length = np.sqrt((way * way).sum(axis=1))
    along = np.divide((needed * way).sum(axis=1), length, out=np.zeros_like(length), where=length > 0.0)
    return np.stack((other - one, along), axis=1)


def explained(message: Message, shards: Shards) -> tuple[FloatArray, FloatArray]:
    """The log-density of a release, if these are the records, and the noise that it takes, in units of its scale."""
    if message.round == EVALUATION:
        return _by_estimate(message, shards)
    if isinstance(message.phase.perturbation, Objective):
        return _by_tilt(message, shards)
    return _by_answer(message, shards)


def _by_answer(message: Message, shards: Shards) -> tuple[FloatArray, FloatArray]:
    """Noise is what a release has more than its answer without noise."""
    noise = (message.release - silent(message, shards)) / noise_scale(message, shards)
    return _mechanism(message).log_density(noise), noise


def _by_tilt(message: Message, shards: Shards) -> tuple[FloatArray, FloatArray]:
    """Noise is the linear term whose minimiser was released; ln p(release) has ln |d noise / d release| too."""
    curvature, mechanism = message.plan.noise_in(message.round).curvature, _mechanism(message)
    assert curvature is not None
    given = _subproblem(message, shards).stiffened(curvature)
    scale = (mechanism.noise_multiplier * message.plan.local.gradient_sensitivity())[:, None]
    noise = -given.gradient(message.release) / scale
    return mechanism.log_density(noise) + np.linalg.slogdet(given.hessian(message.release))[1], noise


def _by_estimate(message: Message, shards: Shards) -> tuple[FloatArray, FloatArray]:
    """Noise is what an estimate of the error has more than the error itself."""
    setting, mechanism = message.plan.setting, message.plan.evaluation
    assert mechanism is not None
    share = setting.problem.loss.mistakes(shards, message.common) / setting.counts
    points = noise_scales(mechanism, np.full(setting.agents, float(setting.unit_size << COARSE_BITS)))
    scale = np.ldexp(points, -COARSE_BITS) / setting.counts
    noise = (message.release - share[:, None]) / scale[:, None]
    return mechanism.log_density(noise), noise


def silent(message: Message, shards: Shards) -> FloatArray:
    """What would have been answered without noise, by whole gradients."""
    plan = message.plan
    quiet = tuple(replace(phase, solver=_whole(phase), perturbation=Unperturbed()) for phase in plan.algorithm.phases)
    twin = replace(plan, algorithm=replace(plan.algorithm, phases=quiet))
    return solve_and_perturb(twin, message.before, shards, message.common, message.round, _no_bits)[0].value


def noise_scale(message: Message, shards: Shards) -> FloatArray:
    """Of the noise on a release, as it was drawn, if that is one step; (rows, 1) or (rows, D)."""
    setting, phase, mechanism = message.plan.local, message.phase, _mechanism(message)
    given, eta = _subproblem(message, shards), message.plan.eta(message.round)
    perturbation = phase.perturbation
    if isinstance(perturbation, Output):
        point = message.before.memory.point
        moved = perturbation.moved(setting, phase.solver, given, point, eta[:, None], mechanism.norm)
        return _drawn_on_answers(mechanism, moved, setting.dimension)[:, None]
    gain = phase.solver.gain(setting, given.kappa[:, 0], eta)[:, None]
    return gain * _drawn_on_sums(mechanism, setting)


def _drawn_on_sums(mechanism: Mechanism, setting: Setting) -> FloatArray:
    """The scale of the noise on a sum of gradients, in the units of the gradient."""
    if isinstance(mechanism, SimulatedMechanism):
        return (mechanism.noise_multiplier * setting.gradient_sensitivity(mechanism.norm))[:, None]
    units = np.atleast_1d(setting.query.units(setting.columns, setting.norm_bound))
    points = noise_scales(mechanism, np.full(setting.agents, setting.sensitivity(mechanism.norm)))
    return np.asarray(points[:, None] * setting.weights[:, None] * units)


def _drawn_on_answers(mechanism: Mechanism, moved: FloatArray, dimension: int) -> FloatArray:
    """The scale of the noise on a value that one record moves so far, in the units of the value."""
    if isinstance(mechanism, SimulatedMechanism):
        return mechanism.noise_multiplier * moved
    cells = spacing(mechanism, moved, dimension)
    rounding = dimension if mechanism.norm == 1 else np.sqrt(dimension)
    return cells * noise_scales(mechanism, moved / cells + rounding)


def _subproblem(message: Message, shards: Shards) -> Subproblem:
    return subproblem(message.plan, message.before, shards, message.common, message.round)


def _mechanism(message: Message) -> Mechanism:
    return message.plan.noise_in(message.round).mechanism


def _whole(phase: Phase) -> Solver:
    solver = phase.solver
    if isinstance(solver, GradientSteps) and solver.sampled:
        return GradientSteps(updates=solver.updates, average=solver.average)
    return solver


def _no_bits(purpose: str) -> Stream:
    raise RuntimeError(f"nothing is drawn without noise, and yet there was a draw for {purpose!r}")
