"""Exact minimisers that may be released: within a paid distance of the true one, whatever the records are.

Each agent minimises

    F(x) = f(x) + <tilt, x> + (kappa/2)|x - centre|² + (l2/2)|x|² + R(x)

where f, the sum of its weighted losses, alone depends on records; lambda = kappa + l2. The proof is in
docs/theory/release.md, "Exact minimisers".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import BoolArray, FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.release.sums import CHUNK

MOST_STEPS = 1_000_000  # gradients of one answer
UNIT = 2.0**-53  # relative error of one operation
MOST_CLASSES = 2_000  # for which SLOPE_ERROR holds; `Exact` refuses more
SLOPE_ERROR = 2.0**-42  # of slopes as computed at given margins, in units of their bound

Gradient = Callable[[FloatArray, IntArray], FloatArray]
"""The gradients of the losses of some agents (k,) of the batch, at a point (k, D) for each: (k, D)."""

Proximal = Callable[[FloatArray, FloatArray, IntArray], FloatArray]
"""argmin over u of step R(u) + |u - x|²/2 for points x (k, D), steps (k, 1) and the agents (k,) whose they are, to some
units of the last place of x."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is public about the sums of losses of a batch of agents; arrays are (n,)."""

    gradient: FloatArray  # B, a bound on the length of the gradient of f
    curvature: FloatArray  # L, a bound on the second derivative of f
    stiffness: FloatArray  # lambda
    records: IntArray
    columns: int  # terms in a record's margin
    tolerance: float  # what is paid for: answers lie within tolerance / lambda of the minimisers

    @property
    def radius(self) -> FloatArray:
        """How far from x0 the minimiser, every step and every accepted candidate lie, at most."""
        return (self.gradient + self.tolerance) / self.stiffness

    @property
    def step(self) -> FloatArray:
        return 2.0 / (self.curvature + 2.0 * self.stiffness)

    def steps(self) -> IntArray:
        """N: how many steps lead from x0 to within half of tolerance / lambda. One more is made, for the rounding of N.

        Raises:
            InputError: if that is more than `MOST_STEPS`, or the numbers are not finite.
        """
        with np.errstate(all="ignore"):
            distance = np.log(np.maximum(2.0 * self.gradient / self.tolerance, 1.0))
            steps = np.ceil(distance / np.log1p(2.0 * self.stiffness / self.curvature)) + 1.0
        fits = steps <= MOST_STEPS
        if not fits.all():
            i = int(np.argmin(fits))
            raise InputError(
                f"solver 'exact' would need {steps[i]:,.0f} steps to prove a minimiser; {MOST_STEPS:,} are allowed. "
                f"The losses' curvature may be {self.curvature[i]:g} beside a quadratic term of {self.stiffness[i]:g}. "
                f"Use a larger rho, a smaller norm bound, or a recipe of gradient steps such as 'dp-admm'."
            )
        return steps.astype(np.int64)

    def rounding(self, size: FloatArray | float, start: FloatArray | float) -> FloatArray:
        """How wrong a computed gradient of F, and so a residual, can be within `radius` of x0: theory, "Rounding".

        `size` is a bound on |tilt| + kappa |centre|, `start` one on |x0|; lambda |anchor| <= size.
        """
        longest = start + self.radius
        terms = CHUNK + self.records / CHUNK + 32.0
        losses = self.gradient * (terms * UNIT + SLOPE_ERROR) + self.curvature * (self.columns + 24.0) * UNIT * longest
        return losses + 32.0 * UNIT * (self.stiffness * longest + size)

    def check(self, size: FloatArray | float = 0.0, start: FloatArray | float = 0.0) -> tuple[IntArray, FloatArray]:
        """How many steps to make, and what residual to accept, if rounding takes no more than half of the tolerance.

        Raises:
            InputError: if it may take more, or there are too many steps. Public numbers alone decide.
        """
        steps = self.steps()
        with np.errstate(all="ignore"):
            error = self.rounding(size, start)
        fits = error <= self.tolerance / 2.0
        if not fits.all():
            i = int(np.argmin(fits))
            raise InputError(
                f"solver 'exact': rounding may change a gradient by {error[i]:.1e}, more than half of the tolerance of "
                f"{self.tolerance:g} that privacy is paid for. Set the tolerance to {3.0 * error[i]:.0e} or more; or "
                f"use a larger rho, a smaller norm bound or less noise, which keep models short."
            )
        return steps, self.tolerance - error


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The public part of the problems of a batch of agents; what `l2` adds is in the bounds' stiffness."""

    bounds: Bounds
    tilt: FloatArray  # (n, D)
    kappa: FloatArray  # (n,)
    centre: FloatArray  # (n, D)
    prox: Proximal | None = None  # of R; None: R is nothing

    @property
    def size(self) -> FloatArray:
        """|tilt| + kappa |centre|."""
        return np.asarray(np.linalg.norm(self.tilt, axis=1) + self.kappa * np.linalg.norm(self.centre, axis=1))

    @property
    def anchor(self) -> FloatArray:
        return (self.kappa[:, None] * self.centre - self.tilt) / self.bounds.stiffness[:, None]

    @property
    def start(self) -> FloatArray:
        """x0: where the objective without the losses is smallest."""
        return self.mapped(self.anchor, 1.0 / self.bounds.stiffness, np.arange(len(self.tilt)))

    def mapped(self, points: FloatArray, steps: FloatArray, agents: IntArray) -> FloatArray:
        return points if self.prox is None else self.prox(points, steps[:, None], agents)


