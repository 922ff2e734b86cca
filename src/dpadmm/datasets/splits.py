"""Who owns which record, in a simulation: an agent number for every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError

Assignment = NDArray[np.int64]


def at_random(targets: NDArray[Any], agents: int, rng: np.random.Generator) -> Assignment:
    """Equal shares (to one record) of a random order."""
    owner = np.empty(targets.size, dtype=np.int64)
    owner[rng.permutation(targets.size)] = np.arange(targets.size) * agents // targets.size
    return owner


def by_label(targets: NDArray[Any], agents: int, rng: np.random.Generator) -> Assignment:
    """Equal shares of the records sorted by label: most agents see one label only."""
    shuffled = rng.permutation(targets.size)
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    owner = np.empty(targets.size, dtype=np.int64)
    owner[order] = np.arange(targets.size) * agents // targets.size
    return owner


def dirichlet(concentration: float = 0.5) -> Callable[[NDArray[Any], int, np.random.Generator], Assignment]:
    """Ragged, label-skewed shares: each label is dealt out by its own Dirichlet draw (small is skewed)."""
    if not 0 < concentration < np.inf:
        raise InputError(f"dirichlet concentration {concentration!r}: must be a positive number.")

    def deal(targets: NDArray[Any], agents: int, rng: np.random.Generator) -> Assignment:
        owner = np.empty(targets.size, dtype=np.int64)
        for label in np.unique(targets):
            rows = rng.permutation(np.flatnonzero(targets == label))
            edges = np.cumsum(rng.dirichlet(np.full(agents, concentration)))[:-1]
            owner[rows] = np.searchsorted(np.round(edges * rows.size), np.arange(rows.size), side="right")
        # An agent that drew nothing takes one record from the agent that has most, so that every owner takes part.
        counts = np.bincount(owner, minlength=agents)
        for agent in np.flatnonzero(counts == 0):
            richest = int(np.argmax(counts))
            owner[np.flatnonzero(owner == richest)[-1]] = agent
            counts[richest] -= 1
            counts[agent] += 1
        return owner

    return deal


SPLITS: dict[str, Any] = {"random": lambda: at_random, "by-label": lambda: by_label, "dirichlet": dirichlet}
