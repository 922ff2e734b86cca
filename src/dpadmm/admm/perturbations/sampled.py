"""Noise on the gradients of mini-batches (002, theory 5.2), accounted for as what they are (claims B5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._ranges import SHARES_OR_ZERO, check_ranges, ranged
from dpadmm.admm.perturbations.base import Perturbation, Release, Task
from dpadmm.admm.perturbations.batches import Cost, PoissonCost, UniformCost
from dpadmm.admm.setting import Density, Multiplier, Noise, NoiseRequest, PaperNoise, Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.admm.solvers.stochastic import Sgd, Svrg
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.privacy.mechanisms import Gaussian
from dpadmm.release.perturb import noise_scales


@dataclass(frozen=True)
class SampledGradient(Perturbation):
    """The solver sees a mini-batch's estimate of the gradient + Gaussian noise of standard deviation s.

    Formal guarantee, Poisson sampling at rate q, zero-out. Fix the coins of the other records. A step's noisy gradient
    is N(c, s²) without the record. With it, the mean is shifted by u = weight p2 if the record is not drawn (the anchor
    holds it), and by v = (weight/q) (p1 - (1-q) p2) if it is, with slopes p1 at the point and p2 at the anchor. The two
    are linked: (1-q) u + q v = weight p1. A step costs the supremum over p1 and p2 of the curves of these mixtures
    (`privacy.linked`), from 0 to G for losses whose slopes keep their sign, else from -G to G. Losses with several
    scores have a Gaussian release of sensitivity weight G beside that. Without an anchor (`sgd`) the shifts are 0 and
    weight G/q: the subsampled Gaussian. All steps of all rounds are composed; step, mean, set and dual are
    post-processing. A person's k > 1 records are drawn independently, j of them with Binomial(k, q), and the lengths of
    their shifts add up.

    Formal guarantee, one uniform record of m, replace. Split the noise into two independent parts, of variances t s²
    and (1-t) s². Anchor plus one part is a Gaussian release of sensitivity 2 weight G; the correction plus the other is
    a Gaussian release of sensitivity 2 weight m G (4, where slopes may change their sign) on one record drawn without
    replacement; the sum is post-processing of both. t is a choice of the proof, not of the algorithm. (claims B5
    composes the two by Rényi; their privacy loss distributions, `privacy.mixtures`, need a third less noise.)

    `anchor_share` above 0 releases the anchor once a round with noise of its own, which takes that share of the budget;
    the steps' noise then covers the corrections only: shifts 0 and weight G/q, or 2 weight G/q where slopes may change
    their sign. A third makes the noise of a round,
    from both sources together, smallest.
    """

    anchor_share: float = ranged(SHARES_OR_ZERO, 0.0)

    mechanism: ClassVar[str] = "gaussian"  # the lemmas are for no other

    name = "sampled-gradient"
    about = "noise on the gradients of mini-batches, accounted for as mixtures of Gaussians"

    def __post_init__(self) -> None:
        check_ranges(self, f"perturbation {self.name!r}")

    def check(self, setting: Setting, solver: Solver) -> None:
        if not isinstance(solver, Sgd):
            raise InputError(f"perturbation 'sampled-gradient' is for mini-batches; solver {solver.name!r} draws none.")
        uniform = isinstance(solver, Svrg) and solver.sampling == "uniform"
        if self.anchor_share and (uniform or not isinstance(solver, Svrg)):
            raise InputError("a noisy anchor needs the solver 'svrg' with Poisson sampling.")
        if uniform and setting.relation is not Relation.REPLACE:
            raise InputError(
                "one uniform record a step is accounted for under the replace relation only; use --relation replace, "
                "or --sampling poisson."
            )
        if uniform and setting.unit_size > 1:
            raise InputError("uniform sampling has no lemma for persons with several records; use poisson.")
        if not uniform and setting.relation is not Relation.ZERO_OUT:
            raise InputError(
                "mini-batches by Poisson sampling are accounted for under the zero-out relation only (a record is "
                "there, or counts as zero); ask for it: --relation zero-out."
            )

    def cost(self, setting: Setting, solver: Sgd, delta: float) -> Cost:
        """What steps cost; for a uniform record the proof is tuned to a delta."""
        if isinstance(solver, Svrg) and solver.sampling == "uniform":
            return UniformCost(setting, solver, delta)
        return PoissonCost(setting, solver, self.anchor_share)

    def calibrate(
        self, setting: Setting, solver: Solver, request: NoiseRequest, kappas: FloatArray | None = None
    ) -> Noise:
        assert isinstance(solver, Sgd)
        assert not isinstance(request, Density)
        cost = self.cost(setting, solver, request.delta)
        if isinstance(request, Multiplier):
            multipliers = np.full(setting.agents, request.value)
        elif isinstance(request, PaperNoise):
            multipliers = self._as_printed(setting, solver, request)
        else:
            multipliers = cost.calibrated(request.of_each(setting.agents))
        anchor = Gaussian(multipliers * cost.anchor_factors()) if self.anchor_share else None
        for mechanism in (Gaussian(multipliers), *(() if anchor is None else (anchor,))):
            noise_scales(mechanism, setting.sensitivity() * solver.finer(setting))
        return Noise(Gaussian(multipliers), cost.rounds(multipliers), anchor=anchor)

    @staticmethod
    def _as_printed(setting: Setting, solver: Sgd, request: PaperNoise) -> FloatArray:
        """s² = c G² K S ln(1/delta) / (M epsilon)² with c = 1: what 002's theorem 2 prints for the whole run."""
        asked = request.per_step
        if asked.delta == 0.0:
            raise InputError("the printed noise needs a delta above 0, such as 1e-3.")
        share = setting.weights * setting.problem.loss.gradient_bound(setting.norm_bound)
        steps = setting.rounds * solver.steps
        sigma = share * math.sqrt(steps * math.log(1.0 / asked.delta)) / asked.epsilon
        return np.asarray(sigma / setting.gradient_sensitivity())

    def release(self, task: Task) -> tuple[Release, Memory]:
        solver = task.solver
        if task.noise.anchor is None:
            sums, noisy = task.sums(), task.noisy_sum(task.noise.mechanism, "gradient")
            answer, memory = task.solve(lambda point: noisy(sums(point)))
            return Release(answer, task.noise.events), memory
        assert isinstance(solver, Svrg)
        whole = solver.whole(task.setting, task.subproblem)
        corrections = solver.corrections(task.setting, task.subproblem, task.random_bits)
        noisy_anchor = task.noisy_counts(task.noise.anchor, "anchor")
        noisy_counts, anchors = task.noisy_counts(task.noise.mechanism, "gradient"), list[IntArray]()

        def noisy_estimate(point: FloatArray) -> FloatArray:
            if not anchors:
                anchors.append(noisy_anchor(whole(point)))
            found = corrections(point)
            return (anchors[0] + noisy_counts(found)) * found.units

        answer, memory = task.solve(noisy_estimate)
        return Release(answer, task.noise.events), memory
