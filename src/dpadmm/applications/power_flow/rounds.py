"""The rounds: server first, as in theory 4.1, over the copies of cut-line variables only.

A zone keeps its loads, its set, its whole variable vector and its dual; it sends its copies. The coordinator keeps the
duals too, from what was sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csc_array, diags_array

from dpadmm._arrays import FloatArray
from dpadmm.admm.solvers.base import RandomBits
from dpadmm.applications.power_flow.formulation import Formulation
from dpadmm.applications.power_flow.pooled import OperatingPoint
from dpadmm.applications.power_flow.programme import Programme
from dpadmm.applications.power_flow.relaxation import relax
from dpadmm.applications.power_flow.releases import Protection, Update
from dpadmm.applications.power_flow.terms import Terms
from dpadmm.applications.power_flow.zones import Decomposition, Zone
from dpadmm.privacy.accounting import Accounts, Guarantee
from dpadmm.privacy.events import DpEvent, Relation
from dpadmm.release.random_bits import SeededRandomness, Stream

PROXIMAL = 1e-3  # an exact round's pull to the last point: it makes the minimiser unique, and vanishes at a fixed point


@dataclass
class Holder:
    """A zone's owner. Its vectors are those of its formulation, in which the zone's own variables come first."""

    problem: Formulation
    protection: Protection
    programme: Programme
    point: FloatArray  # u: where the next update begins
    answer: FloatArray  # the mean of the last round's updates; its copies are what was sent
    dual: FloatArray
    start: FloatArray  # where round one began: public
    loads: FloatArray  # what it computes with: the true ones, or noisy ones
    smoothness: float
    quadratic: csc_array | None = None  # of exact rounds, factorised once

    @classmethod
    def begin(
        cls, zone: Zone, protection: Protection, formulation: str, name: str, random_bits: RandomBits
    ) -> tuple[Holder, tuple[DpEvent, ...]]:
        """Starts from the point of the set that is nearest to no flow at voltage 1: public."""
        # Exact rounds minimise over x, and come to the same in every formulation.
        problem = Formulation.of(zone, formulation if protection.linearised else "eliminated")
        programme = Programme(zone.relaxation, name, problem.lift)
        flat, near = np.zeros(problem.size), np.zeros(problem.size)
        flat[zone.relaxation.variables.voltage] = flat[zone.relaxation.variables.cosine] = 1.0
        near[: zone.members.size] = 1.0
        first = programme.nearest(flat, near)
        loads, events = protection.loads(zone, random_bits)
        dual = np.zeros(zone.shared.size)
        return cls(problem, protection, programme, first, first, dual, first, loads, problem.smoothness), events

    @property
    def zone(self) -> Zone:
        return self.problem.zone

    @property
    def operating(self) -> FloatArray:
        """The answer in the zone's own variables."""
        return self.answer[: self.zone.members.size]

    @property
    def sent(self) -> FloatArray:
        """Its copies: all that leaves it."""
        return self.answer[self.zone.shared]

    def round(self, phi: FloatArray, terms: Terms, k: int, random_bits: RandomBits) -> list[DpEvent]:
        """Answers the broadcast of round k, and moves its dual; what comes back is what each update cost."""
        near = phi[self.zone.common]
        if terms.linearised:
            events = self._steps(near, terms, terms.eta(self.smoothness, k), random_bits)
        else:
            events = self._solve(near, terms)
        self.dual = self.dual + terms.penalty * (near - self.sent)
        return events

    def _steps(self, near: FloatArray, terms: Terms, eta: float, random_bits: RandomBits) -> list[DpEvent]:
        problem, shared = self.problem, self.zone.shared
        weights = np.full(problem.size, 1.0 / eta)
        weights[shared] += terms.penalty
        private = problem.of_loads(self.loads)
        total, events = np.zeros_like(self.point), []
        for update in range(terms.updates):

            def fresh(purpose: str, update: int = update) -> Stream:
                return random_bits(f"{purpose}.{update}")

            pull = self.point / eta - problem.public_gradient(self.point)
            pull[shared] += terms.penalty * near + self.dual
            reach = float(np.sqrt(weights @ (pull / weights - self.start) ** 2))
            pull -= self.protection.gradient(problem, private, fresh)
            step = Update(problem, pull / weights, weights, reach)
            self.point = self.protection.result(step, self.programme, fresh)
            events.append(self.protection.event(step))
            total += self.point
        self.answer = total / terms.updates
        return events

    def _solve(self, near: FloatArray, terms: Terms) -> list[DpEvent]:
        zone, shared = self.zone, self.zone.shared
        balance = zone.relaxation.balance
        if self.quadratic is None:
            weights = np.full(self.point.size, PROXIMAL)
            weights[shared] += terms.penalty
            self.quadratic = csc_array(2.0 * (balance.T @ balance) + diags_array(weights))
        linear = 2.0 * (balance.T @ self.loads) - PROXIMAL * self.point
        linear[shared] -= terms.penalty * near + self.dual
        self.point = self.answer = self.programme.minimise(self.quadratic, linear)
        return []