def minimisers(problem: Quadratic, gradient: Gradient, candidate: Any = None, fixed_steps: bool = False) -> FloatArray:
    """The minimisers of a batch, each within tolerance / lambda of the true one.

    Args:
        problem: What is public of the problems, with the bounds on what is not.
        gradient: The gradients of the losses, in doubles over the rows as they are. What is no number counts as 0.
        candidate: Points (n, D) by somebody else, who is trusted in nothing.
        fixed_steps: Whether to look at no candidate and make all N steps, so that the number of gradients is public.

    Returns:
        The points, (n, D). Each row depends on its own agent alone, and not on the rest of the batch.

    Raises:
        InputError: if public numbers rule an answer out: too many steps, or too much rounding.
    """
    bounds, anchor, x = problem.bounds, problem.anchor, problem.start.copy()
    steps, allowed = bounds.check(problem.size, np.linalg.norm(x, axis=1))

    def stepped(points: FloatArray, agents: IntArray) -> tuple[FloatArray, BoolArray]:
        """Where a step leads from these points, and whether their residuals prove that to be near enough."""
        longest, length = bounds.gradient[agents, None], bounds.step[agents]
        losses = np.clip(np.nan_to_num(gradient(points, agents), nan=0.0), -longest, longest)
        slope = losses + bounds.stiffness[agents, None] * (points - anchor[agents])
        after = problem.mapped(points - length[:, None] * slope, length, agents)
        residual = slope if problem.prox is None else (points - after) / length[:, None]
        return after, np.linalg.norm(residual, axis=1) <= allowed[agents]

    left = np.arange(len(x))
    if not fixed_steps:
        offered, points = _near(candidate, x, bounds.radius)
        if offered.size:
            after, good = stepped(points, offered)
            x[offered[good]] = after[good]
            left = np.setdiff1d(left, offered[good])
    for done in range(int(steps[left].max(initial=0))):
        left = left[steps[left] > done]
        if left.size == 0:
            break
        x[left], good = stepped(x[left], left)
        if not fixed_steps:  # what would prove a candidate proves a step as well
            left = left[~good]
    return x


def _near(candidate: Any, start: FloatArray, radius: FloatArray) -> tuple[IntArray, FloatArray]:
    """The rows of a candidate that are near enough to the start to be minimisers: the agents, and copies of points."""
    if not (isinstance(candidate, np.ndarray) and candidate.dtype == np.float64 and candidate.shape == start.shape):
        return np.arange(0), start[:0]
    with np.errstate(all="ignore"):
        near = np.flatnonzero(np.linalg.norm(candidate - start, axis=1) <= radius)  # NaN is not
    return near, candidate[near]
