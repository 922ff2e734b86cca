"""Explicit gradient steps, several a round, whose mean is the answer; with gradients of all records or of mini-batches.

SCAS-ADMM's solver is `svrg` (002, theory 5.1): one whole gradient a round, corrected at every step by a few records.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._fields import option
from dpadmm._ranges import BATCHES, SIZES, UPDATES, ranged
from dpadmm.admm.sampling import SAMPLINGS, SMALLEST_RATE, odds_of
from dpadmm.admm.setting import Setting
from dpadmm.admm.solvers.base import (
    Emit,
    Memory,
    Oracle,
    RandomBits,
    Subproblem,
    Sum,
    Sums,
    as_it_is,
    lengths,
    projection,
    slope_lengths,
    whole_units,
)
from dpadmm.admm.solvers.linearised import LocalUpdates
from dpadmm.errors import InputError, unknown
from dpadmm.problems.losses.base import MarginLoss
from dpadmm.problems.sets import Whole
from dpadmm.release.changes import change
from dpadmm.release.sums import MarginGradient, Query, Total

_WORD = 26  # sums that are rounded to multiples of at most 2^26 cells wrap around modulo 2^64, which costs no privacy

AVERAGES = ("plain", "over-relaxed")


@dataclass(frozen=True)
class GradientSteps(LocalUpdates):
    """S times v <- Π_W[ v - eta (f'(v) + tilt + kappa (v - centre)) ] from the last answer; the answer is a mean.

    Plain: of the S results, which is what the convergence proof covers (theory 5.2). Over-relaxed: as 002 prints it, of
    v^s + 2 (v^{s+1} - v^s) / (1 - 2 eta L), whose weights are not those of a mean (claims C3); noise grows at least
    twofold, and the result may leave a set.
    """

    updates: int = ranged(UPDATES, 10)
    average: str = option(
        "plain", help="Mean of the inner steps: plain, or over-relaxed as in the paper.", panel="Algorithm"
    )

    name = "gradient-steps"
    about = "explicit gradient steps, several a round; their mean is the answer"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.average not in AVERAGES:
            raise unknown("average", self.average, AVERAGES)

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if self.average == "over-relaxed" and not isinstance(setting.problem.domain, Whole):
            raise InputError(
                f"the over-relaxed average may leave the set {setting.problem.domain.name!r}; use the plain one."
            )

    def check_step(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> None:
        if setting.smoothness is None:
            return
        limit = 1.0 / (setting.smoothness + kappa)
        halved = self.average == "over-relaxed"
        fits = eta < limit / 2.0 if halved else eta <= limit * (1.0 + 1e-9)
        if not fits.all():
            i = int(np.argmin(fits))
            raise InputError(
                f"solver {self.name!r}: step {eta[i]:g} of agent {i} is outside the stable range; with the "
                f"{self.average} average it must be {'below' if halved else 'at most'} "
                f"{limit[i] / (2.0 if halved else 1.0):g}. Use a smaller step, as in '--schedule fixed:0.1', or a "
                f"smaller rho."
            )

    def solve(
        self, subproblem: Subproblem, oracle: Oracle, memory: Memory, eta: FloatArray, emit: Emit = as_it_is
    ) -> tuple[FloatArray, Memory]:
        first = point = memory.point
        total, stretch = np.zeros_like(point), self._stretch(subproblem, eta)
        project = projection(subproblem.problem.domain, emit)
        for _ in range(self.updates):
            slope = oracle(point) + subproblem.penalty_gradient(point)
            slope = slope + subproblem.tilt + subproblem.kappa * (point - subproblem.centre)
            after = emit(self._near(first, project(point - eta * slope)))
            total = total + (after if stretch is None else point + stretch * (after - point))
            point = after
        answer = point if self.updates == 1 and stretch is None else total / self.updates
        return answer, Memory(answer)

    def _stretch(self, subproblem: Subproblem, eta: FloatArray) -> FloatArray | None:
        if self.average == "plain":
            return None
        assert subproblem.smoothness is not None
        return 2.0 / (1.0 - 2.0 * eta * subproblem.smoothness)

    def _near(self, first: FloatArray, point: FloatArray) -> FloatArray:
        """Where a step may end, seen from where the round began; anywhere."""
        return point

    def size(self, subproblem: Subproblem, point: FloatArray, eta: FloatArray) -> FloatArray:
        away = subproblem.kappa[:, 0] * (lengths(point) + lengths(subproblem.centre))
        slope = slope_lengths(subproblem, point) + lengths(subproblem.tilt) + away
        return lengths(point) + eta[:, 0] * slope

    def gain(self, setting: Setting, kappa: FloatArray, eta: FloatArray) -> FloatArray:
        """Of one step."""
        return eta


@dataclass(frozen=True)
class Sgd(GradientSteps):
    """The gradient of a mini-batch in place of the whole one: (weight/q) times the sum over records drawn.

    `batch` is a number of records from 1, or a share of each agent's records below 1: the mean size of a batch. It
    scales the gradient, whatever the size of the draw.
    """

    batch: float = option(
        0.05,
        help="Mini-batches of ps-admm and its kin: records, or a share below 1.",
        panel="Algorithm",
        within=BATCHES,
    )

    name = "sgd"
    about = "as gradient-steps, with gradients of mini-batches (Poisson)"
    sampled = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch >= 1 and self.batch != int(self.batch):
            raise InputError(
                f"solver {self.name!r}: batch {self.batch:g} must be a whole number of records, or a share below 1."
            )

    def check(self, setting: Setting) -> None:
        super().check(setting)
        smallest = int(setting.counts.min())
        if self.batch > smallest:
            raise InputError(
                f"solver {self.name!r}: batches of {self.batch:g} records, but agent {int(setting.counts.argmin())} "
                f"has {smallest}: a sampling rate over 1. Use a smaller batch, or a share such as 0.05."
            )
        rate = float(self._asked(setting.counts).min())
        if rate < SMALLEST_RATE:
            raise InputError(
                f"solver {self.name!r}: a sampling rate of {rate:g} is below {SMALLEST_RATE:g}, and coins are not so "
                f"fine. Use a larger batch."
            )

    def odds(self, counts: IntArray) -> tuple[IntArray, IntArray]:
        """The chance of each agent's records to be drawn, as A / B: whole numbers, (n,) each."""
        return odds_of(self._asked(counts))

    def _asked(self, counts: IntArray) -> FloatArray:
        return np.full(counts.size, self.batch) if self.batch < 1 else self.batch / counts

    def rates(self, counts: IntArray) -> FloatArray:
        """The chance of each agent's records to be drawn; (n,)."""
        drawn, of = self.odds(counts)
        return drawn / of

    def spread(self, setting: Setting) -> FloatArray:
        """Of a sum of independent draws, none longer than G."""
        rates, longest = self.rates(setting.counts), setting.problem.loss.gradient_bound(setting.norm_bound)
        return setting.weights * longest * np.sqrt(setting.counts * (1.0 - rates) / rates)

    def mini_batch(self, subproblem: Subproblem, random_bits: RandomBits, step: int) -> Subproblem:
        """The subproblem over the records drawn for a step; which ones is as secret as noise."""
        counts = subproblem.shards.counts
        drawn = SAMPLINGS[self._sampling](random_bits(f"batch.{step}"), counts, self.odds(counts))
        return replace(subproblem, shards=subproblem.shards.pick(*drawn))

    @property
    def _sampling(self) -> str:
        return "poisson"

    def finer(self, setting: Setting) -> FloatArray:
        """Units of the lattice of its sums to one of the lattice of whole gradients; (n,)."""
        return self.rates(setting.counts)

    def sums(self, setting: Setting, subproblem: Subproblem, random_bits: RandomBits) -> Sums:
        """The sum over a mini-batch is rounded as a whole gradient is; one unit is worth 1/q of it."""
        steps, shift = itertools.count(1), setting.bounds.shift
        rates = self.rates(subproblem.shards.counts)
        units = whole_units(setting, subproblem) / rates[:, None]

        def of_batch(point: FloatArray) -> Sum:
            batch = self.mini_batch(subproblem, random_bits, next(steps))
            return Sum(batch.total(point).rounded(shift), units, rates)

        return of_batch


@dataclass(frozen=True)
class Svrg(Sgd):
    """The whole gradient where the round began, plus what a mini-batch says has changed since.

    `sampling` is `poisson`, or `uniform`: one record, all equally likely, as 002 prints it. `reach` keeps every step
    within that distance of where the round began; a record's gradient then changes by no more than its curvature times
    the reach, and privacy need not pay for more (claims B5).
    """

    sampling: str = option(
        "poisson", help="How mini-batches are drawn: poisson, or uniform (one record).", panel="Algorithm"
    )
    reach: float | None = option(
        None,
        help="How far ps-admm's steps may lead in a round; a short reach needs less noise.",
        panel="Algorithm",
        within=SIZES,
    )

    name = "svrg"
    about = "gradient steps around one whole gradient a round, corrected by mini-batches"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling not in SAMPLINGS:
            raise unknown("sampling", self.sampling, SAMPLINGS)
        if self.sampling == "uniform" and self.batch != 1:
            raise InputError(f"solver 'svrg': uniform sampling draws one record, not {self.batch:g}; set batch to 1.")

    def check(self, setting: Setting) -> None:
        super().check(setting)
        if setting.problem.loss.curvature_bound(setting.norm_bound) is None:
            raise InputError(
                f"solver 'svrg' needs a loss without kinks, {setting.problem.loss.name!r} has one; use a recipe with "
                f"plain mini-batches, such as 'ps-admm-sgd', or with whole gradients."
            )

    @property
    def _sampling(self) -> str:
        return self.sampling

    def spread(self, setting: Setting) -> FloatArray:
        """The correction vanishes with the distance to the anchor, so no bound on it is of use to a step size."""
        return np.zeros(setting.agents)

    def finer(self, setting: Setting) -> FloatArray:
        drawn, more = self._lattice(setting)
        return np.ldexp(drawn, -more)

    def _lattice(self, setting: Setting) -> tuple[IntArray, IntArray]:
        """The weight A of the whole sum, and by how many binary digits more its multiple is rounded; (n,) each.

        2^digits is at most A, so that a sum's rounding counts no more than a whole gradient's does; where whole
        gradients are not rounded, these sums are not either.
        """
        drawn, _ = self._weights(setting.counts)
        digits = np.minimum(np.frexp(drawn)[1].astype(np.int64) - 1, _WORD - setting.bounds.shift)
        return drawn, np.maximum(digits, 0) if setting.bounds.shift else np.zeros_like(drawn)

    def sums(self, setting: Setting, subproblem: Subproblem, random_bits: RandomBits) -> Sums:
        """The whole sum at the anchor, plus what mini-batches' sums have changed by since."""
        whole, corrections = self.whole(setting, subproblem), self.corrections(setting, subproblem, random_bits)
        anchors = list[IntArray]()

        def anchored(point: FloatArray) -> Sum:
            if not anchors:
                anchors.append(whole(point).counts)
            found = corrections(point)
            return replace(found, counts=anchors[0] + found.counts)

        return anchored

    def whole(self, setting: Setting, subproblem: Subproblem) -> Sums:
        """A times the whole sum, for the chance A / B of a record to be drawn: weighted in integers, then rounded."""
        drawn, more = self._lattice(setting)
        finer, shift = np.ldexp(drawn, -more), setting.bounds.shift + more[:, None]
        units = whole_units(setting, subproblem) / finer[:, None]
        query, shards = self.query(subproblem), subproblem.shards
        return lambda point: Sum(query.total(shards, point).times(drawn).rounded(shift), units, finer)

    def corrections(self, setting: Setting, subproblem: Subproblem, random_bits: RandomBits) -> Sums:
        """B times what mini-batches' sums have changed by since the first point, on the lattice of `whole`: its mean is
        what the whole sum has changed by."""
        (drawn, more), (_, of) = self._lattice(setting), self._weights(setting.counts)
        finer, shift = np.ldexp(drawn, -more), setting.bounds.shift + more[:, None]
        units = whole_units(setting, subproblem) / finer[:, None]
        changed = self.changes(setting, subproblem, random_bits)
        return lambda point: Sum(changed(point).times(of).rounded(shift), units, finer)

    def changes(
        self, setting: Setting, subproblem: Subproblem, random_bits: RandomBits
    ) -> Callable[[FloatArray], Total]:
        """What the sum over each step's mini-batch has changed by since the first point."""
        first, steps, longest = list[FloatArray](), itertools.count(1), self.longest_change(setting)
        query = self.query(subproblem)

        def moved(point: FloatArray) -> Total:
            step = next(steps)
            if not first:  # every change is zero
                first.append(point)
                nothing = np.zeros(point.shape, dtype=np.int64)
                return Total(nothing, nothing)
            shards = self.mini_batch(subproblem, random_bits, step).shards
            return change(query, shards, point, first[0], longest)

        return moved

    @staticmethod
    def query(given: Setting | Subproblem) -> Query:
        """What a record contributes. Where the loss says that slopes never change their sign, that is enforced: then a
        record's contribution changes by no more than its longest one."""
        query, loss = given.query, given.problem.loss
        if isinstance(query, MarginGradient) and isinstance(loss, MarginLoss) and loss.one_sided:
            return replace(query, one_sided=True)
        return query

    def longest_change(self, setting: Setting) -> int | None:
        """How many cells a record's contribution can move within reach; None where that is no less than anywhere.

        A record's gradient moves by at most its curvature times the distance. That is enforced, rounding included
        (`release.changes`), so no property of the loss enters the privacy proof.
        """
        bend = setting.problem.loss.curvature_bound(setting.norm_bound)
        if self.reach is None or bend is None:
            return None
        cells = bend * self.reach / setting.bounds.worth
        return math.ceil(cells) if cells < 2.0 * setting.bounds.norm else None

    def _weights(self, counts: IntArray) -> tuple[IntArray, IntArray]:
        """Of the whole sum and of a mini-batch's: a record drawn by chance A / B counts B / A times."""
        if self.sampling == "uniform":
            return np.ones_like(counts), counts
        return self.odds(counts)

    def _near(self, first: FloatArray, point: FloatArray) -> FloatArray:
        if self.reach is None:
            return point
        # A set is convex and has `first` in it: on the way back no point leaves it.
        move = point - first
        length = np.linalg.norm(move, axis=1, keepdims=True)
        return first + move * (self.reach / np.maximum(length, self.reach))
