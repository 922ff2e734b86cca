"""Networks edge by edge: as JSON, which terms can carry, and in the files that people have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dpadmm import _limits
from dpadmm._arrays import IntArray
from dpadmm._files import json_value, read_text
from dpadmm.admm.topology.named import MOST_EDGES, refuse_size
from dpadmm.errors import InputError

LONGEST = 100_000_000  # characters: the most edges that a graph may have, between six-digit numbers
_FORM = '{"edges": [["north", "south"], ["south", "east"]]}, or with whole numbers from 0'


@dataclass(frozen=True)
class Listed:
    """Edges between numbered nodes, not yet known to make a network; `labels` are owners, where texts named them."""

    nodes: int
    pairs: IntArray
    labels: Sequence[str] | None


def is_json(text: str) -> bool:
    if not isinstance(text, str):
        raise InputError(f"graph: a text is needed, as in 'ring:20', not {type(text).__name__}.")
    if len(text) > LONGEST:
        raise InputError(f"graph: a text of {len(text):,} characters; {LONGEST:,} are the most.")
    return text.lstrip()[:1] in ("{", "[", '"')


def listed(text: str, names: Sequence[str] | None = None) -> Listed:
    """The edges of a JSON text. Texts as labels are places in `names`, or else in the order in which they appear."""
    edges = _edges(text)
    kinds = {type(label) for edge in edges for label in edge}
    if kinds == {int}:
        return _numbered(edges, names)
    if kinds != {str}:
        raise InputError('graph: labels must be all whole numbers or all texts; write 0 or "0" throughout.')
    place: dict[str, int] = {}
    for label in (label for edge in edges for label in edge) if names is None else names:
        place.setdefault(label, len(place))
    if names is not None:
        _refuse_strangers(edges, names, place)
    refuse_size("graph", len(place), 0)
    pairs = np.array([(place[start], place[end]) for start, end in edges], dtype=np.int64)
    return Listed(len(place), pairs, list(place))


def _edges(text: str) -> list[list[Any]]:
    try:
        found = json_value(text, 4 * MOST_EDGES, object_pairs_hook=_once, parse_constant=_constant)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"graph {text[:50]!r}: not JSON ({error}); write {_FORM}.") from None
    if not isinstance(found, dict) or set(found) != {"edges"} or not isinstance(found["edges"], list):
        raise InputError(f'graph {text[:50]!r}: one key, "edges", with a list is needed: {_FORM}.')
    edges: list[list[Any]] = found["edges"]
    refuse_size("graph", 0, len(edges))
    for number, edge in enumerate(edges):
        if not isinstance(edge, list) or len(edge) != 2 or not all(type(label) in (int, str) for label in edge):
            raise InputError(f"graph: edge number {number} is {str(edge)[:60]}, not two labels; write {_FORM}.")
    if not edges:
        raise InputError(f"graph: it has no edges; write {_FORM}.")
    return edges


def _numbered(edges: list[list[int]], names: Sequence[str] | None) -> Listed:
    least, most = min(map(min, edges)), max(map(max, edges))
    if least < 0:
        raise InputError(f"graph: node {str(least)[:20]} is negative; nodes count from 0.")
    refuse_size("graph", min(most, 10**15) + 1, 0)
    if names is not None:
        refuse_count("graph", most + 1, names)
    return Listed(most + 1, np.array(edges, dtype=np.int64), names)


def refuse_count(what: str, nodes: int, names: Sequence[str]) -> None:
    if nodes != len(names):
        raise InputError(f"{what}: {nodes:,} nodes for {len(names):,} owners; every owner must be one node.")


def _refuse_strangers(edges: list[list[str]], names: Sequence[str], place: dict[str, int]) -> None:
    if len(place) < len(names):
        raise InputError("graph: two owners have the same name; edges could not tell them apart.")
    used = {label for edge in edges for label in edge}
    for wrong, why in (
        (sorted(used - set(names)), f"no owner(s) by the name; there are {_few(names)}"),
        ([name for name in names if name not in used], "without an edge; every owner needs a neighbour"),
    ):
        if wrong:
            raise InputError(f"graph: {_few(wrong)}: {why}.")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(repr(name[:50]) for name in names[:5]) + more


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise InputError('graph: the key "edges" must stand once.')
    return dict(pairs)


def _constant(word: str) -> NoReturn:
    raise InputError(f"graph: {word} is not a label.")


def read_topology(path: Path) -> str:
    """A file as the text that `parse` reads: JSON as it is, NetworkX's adjacency lists (.adjlist), and in any other
    file an edge per line: two labels with spaces or a comma between them, and # before what is no edge."""
    text = read_text(Path(path), "graph file", limit=_limits.SPEC).removeprefix("\ufeff")
    kind = Path(path).suffix.lower()
    if kind == ".json":
        return text
    edges = list(_adjacent(text, path) if kind == ".adjlist" else _lines(text, path))
    if not edges:
        raise InputError(f"graph file {str(path)!r}: there is no edge in it.")
    whole = all(re.fullmatch("-?(0|[1-9][0-9]{0,17})", label) for edge in edges for label in edge)
    return json.dumps({"edges": [[int(label) if whole else label for label in edge] for edge in edges]})


def _lines(text: str, path: Path) -> Iterable[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        plain = re.sub(r"\{.*\}\s*$", "", line.partition("#")[0])  # NetworkX writes an edge's attributes after it
        labels = plain.replace(",", " ").split()
        if labels and len(labels) != 2:
            raise InputError(
                f"graph file {str(path)!r}, line {number}: {len(labels)} labels; an edge has two, as in 'north south' "
                f"(a line for every edge, # before a comment)."
            )
        if labels:
            yield labels[0], labels[1]


def _adjacent(text: str, path: Path) -> Iterable[tuple[str, str]]:
    from networkx import isolates, parse_adjlist  # a third of a second to import

    network = parse_adjlist(text.splitlines())
    for label in isolates(network):
        raise InputError(f"graph file {str(path)!r}: node {label!r} has no neighbours; add an edge or leave it out.")
    return network.edges
