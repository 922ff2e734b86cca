"""What the suites share: every loss of the registry, with enough to make small problems for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm._registry import build
from dpadmm.problems.losses import LOSSES, Loss
from dpadmm.problems.shards import Shards, gather

CLASSES = {"binary": 2, "multiclass": 3, "regression": 0}
SOME_TARGETS = [-1000.0, -1.0, -0.1, 0.0, 0.1, 1.0, 1000.0]


@dataclass(frozen=True)
class Case:
    """A loss, and records that fit it."""

    loss: Loss
    width: int = 4
    bound: float = 1.5

    @property
    def classes(self) -> int:
        return CLASSES[self.loss.task]

    @property
    def dimension(self) -> int:
        return self.loss.dimension(self.width, self.classes)

    @property
    def bends(self) -> bool:
        """Whether the loss has a Hessian at all."""
        return self.loss.curvature_bound(1.0) is not None

    @property
    def methods(self) -> list[Any]:
        return [self.loss.values, self.loss.gradient, *([self.loss.hessian] if self.bends else [])]

    def every_target(self) -> NDArray[Any]:
        """All targets (of a regression: some, far ones included), as in a data set."""
        return np.array(SOME_TARGETS) if self.loss.task == "regression" else np.arange(self.classes)

    def targets(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Targets as in a data set."""
        if self.loss.task == "regression":
            return rng.normal(size=count)
        return rng.integers(self.classes, size=count)

    def rows(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Rows of every length up to the bound, some numbers of them zero."""
        rows = rng.normal(size=(count, self.width)) * (rng.random((count, self.width)) < 0.7)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.maximum(lengths, 1e-9) * rng.uniform(0.0, self.bound, (count, 1))

    def level(self, rng: np.random.Generator, count: int) -> FloatArray:
        """Rows on the bound whose numbers are all of one size: the longest there are in the 1-norm."""
        return rng.choice([-1.0, 1.0], (count, self.width)) * (self.bound / np.sqrt(self.width))

    def models(self, rng: np.random.Generator, count: int, scale: Any = 1.0) -> FloatArray:
        return rng.normal(size=(count, self.dimension)) * scale

    def shards(self, rows: Any, targets: NDArray[Any], owner: Any = None, *, sparse: bool = False) -> Shards:
        """Records over agents; without owners every record is an agent of its own."""
        owner = np.arange(len(targets)) if owner is None else np.asarray(owner)
        encoded = self.loss.encode(np.asarray(targets), self.classes)
        return gather(csr_array(rows) if sparse else rows, encoded, owner, norm_bound=self.bound)

    def ragged(self, rng: np.random.Generator, sizes: list[int], *, sparse: bool = False) -> Shards:
        """Agents of these sizes."""
        owner = np.repeat(np.arange(len(sizes)), sizes)
        return self.shards(self.rows(rng, owner.size), self.targets(rng, owner.size), owner, sparse=sparse)


# As they come, quantile losses are symmetric, and levels could be mixed up unseen.
LEVELS = {"quantile": "quantile:0.3", "smoothed-quantile": "smoothed-quantile:0.8", "quantiles": "quantiles:0.2,0.7"}


@pytest.fixture(
    scope="session", params=[*(LEVELS.get(name, name) for name in LOSSES), "squared:0.3", "smoothed-hinge:0.1"]
)
def case(request: pytest.FixtureRequest) -> Case:
    """Every loss as it comes, or at other levels, and some with other parameters."""
    return Case(build("loss", LOSSES, request.param))
