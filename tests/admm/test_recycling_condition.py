"""Theorem IV.1's condition, against its formulas written out once more."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpadmm.admm.recycling_condition import BIPARTITE, Condition, condition
from dpadmm.admm.topology.graph import Topology, parse_topology
from dpadmm.errors import InputError


def margins(
    graph: Topology, theta: Any, gamma: float, smoothness: Any, after: Any, length: float, mu: float
) -> tuple[float, float]:
    """Spec 6.4, symbol by symbol."""
    n = graph.nodes
    theta, after, smoothness = (np.broadcast_to(part, n) for part in (theta, after, smoothness))
    D, A, identity = np.diag(graph.degrees), graph.adjacency.toarray(), np.eye(n)
    W, W_next, D_M = np.diag(theta), np.diag(after), np.diag(smoothness**2)
    D_tilde = 2 * W @ D + gamma * identity
    sigma = np.linalg.svd(D_tilde, compute_uv=False).min()
    inverse = np.linalg.inv(D_tilde)
    first = identity + W_next @ (D + A) @ inverse
    first = first - length * mu / (2 * sigma) * np.linalg.pinv(W_next @ (D - A), rcond=1e-10) @ D_M
    second = W_next @ (D + A)
    second = second - W_next @ (D + A) @ inverse @ (W @ (D - A) + 2 / length * W_next @ (D + A))
    second = second - length * mu / (2 * sigma * (mu - 1)) * D_M
    least = [float(np.linalg.eigvalsh((matrix + matrix.T) / 2).min()) for matrix in (first, second)]
    return least[0], least[1]


def agrees(found: Condition, graph: Topology, theta: Any, gamma: float, smoothness: Any, after: Any = None) -> bool:
    assert found.L is not None
    assert found.mu is not None
    assert found.L > 0
    assert found.mu > 1
    after = theta if after is None else after
    first, second = margins(graph, theta, gamma, smoothness, after, found.L, found.mu)
    assert found.margin_first == pytest.approx(first, rel=1e-6, abs=1e-9)
    assert found.margin_second == pytest.approx(second, rel=1e-6, abs=1e-9)
    return first > 0 and second > 0


ODD = ["complete:5", "ring:5", "erdos-renyi:12:0.4", "random-regular:20:3"]


@pytest.mark.parametrize("text", ODD)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 10.0, 1e4, 1e8])
def test_margins_are_those_of_the_formulas(text: str, gamma: float) -> None:
    graph = parse_topology(text)
    found = condition(graph, 1.3, gamma, 0.25)
    assert agrees(found, graph, 1.3, gamma, 0.25) is found.holds
    assert found.bipartite is False


@pytest.mark.parametrize("text", ODD)
def test_unequal_numbers(text: str) -> None:
    graph = parse_topology(text)
    draw = np.random.default_rng(0)
    theta = draw.uniform(0.8, 1.2, graph.nodes)
    after = theta * draw.uniform(1.0, 1.1, graph.nodes)
    smoothness = draw.uniform(0.05, 0.2, graph.nodes)
    found = condition(graph, theta, 5.0, smoothness, after)
    assert agrees(found, graph, theta, 5.0, smoothness, after) is found.holds
    assert condition(graph, theta, 5.0, smoothness) == condition(graph, theta, 5.0, smoothness, theta)
    assert condition(graph, theta, 5.0, smoothness).margin_second != found.margin_second


def test_very_unequal_penalties() -> None:
    graph = parse_topology("complete:5")
    theta = np.array([1.0, 1.0, 1.0, 1.0, 1e-7])
    found = condition(graph, theta, 1e4, 1e-12)
    assert not found.holds
    assert agrees(found, graph, theta, 1e4, 1e-12) is False


@pytest.mark.parametrize("text", ODD)
def test_where_there_are_odd_cycles_a_large_gamma_does(text: str) -> None:
    found = condition(parse_topology(text), 1.0, 100.0, 0.1)
    assert found.holds
    assert f"L = {found.L:.4g} and mu = {found.mu:.4g}" in found.reason
    assert "hold" in found.reason


@pytest.mark.parametrize("text", ["ring:4", "path:5", "star:6", "grid:3:3", "path:2"])
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1e8])
def test_on_bipartite_graphs_it_never_holds(text: str, gamma: float) -> None:
    graph = parse_topology(text)
    found = condition(graph, 1.0, gamma, 0.01)
    assert found == Condition(False, True, None, None, None, None, BIPARTITE)
    assert "cannot hold for any gamma" in found.reason
    assert "D + A is singular" in found.reason
    assert "may converge" in found.reason
    for length, mu in product(np.logspace(-6, 6, 13), 1 + np.logspace(-6, 6, 7)):
        assert margins(graph, 1.0, gamma, 0.01, 1.0, length, mu)[1] < 1e-12


def test_on_bipartite_graphs_unequal_penalties_do_not_help() -> None:
    """At y = (colour)/theta⁺ everything but the last term vanishes."""
    graph = parse_topology("grid:2:3")
    draw = np.random.default_rng(1)
    theta = draw.uniform(0.1, 3.0, 6)
    after = theta * draw.uniform(1.0, 3.0, 6)
    colour = np.array([1, -1, 1, -1, 1, -1])
    signless = np.diag(graph.degrees) + graph.adjacency.toarray()
    assert np.abs((colour / after) @ (after[:, np.newaxis] * signless)).max() < 1e-14
    assert not condition(graph, theta, 1.0, 0.1, after).holds
    for length, mu in product(np.logspace(-4, 4, 9), 1 + np.logspace(-4, 4, 5)):
        assert margins(graph, theta, 1.0, 0.1, after, length, mu)[1] < 0


@pytest.mark.parametrize(("text", "gamma"), [("ring:5", 0.0), ("random-regular:20:3", 0.0), ("ring:11", 1.0)])
@pytest.mark.parametrize("factor", [0.98, 1.02])
def test_it_finds_what_a_fine_grid_finds(text: str, gamma: float, factor: float) -> None:
    """The largest smoothness at which some point of a grid of L and mu is good, and the verdict on both sides of it."""
    graph = parse_topology(text)
    low, high = 0.001, 10.0
    for _ in range(14):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _grid_holds(graph, gamma, middle) else (low, middle)
    found = condition(graph, 1.0, gamma, low * factor)
    assert found.holds is (factor < 1)
    if not found.holds:
        assert "fails" in found.reason
        assert "(i)" in found.reason or "(ii)" in found.reason


def _grid_holds(graph: Topology, gamma: float, smoothness: float) -> bool:
    """On regular graphs, with equal numbers, all matrices have the adjacency's eigenvectors."""
    degree = float(graph.degrees[0])
    signless = degree + np.linalg.eigvalsh(graph.adjacency.toarray())
    plain = 2 * degree - signless
    pivot = 2 * degree + gamma
    lengths = np.logspace(-1, 2, 250)[:, np.newaxis, np.newaxis]
    mus = 1 + np.logspace(-1, 3, 250)[:, np.newaxis]
    weight = lengths * mus / (2 * pivot) * smoothness**2
    turned = np.where(plain > 1e-9, 1 / np.maximum(plain, 1e-9), 0.0)
    first = (1 + signless / pivot - weight * turned).min(axis=-1)
    second = (signless - signless / pivot * (plain + 2 / lengths * signless) - weight / (mus - 1)).min(axis=-1)
    return bool(np.any((first > 0) & (second > 0)))


