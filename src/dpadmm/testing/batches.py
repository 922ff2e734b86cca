"""How a loss is computed must not matter: alone or in a batch, in which order, dense or sparse, in which precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.errors import InputError
from dpadmm.problems.shards import CHUNK, Shards, gather
from dpadmm.testing.contract import ContractError, different
from dpadmm.testing.problems import Method, SmallProblem

SIZES = [1, 3, CHUNK + 76, 40, CHUNK, 31, 700]  # records of the agents: less than a chunk of them, one, and more
UNIT = 2.0**-24  # of float32


def check_batches(problem: SmallProblem, rng: np.random.Generator, sizes: list[int] = SIZES) -> None:
    """All of this file, over dense and sparse rows."""
    seed = int(rng.integers(2**31))
    with one_thread_pool():
        dense, sparse = (problem.ragged(np.random.default_rng(seed), sizes, sparse=kind) for kind in (False, True))
        x, weights = problem.models(rng, len(sizes)), rng.uniform(0.001, 1.0, len(sizes))
        for shards in (dense, sparse, _narrow(dense), _narrow(sparse)):
            check_alone(problem, shards, x, weights)
            check_order(problem, shards, x, weights)
        check_sums(problem, dense, x, weights)
        check_sparse(problem, dense, sparse, x, weights)
        for shards in (dense, sparse):
            check_precision(problem, shards, x, weights)


def supported(problem: SmallProblem, shards: Shards) -> list[Method]:
    """What can be computed over these rows: a Hessian may be refused over sparse rows, and is not asked in float32."""
    methods = problem.methods
    if problem.bends and (shards.precision == "float32" or (shards.sparse and _refuses(problem, shards))):
        methods = methods[:2]
    return methods


def _refuses(problem: SmallProblem, shards: Shards) -> bool:
    try:
        problem.loss.hessian(shards.take([0]), np.zeros((1, problem.dimension)), np.ones(1))
    except InputError:
        return True
    return False


def _kind(shards: Shards) -> str:
    return f"{'sparse' if shards.sparse else 'dense'} rows in {shards.precision}"


def _broken(
    problem: SmallProblem, promise: str, method: Method, shards: Shards, found: str, remedy: str
) -> ContractError:
    return ContractError(problem.part, promise, f"{method.__name__} over {_kind(shards)}: {found}", remedy)


def check_alone(problem: SmallProblem, shards: Shards, x: FloatArray, weights: FloatArray) -> None:
    """A batch of n agents equals n batches of one, bit for bit, also over a table of the agent's own rows."""
    for method in supported(problem, shards):
        together = method(shards, x, weights)
        for i, (start, stop) in enumerate(zip(shards.starts, shards.stops, strict=True)):
            own = gather(
                shards.features[start:stop],
                shards.targets[start:stop],
                np.zeros(stop - start, dtype=int),
                norm_bound=2.0 * shards.norm_bound,  # float32 rows may be longer by a bit; they must not be cut again
                precision=shards.precision,
            )
            for alone in (shards.take([i]), own):
                found = method(alone, x[[i]], weights[[i]])
                if different(together[i], found[0]):
                    off = float(np.abs(together[i] - found[0]).max())
                    raise _broken(
                        problem,
                        "an agent alone equals itself in a batch",
                        method,
                        shards,
                        f"agent {i} of {shards.agents} ({stop - start} records) differs by {off:.3g}.",
                        "Nothing may depend on an agent's position or company: real owners compute alone.",
                    )


def check_order(problem: SmallProblem, shards: Shards, x: FloatArray, weights: FloatArray) -> None:
    """Other orders of the agents, some of them only, some twice, or several runs at once change no bit."""
    orders = [np.arange(shards.agents)[::-1], np.array([2, 0, 0]), np.tile(np.arange(shards.agents), 3)]
    for method in supported(problem, shards):
        together = method(shards, x, weights)
        for order in orders:
            found = method(shards.take(order), x[order], weights[order])
            if different(found, together[order]):
                raise _broken(
                    problem,
                    "the order of agents changes no bit",
                    method,
                    shards,
                    f"agents in the order {order[:8].tolist()} get other numbers, by up to "
                    f"{float(np.abs(found - together[order]).max()):.3g}.",
                    "Add up each agent's records in their own order, whoever else is there.",
                )


