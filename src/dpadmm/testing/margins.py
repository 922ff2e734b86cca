"""What a loss of the margin says of its three scalar functions, on a dense grid of margins.

phi, phi' and phi'' are functions of one number, so that a narrow region in which a bound does not hold can be found by
looking everywhere: up to the margins that rows within the norm bound and models of a plausible length reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.problems.losses.base import MarginLoss
from dpadmm.problems.shards import Shards
from dpadmm.testing.contract import ROUNDING, ContractError, told
from dpadmm.testing.problems import Method, SmallProblem

STEP = 0.005  # between margins
NEAR = 20.0  # of a target: margins in small steps
UNIT = 2.0**-53
ZOOMS, AROUND, POINTS = 4, 6, 201  # refinements, around so many of the worst margins, with so many points each


@dataclass(frozen=True, eq=False)
class Scan:
    """phi, phi' and phi'' of one target at increasing margins."""

    problem: SmallProblem
    target: Any
    margins: FloatArray
    values: FloatArray
    slopes: FloatArray
    bends: FloatArray

    @classmethod
    def of(cls, problem: SmallProblem, target: Any, margins: FloatArray) -> Scan:
        """By the loss's own methods, of a record (1) whose margin is the model."""
        alone = SmallProblem(problem.loss, width=1, bound=1.0)
        shards = alone.shards(np.ones((1, 1)), np.array([target]))
        values, slopes, bends = (
            _along(method, shards, margins) for method in (alone.loss.values, alone.loss.gradient, alone.loss.hessian)
        )
        return cls(problem, target, margins, values, slopes, bends)

    def refined(self, size: FloatArray) -> Scan:
        """The same with more margins around those where this is largest."""
        worst = np.argsort(size)[-AROUND:]
        low, high = self.margins[np.maximum(worst - 1, 0)], self.margins[np.minimum(worst + 1, size.size - 1)]
        more = Scan.of(self.problem, self.target, np.setdiff1d(np.linspace(low, high, POINTS), self.margins))
        margins = np.concatenate([self.margins, more.margins])
        order = np.argsort(margins)
        return Scan(
            self.problem,
            self.target,
            margins[order],
            np.concatenate([self.values, more.values])[order],
            np.concatenate([self.slopes, more.slopes])[order],
            np.concatenate([self.bends, more.bends])[order],
        )

    def where(self, place: int) -> str:
        return f"at the margin {self.margins[place]:.8g} with target {self.target}"


def _along(method: Method, shards: Shards, margins: FloatArray) -> FloatArray:
    count = margins.size
    return method(shards.take(np.zeros(count, dtype=np.int64)), margins[:, None], np.ones(count)).reshape(count)


def _grid(target: Any, reach: float) -> FloatArray:
    """Margins up to `reach` in small steps, very small and very large ones, and those around a target."""
    even = np.arange(-reach, reach + STEP, STEP)
    powers = np.concatenate([-np.logspace(12.0, -9.0, 400), np.logspace(-9.0, 12.0, 400)])
    beside = np.arange(-NEAR, NEAR, STEP) if abs(float(target)) + NEAR > reach else np.zeros(1)
    near = float(target) + np.concatenate([beside, powers[np.abs(powers) < 1e3]])
    return np.unique(np.concatenate([even, powers, near, [0.0]]))


def check_margins(problem: SmallProblem, loss: MarginLoss, reach: float) -> dict[str, float]:
    """Slope bound, second-derivative bound, one-sidedness and convexity, on all margins and for every target.

    Args:
        problem: the loss, and targets for it.
        loss: the same loss.
        reach: the largest margin that is looked at in small steps.

    Returns:
        The largest |phi'| and phi'' that were found.

    Raises:
        ContractError: with margin and target of a counterexample.
    """
    steepest = most_bent = 0.0
    for target in problem.every_target():
        scan = Scan.of(problem, target, _grid(target, reach))
        for _ in range(ZOOMS):
            scan = scan.refined(np.abs(scan.slopes))
        steepest = max(steepest, _check_slope(scan, loss))
        if problem.bends:
            for _ in range(ZOOMS):
                scan = scan.refined(scan.bends)
            most_bent = max(most_bent, _check_bend(scan, loss))
        _check_pairs(scan, loss)
        if loss.one_sided:
            _check_one_sided(scan, loss)
    return {"largest |phi'|": steepest, "largest phi''": most_bent}


