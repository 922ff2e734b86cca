"""What is minimised: the sum over agents of f_i(x) = weight_i * (its losses) + strength * R(x), over x in a set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._ranges import STRENGTHS, TOTALS, check_ranges, ranged
from dpadmm.problems.losses import Logistic, Loss
from dpadmm.problems.penalties import NoPenalty, Penalty
from dpadmm.problems.sets import ConvexSet, Whole
from dpadmm.problems.shards import Shards


@dataclass(frozen=True)
class Problem:
    """A loss, a penalty with its strength at every agent (the papers' lambda / n), and a set.

    Args:
        loss: Of one record.
        penalty: Of the model.
        strength: The penalty's weight at every agent.
        domain: Where models must lie.
        records: Of all agents together: then each record weighs 1/records, wherever it lies. None: all agents count
            alike.
    """

    loss: Loss = field(default_factory=Logistic)
    penalty: Penalty = field(default_factory=NoPenalty)
    strength: float = ranged(STRENGTHS, 0.0)
    domain: ConvexSet = field(default_factory=Whole)
    records: int | None = ranged(
        TOTALS, None
    )  # of all agents together: then each record weighs 1/records, wherever it lies

    def __post_init__(self) -> None:
        check_ranges(self, "problem")

    @property
    def smooth(self) -> bool:
        """Whether the whole objective has a Lipschitz gradient."""
        kink = self.penalty.curvature is None and self.strength > 0
        return not kink and self.loss.curvature_bound(1.0) is not None

    @property
    def strong_convexity(self) -> float:
        """mu_r: what the penalty alone guarantees."""
        return self.strength * self.penalty.strong_convexity

    def weights(self, counts: IntArray) -> FloatArray:
        """The weight of one record: 1/m_i, so that all agents count alike, or one weight for all records.

        Args:
            counts: Records of each agent.

        Returns:
            One weight per agent.
        """
        return 1.0 / counts if self.records is None else np.full(counts.shape, 1.0 / self.records)

    def rounded(self, width: float) -> Problem:
        """With the kinks of loss and penalty rounded over a half-width.

        Args:
            width: The half-width.

        Returns:
            A problem that is smooth.
        """
        return replace(self, loss=self.loss.rounded(width), penalty=self.penalty.rounded(width))

    def take(self, agents: Any) -> Problem:
        """The problem of these agents, who may have sets of their own.

        Args:
            agents: Their positions.

        Returns:
            The same loss and penalty, with the sets of these agents.
        """
        domain = self.domain.take(agents)
        return self if domain is self.domain else replace(self, domain=domain)

    def objective(self, shards: Shards, x: FloatArray) -> FloatArray:
        """f_i(x_i) for each agent.

        Args:
            shards: The agents' records.
            x: A model for each, as rows.

        Returns:
            One number per agent; lower is better.
        """
        data = self.loss.values(shards, x, self.weights(shards.counts))
        return data + self.strength * self.penalty.value(x)
