"""The public network of a decentralised run, against NetworkX and against plain loops."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.admm.topology.graph import TOPOLOGIES, Topology, count_nodes, parse_topology
from dpadmm.errors import InputError


def same(graph: Topology, network: networkx.Graph) -> bool:
    edges = sorted(tuple(sorted(edge)) for edge in network.edges)
    return graph.nodes == len(network) and [tuple(edge) for edge in graph.edges.tolist()] == edges


def row_by_row(rows: int, columns: int) -> networkx.Graph:
    return networkx.relabel_nodes(networkx.grid_2d_graph(rows, columns), lambda place: place[0] * columns + place[1])


PEERS = {
    "ring:20": networkx.cycle_graph(20),
    "ring:3": networkx.cycle_graph(3),
    "ring:2": networkx.path_graph(2),
    "path:5": networkx.path_graph(5),
    "path:2": networkx.path_graph(2),
    "star:5": networkx.star_graph(4),
    "star:2": networkx.star_graph(1),
    "complete:5": networkx.complete_graph(5),
    "grid:4:5": row_by_row(4, 5),
    "grid:3:1": networkx.path_graph(3),
    "erdos-renyi:20:0.3:7": networkx.fast_gnp_random_graph(20, 0.3, seed=7),
    "erdos-renyi:20:1:0": networkx.complete_graph(20),
    "random-regular:20:4:7": networkx.random_regular_graph(4, 20, seed=7),
    "random-regular:9:4:7": networkx.random_regular_graph(4, 9, seed=7),
    "random-regular:20:17:7": networkx.complement(networkx.random_regular_graph(2, 20, seed=7)),
    "random-regular:5:4": networkx.complete_graph(5),
    "random-regular:2:1": networkx.path_graph(2),
}


@pytest.mark.parametrize(("text", "network"), PEERS.items(), ids=PEERS)
def test_every_topology_is_networkxs(text: str, network: networkx.Graph) -> None:
    graph = parse_topology(text)
    assert same(graph, network)
    assert count_nodes(text) == graph.nodes == len(network)
    assert graph.degrees.tolist() == [network.degree[node] for node in range(len(network))]
    assert graph.bipartite is networkx.is_bipartite(network)
    assert np.array_equal(graph.adjacency.toarray(), networkx.to_numpy_array(network, range(len(network))))
    for node in range(len(network)):
        assert graph.neighbours(node).tolist() == sorted(network[node])
    assert same(graph, graph.to_networkx())
    assert list(graph.to_networkx()) == list(range(graph.nodes))


def test_all_topologies_are_tested_and_say_what_they_are() -> None:
    assert {text.partition(":")[0] for text in PEERS} == set(TOPOLOGIES)
    for name, kind in TOPOLOGIES.items():
        assert kind.name == name
        assert kind.about
        assert kind.form.startswith(f"{name}:")
        assert kind.example.startswith(f"{name}:")
        graph = parse_topology(kind.example)
        assert graph.nodes == count_nodes(kind.example)
        if not kind.random:
            assert len(graph.edges) == kind.edges(*request_numbers(kind.example))


def request_numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(":")[1:]]


def test_arrays_are_what_they_are_said_to_be() -> None:
    graph = parse_topology("erdos-renyi:20:0.3")
    assert (graph.edges.dtype, graph.degrees.dtype, graph.neighbours(0).dtype) == (np.int64,) * 3
    assert (graph.adjacency.format, graph.adjacency.dtype) == ("csr", np.float64)
    assert graph.adjacency.has_sorted_indices
    for node in range(20):  # not only by the flag
        row = graph.adjacency.indices[graph.adjacency.indptr[node] : graph.adjacency.indptr[node + 1]]
        assert np.all(np.diff(row) > 0)
    assert np.all(graph.edges[:, 0] < graph.edges[:, 1])
    assert sorted(graph.edges.tolist()) == graph.edges.tolist()


def test_shared_arrays_are_read_only() -> None:
    graph = parse_topology("ring:6")
    assert parse_topology("ring:6") is graph
    for part in (graph.edges, graph.degrees, graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr):
        with pytest.raises(ValueError, match="read-only"):
            part[:] = 0
    given = np.array([[0, 1], [1, 2]])
    Topology(3, given)
    given[0, 0] = 0  # the caller's own stays theirs


def test_a_random_topology_takes_the_first_connected_seed() -> None:
    def draw(seed: int) -> networkx.Graph:
        return networkx.fast_gnp_random_graph(20, 0.12, seed=seed)

    first = next(seed for seed in range(100) if networkx.is_connected(draw(seed)))
    assert first > 0
    assert same(parse_topology("erdos-renyi:20:0.12"), draw(first))
    assert parse_topology(f"erdos-renyi:20:0.12:{first}").text == parse_topology("erdos-renyi:20:0.12").text
    with pytest.raises(InputError, match=r"seed"):
        parse_topology("erdos-renyi:20:0.12:0")
    assert parse_topology("erdos-renyi:20:0.5").text == parse_topology("erdos-renyi:20:0.5:0").text
    assert parse_topology("random-regular:20:4").text == parse_topology("random-regular:20:4:0").text


# Texts, and back.


@pytest.mark.parametrize("text", [*PEERS, "erdos-renyi:20:0.3", "random-regular:50:3"])
def test_a_graphs_text_is_read_back(text: str) -> None:
    graph = parse_topology(text)
    again = parse_topology(graph.text)
    assert again.nodes == graph.nodes
    assert np.array_equal(again.edges, graph.edges)
    assert again.text == graph.text
    assert count_nodes(graph.text) == graph.nodes


def test_the_text_is_canonical_json() -> None:
    assert parse_topology("path:3").text == '{"edges":[[0,1],[1,2]]}'
    assert parse_topology(' {"edges": [[2, 1], [1, 0], [0, 1], [1, 2]]}').text == '{"edges":[[0,1],[1,2]]}'


def test_names_number_the_nodes() -> None:
    text = '{"edges": [["south", "north"], ["east", "south"]]}'
    named = parse_topology(text, ["north", "east", "south"])
    assert named.edges.tolist() == [[0, 2], [1, 2]]
    assert parse_topology(text).edges.tolist() == [[0, 1], [0, 2]]  # south, north, east
    assert count_nodes(text) == 3
    assert parse_topology('{"edges": [[0, 1], [1, 2]]}', ["c", "b", "a"]).edges.tolist() == [[0, 1], [1, 2]]
    assert parse_topology("path:3", ("a", "b", "c")).nodes == 3


def test_of_networkx() -> None:
    ring = networkx.Graph([(2, 1), (1, 0), (0, 2), (0, 3)])
    assert Topology.of(ring).edges.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2]]
    assert Topology.of(ring, [3, 2, 1, 0]).edges.tolist() == [[0, 3], [1, 2], [1, 3], [2, 3]]
    random_bits = networkx.Graph([("b", "a"), ("a", "c")])
    assert Topology.of(random_bits).edges.tolist() == [[0, 1], [1, 2]]
    assert Topology.of(random_bits, ["a", "b", "c"]).edges.tolist() == [[0, 1], [0, 2]]
    assert Topology.of(networkx.Graph([(7, 5), (5, 9)])).edges.tolist() == [[0, 1], [1, 2]]
    assert Topology.of(networkx.MultiGraph([(0, 1), (0, 1)])).edges.tolist() == [[0, 1]]
    for order in (["a", "b"], ["a", "b", "c", "c"], ["a", "b", "d"], ["a", "b", "c", "d"]):
        with pytest.raises(InputError, match="order must name each of the 3 nodes once"):
            Topology.of(random_bits, order)
    with pytest.raises(InputError, match="directed"):
        Topology.of(networkx.DiGraph([(0, 1)]))


# Means over neighbours.


def plain(graph: Topology, values: Any) -> Any:
    found = np.empty_like(values)
    for node in range(graph.nodes):
        total = np.zeros(values.shape[-1])
        for neighbour in graph.neighbours(node):
            total = total + values[neighbour]
        found[node] = total / len(graph.neighbours(node))
    return found


@st.composite
def connected(draw: st.DrawFn) -> Topology:
    """A random tree and some edges more."""
    nodes = draw(st.integers(2, 12))
    pairs = [(draw(st.integers(0, node - 1)), node) for node in range(1, nodes)]
    ends = st.integers(0, nodes - 1)
    pairs += [pair for pair in draw(st.lists(st.tuples(ends, ends), max_size=20)) if pair[0] != pair[1]]
    return Topology(nodes, np.array(pairs))


@settings(max_examples=80, deadline=None)
@given(connected(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_means_are_those_of_a_plain_loop_bit_for_bit(graph: Topology, width: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(graph.nodes, width)) * 10.0 ** draw.integers(-9, 9, (graph.nodes, width))
    assert np.array_equal(graph.means(values), plain(graph, values))
    assert same(graph, networkx.Graph(graph.edges.tolist()))
    assert same(parse_topology(graph.text), graph.to_networkx())
    assert graph.bipartite is networkx.is_bipartite(graph.to_networkx())


@pytest.mark.parametrize("width", [1, 2, 7])
def test_a_batch_does_not_depend_on_its_company(width: int) -> None:
    graph = parse_topology("erdos-renyi:30:0.3")
    values = np.random.default_rng(0).normal(size=(3, 2, 30, width))
    together = graph.means(values)
    assert together.shape == values.shape
    assert together.flags.c_contiguous
    for place in np.ndindex(3, 2):
        assert np.array_equal(together[place], graph.means(values[place]))
        assert np.array_equal(together[place], plain(graph, values[place]))
    strange = np.asfortranarray(values[1, 0])
    assert np.array_equal(graph.means(strange), together[1, 0])
    assert np.array_equal(graph.means(values[..., :1]), together[..., :1])  # nor does a column on the others


def test_means_leave_their_argument_alone_and_refuse_other_shapes() -> None:
    graph = parse_topology("star:4")
    values = np.arange(8.0).reshape(4, 2)
    before = values.copy()
    assert graph.means(values).tolist() == [[4.0, 5.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    assert np.array_equal(values, before)
    assert graph.means(np.zeros((0, 4, 2))).shape == (0, 4, 2)
    for wrong in (np.zeros(4), np.zeros((5, 2)), np.zeros((4, 5, 2))):
        with pytest.raises(InputError, match="4 nodes"):
            graph.means(wrong)


def test_ten_thousand_nodes() -> None:  # how quick they are is in benchmarks/graphs.py
    graph = parse_topology("random-regular:10000:6")
    values = np.random.default_rng(0).normal(size=(10_000, 50))
    found = graph.means(values)
    assert set(graph.degrees.tolist()) == {6}
    node = 1234
    assert np.allclose(found[node], values[graph.neighbours(node)].mean(axis=0), rtol=0, atol=1e-14)


# What cannot be.

LARGE = "0" * 2000
WRONG: dict[str, tuple[str, ...]] = {
    "rng:20": ("unknown topology 'rng'", "'ring'"),
    "": ("unknown topology ''", "complete"),
    "ring": ("ring:nodes", "'ring:20'"),
    "ring:": ("nodes ''", "whole number"),
    "ring:20:1": ("ring:nodes",),
    "grid:4": ("grid:rows:columns", "'grid:4:5'"),
    "ring:x": ("nodes 'x'", "whole number"),
    "ring:-5": ("nodes '-5'", "whole number"),
    "ring:5.0": ("nodes '5.0'", "whole number"),
    "ring:1_0": ("nodes '1_0'", "whole number"),
    "ring:٣": ("whole number",),
    f"ring:{LARGE}": ("whole number",),
    "ring:0": ("0 node(s)", "at least 2"),
    "ring:1": ("1 node(s)", "at least 2"),
    "grid:1:1": ("1 node(s)", "at least 2"),
    "grid:5:0": ("0 node(s)", "at least 2"),
    "random-regular:1:0": ("1 node(s)", "at least 2"),
    "ring:200001": ("200,001 nodes", "200,000 are the most", "smaller"),
    "grid:1000:1000": ("1,000,000 nodes", "200,000 are the most"),
    "complete:3164": ("5,003,866 edges", "5,000,000 are the most"),
    "complete:999999999999999": ("200,000 are the most",),
    "erdos-renyi:200000:0.5": ("9,999,950,000 edges", "5,000,000 are the most"),
    "random-regular:200000:52": ("5,200,000 edges", "5,000,000 are the most"),
    "erdos-renyi:20:0": ("probability '0'", "above 0"),
    "erdos-renyi:20:1.5": ("probability '1.5'", "at most 1"),
    "erdos-renyi:20:nan": ("probability 'nan'",),
    "erdos-renyi:20:half": ("probability 'half'", "'0.3'"),
    "erdos-renyi:20:0.3:x": ("seed 'x'", "whole number"),
    "erdos-renyi:20:0.3:1:2": ("erdos-renyi:nodes:probability[:seed]",),
    "random-regular:5:3": ("5 nodes with 3 edges", "odd", "make nodes or degree even"),
    "random-regular:5:5": ("degree 5", "at most 4"),
    "random-regular:5:0": ("degree 0 cannot connect",),
    "random-regular:6:1": ("degree 1 cannot connect",),
    '{"edges": [[0, 10000000]]}': ("10,000,001 nodes", "200,000 are the most"),
    f'{{"edges": [[0, 1{"0" * 400}]]}}': ("200,000 are the most",),
    f'{{"edges": [[0, 1{"0" * 5000}]]}}': ("not JSON",),
    '{"edges": [[0, -1]]}': ("node -1 is negative", "from 0"),
    '{"edges": []}': ("no edges", "north"),
    '{"edges": {}}': ('"edges"', "list"),
    '{"edge": [[0, 1]]}': ('"edges"',),
    '{"edges": [[0, 1]], "nodes": 2}': ("one key",),
    '{"edges": [[0, 1]], "edges": [[0, 2]]}': ("once",),
    "[[0, 1]]": ('"edges"',),
    '"ring:20"': ('"edges"',),
    '{"edges": [[0, 1]': ("not JSON",),
    "[" * 100_000: ("not JSON",),
    '{"edges": [[0, 1], [1]]}': ("edge number 1", "two labels"),
    '{"edges": [[0, 1, 2]]}': ("edge number 0", "two labels"),
    '{"edges": ["ab"]}': ("edge number 0", "two labels"),
    '{"edges": [[0, 1.0]]}': ("edge number 0",),
    '{"edges": [[0, true]]}': ("edge number 0",),
    '{"edges": [[0, null]]}': ("edge number 0",),
    '{"edges": [[0, NaN]]}': ("NaN",),
    '{"edges": [[0, "1"]]}': ("all whole numbers or all texts",),
}


@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=lambda part: str(part)[:40])
@pytest.mark.parametrize("reader", [parse_topology, count_nodes])
def test_a_wrong_text_is_refused_before_anything_is_built(reader: Any, text: str, said: tuple[str, ...]) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InputError) as error:
            reader(text)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert all(random_bits in str(error.value) for random_bits in said), str(error.value)
    assert len(str(error.value)) < 400


UNCONNECTED: dict[str, tuple[str, ...]] = {
    "erdos-renyi:20:0.02:1": ("13 node(s) without neighbours, such as 0", "another seed or a larger probability"),
    "erdos-renyi:20:0.02": ("so few edges", "probability above ln(nodes)/nodes = 0.15"),
    "erdos-renyi:200000:0.00001": ("so few edges", "6.1e-05"),
    "erdos-renyi:60:0.04": ("none of the seeds 0 to 99", "larger probability"),
    "random-regular:100:2:0": ("parts", "another seed or a larger degree"),
    '{"edges": [[0, 1], [1, 2], [3, 4]]}': ("2 parts", "smallest with node 3;", "add an edge"),
    '{"edges": [[3, 4], [0, 1], [1, 2], [5, 6]]}': ("3 parts", "smallest with node 3;"),
    '{"edges": [[0, 1], [1, 3]]}': ("1 node(s) without neighbours, such as 2", "add an edge", "counted from 0"),
    '{"edges": [[1, 2], [2, 3]]}': ("such as 0", "counted from 0"),
    '{"edges": [[0, 0]]}': ("1 node(s)", "at least 2"),
    '{"edges": [[0, 1], [1, 1]]}': ("node 1 is joined to itself", "leave that edge out"),
    '{"edges": [["a", "b"], ["b", "b"]]}': ("node 'b' is joined to itself",),
    '{"edges": [["a", "b"], ["b", "c"], ["d", "e"]]}': ("2 parts", "smallest with node 'd';"),
}


@pytest.mark.parametrize(("text", "said"), UNCONNECTED.items(), ids=lambda part: str(part)[:40])
def test_what_is_no_connected_network_is_refused(text: str, said: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        parse_topology(text)
    assert all(random_bits in str(error.value) for random_bits in said), str(error.value)
    assert count_nodes(text) >= 1  # promised all the same


def test_just_small_enough_is_accepted() -> None:
    assert count_nodes("complete:3162") == 3162  # 4,997,541 edges
    assert count_nodes("ring:200000") == 200_000
    assert count_nodes("random-regular:200000:50") == 200_000
    assert count_nodes("erdos-renyi:200000:0.0002") == 200_000


PAIR = '{"edges": [["a", "b"], ["b", "c"]]}'


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        (PAIR, ["a", "b"], ("'c'", "no owner", "'a', 'b'")),
        (PAIR, ["a", "b", "c", "d"], ("'d'", "without an edge", "neighbour")),
        (PAIR, ["a", "b", "c", "c"], ("same name",)),
        (PAIR, [f"owner {k}" for k in range(9)], ("'a', 'b', 'c'", "'owner 4' and 4 more")),
        ('{"edges": [[0, 1], [1, 2]]}', ["a", "b"], ("3 nodes for 2 owners",)),
        ("ring:5", ["a", "b"], ("topology 'ring:5'", "5 nodes for 2 owners", "every owner must be one node")),
        ('{"edges": [["a", "b"], ["c", "d"], ["d", "e"]]}', list("edcba"), ("2 parts", "'b'")),
    ],
)
def test_owners_and_nodes_must_be_the_same(text: str, names: list[str], said: tuple[str, ...]) -> None:
    with pytest.raises(InputError) as error:
        parse_topology(text, names)
    assert all(random_bits in str(error.value) for random_bits in said), str(error.value)


@pytest.mark.parametrize("text", [None, 5, {"edges": [[0, 1]]}])
@pytest.mark.parametrize("reader", [parse_topology, count_nodes])
def test_only_texts_are_read(reader: Any, text: Any) -> None:
    with pytest.raises(InputError, match="a text is needed"):
        reader(text)


def test_a_text_without_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.admm.topology.text.LONGEST", 30)
    with pytest.raises(InputError, match="characters"):
        parse_topology(json.dumps({"edges": [[0, 1]] * 10}))
    monkeypatch.setattr("dpadmm.admm.topology.named.MOST_EDGES", 2)
    with pytest.raises(InputError, match="3 edges, and 2 are the most"):
        count_nodes('{"edges":[[0,1],[0,1],[0,1]]}')


@pytest.mark.parametrize(
    ("nodes", "edges", "said"),
    [
        (1, [[0, 0]], "1 node"),
        (3, [[0, 1], [1, 3]], "outside the nodes 0 to 2"),
        (3, [[0, 1], [1, -1]], "outside"),
        (3, [[0, 1]], "without neighbours, such as 2"),
        (2, [[0, 1, 2]], "two columns"),
        (2, [0, 1], "two columns"),
        (2, [[0.0, 1.0]], "whole numbers"),
        (2, np.zeros((0, 2)), "2 node"),
        (200_001, [[0, 1]], "200,001 nodes"),
    ],
)
def test_a_graph_made_by_hand_is_checked_too(nodes: int, edges: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Topology(nodes, np.array(edges))


@pytest.mark.parametrize("node", [-1, 5])
def test_neighbours_of_nobody(node: int) -> None:
    with pytest.raises(InputError, match=f"no node {node}; the nodes are 0 to 4"):
        parse_topology("path:5").neighbours(node)
