"""How a loss is computed in doubles must not matter: alone or in a batch, in which order, dense or sparse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.errors import InputError
from dpadmm.problems.shards import Shards
from dpadmm.release.sums import CHUNK
from dpadmm.testing.contract import ContractError, different
from dpadmm.testing.problems import Method, SmallProblem

SIZES = [1, 3, CHUNK + 76, 40, CHUNK, 31, 700]  # records of the agents: less than a chunk of them, one, and more


def check_batches(problem: SmallProblem, rng: np.random.Generator, sizes: list[int] = SIZES) -> None:
    """All of this file, over dense and sparse rows."""
    seed = int(rng.integers(2**31))
    with one_thread_pool():
        dense, sparse = (problem.ragged(np.random.default_rng(seed), sizes, sparse=kind) for kind in (False, True))
        x, weights = problem.models(rng, len(sizes)), rng.uniform(0.001, 1.0, len(sizes))
        for shards in (dense, sparse):
            check_alone(problem, shards, x, weights)
            check_order(problem, shards, x, weights)
        check_sums(problem, dense, x, weights)
        check_sparse(problem, dense, sparse, x, weights)


def supported(problem: SmallProblem, shards: Shards) -> list[Method]:
    """What can be computed over these rows: a Hessian may be refused over sparse rows."""
    methods = problem.methods
    return methods[:2] if problem.bends and shards.sparse and _refuses(problem, shards) else methods


def _refuses(problem: SmallProblem, shards: Shards) -> bool:
    try:
        problem.loss.hessian(shards.take([0]), np.zeros((1, problem.dimension)), np.ones(1))
    except InputError:
        return True
    return False


def kind(shards: Shards) -> str:
    """How the rows are kept, for a message."""
    return f"{'sparse' if shards.sparse else 'dense'} rows"


def _broken(
    problem: SmallProblem, promise: str, method: Method, shards: Shards, found: str, remedy: str
) -> ContractError:
    return ContractError(problem.part, promise, f"{method.__name__} over {kind(shards)}: {found}", remedy)


def check_alone(problem: SmallProblem, shards: Shards, x: FloatArray, weights: FloatArray) -> None:
    """A batch of n agents equals n batches of one, bit for bit, also over a table of the agent's own rows."""
    for method in supported(problem, shards):
        together = method(shards, x, weights)
        for i in range(shards.agents):
            alone = shards.take([i])
            for own in (alone, alone.compact()):
                found = method(own, x[[i]], weights[[i]])
                if different(together[i], found[0]):
                    off = float(np.abs(together[i] - found[0]).max())
                    raise _broken(
                        problem,
                        "an agent alone equals itself in a batch",
                        method,
                        shards,
                        f"agent {i} of {shards.agents} ({shards.counts[i]} records) differs by {off:.3g}.",
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


def singles(shards: Shards) -> Shards:
    """Every record as an agent of its own, over the same table."""
    records = np.arange(shards.targets.size)
    return replace(shards, starts=records, stops=records + 1, names=tuple(map(str, records)))


def check_sums(problem: SmallProblem, shards: Shards, x: FloatArray, weights: FloatArray) -> None:
    """An agent's answer is the weighted sum over its records."""
    owner, each_alone = np.repeat(np.arange(shards.agents), shards.counts), singles(shards)
    for method in supported(problem, shards):
        found = method(shards, x, weights)
        each = method(each_alone, x[owner], np.ones(owner.size))
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
