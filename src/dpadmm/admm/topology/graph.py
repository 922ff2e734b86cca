"""The public network of a decentralised run: who hears whom. `parse_topology` reads text that nobody vouches for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import block_array, csr_array
from scipy.sparse.csgraph import connected_components

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.topology.named import TOPOLOGIES, NamedTopology, hopeless, parse_name, refuse_size
from dpadmm.admm.topology.text import is_json, listed, read_topology, refuse_count
from dpadmm.errors import InputError

if TYPE_CHECKING:
    import networkx

__all__ = ["TOPOLOGIES", "Topology", "count_nodes", "parse_topology", "read_topology"]

SEEDS = 100  # that are tried for a connected graph


@dataclass(frozen=True, eq=False)
class Topology:
    """A connected network without loops; its nodes are 0, 1, ..., its edges stand once each, in order. Graphs are
    shared between callers, so their arrays are read-only."""

    nodes: int
    edges: IntArray

    def __post_init__(self) -> None:
        found = _checked(self.nodes, self.edges, "graph", "add an edge")
        found.setflags(write=False)
        object.__setattr__(self, "edges", found)

    @cached_property
    def degrees(self) -> IntArray:
        """How many neighbours every node has."""
        found = np.bincount(self.edges.ravel(), minlength=self.nodes)
        found.setflags(write=False)
        return found

    @cached_property
    def adjacency(self) -> csr_array[np.float64]:
        """Ones where an edge is, in rows whose columns are in order: a product adds neighbours up in order."""
        found = _adjacency(self.nodes, self.edges)
        for part in (found.data, found.indices, found.indptr):
            part.setflags(write=False)
        return found

    @cached_property
    def bipartite(self) -> bool:
        """Whether two colours suffice so that no edge joins equals: then, and only then, two copies of a connected
        graph whose edges all cross from one to the other fall apart."""
        crossed = block_array([[None, self.adjacency], [self.adjacency, None]], format="csr")
        return int(connected_components(crossed, directed=False)[0]) == 2

    @property
    def text(self) -> str:
        """What `parse_topology` reads back: the edges, which do not depend on how anybody draws random graphs."""
        return json.dumps({"edges": self.edges.tolist()}, separators=(",", ":"))

    def neighbours(self, node: int) -> IntArray:
        """In order."""
        if not 0 <= node < self.nodes:
            raise InputError(f"graph: there is no node {node}; the nodes are 0 to {self.nodes - 1}.")
        start, stop = self.adjacency.indptr[node : node + 2]
        return self.adjacency.indices[start:stop].astype(np.int64)

    def means(self, values: FloatArray) -> FloatArray:
        """Of values (..., nodes, D), the mean over the neighbours of every node.

        Neighbours are added up in order, in every batch alone, so a node that computes its own mean from its own
        neighbours gets the same bits.
        """
        return self._averaged(values, self.adjacency, self.degrees)

    def edge_penalties(self, theta: FloatArray) -> csr_array[np.float64]:
        """Of penalties of the nodes, those of the edges: (theta_i + theta_j) / 2 where i and j are neighbours, bit for
        bit the same at both ends."""
        ends = self.adjacency
        rows = np.repeat(np.arange(self.nodes), np.diff(ends.indptr))
        low, high = np.minimum(rows, ends.indices), np.maximum(rows, ends.indices)
        return csr_array((0.5 * (theta[low] + theta[high]), ends.indices, ends.indptr), shape=ends.shape)

    def weighted_means(self, values: FloatArray, theta: FloatArray) -> FloatArray:
        """As `means`, with neighbours weighted by the penalties of the edges to them."""
        weights = self.edge_penalties(theta)
        return self._averaged(values, weights, np.asarray(weights.sum(axis=1)))

    def _averaged(self, values: FloatArray, weights: csr_array[np.float64], total: ArrayLike) -> FloatArray:
        given = np.asarray(values, dtype=np.float64)
        if given.ndim < 2 or given.shape[-2] != self.nodes:
            raise InputError(f"values of shape {given.shape}: the axis before the last must hold {self.nodes} nodes.")
        sums = np.empty(given.shape)
        for place in np.ndindex(given.shape[:-2]):
            sums[place] = np.asarray(weights @ given[place])
        sums /= np.asarray(total)[:, np.newaxis]
        return sums

    @classmethod
    def of(cls, network: networkx.Graph, order: Sequence[Any] | None = None) -> Topology:
        """A NetworkX graph. Its nodes are numbered in the given order; without one, whole numbers from 0 keep their
        places, and anything else is numbered as it was inserted."""
        if network.is_directed():
            raise InputError("graph: it is directed, and neighbours must hear each other; use to_undirected().")
        labels = list(network.nodes)
        if order is None:
            whole = all(isinstance(label, int | np.integer) for label in labels)
            numbers = whole and set(labels) == set(range(len(labels)))
            order = range(len(labels)) if numbers else labels
        place = {label: number for number, label in enumerate(order)}
        if len(order) != len(place) or set(place) != set(labels):
            raise InputError(f"graph: the order must name each of the {len(labels)} nodes once.")
        pairs = [(place[start], place[end]) for start, end in network.edges()]
        return cls(len(labels), np.array(pairs, dtype=np.int64).reshape(-1, 2))

    def to_networkx(self) -> networkx.Graph:
        import networkx

        made = networkx.empty_graph(self.nodes)
        made.add_edges_from(self.edges.tolist())
        return made


def parse_topology(text: str, names: Sequence[str] | None = None) -> Topology:
    """`ring:20`, another topology by name (see TOPOLOGIES), or JSON: {"edges": [["north", "south"], ...]}.

    Labels that are texts are owners' names, and their places among `names` number the nodes (without names, the order
    in which they appear); whole numbers are the nodes' own. A random topology without a seed takes the smallest seed
    whose graph is connected.
    """
    return _parse(text) if names is None and isinstance(text, str) else _build(text, names)


@lru_cache(maxsize=32)
def _parse(text: str) -> Topology:
    return _build(text, None)


def _build(text: str, names: Sequence[str] | None) -> Topology:
    if is_json(text):
        found = listed(text, names)
        labels = found.labels
        say = str if labels is None else lambda node: repr(labels[node])
        hint = "add an edge" if labels is not None else "add an edge (nodes are counted from 0)"
        return Topology(found.nodes, _checked(found.nodes, found.pairs, "graph", hint, say))
    asked = parse_name(text)
    what = f"topology {text[:100]!r}"
    if names is not None:
        refuse_count(what, asked.nodes, names)
    pairs = _first_connected(asked, what) if asked.kind.random and asked.seed is None else asked.pairs(asked.seed)
    number = asked.kind.numbers[-1]
    return Topology(asked.nodes, _checked(asked.nodes, pairs, what, f"take another seed or a larger {number}"))


def _first_connected(asked: NamedTopology, what: str) -> IntArray:
    """A property of the numbers alone, so that all who read a text get the same graph."""
    number = asked.kind.numbers[-1]
    if number == "probability" and hopeless(asked.nodes, asked.numbers[1]):
        raise InputError(
            f"{what}: so few edges leave nodes without neighbours; take a probability above ln(nodes)/nodes = "
            f"{math.log(asked.nodes) / asked.nodes:.2g}."
        )
    for seed in range(SEEDS):
        pairs = asked.pairs(seed)
        if _parts(asked.nodes, pairs)[0] == 1:
            return pairs
    raise InputError(f"{what}: none of the seeds 0 to {SEEDS - 1} makes it connected; take a larger {number}.")


def count_nodes(text: str) -> int:
    """How many nodes a text asks for; nothing is built, so that a stranger's text can be refused first."""
    return _count(text) if is_json(text) else parse_name(text).nodes


