"""What a tally of releases costs in total.

A `Guarantee` is a total (epsilon, delta), and always says under which relation and by which accountant. `best` picks
the smallest epsilon among the cheap accountants that are sound for the tally (see `accountants`). An `Account` is one
agent's tally; `Accounts` holds those of n agents. A record lives at exactly one agent, so the system's guarantee is
that of its worst agent, not the sum.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.privacy.accountants import ACCOUNTANTS
from dpadmm.privacy.events import DpEvent, GaussianObjectiveDpEvent, NonPrivateDpEvent, Relation, Tally, flatten

__all__ = ["ACCOUNTANTS", "Account", "Accounts", "Guarantee", "best", "deltas"]


@dataclass(frozen=True)
class Guarantee:
    """A total privacy guarantee, with everything one must know to quote it.

    Attributes:
        epsilon: Total epsilon; smaller is more private.
        delta: Total delta.
        relation: Which data sets count as neighbours.
        accountant: Key of the accountant that says so, in `ACCOUNTANTS`.
    """

    epsilon: float
    delta: float
    relation: Relation
    accountant: str

    def __str__(self) -> str:
        label = ACCOUNTANTS[self.accountant].label if self.accountant in ACCOUNTANTS else "no privacy"
        return f"(epsilon {self.epsilon:#.4g}, delta {self.delta:g}) total, {self.relation} relation, {label}"


def best(tally: Tally, delta: float, relation: Relation) -> Guarantee:
    """The smallest epsilon of the cheap sound accountants.

    Gaussian tallies are composed exactly. Anything with pure events takes the smallest of three upper bounds, anything
    with objective perturbation of two; what none of them knows (mini-batches) goes to the privacy loss distribution.
    """
    if not 0.0 <= delta < 1.0:
        raise InputError(f"delta must be in [0, 1), got {delta}")
    flat = flatten(tally)
    if any(isinstance(event, NonPrivateDpEvent) for event in flat):
        return Guarantee(math.inf, delta, relation, "none")
    bounds: tuple[str, ...] = ("pure", "pure+gaussian", "zcdp")
    if any(isinstance(event, GaussianObjectiveDpEvent) for event in flat):
        bounds = ("rdp", "single-steps")
    elif ACCOUNTANTS["exact"].supports(flat):
        bounds = ("exact",)
    names = [name for name in bounds if ACCOUNTANTS[name].supports(flat)] or ["pld"]
    epsilon, name = min(((_epsilon(name, flat, delta, relation), name) for name in names), key=lambda pair: pair[0])
    return Guarantee(epsilon, delta, relation, name)


def deltas(tally: Tally, epsilons: FloatArray, relation: Relation) -> FloatArray:
    """An upper bound of the smallest delta at each epsilon: the curve of a tally whose events were fixed beforehand.

    Args:
        tally: What was released.
        epsilons: (k,) where it is asked for; they may be negative.
        relation: Which data sets count as neighbours.

    Returns:
        (k,) deltas that hold in both directions of the neighbours, each by the best accountant that knows the events.
        1 where there is no privacy. Where the true delta is below 1e-15, the bound may be as large as that.

    Raises:
        InputError: No accountant knows the events, or not under this relation.
    """
    flat, epsilons = flatten(tally), np.asarray(epsilons, dtype=np.float64)
    if any(isinstance(event, NonPrivateDpEvent) for event in flat):
        return np.ones_like(epsilons)
    bounds: tuple[str, ...] = ("pure", "pld", "rdp", "single-steps")
    if ACCOUNTANTS["exact"].supports(flat):
        bounds = ("exact",)
    elif ACCOUNTANTS["pld"].supports(flat):
        bounds = ("pure", "pld")
    names = [name for name in bounds if ACCOUNTANTS[name].supports(flat)] or ["pld"]
    return np.asarray(np.minimum.reduce([ACCOUNTANTS[name].deltas(flat, epsilons, relation) for name in names]))


def _epsilon(name: str, flat: Tally, delta: float, relation: Relation) -> float:
    # Mini-batches take a second to account for, and the same tallies come up again: in every search for a noise level,
    # at planning, at joining, in every repeat.
    if name == "pld":
        return _kept(frozenset(flat.items()), delta, relation)
    return ACCOUNTANTS[name].epsilon(flat, delta, relation)


@lru_cache(maxsize=4096)
def _kept(flat: frozenset[tuple[DpEvent, int]], delta: float, relation: Relation) -> float:
    return ACCOUNTANTS["pld"].epsilon(dict(sorted(flat, key=repr)), delta, relation)


class Account:
    """The tally of one agent. It only grows.

    Args:
        relation: Which data sets count as neighbours.
    """

    def __init__(self, relation: Relation) -> None:
        self.relation = relation
        self._tally: Counter[DpEvent] = Counter()

    def spend(self, event: DpEvent, count: int = 1) -> None:
        """Write down that `event` happened `count` times.

        Args:
            event: What one release cost.
            count: How often it happened.

        Raises:
            InputError: The count is negative.
        """
        _check_count(count)
        self._tally[event] += count

    @property
    def tally(self) -> dict[DpEvent, int]:
        """A copy of what was spent."""
        return dict(self._tally)

    def guarantee(self, delta: float) -> Guarantee:
        """What was spent in total.

        Args:
            delta: The delta to state the guarantee at.

        Returns:
            The smallest epsilon that holds at this delta.

        Raises:
            InputError: The delta is not in [0, 1), or no accountant knows the events.
        """
        return best(self._tally, delta, self.relation)


class Accounts:
    """The tallies of n agents, kept together because they usually spend alike.

    Rounds are stored as (one event per agent, how often), and a round equal to an earlier one only raises its
    count.
    So ten thousand agents over a thousand rounds are a handful of tuples, and agents with the same history are
    evaluated once.

    Args:
        agents: How many there are.
        relation: Which data sets count as neighbours.
    """

    def __init__(self, agents: int, relation: Relation) -> None:
        self.agents = agents
        self.relation = relation
        self._rounds: list[tuple[DpEvent, ...]] = []
        self._counts: list[int] = []

    def spend(self, events: Sequence[DpEvent], count: int = 1) -> None:
        """Write down that agent i released `events[i]`, `count` times.

        Args:
            events: One per agent, in their order.
            count: How often that happened.

        Raises:
            InputError: The count is negative, or there is not one event for each agent.
        """
        _check_count(count)
        if len(events) != self.agents:
            raise InputError(f"{self.agents} agents need one event each, got {len(events)}")
        spent = tuple(events)
        # A list, not a dictionary: comparing tuples of the same objects is much cheaper than hashing them.
        if spent in self._rounds:
            self._counts[self._rounds.index(spent)] += count
        else:
            self._rounds.append(spent)
            self._counts.append(count)

    def tally(self, agent: int) -> dict[DpEvent, int]:
        """What one agent spent.

        Args:
            agent: Its position.

        Returns:
            How often each event happened.
        """
        return self._tally(tuple(events[agent] for events in self._rounds))

    def guarantee(self, agent: int, delta: float) -> Guarantee:
        """One agent's guarantee.

        Args:
            agent: Its position.
            delta: The delta to state the guarantee at.

        Returns:
            The smallest epsilon that holds for this agent's records.
        """
        return best(self.tally(agent), delta, self.relation)

    def worst(self, delta: float) -> Guarantee:
        """The system's guarantee: a record lives at one agent, so it is the worst agent's.

        Args:
            delta: The delta to state the guarantee at.

        Returns:
            The guarantee with the largest epsilon.
        """
        histories = set(zip(*self._rounds, strict=True)) or {()}
        tallies = {frozenset(self._tally(history).items()) for history in histories}
        return max((best(dict(tally), delta, self.relation) for tally in tallies), key=lambda found: found.epsilon)

    def _tally(self, history: tuple[DpEvent, ...]) -> dict[DpEvent, int]:
        tally: Counter[DpEvent] = Counter()
        for event, count in zip(history, self._counts, strict=True):
            tally[event] += count
        return dict(tally)


def _check_count(count: int) -> None:
    if count < 0:
        raise InputError(f"a release cannot be taken back: count {count} is negative")