def check_sums(problem: SmallProblem, shards: Shards, x: FloatArray, weights: FloatArray) -> None:
    """An agent's answer is the weighted sum over its records, and its rounding is within `summation_error`."""
    owner, records = np.repeat(np.arange(shards.agents), shards.counts), np.arange(shards.targets.size)
    singles = replace(shards, starts=records, stops=records + 1, names=tuple(map(str, records)))
    for method in supported(problem, shards):
        found = method(shards, x, weights)
        each = method(singles, x[owner], np.ones(owner.size))
        sums = np.stack([weights[i] * each[owner == i].sum(axis=0) for i in range(shards.agents)])
        if not np.allclose(found, sums, rtol=1e-11, atol=1e-11 * np.abs(sums).max()):
            raise _broken(
                problem,
                "an agent's answer is the weighted sum over its records",
                method,
                shards,
                f"it is off by {float(np.abs(found - sums).max()):.3g}.",
                "Return weights[i] times the sum over agent i's records.",
            )
    _check_summation(problem, shards, x, singles, owner)


def _check_summation(problem: SmallProblem, shards: Shards, x: FloatArray, singles: Shards, owner: Any) -> None:
    found = problem.loss.gradient(shards, x, np.ones(shards.agents))
    each = problem.loss.gradient(singles, x[owner], np.ones(owner.size))
    stated = problem.loss.summation_error(shards.counts, shards.precision)
    for i in range(shards.agents):
        exact = each[owner == i].astype(np.longdouble).sum(axis=0).astype(np.float64)
        off, most = np.linalg.norm(found[i] - exact), stated[i] * np.linalg.norm(each[owner == i], axis=1).sum()
        if not off <= most + 1e-300:
            raise ContractError(
                problem.part,
                "summation_error",
                f"the gradient of agent {i} ({shards.counts[i]} records) is {off:.3g} from the sum of its terms, and "
                f"rounding is said to add at most {most:.3g}.",
                "State a larger summation_error: it is part of every sensitivity.",
            )


def check_sparse(problem: SmallProblem, dense: Shards, sparse: Shards, x: FloatArray, weights: FloatArray) -> None:
    """Sparse rows give what dense rows give, up to rounding."""
    for method in supported(problem, sparse):
        one, other = method(dense, x, weights), method(sparse, x, weights)
        if not np.allclose(other, one, rtol=1e-11, atol=1e-12 * np.abs(one).max()):
            raise _broken(
                problem,
                "sparse rows give what dense rows give",
                method,
                sparse,
                f"it differs from dense rows by {float(np.abs(one - other).max()):.3g}.",
                "Correct one of them, or refuse sparse rows with an InputError.",
            )


def _narrow(shards: Shards) -> Shards:
    """The same records in float32."""
    return replace(shards, features=shards.features.astype(np.float32))


def check_precision(problem: SmallProblem, shards: Shards, x: FloatArray, weights: FloatArray) -> None:
    """Records in float32 give float64 sums, near those of the same records in float64."""
    narrow = _narrow(shards)
    wide, point = replace(narrow, features=narrow.features.astype(np.float64)), x.astype(np.float32).astype(np.float64)
    total = weights * shards.counts
    # How far a margin can be off, and what a gradient follows it by; a kink within it is not asked about.
    off = (problem.width + 16) * UNIT * problem.bound * np.linalg.norm(x, axis=1)
    bend = problem.loss.curvature_bound(problem.bound) or 0.0
    for method in problem.methods[:2]:
        found, exact = method(narrow, point, weights), method(wide, point, weights)
        room = 2e-5 * np.abs(exact).max() + float((total * bend * off).max()) / problem.bound
        if found.dtype != np.float64 or not (np.abs(found - exact) <= room).all():
            raise _broken(
                problem,
                "float32 records give what they give in float64",
                method,
                narrow,
                f"it differs by {float(np.abs(found - exact).max()):.3g} (dtype {found.dtype}), and rounding explains "
                f"{room:.3g}.",
                "Add up in float64.",
            )