def test_rounding_is_no_proof() -> None:
    """Just where the margins vanish, the computed ones are above zero and yet say nothing."""
    graph = parse_topology("ring:5")
    low, high, margin = 0.1, 1.0, 1.0
    while not 0 < margin < 1e-14:
        middle = (low + high) / 2
        found = condition(graph, 1.0, 0.5, middle)
        margin = min(found.margin_first, found.margin_second)
        low, high = (middle, high) if margin > 0 else (low, middle)
    assert not found.holds
    assert condition(graph, 1.0, 0.5, low * (1 - 1e-9)).holds


def test_the_first_condition_may_fail_alone() -> None:
    """Around a hub, I + W⁺ Q D̃⁻¹ is not positive definite by itself; gamma evens the pivots out."""
    pairs = [[0, leaf] for leaf in range(1, 60)]
    graph = Topology(60, np.array([*pairs, [1, 2]]))
    found = condition(graph, 1.0, 0.0, 1e-6)
    assert found.margin_first < 0 < found.margin_second
    assert not found.holds
    assert "condition (i) fails" in found.reason
    assert agrees(found, graph, 1.0, 0.0, 1e-6) is False
    assert condition(graph, 1.0, 1e4, 1e-6).holds


def test_the_reason_names_the_condition_that_fails() -> None:
    found = condition(parse_topology("complete:5"), 1.0, 0.5, 1e4)
    assert not found.holds
    assert "larger gamma" in found.reason
    assert found.margin_first < 0 or found.margin_second < 0
    wrong = "(i)" if found.margin_first <= 0 else "(ii)"
    assert f"condition {wrong} fails" in found.reason


WRONG = [
    ({"theta": 0.0}, "theta must be positive"),
    ({"theta": -1.0}, "theta must be positive"),
    ({"theta": np.ones(4)}, "each of the 5 nodes"),
    ({"theta": np.ones((5, 1))}, "each of the 5 nodes"),
    ({"theta": math.nan}, "theta must be positive"),
    ({"theta": 1e60}, r"from 1e-50 to 1e\+50"),
    ({"gamma": -0.1}, "gamma -0.1 must be a number from 0"),
    ({"gamma": math.inf}, "gamma inf"),
    ({"gamma": math.nan}, "gamma nan"),
    ({"smoothness": 0.0}, "smoothness must be positive"),
    ({"smoothness": [1.0, 1.0, 1.0, 1.0, math.inf]}, "smoothness must be positive"),
    ({"theta": [1.0, 1.0, 1.0, 1.0, 0.9e-8]}, r"differ by more than 1e\+08"),
    ({"next_theta": 1.1e8}, r"differ by more than 1e\+08"),
    ({"next_theta": 0.5}, "falls from one cycle to the next"),
    ({"next_theta": [1, 1, 1, 1, 0.999]}, "falls"),
    ({"next_theta": 0.0}, "next theta must be positive"),
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=str)
@pytest.mark.parametrize("text", ["complete:5", "path:5"])
def test_numbers_that_the_theorem_does_not_know_are_refused(given: dict[str, Any], said: str, text: str) -> None:
    with pytest.raises(InputError, match=said):
        condition(parse_topology(text), **{"theta": 1.0, "gamma": 0.5, "smoothness": 0.25, **given})


def test_large_graphs_are_refused() -> None:
    with pytest.raises(InputError, match="501 nodes, and 500 are the most"):
        condition(parse_topology("ring:501"), 1.0, 0.5, 0.25)
    assert condition(parse_topology("ring:500"), 1.0, 0.5, 0.25).bipartite
