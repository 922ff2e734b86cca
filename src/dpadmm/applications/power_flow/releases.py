"""Where a zone's noise enters, with the lemma that follows from the place. Only here is a zone's release made.

Each algorithm is a `Protection`; it sees the loads, and what it hands on (noisy loads, noisy gradients, noisy results)
is all that the rest of the rounds is computed from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm.admm.solvers.base import RandomBits
from dpadmm.applications.power_flow.certified import nearest_certified
from dpadmm.applications.power_flow.formulation import Formulation
from dpadmm.applications.power_flow.programme import Programme
from dpadmm.applications.power_flow.zones import Zone
from dpadmm.privacy.events import DpEvent, NonPrivateDpEvent, NoOpDpEvent
from dpadmm.privacy.mechanisms import MECHANISMS, Mechanism
from dpadmm.release.perturb import release_value


@dataclass(frozen=True)
class Adjacency:
    """What a guarantee hides: changes of up to beta in the loads of one bus."""

    beta: float = 0.01
    both: bool = True  # the active and the reactive load may change together

    def of_loads(self, norm: int) -> float:
        """Of the loads themselves."""
        if not self.both:
            return self.beta
        return self.beta * (2.0 if norm == 1 else np.sqrt(2.0))

    def of_gradient(self, problem: Formulation, norm: int) -> float:
        """Of a zone's gradient: 2 beta |a| with a row a of the balance, at the bus where that is largest.

        In slack form a has a single entry of 1: 2 beta for one load, in either norm.
        """
        return 2.0 * self.beta * self._longest(problem, np.ones(problem.size), norm)

    def of_step(self, problem: Formulation, weights: FloatArray) -> float:
        """Of a linearised step's result u, as |.|_W with W = diag(weights).

        The step projects v - W^-1 g in the metric W, which moves no two points farther apart in that metric; so
        |u - u'|_W <= |W^-1/2 (g - g')|.
        """
        return 2.0 * self.beta * self._longest(problem, 1.0 / np.sqrt(weights), 2)

    def _longest(self, problem: Formulation, scale: FloatArray, norm: int) -> float:
        balance = problem.balance
        rows = csr_array(balance.multiply(scale[None, :]))
        buses = rows.shape[0] // 2
        active, reactive = rows[:buses], rows[buses:]
        moved = [active + reactive, active - reactive] if self.both else [active, reactive]
        return max(float(_lengths(each, norm).max()) for each in moved)


def _lengths(rows: csr_array, norm: int) -> FloatArray:
    return np.asarray(abs(rows).sum(axis=1) if norm == 1 else np.sqrt(rows.power(2).sum(axis=1))).ravel()


# Of a projection whose result is perturbed afterwards, in the metric of the step: relative to how far the step can lead
# without the loads, which is public. Far away solvers are relatively better, and noise must not feed on their error.
SOLVER_ERROR, FAR_ERROR = 3e-5, 2e-6


@dataclass(frozen=True, eq=False)
class Update:
    """One update before its projection, in the variables of its formulation."""

    problem: Formulation
    point: FloatArray  # where it leads, without the set
    weights: FloatArray  # its metric
    reach: float  # how far it can lead from the start without the loads, in that metric: public

    @property
    def error(self) -> float:
        """What a certified projection must reach."""
        return max(SOLVER_ERROR * min(max(10.0, self.reach), 33.0), FAR_ERROR * self.reach)


@dataclass(frozen=True)
class Protection:
    """No noise at all. `multiplier` is the noise over the sensitivity that the algorithm takes to be true."""

    multiplier: float = 0.0
    adjacency: Adjacency = field(default_factory=Adjacency)
    papers: bool = False  # scale the noise by the paper's sensitivities, and account by the true ones
    everywhere: bool = False  # gradient noise on entries that no load can move, too, as the paper has it

    name: ClassVar[str] = "none"
    mechanism: ClassVar[str | None] = None
    linearised: ClassVar[bool] = False  # one gradient step per update, or exact minimisation

    def loads(self, zone: Zone, random_bits: RandomBits) -> tuple[FloatArray, tuple[DpEvent, ...]]:
        """The loads to compute with, before round one, and what that costs."""
        return zone.relaxation.loads, () if self.mechanism else (NonPrivateDpEvent(),)

    def gradient(self, problem: Formulation, exact: FloatArray, random_bits: RandomBits) -> FloatArray:
        """What the loads add to the gradient to step along (`Formulation.of_loads`); all else in it is public."""
        return exact

    def result(self, step: Update, programme: Programme, random_bits: RandomBits) -> FloatArray:
        """The step's result: the nearest point of the zone's set to `step.point`, in the metric diag(weights)."""
        return programme.nearest(step.point, step.weights)

    def event(self, step: Update) -> DpEvent:
        """What one update costs."""
        return NoOpDpEvent()

    def _noisy(
        self, exact: FloatArray, multiplier: float, sensitivity: float, random_bits: RandomBits, purpose: str
    ) -> FloatArray:
        """A value with noise of so many (true) sensitivities, by the release path."""
        if multiplier == 0.0:
            return exact
        assert self.mechanism is not None
        mechanism = MECHANISMS[self.mechanism](np.array([multiplier]))
        return release_value(exact[None, :], mechanism, np.array([sensitivity]), random_bits(purpose))[0]

    def _event(self, multiplier: float) -> DpEvent:
        """Noise and event come from the same number."""
        assert self.mechanism is not None
        return NonPrivateDpEvent() if multiplier == 0.0 else MECHANISMS[self.mechanism].event(multiplier)

    def _true_multiplier(self, papers: float, true: float) -> float:
        """The noise over the true sensitivity, where the paper has another one."""
        return self.multiplier * papers / true if self.papers else self.multiplier

    @property
    def _norm(self) -> int:
        assert self.mechanism is not None
        kind: type[Mechanism] = MECHANISMS[self.mechanism]
        return kind.norm


@dataclass(frozen=True)
class LinearisedUpdate(Protection):
    """No noise, one gradient step per update: what the objective and output perturbations become without noise."""

    name = "linearised"
    linearised = True


@dataclass(frozen=True)
class Input(Protection):
    """The loads plus noise, once; then as many exact rounds as one likes.

    Formal guarantee. The loads of one bus move by at most beta each: sensitivity sqrt(2) beta (one load: beta). All
    that follows is computed from the noisy loads and the public network: post-processing. One event in all.
    """

    name = "input"
    mechanism = "gaussian"

    def loads(self, zone: Zone, random_bits: RandomBits) -> tuple[FloatArray, tuple[DpEvent, ...]]:
        sensitivity = self.adjacency.of_loads(self._norm)
        noisy = self._noisy(zone.relaxation.loads, self.multiplier, sensitivity, random_bits, "loads")
        return noisy, (self._event(self.multiplier),)


@dataclass(frozen=True)
class ObjectiveGaussian(Protection):
    """Noise on the gradient of every update, before the projection: a random linear term in the objective (001).

    Formal guarantee. At a point that follows from earlier releases the gradient is a public vector and
    `Formulation.of_loads`, the same at every update, which moves by at most `Adjacency.of_gradient`: in slack form
    2 beta for one load, in either norm; for both loads of a bus sqrt(2) times that in the 2-norm, twice in the 1-norm.
    Entries outside of `Formulation.entered` are zero whatever the loads, and need no noise. Step, projection, average
    and duals are post-processing, however roughly they are solved. One event per update.
    """

    name = "obj-g"
    mechanism = "gaussian"
    linearised = True

    def gradient(self, problem: Formulation, exact: FloatArray, random_bits: RandomBits) -> FloatArray:
        at = np.arange(exact.size) if self.everywhere else problem.entered
        sensitivity = self.adjacency.of_gradient(problem, self._norm)
        noisy = exact.copy()
        noisy[at] = self._noisy(exact[at], self._of(problem), sensitivity, random_bits, "gradient")
        return noisy

    def event(self, step: Update) -> DpEvent:
        return self._event(self._of(step.problem))

    def _of(self, problem: Formulation) -> float:
        return self._true_multiplier(2.0 * self.adjacency.beta, self.adjacency.of_gradient(problem, self._norm))


@dataclass(frozen=True)
class ObjectiveLaplace(ObjectiveGaussian):
    """The same with Laplace noise, and sensitivities in the 1-norm."""

    name = "obj-l"
    mechanism = "laplace"


@dataclass(frozen=True)
class OutputGaussian(Protection):
    """Noise on the result of every update, after the projection; results may leave the set (001's baseline).

    Formal guarantee. In the metric W of the step the result moves by at most `Adjacency.of_step`, in slack form 2 beta
    sqrt(eta) for one load, and twice the proven error of the projection on top. Noise is added to W^1/2 u, so it is
    largest where the step is least sure; in the 1-norm the same is at most sqrt(n) times as much. All of u is noisy,
    t in slack form included, and not only what is sent: the next gradient is taken there. One event per update.

    The paper adds noise of one size to all entries, scaled by beta. What that costs follows from
    |u - u'| <= |u - u'|_W / sqrt(min W).
    """

    name = "out-g"
    mechanism = "gaussian"
    linearised = True

    def result(self, step: Update, programme: Programme, random_bits: RandomBits) -> FloatArray:
        if self.multiplier == 0.0:
            return programme.nearest(step.point, step.weights)
        exact = nearest_certified(programme.condensed, step.point, step.weights, step.error, programme.name)
        root = np.ones(exact.size) if self.papers else np.sqrt(step.weights)
        return self._noisy(exact * root, self._of(step), self._sensitivity(step), random_bits, "output") / root

    def event(self, step: Update) -> DpEvent:
        return self._event(self._of(step))

    def _sensitivity(self, step: Update) -> float:
        """Of what the noise is added to: W^1/2 u, or u itself."""
        moved = self.adjacency.of_step(step.problem, step.weights) + 2.0 * step.error
        if self.papers:
            moved /= np.sqrt(step.weights.min())
        return float(moved * (np.sqrt(step.weights.size) if self._norm == 1 else 1.0))

    def _of(self, step: Update) -> float:
        return self._true_multiplier(self.adjacency.beta, self._sensitivity(step))


@dataclass(frozen=True)
class OutputLaplace(OutputGaussian):
    """The same with Laplace noise."""

    name = "out-l"
    mechanism = "laplace"


PROTECTIONS: dict[str, type[Protection]] = {
    kind.name: kind
    for kind in (
        Input,
        ObjectiveGaussian,
        ObjectiveLaplace,
        OutputGaussian,
        OutputLaplace,
        LinearisedUpdate,
        Protection,
    )
}