@lru_cache(maxsize=32)
def _count(text: str) -> int:
    return listed(text).nodes


def _checked(nodes: int, pairs: IntArray, what: str, hint: str, say: Callable[[int], str] = str) -> IntArray:
    """The edges once each and in order, if they make a connected network without loops."""
    if nodes < 2:
        raise InputError(f"{what}: {nodes} node(s); a network needs at least 2.")
    found = np.asarray(pairs)
    if found.ndim != 2 or found.shape[1] != 2 or (found.size and found.dtype.kind not in "iu"):
        raise InputError(f"{what}: edges must be a table of whole numbers with two columns, not {found.shape}.")
    refuse_size(what, nodes, len(found))
    if found.size and not 0 <= found.min() <= found.max() < nodes:
        raise InputError(f"{what}: an edge ends outside the nodes 0 to {nodes - 1}.")
    loops = found[found[:, 0] == found[:, 1], 0]
    if loops.size:
        raise InputError(f"{what}: node {say(int(loops[0]))} is joined to itself; leave that edge out.")
    ordered = np.sort(found.astype(np.int64), axis=1)
    edges = np.stack(np.divmod(np.unique(ordered[:, 0] * nodes + ordered[:, 1]), nodes), axis=1)
    lonely = np.flatnonzero(np.bincount(edges.ravel(), minlength=nodes) == 0)
    if lonely.size:
        raise InputError(f"{what}: {lonely.size:,} node(s) without neighbours, such as {say(int(lonely[0]))}; {hint}.")
    parts, part_of = _parts(nodes, edges)
    if parts > 1:
        smallest = int(np.argmin(np.bincount(part_of)))
        node = say(int(np.flatnonzero(part_of == smallest)[0]))
        raise InputError(f"{what}: it falls into {parts:,} parts, the smallest with node {node}; {hint} to connect it.")
    return edges


def _parts(nodes: int, pairs: IntArray) -> tuple[int, IntArray]:
    """How many connected parts there are, and to which every node belongs."""
    parts, part_of = connected_components(_adjacency(nodes, pairs), directed=False)
    return int(parts), part_of.astype(np.int64)


def _adjacency(nodes: int, edges: IntArray) -> csr_array[np.float64]:
    ends = np.concatenate([edges, edges[:, ::-1]])
    found = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
    found.sort_indices()
    return found
