"""Methods on a graph of five nodes: their rounds one by one, and the formulas of 003 with loops over nodes."""

from dataclasses import replace

import numpy as np
import pytest

from dpadmm.admm.rho import ConstantRho, GeometricRho
from dpadmm.admm.rounds import absorb, begin, next_server, solve_and_perturb
from dpadmm.papers import ALGORITHMS
from dpadmm.problems.penalties import L2
from dpadmm.problems.problem import Problem
from dpadmm.release.random_bits import SeededRandomness

SIZES = (6, 11, 8, 9, 7)
PROBLEM = Problem(penalty=L2(), strength=0.05)
GRAPHS = {name: f"{name}:5" for name in ("ring", "path", "star", "complete")} | {"random": "erdos-renyi:5:0.5"}
SCALES, GROWTHS = (1.0, 1.3, 0.8, 1.1, 0.9), (1.02, 1.0, 1.05, 1.01, 1.1)
PENALTIES = {
    "constant": ConstantRho(),
    "geometric": GeometricRho(1.06, 1.0, 3.0),
    "of each node": GeometricRho(GROWTHS, SCALES),
}
ON_GRAPHS = {name: recipe for name, recipe in ALGORITHMS.items() if recipe.consensus.decentralised}

every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
every_penalty = pytest.mark.parametrize("rule", PENALTIES.values(), ids=PENALTIES)
PURE = {
    name: recipe.tuned(mechanism="gamma-norm")
    for name, recipe in ON_GRAPHS.items()
    if recipe.phases[0].perturbation.takes_alpha
}
by_objective = pytest.mark.parametrize("name", ["dvp-graph", "m-admm-penalty", "private-r-admm", "private-mr-admm"])


def random_bits(round, agents=range(5), seed=1):
    """Seeded random bits of a round for these agents."""
    runs = np.zeros(len(agents), dtype=np.int64)
    return lambda purpose: SeededRandomness(seed).stream(runs, np.asarray(agents), round, purpose)


def walk(plan, shards, first=None, draw=random_bits):
    """All rounds from `first`: what was released in rounds 0.., and the duals as each round found them and after it."""
    state = begin(plan)
    if first is not None:
        state = replace(state, released=first)
    server = plan.algorithm.consensus.opening(plan.setting, state.released, 1)
    released, duals, states = [state.released], [state.dual], [state]
    for k in range(1, plan.setting.rounds + 1):
        release, state = solve_and_perturb(plan, state, shards, server.common, k, draw(k))
        server = next_server(plan, server, release.value[None], k)
        states.append(state)
        state = absorb(plan, state, server.common, k)
        released.append(release.value)
        duals.append(state.dual)
    return released, duals, states


def somewhere(seed=5):
    """Where five nodes may begin."""
    return np.random.default_rng(seed).standard_normal((5, 3))


def theta(rule, rho, node, cycle):
    """The penalty of a node in a cycle, by hand."""
    if isinstance(rule, ConstantRho):
        return rho
    growth, scale = (v[node] if isinstance(v, tuple) else v for v in (rule.growth, rule.scale))
    return rho * min(scale * growth**cycle, rule.bound)


def neighbours(graph):
    """Of every node, from the list of edges alone."""
    found = [set() for _ in range(graph.nodes)]
    for i, j in graph.edges.tolist():
        found[i].add(j)
        found[j].add(i)
    return found


def records(shards, node):
    """Features and labels of a node."""
    rows = slice(shards.starts[node], shards.stops[node])
    return shards.real_rows[rows], shards.targets[rows]


def objective(shards, node, x):
    """f_i and its gradient, from the text: mean logistic loss + (0.05/2) |x|²."""
    rows, labels = records(shards, node)
    margins = labels * (rows @ x)
    value = np.logaddexp(0.0, -margins).mean() + 0.025 * x @ x
    return value, -(rows.T @ (labels / (1.0 + np.exp(margins)))) / len(labels) + 0.05 * x


def hand_ratio(rule, graph, node, cycle, extra=0.0, rho=0.06, weight=None):
    """kappa_i(k) = w c / lambda: of the record, over strength + 2 theta V (+ Phi)."""
    degree = len(neighbours(graph)[node])
    lam = 0.05 + 2 * theta(rule, rho, node, cycle) * degree + extra
    return (weight or 1 / SIZES[node]) * 0.25 / lam
