"""Small problems for a loss: records within the norm bound, models of every size, targets that the loss accepts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm._arrays import FloatArray
from dpadmm.audit.neighbours import CLASSES
from dpadmm.errors import InputError
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.sums import Query
from dpadmm.testing.contract import ContractError

SOME_TARGETS = (-1000.0, -1.0, -0.1, 0.0, 0.1, 1.0, 1000.0)
SCALES = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 10.0, 1000.0)
MOST_OUTPUTS = 3  # outputs of which every mix of signs is tried; with more, one and two at a time

Method = Callable[[Shards, FloatArray, FloatArray], FloatArray]
"""`values`, `gradient` or `hessian` of a loss."""


@dataclass(frozen=True)
class SmallProblem:
    """A loss, and records that fit it."""

    loss: Loss
    width: int = 4
    bound: float = 1.5
    given: tuple[float, ...] = ()  # targets of a regression to try; none: those of `SOME_TARGETS` that it accepts

    @property
    def part(self) -> str:
        return f"loss {self.loss.name!r}"

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
    def a_matrix(self) -> bool:
        """Whether a model is a matrix of width times outputs, which most losses have."""
        return self.dimension == self.width * self.loss.outputs(self.classes)

    @property
    def methods(self) -> list[Method]:
        return [self.loss.values, self.loss.gradient, *([self.loss.hessian] if self.bends else [])]

    @property
    def query(self) -> Query:
        return self.loss.query(self.classes)

    def contributions(self, shards: Shards, x: FloatArray, weights: FloatArray) -> FloatArray:
        """The integers of the query, for agents of few records: doubles hold them exactly."""
        total = self.query.total(shards, x)
        return np.asarray(total.high * 2.0**26 + total.low, dtype=np.float64)

    @cached_property
    def _targets(self) -> NDArray[Any]:
        if self.loss.task != "regression":
            return np.arange(self.classes)
        if self.given:
            return np.array(self.given)
        found = [target for target in SOME_TARGETS if self._accepts(np.array([target]))]
        if not found:
            raise ContractError(
                self.part,
                "encode accepts targets",
                f"encode refuses every one of {SOME_TARGETS}.",
                "Give targets that are right: check_loss(loss, targets=...).",
            )
        return np.array(found)

    def _accepts(self, targets: NDArray[Any]) -> bool:
        try:
            self.loss.encode(targets, self.classes)
        except InputError:
            return False
        return True

    def every_target(self) -> NDArray[Any]:
        """All targets (of a regression: some, far ones included), as in a data set."""
        return self._targets

    def targets(self, rng: np.random.Generator, count: int) -> NDArray[Any]:
        """Targets as in a data set."""
        if self.loss.task != "regression":
            return rng.integers(self.classes, size=count)
        drawn = rng.normal(size=count)
        return drawn if not self.given and self._accepts(drawn) else rng.choice(self._targets, size=count)

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

    def random_records(self, rng: np.random.Generator, count: int) -> tuple[FloatArray, NDArray[Any], FloatArray]:
        """Rows, half of them on the bound, targets, and a model for each, of any size."""
        rows = self.rows(rng, count)
        rows[::2] *= self.bound / np.maximum(np.linalg.norm(rows[::2], axis=1, keepdims=True), 1e-9)
        return rows, self.targets(rng, count), self.models(rng, count, 10.0 ** rng.uniform(-2.0, 3.0, (count, 1)))

    # Where bounds are attained

    def adversarial_rows(self, rng: np.random.Generator) -> FloatArray:
        """Rows on the bound: random ones, axes, level ones, and nearly opposite pairs that one model sees alike."""
        random = self.rows(rng, 16)
        random[:8] *= self.bound / np.maximum(np.linalg.norm(random[:8], axis=1, keepdims=True), 1e-9)
        u, v = self.bound * np.eye(max(2, self.width))[:2, : self.width]
        pairs = [sign * np.sqrt(1.0 - t * t) * u - t * v for t in (0.05, 0.2) for sign in (1.0, -1.0)]
        level = np.full(self.width, self.bound / np.sqrt(self.width))
        turned = np.append(-level[:-1], level[-1])
        return np.vstack([random, level, turned, u, -u, v, -v, *pairs])

    def directions(self) -> FloatArray:
        """Models that see one direction only, with every mix of outputs; a margin of one on a row of full length."""
        if not self.a_matrix:
            return np.eye(self.dimension)
        axes = np.vstack([np.eye(self.width)[:2], np.eye(self.width)[-1:], np.full((1, self.width), self.width**-0.5)])
        return np.array([np.outer(axis, mix).ravel() for axis in axes / self.bound for mix in self.mixes()])

    def mixes(self) -> list[FloatArray]:
        """Outputs that go up, down or stay."""
        outputs = self.loss.outputs(self.classes)
        if outputs <= MOST_OUTPUTS:
            return [np.array(mix) for mix in itertools.product((-1.0, 0.0, 1.0), repeat=outputs) if any(mix)]
        axes = np.eye(outputs)
        return [*axes, *-axes, *(axes - np.roll(axes, 1, axis=0)), np.ones(outputs), -np.ones(outputs)]

    def adversarial_models(self, rng: np.random.Generator) -> FloatArray:
        """Models along `directions` of every strength, and random ones."""
        random = self.models(rng, 40, np.repeat([[0.1], [1.0], [10.0], [1000.0]], 10, axis=0))
        return np.vstack([*(scale * self.directions() for scale in SCALES), random])


def crossed(rows: FloatArray, targets: NDArray[Any]) -> tuple[FloatArray, NDArray[Any]]:
    """Every row with every target."""
    return np.repeat(rows, len(targets), axis=0), np.tile(targets, len(rows))


def at_each(method: Method, shards: Shards, models: FloatArray) -> FloatArray:
    """A method's answer for every model and every agent: (models, agents, ...)."""
    x = np.repeat(models, shards.agents, axis=0)
    answers = method(shards.tile(len(models)), x, np.ones(len(x)))
    return answers.reshape(len(models), shards.agents, *answers.shape[1:])