def _check_slope(scan: Scan, loss: MarginLoss) -> float:
    worst = int(np.argmax(np.abs(scan.slopes)))
    found = float(abs(scan.slopes[worst]))
    if not found <= loss.slope_bound * ROUNDING:
        raise ContractError(
            scan.problem.part,
            "slope_bound",
            f"|phi'| is {told(found, loss.slope_bound)} {scan.where(worst)}, and the loss says at most "
            f"{loss.slope_bound:g}.",
            f"Noise would be too small for it: say a slope_bound of at least {found:.8g}, or clip the derivative.",
        )
    return found


def _check_bend(scan: Scan, loss: MarginLoss) -> float:
    """phi'' as it is written, and the growth of phi', which it must bound as well."""
    size = np.abs(scan.bends)
    worst = int(np.argmax(size))
    found, how = float(size[worst]), f"|phi''| is {size[worst]:.8g} {scan.where(worst)}"
    gaps = np.diff(scan.margins)
    lost = 8.0 * UNIT * (1.0 + (loss.bend_bound or 0.0)) * (_sizes(scan) + np.abs(scan.slopes[1:])) / gaps
    growth = np.abs(np.diff(scan.slopes)) / gaps - lost
    steepest = int(np.argmax(growth))
    if growth[steepest] > found * (1.0 + 1e-6):
        found = float(growth[steepest])
        how = f"phi' grows by {found:.8g} times the step {scan.where(steepest)}"
    if not found <= loss.bend_bound * (1.0 + 1e-9):
        raise ContractError(
            scan.problem.part,
            "bend_bound",
            f"{how}, and the loss says at most {loss.bend_bound:g}.",
            f"Say a bend_bound of at least {found:.8g}, or return None from curvature_bound if there is a kink.",
        )
    return found


def _sizes(scan: Scan) -> FloatArray:
    return 1.0 + abs(float(scan.target)) + np.abs(scan.margins[1:])


def _check_pairs(scan: Scan, loss: MarginLoss) -> None:
    """Between neighbouring margins: phi' does not fall if the loss is convex, and phi grows as phi' says."""
    gaps, low, high = np.diff(scan.margins), scan.slopes[:-1], scan.slopes[1:]
    if loss.convex and (falls := high < low - 1e-12 * (1.0 + np.abs(low))).any():
        place = int(np.argmax(falls * (low - high)))
        raise ContractError(
            scan.problem.part,
            "convex",
            f"phi' falls from {low[place]:.8g} to {high[place]:.8g} between the margins {scan.margins[place]:.8g} and "
            f"{scan.margins[place + 1]:.8g}, with target {scan.target}.",
            "Set convex = False, or correct the functions.",
        )
    steep = 1.0 + max(abs(loss.slope_bound), 0.0)
    rounding = 8.0 * UNIT * (steep * _sizes(scan) + np.abs(scan.values[1:]) + np.abs(scan.values[:-1])) / gaps
    growth, room = np.diff(scan.values) / gaps, 1e-9 * steep + rounding
    if not loss.convex:
        room = room + np.abs(high - low)
    off = np.maximum(np.minimum(low, high) - growth, growth - np.maximum(low, high)) - room
    if not (off <= 0.0).all():
        place = int(np.argmax(off))
        raise ContractError(
            scan.problem.part,
            "gradient is the derivative of values",
            f"between the margins {scan.margins[place]:.8g} and {scan.margins[place + 1]:.8g}, with target "
            f"{scan.target}, phi grows by {growth[place]:.8g} times the step, and phi' goes from {low[place]:.8g} to "
            f"{high[place]:.8g}.",
            "Correct the derivative, or the value.",
        )


def _check_one_sided(scan: Scan, loss: MarginLoss) -> None:
    dust = 1e-12 * loss.slope_bound  # what is left of zero after rounding
    if (scan.slopes < -dust).any() and (scan.slopes > dust).any():
        down, up = int(np.argmin(scan.slopes)), int(np.argmax(scan.slopes))
        raise ContractError(
            scan.problem.part,
            "one_sided",
            f"with target {scan.target}, phi' is {scan.slopes[down]:.8g} at the margin {scan.margins[down]:.8g} and "
            f"{scan.slopes[up]:.8g} at {scan.margins[up]:.8g}.",
            "Set one_sided = False: objective perturbation would be accounted for too cheaply.",
        )
    at_zero = float(np.abs(scan.slopes[scan.margins == 0.0]).max())
    if at_zero <= dust < np.abs(scan.slopes).max():
        raise ContractError(
            scan.problem.part,
            "one_sided",
            f"with target {scan.target}, phi' is {at_zero:.8g} at the margin 0, whose sign is kept for all margins.",
            "Set one_sided = False: in variance-reduced steps such a record would contribute nothing.",
        )
