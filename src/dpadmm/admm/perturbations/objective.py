"""A random linear term in the objective: dual variable perturbation (spec 3.3, 6.3), for exact minimisers.

Its cost is not its mechanism's. The released minimiser is a smooth one-to-one function of the noise, so besides the
noise density the change of variables enters: the determinants of two neighbouring Hessians differ by a factor of at
most 1 + kappa, kappa = weight * c / lambda, with lambda the curvature guaranteed without the record (AUDIT B6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpadmm.admm.noise import Multiplier, Noise, PaperNoise, Request
from dpadmm.admm.perturbations.base import Perturbation, Release, Task
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Memory, Solver
from dpadmm.errors import InputError, unknown
from dpadmm.privacy.calibration import noise_multipliers
from dpadmm.privacy.events import DpEvent, NonPrivateDpEvent, PureDpEvent
from dpadmm.privacy.mechanisms import MECHANISMS, GammaNorm
from dpadmm.problems.losses.margin import MarginLoss
from dpadmm.problems.sets import Whole
from dpadmm.problems.shards import FloatArray

OUTPUT_SHARE = 0.01  # of a round's epsilon, for the noise that covers the solver's tolerance
JACOBIAN_SHARE = 0.5  # at most, for the determinant term (as Zhang & Zhu 2017); extra curvature holds it there


@dataclass(frozen=True)
class Objective(Perturbation):
    """argmin f_i(x) + <tilt + noise, x> + (kappa/2)|x - centre|² + (Phi/2)|x|², then a whisper of output noise.

    Formal guarantee, pure, per round: alpha * weight * s + ln(1 + kappa) + eps_out, for noise of density
    exp(-alpha |.|). The first term is the noise density, the second the Jacobian (6.P1), the third covers a minimiser
    that is exact only to a gradient of length tau: it lies within tau/lambda of the true one, so output noise of
    sensitivity 2 tau/lambda makes the pair (true minimiser, offset) a composition of two releases (approximate minima
    perturbation, Iyengar et al. 2019, here with gamma-norm noise so that the whole stays pure).

    `extra_curvature` is Phi; None chooses it from public facts, so that the Jacobian takes at most half of the budget.
    """

    mechanism: str = "gamma-norm"
    extra_curvature: float | None = None

    name = "objective"
    any_rho = False
    about = "a random linear term in the objective of an exact minimiser; pays for the Jacobian and the tolerance"

    def __post_init__(self) -> None:
        if self.extra_curvature is not None and not 0.0 <= self.extra_curvature < np.inf:
            raise InputError(
                f"perturbation 'objective': extra curvature {self.extra_curvature!r} must be zero or a positive number."
            )

    def check(self, setting: Setting, solver: Solver) -> None:
        if self.mechanism not in MECHANISMS:
            raise unknown("mechanism", self.mechanism, MECHANISMS)
        problem = setting.problem
        if self.mechanism != GammaNorm.name:
            raise InputError(
                f"perturbation 'objective' has a lemma for 'gamma-norm' noise only, not {self.mechanism!r}."
            )
        if solver.first_order:
            raise InputError(f"perturbation 'objective' needs an exact minimiser, not solver {solver.name!r}.")
        if not (isinstance(problem.loss, MarginLoss) and problem.loss.twice_differentiable):
            raise InputError(
                f"perturbation 'objective' needs a twice differentiable loss of one margin; {problem.loss.name!r} is "
                f"not. Use 'logistic' or 'smoothed-hinge', or another recipe such as 'dp-admm'."
            )
        if not problem.smooth:
            raise InputError(
                f"perturbation 'objective' needs a twice differentiable penalty; {problem.penalty.name!r} has a kink. "
                f"Use 'l2' or 'none', or another recipe such as 'pvp' or 'dp-admm'."
            )
        if not isinstance(problem.domain, Whole):
            raise InputError(f"perturbation 'objective' has no lemma for the set {problem.domain.name!r}; use 'whole'.")

    def calibrate(self, setting: Setting, solver: Solver, request: Request) -> Noise:
        curvature = np.full(setting.agents, self.extra_curvature or 0.0)
        if isinstance(request, Multiplier):
            return self._noise(setting, np.full(setting.agents, request.value), curvature)
        if isinstance(request, PaperNoise):
            if self.extra_curvature is not None:
                raise InputError("the papers' noise chooses its extra curvature by itself; give one of the two.")
            return self._noise(setting, *self._as_published(setting, request.per_step.epsilon))
        budgets = request.of_each(setting.agents)
        per_round = 1.0 / noise_multipliers(budgets, setting.rounds, self.mechanism)
        if self.extra_curvature is None:
            curvature = np.maximum(0.0, self._needed(setting, JACOBIAN_SHARE * per_round) - self._base(setting))
        jacobian = self.jacobian(setting, curvature)
        left = (1.0 - OUTPUT_SHARE) * per_round - jacobian
        if (left <= 0).any():
            worst = int(np.argmin(left))
            alone = jacobian[worst]
            raise InputError(
                f"perturbation 'objective': with extra curvature {curvature[worst]:g} the Jacobian alone costs "
                f"{alone:.3g} a round, {setting.rounds * alone:.3g} in all, before any noise; the budget allows "
                f"{per_round[worst]:.3g} a round. Leave the extra curvature to be chosen, or use fewer rounds."
            )
        return self._noise(setting, 1.0 / left, curvature, OUTPUT_SHARE * per_round)

    def jacobian(self, setting: Setting, curvature: FloatArray) -> FloatArray:
        """ln(1 + kappa) of each agent; once for each record that is protected together."""
        kappa = self._record_curvature(setting) / (self._base(setting) + curvature)
        return setting.unit_size * np.log1p(kappa)

    def release(self, task: Task) -> tuple[Release, Memory]:
        setting, noise = task.setting, task.noise
        assert noise.output is not None
        assert noise.curvature is not None
        scale = noise.mechanism.noise_multiplier * setting.gradient_sensitivity()
        count = noise.mechanism.words_needed(setting.dimension)
        tilt = noise.mechanism.draw(scale, setting.dimension, task.words("objective", count))
        stiff = task.subproblem.stiffened(noise.curvature) if noise.curvature.any() else task.subproblem
        offset = 2.0 * task.solver.tolerance / (self._base(setting) + noise.curvature)
        emit = task.noisy(noise.output, offset, "output")
        answer, memory = task.solve(subproblem=stiff.tilted(tilt), emit=emit)
        return Release(answer, noise.events), memory

    def _noise(
        self, setting: Setting, multiplier: FloatArray, curvature: FloatArray, output: FloatArray | None = None
    ) -> Noise:
        """`output` is the epsilon of a round's output noise; without it, a hundredth of the linear term's."""
        silent = multiplier == 0.0
        cost = 1.0 / np.where(silent, np.inf, multiplier)
        output = OUTPUT_SHARE * cost if output is None else output
        total = cost + self.jacobian(setting, curvature) + output
        events: dict[tuple[bool, float], DpEvent] = {}
        pairs = [(bool(s), float(t)) for s, t in zip(silent, total, strict=True)]
        for quiet, epsilon in set(pairs):
            events[quiet, epsilon] = NonPrivateDpEvent() if quiet else PureDpEvent(epsilon)
        output_multiplier = np.where(silent, 0.0, 1.0 / np.where(silent, 1.0, output))
        return Noise(
            GammaNorm(multiplier), tuple(events[pair] for pair in pairs), GammaNorm(output_multiplier), curvature
        )

    def _as_published(self, setting: Setting, epsilon: float) -> tuple[FloatArray, FloatArray]:
        """Zhang & Zhu's rule (spec 3.3): what 2 ln(1+kappa) leaves, or half of it with extra curvature."""
        none = np.zeros(setting.agents)
        left = epsilon - 2.0 * self.jacobian(setting, none)
        needed = self._record_curvature(setting) / np.expm1(epsilon / 4.0) - self._base(setting)
        curvature = np.where(left > 0, 0.0, needed)
        return 1.0 / np.where(left > 0, left, epsilon / 2.0), curvature

    @staticmethod
    def _base(setting: Setting) -> float:
        """The curvature every subproblem has before any record is counted."""
        return setting.rho + setting.problem.strong_convexity

    @staticmethod
    def _record_curvature(setting: Setting) -> FloatArray:
        """How much curvature one record can add."""
        return setting.weights * (setting.problem.loss.curvature_bound(setting.norm_bound) or 0.0)

    def _needed(self, setting: Setting, jacobian: FloatArray) -> FloatArray:
        """The curvature at which the Jacobian's cost is this small."""
        return self._record_curvature(setting) / np.expm1(jacobian / setting.unit_size)
