"""A search for records and models that violate a loss's public bounds.

Bounds are attained by long rows that a model sees as it likes best, so that is where the search begins: rows on the
norm bound, models along few directions of every strength, targets far and near. The worst that is found is then changed
a little, many times, and what is worse is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from dpadmm._arrays import FloatArray
from dpadmm.privacy.events import Relation
from dpadmm.testing.contract import ROUNDING, ContractError, numbers, told
from dpadmm.testing.problems import Method, SmallProblem, at_each, crossed

KEPT, CHANGES, STEPS = 24, 12, 40  # the worst cases that are followed, changes of each at a time, and how many times
TOGETHER = 1_000_000  # numbers that are computed at once
LINE = np.arange(-20.0, 20.0, 0.04)  # strengths of models along a direction
NORMS = (2, 1)


@dataclass(frozen=True, eq=False)
class Cases:
    """Cases to measure: each has one record, or two of which one replaces the other, and a model."""

    rows: FloatArray  # (cases, records, width)
    targets: NDArray[Any]  # (cases, records)
    models: FloatArray  # (cases, D)

    def take(self, places: Any) -> Cases:
        return Cases(self.rows[places], self.targets[places], self.models[places])

    def beside(self, other: Cases) -> Cases:
        return Cases(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.targets, other.targets]),
            np.concatenate([self.models, other.models]),
        )

    def answers(self, problem: SmallProblem, method: Method) -> FloatArray:
        """A method's answer for every record of every case: (cases, records, ...)."""
        cases, records = self.targets.shape
        shards = problem.shards(self.rows.reshape(cases * records, -1), self.targets.ravel())
        found = method(shards, np.repeat(self.models, records, axis=0), np.ones(cases * records))
        return found.reshape(cases, records, *found.shape[1:])

    def __str__(self) -> str:
        records = (
            f"{numbers(row)} with target {target}" for row, target in zip(self.rows[0], self.targets[0], strict=True)
        )
        return f"{' and '.join(records)}, at the model {numbers(self.models[0])}"


Measure = Callable[[FloatArray], FloatArray]
"""From answers (cases, records, ...) to one size per case."""


def check_bounds(problem: SmallProblem, rng: np.random.Generator) -> dict[str, float]:
    """Gradient bounds and sensitivities in both norms, and the curvature bound, against the worst that is found.

    Returns:
        What share of each bound was reached.

    Raises:
        ContractError: with records and model that violate a bound.
    """
    loss, reached = problem.loss, check_contributions(problem, rng)
    for norm in NORMS:
        row_bound = problem.bound * (math.sqrt(problem.width) if norm == 1 else 1.0)
        alone = worst_records(problem, rng, loss.gradient, partial(_length, norm))
        pair = worst_pairs(problem, rng, loss.gradient, norm, alone[0])
        for what, bound, (cases, found) in (
            (f"gradient_bound in the {norm}-norm", loss.gradient_bound(row_bound, norm), alone),
            (f"sensitivity (zero-out, {norm}-norm)", loss.sensitivity(row_bound, Relation.ZERO_OUT, norm), alone),
            (f"sensitivity (replace, {norm}-norm)", loss.sensitivity(row_bound, Relation.REPLACE, norm), pair),
        ):
            reached[what] = _held(problem, what, bound, cases, found)
    if problem.bends:
        cases, found = worst_records(problem, rng, loss.hessian, _spectral)
        bound = loss.curvature_bound(problem.bound) or 0.0
        reached["curvature_bound"] = _held(problem, "curvature_bound", bound, cases, found)
    return reached


def check_contributions(problem: SmallProblem, rng: np.random.Generator) -> dict[str, float]:
    """No record's integers exceed what the query says of them: alone in both norms, and replaced in the 2-norm.

    Returns:
        What share of each bound was reached.

    Raises:
        ContractError: with records and model that violate a bound.
    """
    bounds = problem.query.bounds(problem.width, problem.bound)
    alone = worst_records(problem, rng, problem.contributions, partial(_length, 2))
    level = worst_records(problem, rng, problem.contributions, partial(_length, 1))
    pair = worst_pairs(problem, rng, problem.contributions, 2, alone[0])
    return {
        what: _held(problem, what, float(bound), cases, found)
        for what, bound, (cases, found) in (
            ("norm of the query, in cells", bounds.norm, alone),
            ("norm1 of the query, in cells", bounds.norm1, level),
            ("apart of the query, in cells", bounds.apart, pair),
        )
    }


def _held(problem: SmallProblem, what: str, bound: float, cases: Cases, found: float) -> float:
    if not found <= bound * ROUNDING + 1e-300:
        raise ContractError(
            problem.part,
            what,
            f"found {told(found, bound)}, and the loss says at most {bound:.8g} for rows of length {problem.bound:g}. "
            f"It is {cases}.",
            f"Noise is scaled by this bound: say at least {found:.8g}, or clip what a record can do.",
        )
    return found / bound if bound > 0.0 else 1.0


