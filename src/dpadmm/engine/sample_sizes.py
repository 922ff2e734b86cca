"""Theorems VI.1 and VI.2 of Zhang, Khalili & Liu (003), with the numbers of a simulated run.

They say how many records B_i a node must have so that its model after the odd round 2k - 1 has an expected loss of at
most that of any classifier f_ref with |f_ref|² <= b, plus tau, with probability 1 - delta (VI.1, without noise) or
1 - 2 delta (VI.2, noise in the objective):

    VI.1   B_i >= w max over k of  b ln(1/delta) / (tau - Delta_i(k))²,
    VI.2   B_i >= w max over k of  ln(1/delta) / [ (tau - Delta_i(k))² / (2 b) - (1 + a) r_i(k)² ].

Delta_i(k) is how far the node's expected loss lies above that of the pooled optimum; in VI.2 that of the problem whose
nodes all keep their noise of this round. Neither is known to anybody: held-out records stand for the distribution here,
so the numbers are for simulations. r_i(k) bounds the length of the noise with probability 1 - delta: the paper's
(d / alpha) ln(d / delta) for gamma-norm noise, and a quantile of chi's law for Gaussian. Units are ours, in which the
paper's C and N cancel. The constant w is not given by the paper, so numbers are multiples of it; w = 1 is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import chi2

from dpadmm._arrays import FloatArray
from dpadmm._ranges import EPSILONS, SHARES, SIZES, check_ranges, ranged
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations import Objective, Unperturbed
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import prepare
from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import GammaNorm, Mechanism
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem
from dpadmm.problems.reference import optimum
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment


@dataclass(frozen=True)
class Question:
    """What is asked of a run.

    Args:
        tau: How much larger the expected loss may be than that of the reference.
        failure: The delta of the theorems: how probable it is that they fail.
        reference: |f_ref|² of the classifiers that are compared with; None for that of the pooled optimum.
        slack: The a of VI.2.
    """

    tau: float = ranged(SIZES, 0.1)
    failure: float = ranged(SHARES, 0.05)
    reference: float | None = ranged(SIZES, None)
    slack: float = ranged(EPSILONS, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self, "sample sizes")


@dataclass(frozen=True, eq=False)
class SampleSizes:
    """What the theorems come to.

    Attributes:
        theorem: "VI.1" or "VI.2".
        question: What was asked.
        reference: |f_ref|², as used.
        counts: Records of each node, as they are.
        excess: (odd rounds, nodes) Delta_i(k).
        noise: (odd rounds, nodes) r_i(k); zero without noise.
        needed: (odd rounds, nodes) records, in units of w; infinite where no number is enough.
    """

    theorem: str
    question: Question
    reference: float
    counts: FloatArray
    excess: FloatArray
    noise: FloatArray
    needed: FloatArray

    @property
    def largest(self) -> FloatArray:
        """(nodes,) the maximum over k that the theorem asks for."""
        return np.asarray(self.needed.max(axis=0))

    def summary(self) -> dict[str, Any]:
        """As plain values; None where no number of records is enough."""
        finite = [float(each) if math.isfinite(each) else None for each in self.largest]
        return {
            "theorem": self.theorem,
            "tau": self.question.tau,
            "failure": self.question.failure,
            "reference": self.reference,
            "slack": self.question.slack,
            "odd_rounds": len(self.needed),
            "nodes": [
                {"node": node, "records": int(count), "largest_excess": float(most), "needed": need}
                for node, (count, most, need) in enumerate(
                    zip(self.counts, self.excess.max(axis=0), finite, strict=True)
                )
            ],
            "last_round_needed": [float(each) if math.isfinite(each) else None for each in self.needed[-1]],
        }


def needed(question: Question, reference: float, excess: FloatArray, noise: FloatArray, private: bool) -> FloatArray:
    """How many records the theorems ask for, in units of w; infinite where tau is not above the excess, or where the
    noise alone is too much."""
    room, certain = np.maximum(question.tau - excess, 0.0), math.log(1.0 / question.failure)
    left = room**2 / ((2.0 if private else 1.0) * reference)
    if private:
        left = left - (1.0 + question.slack) * noise**2
    return np.divide(certain, left, out=np.full(left.shape, np.inf), where=left > 0.0)


def noise_length(mechanism: Mechanism, scale: FloatArray, dimension: int, failure: float) -> FloatArray:
    """A length that noise of this scale exceeds with probability at most `failure`: lemma E.3, or chi's law."""
    if isinstance(mechanism, GammaNorm):
        return scale * dimension * math.log(dimension / failure)
    return scale * math.sqrt(float(chi2.isf(failure, dimension)))


