"""A random linear term in the objective: dual variable perturbation (theory 3.3, 6.3, 6.5, 6.6), for exact minimisers.

Its cost is not its mechanism's. The released minimiser is a smooth one-to-one function of the noise, so besides the
noise density the change of variables enters: the determinants of two neighbouring Hessians differ by a factor of at
most 1 + kappa, kappa = weight * c / lambda, with lambda the curvature guaranteed without the record (claims B6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._fields import option
from dpadmm._ranges import SIZES_OR_ZERO, check_ranges
from dpadmm.admm.perturbations.base import Perturbation, Release, Task
from dpadmm.admm.perturbations.linear import TERMS, LinearTerm
from dpadmm.admm.setting import Density, Multiplier, Noise, NoiseRequest, PaperNoise, Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.admm.solvers.exact import Exact
from dpadmm.errors import InputError, Unpublished
from dpadmm.privacy.events import Relation
from dpadmm.privacy.mechanisms import GammaNorm, Gaussian, Mechanism, SimulatedMechanism, mechanism_class
from dpadmm.problems.losses.base import MarginLoss
from dpadmm.problems.sets import Whole

SMALLEST_SHARE = 2.0**-28  # of an answer's size, for the scale of its output noise


@dataclass(frozen=True)
class Objective(Perturbation):
    """argmin f_i(x) + <tilt + noise, x> + (kappa/2)|x - centre|² + (Phi/2)|x|², then a whisper of output noise.

    Formal guarantee, Gaussian noise: the event `GaussianObjectiveDpEvent` of the noise and kappa (its bounds and their
    proof are in `privacy.objective`), and a Gaussian one for the output noise. That one covers a minimiser that is
    exact only to a gradient of length tau, and a linear term that lies within r of noise with a density (`linear`): it
    is within (tau + r)/lambda of the true one, so output noise of sensitivity 2 (tau + r)/lambda makes the pair (true
    minimiser, offset) a composition of two releases (approximate minima perturbation, Iyengar et al. 2019).

    Gamma-norm noise of density exp(-alpha |.|), pure, per round, for simulations only: alpha * weight * s +
    r ln(1 + kappa) + eps_out, where a record adds curvature in r directions: one for losses of one margin, classes - 1
    for the softmax loss (`Loss.added_curvature`). The first term is the noise density, the second the Jacobian (6.P1),
    the third the output noise, gamma-norm as well so that the whole stays pure.

    `extra_curvature` is Phi; None chooses it from public facts, so that the Jacobian takes at most half of the budget.
    """

    mechanism: str = "gaussian"
    extra_curvature: float | None = option(
        None,
        help="Quadratic term that dvp adds to pay for its Jacobian.",
        panel="Algorithm",
        shown="from public facts",
        within=SIZES_OR_ZERO,
    )

    name = "objective"
    any_rho = False
    takes_alpha = True
    takes_scales = True
    about = "a random linear term in the objective of an exact minimiser; pays for the Jacobian and the tolerance"

    def __post_init__(self) -> None:
        check_ranges(self, f"perturbation {self.name!r}")

    def check(self, setting: Setting, solver: Solver) -> None:
        mechanism_class(self.mechanism)
        problem = setting.problem
        if self.mechanism not in TERMS:
            raise InputError(
                f"perturbation {self.name!r} has a lemma for {' and '.join(map(repr, TERMS))} noise only, not "
                f"{self.mechanism!r}."
            )
        if self.mechanism == Gaussian.name and setting.unit_size > 1:
            raise InputError(
                f"perturbation {self.name!r} with Gaussian noise has a lemma for single records only; to protect "
                f"{setting.unit_size} of a person together, use a recipe such as 'pvp' or 'pvp-graph' or, in "
                f"simulations, the mechanism 'gamma-norm'."
            )
        if not isinstance(solver, Exact):
            raise InputError(f"perturbation {self.name!r} needs an exact minimiser, not solver {solver.name!r}.")
        models = setting.dimension // setting.columns
        if problem.loss.added_curvature(setting.norm_bound, models) is not None and self.mechanism == GammaNorm.name:
            pass  # (6.P1) is about determinants alone, of any rank
        elif not (isinstance(problem.loss, MarginLoss) and problem.loss.twice_differentiable):
            raise InputError(
                f"perturbation {self.name!r} needs a twice differentiable loss of one margin; {problem.loss.name!r} is "
                f"not. Use 'logistic' or 'smoothed-hinge', noise on the answer ('pvp-graph', 'pvp-mr-admm'), or "
                f"another recipe such as 'dp-admm'; 'softmax' goes with the mechanism 'gamma-norm', in simulations."
            )
        if not problem.smooth:
            raise InputError(
                f"perturbation {self.name!r} needs a twice differentiable penalty; {problem.penalty.name!r} has a "
                f"kink. Use 'l2' or 'none', or another recipe such as 'pvp' or 'dp-admm'."
            )
        if not isinstance(problem.domain, Whole):
            raise InputError(
                f"perturbation {self.name!r} has no lemma for the set {problem.domain.name!r}; use 'whole'."
            )

    def calibrate(
        self, setting: Setting, solver: Solver, request: NoiseRequest, kappas: FloatArray | None = None
    ) -> Noise:
        if kappas is None:
            kappas = np.full((1, setting.agents), setting.rho)
        term = self.term(setting, kappas)
        extra = np.full(setting.agents, self.extra_curvature or 0.0)
        if isinstance(request, Multiplier):
            return term.noise(term.louder * request.value, extra)
        if isinstance(request, Density):
            return term.noise(term.louder * self._of_density(setting, request, kappas), extra)
        if isinstance(request, PaperNoise):
            return term.noise(*self._as_published(term, request.per_step.epsilon))
        budgets = request.of_each(setting.agents)
        if self.extra_curvature is None:
            extra = term.extra(budgets)
        return term.noise(term.calibrated(budgets, extra), extra)

    def term(self, setting: Setting, kappas: FloatArray) -> LinearTerm:
        """The linear terms of all rounds, of which `kappas` are the penalties' curvatures."""
        return TERMS[self.mechanism](
            setting, kappas + setting.problem.strong_convexity, self._loudness(setting, kappas)
        )

    def _loudness(self, setting: Setting, kappas: FloatArray) -> FloatArray:
        own = self.louder(kappas)
        return own if setting.louder is None else own * setting.louder

    def louder(self, kappas: FloatArray) -> FloatArray:
        """How loud each round is, beside the first."""
        return np.ones_like(kappas)

    def release(self, task: Task) -> tuple[Release, Memory]:
        setting, noise = task.setting, task.noise
        assert noise.output is not None
        assert noise.curvature is not None
        assert isinstance(task.solver, Exact)
        kind, given = TERMS[self.mechanism], (noise.mechanism, setting.gradient_sensitivity(), setting.dimension)
        stiff = task.subproblem.stiffened(noise.curvature) if noise.curvature.any() else task.subproblem
        reach = task.solver.reach(stiff, kind.longest(*given))  # or a refusal: before any noise is drawn
        tilt = kind.drawn(*given, task.random_bits("objective"))
        near = (
            2.0 * (task.solver.tolerance + kind.blur(*given)) / (stiff.kappa[:, 0] + setting.problem.strong_convexity)
        )
        emit = task.noisy(noise.output, _covered(near, noise.output, reach), "output")
        answer, memory = task.solve(subproblem=stiff.tilted(tilt), emit=emit)
        return Release(answer, noise.events), memory

    def printed(self, setting: Setting, noise: Noise, kappa: FloatArray) -> FloatArray | None:
        """What 003 would say that a round costs each agent (theorem V.1): 2 weight (alpha + 1.4 c / lambda).

        It is about gamma-norm noise and replaced records; None for anything else.
        """
        if not isinstance(setting.problem.loss, MarginLoss):
            return None
        if self.mechanism != GammaNorm.name or setting.relation is not Relation.REPLACE or noise.curvature is None:
            return None
        ratio = self.term(setting, kappa[None, :]).ratios(noise.curvature)[0]
        loud = np.where(noise.mechanism.noise_multiplier > 0.0, noise.mechanism.noise_multiplier, np.nan)
        return 1.0 / loud + 2.8 * ratio

    def _of_density(self, setting: Setting, request: Density, kappas: FloatArray) -> FloatArray:
        """The multipliers of noise exp(-alpha |.|) on the linear term."""
        if self.mechanism != GammaNorm.name:
            raise InputError(
                f"alpha is of 'gamma-norm' noise, not of {self.mechanism!r}; give a budget instead or, in simulations, "
                f"the mechanism 'gamma-norm'."
            )
        return 1.0 / (request.of_each(setting.agents) * setting.gradient_sensitivity())

    def _as_published(self, term: LinearTerm, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Zhang & Zhu's rule (theory 3.3): what 2 ln(1+kappa) leaves, or half of it with extra curvature."""
        if self.extra_curvature is not None:
            raise InputError("the papers' noise chooses its extra curvature by itself; give one of the two.")
        if self.mechanism != GammaNorm.name:
            raise Unpublished(
                f"no paper has a rule for {self.mechanism!r} noise in an objective; give a total budget or, in "
                f"simulations, the mechanism 'gamma-norm'."
            )
        if term.rank > 1:
            raise Unpublished("no paper has a rule for an objective of several classes; give a total budget.")
        left = epsilon - 2.0 * term.jacobian(np.zeros(term.setting.agents)).max(axis=0)
        needed = term.record_curvature / np.expm1(epsilon / 4.0) - term.base.min(axis=0)
        multipliers = 1.0 / np.where(left > 0, left, epsilon / 2.0)
        return np.broadcast_to(multipliers, term.base.shape), np.where(left > 0, 0.0, needed)


def _covered(near: FloatArray, output: Mechanism, reach: FloatArray) -> FloatArray:
    """A sensitivity of at least `near`, with which answers that reach this far from zero are within the lattice of the
    output noise, which has its limits. Paying for more than is needed is safe, and here next to nothing."""
    multiplier = output.noise_multiplier
    if isinstance(output, SimulatedMechanism):
        return near
    share = np.divide(SMALLEST_SHARE, multiplier, out=np.zeros_like(reach), where=multiplier > 0.0)
    return np.maximum(near, share * reach)