def worst_records(
    problem: SmallProblem, rng: np.random.Generator, method: Method, measure: Measure
) -> tuple[Cases, float]:
    """The record and model whose answer measures most."""
    rows, targets, models = problem.random_records(rng, 500 if method == problem.loss.hessian else 3000)
    found = Cases(rows[:, None], targets[:, None], models)
    for some, at in (
        (problem.adversarial_rows(rng), problem.adversarial_models(rng)),
        (problem.adversarial_rows(rng)[-12:-8:2], _line(problem)),  # the level row, and one along the first axis
    ):
        found = found.beside(_largest(problem, rng, method, measure, some, at))
    return _worsened(problem, rng, found, lambda cases: measure(cases.answers(problem, method)))


def _line(problem: SmallProblem) -> FloatArray:
    """Models of many strengths along directions of the first axis, or along a few if a model is no matrix."""
    some = problem.directions()[: len(problem.mixes()) if problem.a_matrix else 4]
    return (LINE[:, None, None] * some).reshape(-1, problem.dimension)


def _largest(
    problem: SmallProblem, rng: np.random.Generator, method: Method, measure: Measure, rows: FloatArray, at: FloatArray
) -> Cases:
    """Of every record (all targets) at every model, those whose answers measure most."""
    known, targets = crossed(rows, problem.every_target())
    numbers_each = len(targets) * problem.dimension * (problem.dimension if method == problem.loss.hessian else 1)
    if len(at) * numbers_each > TOGETHER:
        at = at[rng.permutation(len(at))[: max(1, TOGETHER // numbers_each)]]
    answers = at_each(method, problem.shards(known, targets), at)
    sizes = measure(answers.reshape(-1, 1, *answers.shape[2:]))
    model, record = np.divmod(np.argsort(sizes)[-KEPT:], len(targets))
    return Cases(known[record][:, None], targets[record][:, None], at[model])


def worst_pairs(
    problem: SmallProblem, rng: np.random.Generator, method: Method, norm: int, steep: Cases
) -> tuple[Cases, float]:
    """Two records whose gradients at one model are furthest apart; `steep` is a record with a long gradient."""
    mirrored = np.vstack([steep.rows[0], -steep.rows[0]])
    rows, targets = crossed(np.vstack([problem.adversarial_rows(rng), mirrored]), problem.every_target())
    at = problem.adversarial_models(rng)
    most = max(1, TOGETHER // (len(targets) * max(len(targets), problem.dimension)))
    at = np.vstack([steep.models, at[rng.permutation(len(at))[:most]]])
    gradients = at_each(method, problem.shards(rows, targets), at)
    apart = np.stack([cdist(each, each, "cityblock" if norm == 1 else "euclidean") for each in gradients])
    model, pair = np.divmod(np.argsort(apart, axis=None)[-2 * KEPT :], len(targets) ** 2)
    one, other = np.divmod(pair, len(targets))
    both = np.stack([one, other], axis=1)
    return _worsened(
        problem,
        rng,
        Cases(rows[both], targets[both], at[model]),
        lambda cases: _length(norm, np.diff(cases.answers(problem, method), axis=1)),
    )


def _worsened(
    problem: SmallProblem, rng: np.random.Generator, cases: Cases, size: Callable[[Cases], FloatArray]
) -> tuple[Cases, float]:
    """The worst of these cases after many small changes, and how bad it is: what makes a case worse is kept."""
    sizes = size(cases)
    kept = np.argsort(sizes)[::-1][:KEPT]
    cases, sizes = cases.take(kept), sizes[kept]
    for step in 10.0 ** rng.uniform(-4.0, 0.0, STEPS):
        tried = _changed(problem, rng, cases.take(np.repeat(np.arange(len(sizes)), CHANGES)), step)
        found = size(tried).reshape(len(sizes), CHANGES)
        better = np.flatnonzero(found.max(axis=1) > sizes)
        winners = tried.take(better * CHANGES + found.argmax(axis=1)[better])
        cases.rows[better], cases.models[better] = winners.rows, winners.models
        sizes[better] = found.max(axis=1)[better]
    worst = int(sizes.argmax())
    return cases.take([worst]), float(sizes[worst])


def _changed(problem: SmallProblem, rng: np.random.Generator, cases: Cases, step: float) -> Cases:
    """Rows turned on the norm bound, models moved by a part of their size."""
    rows = cases.rows + step * problem.bound * rng.normal(size=cases.rows.shape)
    rows *= problem.bound / np.maximum(np.linalg.norm(rows, axis=2, keepdims=True), 1e-300)
    size = np.abs(cases.models).max(axis=1, initial=0.1)[:, None]
    return Cases(rows, cases.targets, cases.models + step * size * rng.normal(size=cases.models.shape))


def _length(norm: int, answers: FloatArray) -> FloatArray:
    """Of one vector a case."""
    return np.asarray(np.linalg.norm(answers[:, 0], ord=norm, axis=1))


def _spectral(answers: FloatArray) -> FloatArray:
    """The largest magnitude of an eigenvalue of one matrix a case, of those that are largest in the Frobenius norm."""
    matrices = answers[:, 0]
    sizes = np.sqrt((matrices * matrices).sum(axis=(1, 2)))
    largest = np.argsort(sizes)[-2000:]
    exact = np.zeros_like(sizes)
    exact[largest] = np.abs(np.linalg.eigvalsh(matrices[largest])).max(axis=1, initial=0.0)
    return exact
