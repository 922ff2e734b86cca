"""What a comparison of recipes has found: a cell for each recipe, number of agents and budget."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Cell:
    """One recipe at one budget with one number of agents; without a budget, the best without privacy."""

    algorithm: str  # as it was asked for
    recipe: str  # which that came to
    agents: int
    epsilon: float | None  # the total that was asked for
    epsilon_spent: float | None  # and what the accountant says
    mean: float  # of the error on held-out records, over the repeats
    standard_error: float | None  # of that mean; None with one repeat
    repeats: int
    rounds: int
    loss: str
    topology: str | None
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class LeftOut:
    """What could not run, and why."""

    algorithm: str
    agents: int
    epsilon: float | None
    reason: str


@dataclass(frozen=True)
class Frontier:
    """What a comparison has found by now."""

    data: str
    records: int
    held_out: int
    loss: str
    measure: str  # what the errors are: "test error" (a share), "RMSE" or "check loss"
    delta: float
    relation: str
    seed: int
    repeats: int
    agents: tuple[int, ...]
    epsilons: tuple[float, ...]
    algorithms: tuple[str, ...]
    cells: tuple[Cell, ...] = ()
    non_private: tuple[Cell, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()
    finished: bool = False  # whether nothing is missing

    def row(self, algorithm: str, agents: int) -> dict[float | None, Cell]:
        """A recipe's cells by their budgets."""
        return {each.epsilon: each for each in self.cells if (each.algorithm, each.agents) == (algorithm, agents)}

    def ranked(self, agents: int) -> tuple[str, ...]:
        """Recipes by their error at the largest budget, the best first; what did not run there comes last."""
        rows = {name: row for name in self.algorithms if (row := self.row(name, agents))}
        falling = self.epsilons[::-1]
        order = {name: [row[at].mean if at in row else math.inf for at in falling] for name, row in rows.items()}
        return tuple(sorted(order, key=order.__getitem__))

    def best(self, agents: int, epsilon: float) -> Cell | None:
        """The least error at a budget."""
        column = [each for each in self.cells if (each.agents, each.epsilon) == (agents, epsilon)]
        return min(column, key=lambda each: each.mean, default=None)

    def plus(self, found: Cell | LeftOut) -> Frontier:
        """With one more, in the order in which they were asked for."""
        name = "left_out" if isinstance(found, LeftOut) else "non_private" if found.epsilon is None else "cells"
        kept: dict[str, Any] = {name: tuple(sorted((*getattr(self, name), found), key=self._place))}
        return replace(self, **kept)

    def _place(self, found: Cell | LeftOut) -> tuple[int, int, float]:
        order = self.algorithms.index(found.algorithm) if found.algorithm in self.algorithms else -1
        return self.agents.index(found.agents), order, found.epsilon or 0.0