@dataclass(frozen=True, eq=False)
class FlowResult:
    """A finished run. Objectives are at the true loads, which only a simulation may look at."""

    terms: Terms
    decomposition: Decomposition
    point: OperatingPoint  # of the whole network: private variables from their zones, the mean of all copies
    objectives: FloatArray  # by round: the sum over zones of |mismatch|² at their own vectors
    residuals: FloatArray  # by round: distance of the copies to what was broadcast
    epsilons: FloatArray  # by round: spent so far, by the worst zone; empty without privacy
    zone_epsilons: FloatArray  # the same of every zone, (rounds, zones)
    guarantee: Guarantee | None
    claimed: float | None
    seconds: float
    multiplier: float
    vectors: tuple[FloatArray, ...] = field(repr=False)  # of the zones

    @property
    def objective(self) -> float:
        return float(self.objectives[-1])

    @property
    def residual(self) -> float:
        return float(self.residuals[-1])


Progress = Callable[[int, float, float], None]
"""Told the round, its objective and its residual."""


def run(decomposition: Decomposition, terms: Terms, seed: int = 0, progress: Progress | None = None) -> FlowResult:
    """All rounds, simulated: the noise is seeded."""
    began = time.perf_counter()
    protection, zones = terms.protection(), decomposition.zones
    accounts = Accounts(len(zones), Relation.REPLACE)
    holders, rho = [], terms.penalty
    openings = []
    for place, zone in enumerate(zones):
        name = f"{decomposition.network.name}, zone {place + 1}"
        holder, events = Holder.begin(zone, protection, terms.formulation, name, _random_bits(seed, place, 0))
        holders.append(holder)
        openings.append(events)
    for events in zip(*openings, strict=True):
        accounts.spend(events)
    delta = terms.delta or 0.0
    sums: dict[str, list[float]] = {"objective": [], "residual": []}
    spent: list[list[float]] = []
    for k in range(1, terms.rounds + 1):
        phi = decomposition.agree([holder.sent - holder.dual / rho for holder in holders])
        costs = [holder.round(phi, terms, k, _random_bits(seed, place, k)) for place, holder in enumerate(holders)]
        for events in zip(*costs, strict=True):
            accounts.spend(events)
        sums["objective"].append(sum(holder.zone.relaxation.objective(holder.operating) for holder in holders))
        sums["residual"].append(
            float(np.sqrt(sum(np.sum((phi[holder.zone.common] - holder.sent) ** 2) for holder in holders)))
        )
        if terms.mechanism is not None:
            spent.append([accounts.guarantee(place, delta).epsilon for place in range(len(zones))])
        if progress is not None:
            progress(k, sums["objective"][-1], sums["residual"][-1])
    vectors = tuple(holder.operating for holder in holders)
    return FlowResult(
        terms=terms,
        decomposition=decomposition,
        point=OperatingPoint.at(relax(decomposition.network), decomposition.merge(vectors)),
        objectives=np.array(sums["objective"]),
        residuals=np.array(sums["residual"]),
        epsilons=np.array([max(each) for each in spent]),
        zone_epsilons=np.array(spent),
        guarantee=None if terms.mechanism is None else accounts.worst(delta),
        claimed=terms.claimed(),
        seconds=time.perf_counter() - began,
        multiplier=protection.multiplier,
        vectors=vectors,
    )


def _random_bits(seed: int, place: int, round: int) -> RandomBits:
    source, run, agent = SeededRandomness(seed), np.zeros(1, dtype=np.int64), np.array([place])
    return lambda purpose: source.stream(run, agent, round, f"power-flow.{purpose}")
