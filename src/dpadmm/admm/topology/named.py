"""Networks by name: `ring:20`, `grid:4:5`, `erdos-renyi:20:0.3`. How many nodes and edges a text asks for is known
before anything is built, so that a text from a stranger costs nothing until it is found to be reasonable."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import IntArray
from dpadmm.errors import InputError, unknown

MOST_NODES = 200_000
MOST_EDGES = 5_000_000
HOPELESS = 10.0  # expected nodes without a neighbour; with more, not one graph in e^10 is connected


@dataclass(frozen=True)
class TopologyKind:
    """A kind of network: the numbers that follow its name, and what they promise. `make` takes them, and a seed if
    `random`; it answers with pairs of nodes, in any order."""

    name: str
    about: str
    numbers: tuple[str, ...]
    example: str
    nodes: Callable[..., int]
    edges: Callable[..., float]
    make: Callable[..., Any]
    random: bool = False
    check: Callable[..., str] = lambda *_: ""  # what is wrong with the numbers, if anything

    @property
    def form(self) -> str:
        return ":".join((self.name, *self.numbers)) + "[:seed]" * self.random


@dataclass(frozen=True)
class NamedTopology:
    """A topology with its numbers, found to be possible and of a reasonable size. Random ones may lack a seed."""

    kind: TopologyKind
    numbers: tuple[Any, ...]
    seed: int | None

    @property
    def nodes(self) -> int:
        return self.kind.nodes(*self.numbers)

    def pairs(self, seed: int | None) -> IntArray:
        more = (seed,) if self.kind.random else ()
        return np.array(self.kind.make(*self.numbers, *more), dtype=np.int64).reshape(-1, 2)


def parse_name(text: str) -> NamedTopology:
    """Reads `name:number:...` without building anything."""
    name, *given = text.split(":")
    if name not in TOPOLOGIES:
        raise unknown("topology", name[:100], TOPOLOGIES)
    kind = TOPOLOGIES[name]
    what = f"topology {text[:100]!r}"
    if not 0 <= len(given) - len(kind.numbers) <= kind.random:
        raise InputError(f"{what}: write {kind.form}, as in {kind.example!r}.")
    labels = (*kind.numbers, "seed")[: len(given)]
    values = tuple(_number(what, label, word) for label, word in zip(labels, given, strict=True))
    numbers, seed = values[: len(kind.numbers)], values[len(kind.numbers) :]
    nodes = kind.nodes(*numbers)
    if nodes < 2:
        raise InputError(f"{what}: {nodes} node(s); a network needs at least 2.")
    wrong = kind.check(*numbers)
    if wrong:
        raise InputError(f"{what}: {wrong}.")
    refuse_size(what, nodes, kind.edges(*numbers))
    return NamedTopology(kind, numbers, int(seed[0]) if seed else None)


def refuse_size(what: str, nodes: int, edges: float) -> None:
    for found, most, things in ((nodes, MOST_NODES, "nodes"), (edges, MOST_EDGES, "edges")):
        if found > most:
            raise InputError(f"{what}: {found:,.0f} {things}, and {most:,} are the most; take a smaller network.")


def _number(what: str, label: str, word: str) -> Any:
    if label == "probability":
        try:
            value = float(word)
        except ValueError:
            value = math.nan
        if not 0.0 < value <= 1.0:
            raise InputError(f"{what}: {label} {word[:50]!r} must be a number above 0 and at most 1, as in '0.3'.")
        return value
    if not re.fullmatch("[0-9]{1,15}", word):
        raise InputError(f"{what}: {label} {word[:50]!r} must be a whole number, as in '20'.")
    return int(word)


def _line(nodes: int) -> IntArray:
    return np.stack([np.arange(nodes - 1), np.arange(1, nodes)], axis=1)


def _grid(rows: int, columns: int) -> IntArray:
    place = np.arange(rows * columns).reshape(rows, columns)
    pairs = ((place[:, :-1], place[:, 1:]), (place[:-1], place[1:]))
    return np.concatenate([np.stack([start.ravel(), end.ravel()], axis=1) for start, end in pairs])


def _erdos_renyi(nodes: int, probability: float, seed: int) -> list[tuple[int, int]]:
    from networkx import fast_gnp_random_graph  # a third of a second to import, and only random networks need it

    return list(fast_gnp_random_graph(nodes, probability, seed=seed).edges)  # takes time per edge, not per pair


def _random_regular(nodes: int, degree: int, seed: int) -> list[tuple[int, int]]:
    """NetworkX, which joins loose ends at random, needs minutes where few pairs stay apart; those are drawn instead."""
    from networkx import complement, random_regular_graph

    if 2 * degree < nodes:
        return list(random_regular_graph(degree, nodes, seed=seed).edges)
    apart = random_regular_graph(nodes - 1 - degree, nodes, seed=seed)
    return list(complement(apart).edges)


def _not_regular(nodes: int, degree: int) -> str:
    if degree >= nodes:
        return f"degree {degree} needs more than {nodes} nodes; take a degree of at most {nodes - 1}"
    if nodes * degree % 2:
        return f"{nodes} nodes with {degree} edges each have an odd number of ends; make nodes or degree even"
    if degree == 0 or (degree == 1 and nodes > 2):
        return f"degree {degree} cannot connect {nodes} nodes; take a degree of 3 or more"
    return ""


def hopeless(nodes: int, probability: float) -> bool:
    """Of an Erdős-Rényi graph: so sparse that looking for a connected one would be a waste."""
    return nodes * (1.0 - probability) ** (nodes - 1) > HOPELESS


TOPOLOGIES: dict[str, TopologyKind] = {
    kind.name: kind
    for kind in (
        TopologyKind("ring", "every node has two neighbours, in a circle", ("nodes",), "ring:20",
                 nodes=lambda n: n, edges=lambda n: n, make=lambda n: np.concatenate([_line(n), [[0, n - 1]]])),
        TopologyKind("path", "a line of nodes", ("nodes",), "path:5",
                 nodes=lambda n: n, edges=lambda n: n - 1, make=_line),
        TopologyKind("star", "node 0 is everybody's only neighbour", ("nodes",), "star:5",
                 nodes=lambda n: n, edges=lambda n: n - 1,
                 make=lambda n: np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)], axis=1)),
        TopologyKind("complete", "everybody is everybody's neighbour", ("nodes",), "complete:5",
                 nodes=lambda n: n, edges=lambda n: n * (n - 1) / 2, make=lambda n: np.stack(np.triu_indices(n, 1), 1)),
        TopologyKind("grid", "rows and columns, neighbours left, right, above and below; numbered row by row",
                 ("rows", "columns"), "grid:4:5",
                 nodes=lambda r, c: r * c, edges=lambda r, c: r * (c - 1) + (r - 1) * c, make=_grid),
        TopologyKind("erdos-renyi", "every pair is joined with a probability; without a seed, the first connected draw",
                 ("nodes", "probability"), "erdos-renyi:20:0.3",
                 nodes=lambda n, p: n, edges=lambda n, p: p * n * (n - 1) / 2, make=_erdos_renyi, random=True),
        TopologyKind("random-regular", "random, with the same number of neighbours for all; the first connected draw",
                 ("nodes", "degree"), "random-regular:20:4",
                 nodes=lambda n, d: n, edges=lambda n, d: n * d / 2, make=_random_regular, random=True,
                 check=_not_regular),
    )
}  # fmt: skip
