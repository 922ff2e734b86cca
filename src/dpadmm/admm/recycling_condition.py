"""When recycled ADMM is proven to converge: theorem IV.1 of Zhang, Khalili & Liu (003), decided for given numbers.

With Q = D + A, K = W⁺(D - A) and sigma the smallest 2 theta_i V_i + gamma, the theorem asks for L > 0 and mu > 1 with

    (i)   I + W⁺ Q D̃⁻¹  ≻  a K† D_M,                                                a = L mu / (2 sigma),
    (ii)  W⁺ Q - W⁺ Q D̃⁻¹ W (D - A) - (2/L) W⁺ Q D̃⁻¹ W⁺ Q  ≻  b D_M,               b = a / (mu - 1).

Any a, b > 0 belong to some L and mu: 1/L = (1/a + 1/b) / (2 sigma) and mu = 1 + a/b. In a and b, unlike in L and mu,
the smallest eigenvalues of both differences are concave (where penalties are equal, so that the matrix at 2/L is
positive semi-definite), so that one search within another finds the best. "≻" is meant of symmetric parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from dpadmm._arrays import FloatArray
from dpadmm._threads import one_thread_pool
from dpadmm.admm.topology.graph import Topology
from dpadmm.errors import InputError

MOST_NODES = 500  # eigenvalues of dense matrices, some hundred times
LARGEST = 1e50  # of the numbers: products of four of them are numbers still
APART = 1e8  # of penalties; squares of the ratio must be well within the digits there are
# With x of +1 and -1 by colour, x(D + A) = 0; so y = x/theta⁺ has yW⁺Q = 0, and all of (ii) but b D_M vanishes at y.
BIPARTITE = (
    "the graph is bipartite, and there condition (ii) cannot hold for any gamma: D + A is singular, while the last "
    "term is positive definite. The theorem says nothing here; the method may converge all the same."
)
_STEPS = 18  # of each search: to 2e-4 of its range
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Condition:
    """The theorem's verdict. Margins are the smallest eigenvalues of left minus right side, at the L and mu where the
    smaller of them, measured by its left side, is largest; on bipartite graphs there is nothing to look for."""

    holds: bool
    bipartite: bool
    L: float | None
    mu: float | None
    margin_first: float | None
    margin_second: float | None
    reason: str


def condition(
    graph: Topology, theta: ArrayLike, gamma: float, smoothness: ArrayLike, next_theta: ArrayLike | None = None
) -> Condition:
    """Whether the theorem's condition holds from penalties theta (one per node, or one for all) to the next ones, for
    gradients with Lipschitz constants `smoothness`. It suffices for convergence and is not necessary."""
    if graph.nodes > MOST_NODES:
        raise InputError(
            f"theorem IV.1: {graph.nodes:,} nodes, and {MOST_NODES} are the most that dense matrices are made for; "
            f"try a smaller network of the same kind."
        )
    now = _positive("theta", theta, graph.nodes)
    then = now if next_theta is None else _positive("next theta", next_theta, graph.nodes)
    if max(now.max(), then.max()) > APART * min(now.min(), then.min()):
        raise InputError(f"theorem IV.1: penalties theta differ by more than {APART:g}; no matrix can hold them.")
    if np.any(then < now):
        raise InputError("theorem IV.1: a penalty theta falls from one cycle to the next; it must not.")
    if not 0.0 <= gamma <= LARGEST:
        raise InputError(f"theorem IV.1: gamma {gamma!r} must be a number from 0 to {LARGEST:g}, such as 0.5.")
    constants = _positive("smoothness", smoothness, graph.nodes)
    if graph.bipartite:
        return Condition(False, True, None, None, None, None, BIPARTITE)
    with one_thread_pool():
        return _decide(_Matrices(graph, now, then, float(gamma), constants**2))


def _positive(what: str, given: ArrayLike, nodes: int) -> FloatArray:
    found = np.asarray(given, dtype=np.float64)
    if found.shape not in ((), (nodes,)) or not np.all((found >= 1.0 / LARGEST) & (found <= LARGEST)):
        raise InputError(
            f"theorem IV.1: {what} must be positive numbers (from {1.0 / LARGEST:g} to {LARGEST:g}), one, or one for "
            f"each of the {nodes} nodes; not {' '.join(str(given).split())[:60]}."
        )
    return np.broadcast_to(found, nodes)


@dataclass(frozen=True, eq=False)
class _Matrices:
    """The symmetric parts of the theorem's matrices, and the two margins as functions of a and b."""

    graph: Topology
    now: FloatArray
    then: FloatArray
    gamma: float
    squares: FloatArray  # D_M

    @cached_property
    def pivots(self) -> FloatArray:
        """D̃."""
        return 2.0 * self.now * self.graph.degrees + self.gamma

    @cached_property
    def sigma(self) -> float:
        return float(self.pivots.min())

    @cached_property
    def _signless(self) -> FloatArray:
        """W⁺ Q."""
        return self.then[:, np.newaxis] * (np.diag(self.graph.degrees) + self.graph.adjacency.toarray())

    @cached_property
    def _laplacian(self) -> FloatArray:
        return np.diag(self.graph.degrees) - self.graph.adjacency.toarray()

    @cached_property
    def left_first(self) -> FloatArray:
        return _symmetric(np.eye(self.graph.nodes) + self._signless / self.pivots)

    @cached_property
    def right_first(self) -> FloatArray:
        return _symmetric(_pseudo_inverse(self.then, self._laplacian) * self.squares)

    @cached_property
    def left_second(self) -> FloatArray:
        return _symmetric(self._signless - (self._signless / self.pivots) @ (self.now[:, np.newaxis] * self._laplacian))

    @cached_property
    def middle_second(self) -> FloatArray:
        """What 1/L multiplies."""
        return _symmetric(2.0 * (self._signless / self.pivots) @ self._signless)

    def inverse_length(self, a: float, b: float) -> float:
        """1/L."""
        return (1.0 / a + 1.0 / b) / (2.0 * self.sigma)

    def first(self, a: float) -> float:
        return _least(self.left_first - a * self.right_first)

    def second(self, a: float, b: float) -> float:
        return _least(self.left_second - self.inverse_length(a, b) * self.middle_second - b * np.diag(self.squares))

    def rounding(self, a: float, b: float) -> tuple[float, float]:
        """What the margins may be off by: sums and eigenvalues lose some units in the last place of the largest matrix
        that entered them, and the pseudo-inverse as many times more as its matrix is ill-conditioned."""
        unit = 10.0 * self.graph.nodes * float(np.finfo(np.float64).eps)
        stiff = float(np.linalg.cond(_filled(self.then, self._laplacian)))
        first = _size(self.left_first) + a * stiff * _size(self.right_first)
        second = 2.0 * _size(self._signless)  # rows of D̃⁻¹ W (D - A) add up to no more than 1
        second += self.inverse_length(a, b) * _size(self.middle_second) + b * float(self.squares.max())
        return unit * first, unit * second


