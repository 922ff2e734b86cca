"""The minimiser of the subproblem, to a stated gradient tolerance.

Where the loss has no kink, `release.minimiser` answers: it accepts what a fast solver found if that is provably near
enough, and otherwise makes a proved number of steps. The fast solvers are Newton's method where the objective has a
Hessian that fits in memory, and accelerated proximal gradient otherwise (penalties with kinks, boxes, very many
coefficients). Which one is a function of public facts. They are not trusted: they may fail in any way.

Losses with a kink are solved by Newton's method on ever sharper versions of them (`kinks`). Whether that succeeds
depends on the records, so it is for simulations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._fields import option
from dpadmm._ranges import TOLERANCES, check_ranges
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import Emit, Memory, Oracle, Solver, Subproblem, as_it_is
from dpadmm.admm.solvers.kinks import SHARPEST, sharpened
from dpadmm.admm.solvers.newton import newton
from dpadmm.admm.solvers.proximal import proximal
from dpadmm.errors import InputError
from dpadmm.problems.penalties import L1, L2, ElasticNet, NoPenalty
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Whole
from dpadmm.release.minimiser import MOST_CLASSES, Bounds, Proximal, Quadratic, minimisers

# Newton keeps a D x D matrix for every agent; past this many numbers in one, first-order steps are the better bargain.
# It is a matter of the model alone: any grouping of agents, down to a single owner, must solve by the same method.
HESSIAN_NUMBERS = 1_000_000

ROUNDING = 1.0 + 1e-9  # covers what is lost in computing public bounds
START = "start"  # in a memory's private part
AIM = 0.25  # of the tolerance, at which the fast solvers stop: the rest is for rounding


@dataclass(frozen=True)
class Exact(Solver):
    """Answers within tolerance / (kappa + the penalty's strong convexity) of every agent's minimiser."""

    tolerance: float = option(
        1e-8,
        help="Gradient length at which an exact solver stops.",
        panel="Algorithm",
        shown="1e-8",
        within=TOLERANCES,
    )
    fixed_steps: bool = option(
        False,
        help="Solve exactly in a fixed number of steps, which no record can change. Slower.",
        panel="Algorithm",
        off_flag="--no-fixed-steps",
        shown="no",
    )

    name = "exact"
    about = "the minimiser, to a stated gradient tolerance (Newton, also for losses with kinks, or proximal gradient)"
    first_order = False

    def __post_init__(self) -> None:
        check_ranges(self, f"solver {self.name!r}")

    def check(self, setting: Setting) -> None:
        problem = setting.problem
        if not problem.loss.convex:
            raise InputError(f"solver 'exact' needs a convex loss, {problem.loss.name!r} is not; use 'dp-admm'.")
        if not problem.domain.separable:
            raise InputError(
                f"solver 'exact' cannot handle the set {problem.domain.name!r}, only 'whole', 'box' and 'range'; "
                f"recipes of gradient steps, such as 'dp-admm' and 'obj-g', handle all."
            )
        if not problem.penalty.convex and problem.strength > 0.0:
            raise InputError(
                f"solver 'exact' needs a convex penalty, {problem.penalty.name!r} is not; use a recipe of gradient "
                f"steps such as 'dp-admm' or 'fdp-admm'."
            )
        if problem.loss.curvature_bound(setting.norm_bound) is None:
            self._check_kink(setting)

    def _check_kink(self, setting: Setting) -> None:
        loss = setting.problem.loss.name
        if not isinstance(setting.problem.domain, Whole) or setting.dimension**2 > HESSIAN_NUMBERS:
            raise InputError(
                f"solver 'exact' handles the kink of loss {loss!r} on the whole space and up to 1,000 coefficients; "
                f"recipes of gradient steps, such as 'fdp-admm', know no such bounds."
            )
        if self.tolerance < SHARPEST:
            raise InputError(
                f"solver 'exact' proves a minimiser of loss {loss!r}, which has a kink, to a tolerance of {SHARPEST:g} "
                f"at best, not {self.tolerance:g}; set the tolerance to 1e-6, or use 'f-admm', which has that."
            )
        if self.fixed_steps:
            raise InputError(
                f"solver 'exact' has no fixed number of steps for loss {loss!r}, which has a kink; use a loss without "
                f"one, such as 'smoothed-quantile'."
            )

    def check_step(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> None:
        """Refuses curvatures with which proofs would take too many steps, or more digits than there are."""
        width = setting.columns
        if setting.dimension > MOST_CLASSES * width:
            raise InputError(
                f"solver 'exact' proves minimisers for up to {MOST_CLASSES:,} classes, not for "
                f"{setting.dimension // width:,}; use a recipe of gradient steps such as 'dp-admm'."
            )
        bounds = self._bounds(setting.problem, setting.weights, setting.counts, setting.norm_bound, width, kappa)
        if bounds is not None:
            bounds.check()

    def reach(self, subproblem: Subproblem, hidden: FloatArray) -> FloatArray:
        """How far from zero an answer can lie if a linear term of at most this length (n,) is added to smooth problems
        on the whole space: noise, of which only a bound may be looked at.

        Raises:
            InputError: where `solve` would; public numbers alone decide.
        """
        problem = self._quadratic(subproblem)
        assert problem is not None
        size = problem.size + hidden
        start = size / problem.bounds.stiffness
        problem.bounds.check(size, start)
        return start + problem.bounds.radius

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        """The next round starts from what the fast solver found; where it ends depends on that by less than is paid."""
        problem = self._quadratic(subproblem)
        if problem is None:
            answer = sharpened(subproblem, _start(memory), self.tolerance)
            return emit(answer), replace(memory, private={START: answer})
        candidate, kept = (memory.point * np.nan, {}) if self.fixed_steps else self._candidate(subproblem, memory)

        def gradient(points: FloatArray, agents: IntArray) -> FloatArray:
            part = subproblem if agents.size == len(subproblem.weights) else subproblem.take(agents)
            return part.loss_gradient(points)

        answer = minimisers(problem, gradient, candidate, self.fixed_steps)
        found = np.isfinite(candidate).all(axis=1, keepdims=True)
        return emit(answer), replace(memory, private={**kept, START: np.where(found, candidate, answer)})

    def _candidate(self, subproblem: Subproblem, memory: Memory) -> tuple[FloatArray, dict[str, FloatArray]]:
        """What a fast solver finds, and what it keeps for the next round; NaN for agents with whom it fails."""
        aim, by_newton = AIM * self.tolerance, self.by_newton(subproblem)
        try:
            with np.errstate(all="ignore"):
                if by_newton:
                    return newton(subproblem, _start(memory), memory.private, aim)
                return proximal(subproblem, _start(memory), aim), {}
        except Exception:  # whatever it is, the answer is proved without it
            agents, dimension = subproblem.tilt.shape
            if agents == 1:
                none = np.full((1, dimension), np.nan)
                return none, {"inverse": np.zeros((1, dimension, dimension)), "slope": none} if by_newton else {}
        alone = []  # one agent's failure must not change the others' answers
        for i in range(agents):
            private = {name: values[[i]] for name, values in memory.private.items()}
            alone.append(self._candidate(subproblem.take([i]), Memory(memory.point[[i]], private)))
        kept = {name: np.concatenate([private[name] for _, private in alone]) for name in alone[0][1]}
        return np.concatenate([point for point, _ in alone]), kept

    def _quadratic(self, subproblem: Subproblem) -> Quadratic | None:
        """The public part of the subproblems; None for a loss with a kink."""
        problem, shards, kappa = subproblem.problem, subproblem.shards, subproblem.kappa[:, 0]
        bounds = self._bounds(problem, subproblem.weights, shards.counts, shards.norm_bound, shards.width, kappa)
        if bounds is None:
            return None
        # Copies: a fast solver that writes into what it is given must not change what is proved.
        public = subproblem.tilt.copy(), kappa.copy(), subproblem.centre.copy()
        return Quadratic(bounds, *public, _proximal(problem))

    def _bounds(
        self, problem: Problem, weights: FloatArray, counts: IntArray, row_bound: float, width: int, kappa: FloatArray
    ) -> Bounds | None:
        bend = problem.loss.curvature_bound(row_bound)
        if bend is None:
            return None
        return Bounds(
            gradient=weights * counts * problem.loss.gradient_bound(row_bound) * ROUNDING,
            curvature=weights * counts * bend * ROUNDING,
            stiffness=kappa + problem.strong_convexity,
            records=counts,
            columns=width,
            tolerance=self.tolerance,
        )

    @staticmethod
    def by_newton(subproblem: Subproblem) -> bool:
        problem, dimension = subproblem.problem, subproblem.tilt.shape[1]
        smooth = problem.smooth and problem.loss.twice_differentiable
        has_hessian = smooth and not (problem.loss.task == "multiclass" and subproblem.shards.sparse)
        return has_hessian and isinstance(problem.domain, Whole) and dimension**2 <= HESSIAN_NUMBERS

    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """The objective is (kappa + mu_r)-strongly convex (theory 3.2; smoothness is not needed)."""
        return 1.0 / (kappa + setting.problem.strong_convexity)


def _start(memory: Memory) -> FloatArray:
    """Where the fast solvers begin: at what they found last, which is private."""
    return memory.private.get(START, memory.point)


def _proximal(problem: Problem) -> Proximal | None:
    """The proximal map of the penalty over the set, less the penalty's quadratic part; None where nothing is left."""
    penalty, strength, quadratic = problem.penalty, problem.strength, problem.strong_convexity
    known = type(penalty) in (NoPenalty, L1, L2, ElasticNet) or strength == 0.0
    pull = strength * getattr(penalty, "ratio", 0.0)
    if known and pull == 0.0 and isinstance(problem.domain, Whole):
        return None

    def mapped(points: FloatArray, steps: FloatArray, agents: IntArray) -> FloatArray:
        if not known:  # R less its quadratic part: complete the square
            part = 1.0 - steps * quadratic
            points = penalty.prox(points / part, strength * steps / part)
        elif pull > 0.0:
            points = L1().prox(points, pull * steps)
        return problem.take(agents).domain.project(points)

    return mapped