def sample_sizes(experiment: Experiment, question: Question) -> SampleSizes:
    """Simulates a run and computes what its theorem asks for after every odd round.

    Raises:
        InputError: the theorems are not about this run.
    """
    prepared = prepare(experiment)
    plan, test = prepared.plan, prepared.test
    exact = _exact_phase(plan)
    if test is None:
        raise InputError("sample sizes: there are no held-out records to estimate expected losses with; set test.")
    if prepared.stage is not None:
        raise InputError("sample sizes: the theorems are about rows as they are; leave components and standardise out.")
    shards, problem = prepared.shards, plan.setting.problem
    pooled = optimum(problem, shards, plan.setting.dimension)
    private = isinstance(exact, Objective)
    goal = _loss(problem, test, pooled[None])[0]
    excess, noise = [], []
    cohort = Cohort.of(plan, shards, [0], SeededRandomness(experiment.simulation.seed))
    for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()):
        if plan.algorithm.recycles(state.round):
            continue
        if private:
            goal = _loss(problem, test, _kept_noise(plan, shards, state)[None])[0]
            drawn = plan.noise_in(state.round).mechanism
            scale = drawn.noise_multiplier * plan.local.gradient_sensitivity()
            noise.append(noise_length(drawn, scale, plan.setting.dimension, question.failure))
        else:
            noise.append(np.zeros(plan.setting.agents))
        excess.append(np.maximum(_loss(problem, test, state.agents.released) - goal, 0.0))
    reference = float(pooled @ pooled) if question.reference is None else question.reference
    above, long = np.array(excess), np.array(noise)
    return SampleSizes(
        theorem="VI.2" if private else "VI.1",
        question=question,
        reference=reference,
        counts=plan.setting.counts.astype(np.float64),
        excess=above,
        noise=long,
        needed=needed(question, reference, above, long, private),
    )


def _exact_phase(plan: Plan) -> Objective | Unperturbed:
    """Where the theorems' noise enters; a refusal where they are about something else."""
    algorithm, penalty = plan.algorithm, plan.setting.problem.penalty
    first = algorithm.phases[0].perturbation
    if len(algorithm.phases) != 2 or not algorithm.recycles(2) or not isinstance(first, Objective | Unperturbed):
        raise InputError(
            f"sample sizes: theorems VI.1 and VI.2 are about recycled ADMM without noise or with noise in the "
            f"objective, and not about {algorithm.name!r}; use 'r-admm', 'mr-admm', 'private-r-admm' or "
            f"'private-mr-admm'."
        )
    if not isinstance(penalty, L2):
        raise InputError(f"sample sizes: the theorems are about the penalty |x|²/2, 'l2', and not {penalty.name!r}.")
    return first


def _loss(problem: Problem, test: Shards, models: FloatArray) -> FloatArray:
    """The mean loss of each model (rows) on held-out records."""
    weight = 1.0 / test.counts
    return np.array([problem.loss.values(test, model[None], weight)[0] for model in models])


def _kept_noise(plan: Plan, shards: Shards, state: SimulationState) -> FloatArray:
    """argmin of sum over i of f_i + <zeta_i, x>, where zeta_i is the linear term of this round: what nodes would come
    to if each kept it. It follows from the gradient that the release gives away and that of the records."""
    setting = plan.local
    problem, released, slope = setting.problem, state.agents.released, state.agents.slope
    assert slope is not None
    own = problem.loss.gradient(shards, released, setting.weights)
    own = own + problem.strength * problem.penalty.gradient(released)
    extra = plan.noise_in(state.round).curvature
    stiff = 0.0 if extra is None else float(extra.mean())
    bent = 0.0 if extra is None else extra[:, None] * released
    zeta = slope - own - bent
    stiffer = replace(problem, strength=problem.strength + stiff)  # the penalty is |x|²/2
    return optimum(stiffer, shards, setting.dimension, tilt=zeta.mean(axis=0))