def _decide(parts: _Matrices) -> Condition:
    most_first, most_second = _most(parts.left_first), _most(parts.left_second)
    # Outside of these ranges a difference cannot be positive definite: look at it along the eigenvector of the largest
    # eigenvalue of what is subtracted.
    least = _most(parts.middle_second) / (2.0 * parts.sigma * most_second)
    range_a = _range(least, most_first / max(_most(parts.right_first), 1e-300))
    range_b = _range(least, most_second / float(parts.squares.max()))

    def second_best(a: float) -> float:
        return _highest(lambda b: parts.second(a, b), range_b)

    def smaller(a: float) -> float:
        return min(parts.first(a) / most_first, parts.second(a, second_best(a)) / most_second)

    a = _highest(smaller, range_a)
    b = second_best(a)
    first, second = parts.first(a), parts.second(a, b)
    doubt_first, doubt_second = parts.rounding(a, b)
    holds = first > doubt_first and second > doubt_second
    length, mu = 1.0 / parts.inverse_length(a, b), 1.0 + a / b
    if holds:
        reason = (
            f"both conditions hold, for example with L = {length:.4g} and mu = {mu:.4g}; without noise it converges."
        )
    else:
        wrong = "(i)" if first <= doubt_first else "(ii)"
        reason = f"condition {wrong} fails for every L and mu that was tried; a larger gamma may help."
    return Condition(holds, False, length, mu, first, second, reason)


def _range(low: float, high: float) -> tuple[float, float]:
    return low, max(high, 10.0 * low)


def _highest(value: Callable[[float], float], bounds: tuple[float, float]) -> float:
    """Where a function with one hill is highest, by golden section in logarithms."""
    low, high = map(math.log, bounds)
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    values = [value(math.exp(place)) for place in inner]
    for _ in range(_STEPS):
        if values[0] > values[1]:
            high = inner[1]
            inner = [high - _GOLDEN * (high - low), inner[0]]
            values = [value(math.exp(inner[0])), values[0]]
        else:
            low = inner[0]
            inner = [inner[1], low + _GOLDEN * (high - low)]
            values = [values[1], value(math.exp(inner[1]))]
    return math.exp(inner[0] if values[0] > values[1] else inner[1])


def _pseudo_inverse(weights: FloatArray, laplacian: FloatArray) -> FloatArray:
    """Of diag(weights) times the Laplacian of a connected graph, without guessing its rank."""
    right, left = _nullities(weights)
    return np.linalg.inv(_filled(weights, laplacian)) - np.outer(right, left) / weights.max()


def _filled(weights: FloatArray, laplacian: FloatArray) -> FloatArray:
    """What such a matrix takes to nothing is known, so it can be filled up to one with an ordinary inverse."""
    right, left = _nullities(weights)
    return weights[:, np.newaxis] * laplacian + weights.max() * np.outer(left, right)


def _nullities(weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The unit vectors that it takes to nothing from the right and from the left."""
    right, left = np.ones(len(weights)), weights.min() / weights
    return right / np.linalg.norm(right), left / np.linalg.norm(left)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return (matrix + matrix.T) / 2.0


def _least(matrix: FloatArray) -> float:
    return float(eigh(matrix, eigvals_only=True, subset_by_index=[0, 0], check_finite=False)[0])


def _most(matrix: FloatArray) -> float:
    return -_least(-matrix)


def _size(matrix: FloatArray) -> float:
    return float(np.linalg.norm(matrix, 2))
