"""Files that graphs come in, as the text that `parse_topology` reads."""

from __future__ import annotations

import json
from pathlib import Path

import networkx
import pytest

from dpadmm.admm.topology.graph import Topology, parse_topology, read_topology
from dpadmm.errors import InputError


def edges(path: Path) -> list[list[object]]:
    return json.loads(read_topology(path))["edges"]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["some.edges", "some.csv", "some.txt", "some"])
def test_an_edge_per_line(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, "# clinics\n\nnorth south\nsouth,east # by road\n  east ,  west  \n \nwest\tnorth\n")
    assert edges(path) == [["north", "south"], ["south", "east"], ["east", "west"], ["west", "north"]]
    assert parse_topology(read_topology(path)).degrees.tolist() == [2, 2, 2, 2]


def test_whole_numbers_stay_numbers_if_all_are(tmp_path: Path) -> None:
    assert edges(written(tmp_path, "a.edges", "0 1\n10 1\n")) == [[0, 1], [10, 1]]
    assert edges(written(tmp_path, "b.edges", "0 1\n1 two\n")) == [["0", "1"], ["1", "two"]]
    assert edges(written(tmp_path, "c.edges", "0 1\n01 1\n")) == [["0", "1"], ["01", "1"]]  # not one and the same
    assert edges(written(tmp_path, "d.edges", "0 1\n-1 1\n")) == [[0, 1], [-1, 1]]
    with pytest.raises(InputError, match="negative"):
        parse_topology(read_topology(tmp_path / "d.edges"))


def test_a_mark_at_the_beginning_is_no_label(tmp_path: Path) -> None:
    assert edges(written(tmp_path, "a.csv", "\ufeff0,1\n")) == [[0, 1]]


def test_what_networkx_writes_is_read(tmp_path: Path) -> None:
    network = networkx.random_regular_graph(3, 12, seed=0)
    for edge in network.edges:
        network.edges[edge]["weight"] = 2.5
    networkx.write_edgelist(network, tmp_path / "a.edgelist")
    networkx.write_adjlist(network, tmp_path / "a.adjlist")
    expected = Topology.of(network).text
    assert parse_topology(read_topology(tmp_path / "a.edgelist")).text == expected
    assert parse_topology(read_topology(tmp_path / "a.adjlist")).text == expected
    named = networkx.relabel_nodes(network, {0: "nought"})
    networkx.write_adjlist(named, tmp_path / "b.ADJLIST")
    order = list(map(str, named))
    assert parse_topology(read_topology(tmp_path / "b.ADJLIST"), order).text == Topology.of(named, list(named)).text


def test_json_is_left_as_it_is(tmp_path: Path) -> None:
    text = ' {"edges": [["a", "b"]]}\n'
    assert read_topology(written(tmp_path, "a.json", text)) == text


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.edges", "0 1\n\n1 2 3\n", "line 3: 3 labels; an edge has two"),
        ("a.edges", "0 1\n1\n", "line 2: 1 labels"),
        ("a.edges", "# nothing\n", "no edge in it"),
        ("a.adjlist", "# nothing\n", "no edge in it"),
        ("a.adjlist", "0 1\n2\n", "node '2' has no neighbours; add an edge"),
    ],
)
def test_what_is_no_edge_is_shown(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        read_topology(written(tmp_path, name, text))
    assert name in str(error.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.edges' cannot be read"):
        read_topology(tmp_path / "none.edges")
    (tmp_path / "picture.edges").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(InputError, match=r"picture\.edges' is not text"):
        read_topology(tmp_path / "picture.edges")
