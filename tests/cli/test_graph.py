"""`dpadmm graph`: networks, their pictures, and how nodes came to agree."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from dpadmm import _plots
from dpadmm.admm.recycling_condition import condition
from dpadmm.cli import graph
from dpadmm.report.tables import disagreement as load

SUMMARY = {
    "topology", "nodes", "edges", "least_degree", "mean_degree", "largest_degree", "diameter", "bipartite",
    "algebraic_connectivity", "theorem", "picture",
}  # fmt: skip
THEOREM = {
    "theta", "gamma", "smoothness", "holds", "bipartite", "L", "mu", "margin_first", "margin_second", "reason",
}  # fmt: skip


def shown(dpadmm: Any, *arguments: object) -> dict[str, Any]:
    result = dpadmm("graph", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("text", ["ring:7", "star:6", "grid:3:4", "erdos-renyi:20:0.3:7"])
def test_a_network_is_measured(dpadmm: Any, text: str) -> None:
    from dpadmm.admm.topology.graph import parse_topology

    graph = parse_topology(text)
    network = graph.to_networkx()
    found = shown(dpadmm, "show", text)
    assert set(found) == SUMMARY
    assert set(found["theorem"]) == THEOREM
    degrees = [degree for _, degree in network.degree]
    assert (found["nodes"], found["edges"]) == (len(network), network.number_of_edges())
    assert (found["least_degree"], found["largest_degree"]) == (min(degrees), max(degrees))
    assert found["mean_degree"] == pytest.approx(np.mean(degrees))
    assert found["diameter"] == networkx.diameter(network)
    assert found["bipartite"] is networkx.is_bipartite(network)
    laplacian = networkx.laplacian_matrix(network).toarray()
    assert found["algebraic_connectivity"] == pytest.approx(np.linalg.eigvalsh(laplacian)[1])
    assert found["topology"] == text
    assert found["picture"] is None


def test_the_theorems_verdict_is_for_the_numbers_given(dpadmm: Any) -> None:
    from dpadmm.admm.topology.graph import parse_topology

    found = shown(dpadmm, "show", "ring:5", "--theta", 2, "--gamma", 3, "--smoothness", 0.1)["theorem"]
    expected = condition(parse_topology("ring:5"), 2.0, 3.0, 0.1)
    assert (found["theta"], found["gamma"], found["smoothness"]) == (2.0, 3.0, 0.1)
    assert found["holds"] is True
    assert (found["L"], found["mu"], found["reason"]) == (expected.L, expected.mu, expected.reason)
    assert shown(dpadmm, "show", "ring:5", "--smoothness", 9)["theorem"]["holds"] is False
    defaults = shown(dpadmm, "show", "ring:5")["theorem"]
    assert (defaults["theta"], defaults["gamma"], defaults["smoothness"]) == (1.0, 0.5, 0.25)
    assert defaults["margin_second"] == condition(parse_topology("ring:5"), 1.0, 0.5, 0.25).margin_second


def test_a_person_is_told(dpadmm: Any, tmp_path: Path) -> None:
    result = dpadmm("graph", "show", "complete:5", "--draw", tmp_path / "five.svg")
    assert result.exit_code == 0
    text = flat(result.stdout)
    for words in ("nodes 5", "edges 10", "4 to 4, mean 4", "diameter 1", "bipartite no", "algebraic connectivity 5",
                  "Theorem IV.1 applies for theta 1, gamma 0.5, smoothness 0.25", "both conditions hold",
                  f"picture in {tmp_path / 'five.svg'}"):  # fmt: skip
        assert words in text
    text = flat(dpadmm("graph", "show", "ring:4").stdout)
    for words in ("bipartite yes", "does not apply", "cannot hold for any gamma", "D + A is singular", "may converge"):
        assert words in text
    assert "picture" not in text


def test_large_networks_are_not_measured_through(dpadmm: Any) -> None:
    found = shown(dpadmm, "show", "random-regular:2002:3")
    assert (found["diameter"], found["algebraic_connectivity"], found["theorem"]) == (None, None, None)
    assert found["nodes"] == 2002
    text = flat(dpadmm("graph", "show", "ring:502").stdout)
    assert "diameter 251" in text
    assert "Theorem IV.1 is not evaluated for so many nodes." in text


def test_a_file_of_edges(dpadmm: Any, tmp_path: Path) -> None:
    path = tmp_path / "clinics.edges"
    path.write_text("north south\nsouth east\neast north\n")
    found = shown(dpadmm, "show", f"@{path}", "--draw", tmp_path / "clinics.pdf")
    assert (found["nodes"], found["edges"], found["bipartite"]) == (3, 3, False)
    assert found["picture"] == str(tmp_path / "clinics.pdf")
    long = json.dumps({"edges": [[k, k + 1] for k in range(30)]})
    assert shown(dpadmm, "show", long)["topology"] == "a graph of 31 nodes"


MAGIC = {"png": b"\x89PNG", "svg": b"<?xm", "pdf": b"%PDF"}


@pytest.mark.parametrize("kind", MAGIC)
def test_a_network_is_drawn(dpadmm: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"network.{kind}"
    assert shown(dpadmm, "show", "erdos-renyi:20:0.3", "--draw", path)["picture"] == str(path)
    assert path.read_bytes()[:4] == MAGIC[kind]
    assert path.stat().st_size > 3_000
    if kind == "svg":
        text = path.read_text()
        assert all(f"<!-- {node} -->" in text for node in range(20))  # every node's number


def test_a_large_network_is_drawn_without_numbers(dpadmm: Any, tmp_path: Path) -> None:
    path = tmp_path / "network.svg"
    shown(dpadmm, "show", "random-regular:120:3", "--draw", path)
    assert "<!-- 77 -->" not in path.read_text()
    assert path.stat().st_size > 10_000


# How nodes agree.


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    write(tmp_path, runs=2, rounds=[0, 10, 20, 30], nodes=5)
    return tmp_path


def value(run: int, round: int, node: int) -> float:
    """All start at zero."""
    return 0.0 if round == 0 else (1 + node % 7) * 10.0 ** (-round / 10) * (1 + run)


def write(folder: Path, runs: int, rounds: list[int], nodes: int) -> None:
    lines = ["run,round,node,disagreement"]
    for run in range(runs):
        lines += [f"{run},{round},{node},{value(run, round, node)!r}" for round in rounds for node in range(nodes)]
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")


def test_the_table_is_read(run_folder: Path) -> None:
    found = load(run_folder, 1)
    assert found.run == 1
    assert found.rounds.tolist() == [0, 10, 20, 30]
    assert found.nodes == [0, 1, 2, 3, 4]
    assert found.disagreement.tolist() == [[value(1, round, node) for node in range(5)] for round in (0, 10, 20, 30)]


def test_the_order_of_the_lines_does_not_matter(run_folder: Path) -> None:
    first, *lines = (run_folder / "nodes.csv").read_text().splitlines()
    before = load(run_folder, 0)
    (run_folder / "nodes.csv").write_text("\n".join([first, *reversed(lines)]))
    after = load(run_folder, 0)
    assert np.array_equal(before.disagreement, after.disagreement)
    assert before.nodes == after.nodes


@pytest.mark.parametrize("run", [None, 1])
def test_last_and_largest_disagreement(dpadmm: Any, run_folder: Path, run: int | None) -> None:
    found = shown(dpadmm, "disagreement", run_folder, *(() if run is None else ("--run", run)))
    assert set(found) == {"folder", "run", "rounds", "last_round", "mean", "nodes", "picture"}
    number = run or 0
    assert (found["run"], found["rounds"], found["last_round"]) == (number, 4, 30)
    last = [value(number, 30, node) for node in range(5)]
    assert found["mean"] == pytest.approx(np.mean(last))
    assert found["nodes"] == [
        {"node": node, "last": last[node], "largest": value(number, 10, node)} for node in range(5)
    ]
    assert found["picture"] is None


def test_the_farthest_nodes_are_told(dpadmm: Any, tmp_path: Path) -> None:
    write(tmp_path, 1, [1, 2], 30)
    result = dpadmm("graph", "disagreement", tmp_path, "--draw", tmp_path / "a.png")
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert [int(row[0]) % 7 for row in rows] == [6, 6, 6, 6, 5, 5, 5, 5, 4, 4]
    text = flat(result.stdout)
    assert "in round 2" in text
    assert "mean of 30" in text
    assert f"picture in {tmp_path / 'a.png'}" in text


@pytest.mark.parametrize(("kind", "nodes"), [("png", 51), ("svg", 5), ("pdf", 51)])
def test_disagreement_is_drawn(dpadmm: Any, tmp_path: Path, kind: str, nodes: int) -> None:
    write(tmp_path, 1, [0, 1, 2, 3], nodes)
    path = tmp_path / f"disagreement.{kind}"
    assert shown(dpadmm, "disagreement", tmp_path, "--draw", path)["picture"] == str(path)
    assert path.read_bytes()[:4] == MAGIC[kind]
    assert path.stat().st_size > 3_000


def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nodes: int, rounds: list[int]) -> Any:
    """The axis of a picture."""
    write(tmp_path, 1, rounds, nodes)
    kept: list[Any] = []
    monkeypatch.setattr(_plots, "save", lambda figure, path, flag: kept.append(figure))
    graph.draw_disagreement(load(tmp_path, 0), tmp_path / "a.png")
    return kept[0].axes[0]


def test_a_thin_line_per_node_and_the_mean_in_bold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    axis = drawn(monkeypatch, tmp_path, 50, [0, 1, 2, 3])
    assert axis.get_yscale() == "log"
    *thin, bold = axis.lines
    assert len(thin) == 50
    assert max(line.get_linewidth() for line in thin) < 1 < 2 <= bold.get_linewidth()
    assert bold.get_label() == "mean of 50"
    for node, line in enumerate(thin):
        assert np.array_equal(line.get_ydata(), [np.nan, *(value(0, k, node) for k in (1, 2, 3))], equal_nan=True)
    means = [np.mean([value(0, k, node) for node in range(50)]) for k in (1, 2, 3)]
    assert bold.get_ydata()[1:] == pytest.approx(means)
    assert bold.get_xdata().tolist() == [0, 1, 2, 3]
    assert not axis.collections


def test_many_nodes_are_bands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    axis = drawn(monkeypatch, tmp_path, 70, [1, 2, 3])
    assert axis.get_yscale() == "log"
    assert len(axis.lines) == 1
    assert [band.get_label() for band in axis.collections] == ["all nodes", "80 % of the nodes", "50 % of the nodes"]
    values = np.array([value(0, 1, node) for node in range(70)])
    for band, (low, high) in zip(axis.collections, [(0, 1), (0.1, 0.9), (0.25, 0.75)], strict=True):
        heights = band.get_paths()[0].vertices
        at_one = heights[heights[:, 0] == 1, 1]
        assert (at_one.min(), at_one.max()) == pytest.approx(tuple(np.quantile(values, [low, high])))


def test_perfect_agreement_can_be_drawn(dpadmm: Any, tmp_path: Path) -> None:
    write(tmp_path, 1, [0], 3)
    assert shown(dpadmm, "disagreement", tmp_path, "--draw", tmp_path / "a.png")["mean"] == 0.0


# What cannot be.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("show", "rng:5"), ("unknown topology 'rng'", "'ring'")),
        (("show", "@none.edges"), ("none.edges", "cannot be read")),
        (("show", "ring:5", "--draw", "a.txt"), ("--draw 'a.txt'", ".png")),
        (("show", "ring:5", "--draw", "no/such/a.png"), ("no folder",)),
        (("show", "ring:2001", "--draw", "a.png"), ("2,001 nodes", "2,000")),
        (("show", "ring:5", "--theta", 0), ("theta must be positive",)),
        (("show", "ring:5", "--gamma", -1), ("gamma -1.0",)),
        (("show", "ring:5", "--smoothness", "nan"), ("smoothness must be positive",)),
        (("disagreement", "nowhere"), ("nodes.csv", "dpadmm train", "on a graph")),
        (("disagreement", ".", "--draw", "a.txt"), ("--draw 'a.txt'",)),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_what_cannot_be_is_one_line(dpadmm: Any, given: Any, said: Any) -> None:
    result = dpadmm("graph", *given, "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert all(words in result.stderr for words in said), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "cannot be read"),
        ("run,round,node\n0,1,0\n", "columns run,round,node,disagreement"),
        ("run,round,node,disagreement\n", "at least one row"),
        ("run,round,node,disagreement\n0,1,0\n", "cannot be read"),
        ("run,round,node,disagreement\n0,1,0,far\n", "column 'disagreement' must hold numbers"),
        ("run,round,node,disagreement\n0,,0,1\n", "column 'round' must hold numbers"),
        ("run,round,node,disagreement\nfirst,1,0,1\n", "column 'run' must hold numbers"),
        ("run,round,node,disagreement\n3,1,0,1\n5,1,0,1\n", "no run 0; there are 3 to 5"),
        ("run,round,node,disagreement\n0,1,0,1\n0,1,1,1\n0,2,0,1\n", "each of its 2 nodes"),
        ("run,round,node,disagreement\n0,1,0,1\n0,1,0,1\n", "does not have one number"),
        ("run,round,node,disagreement\n0,1,0,-1\n", "not negative"),
        ("run,round,node,disagreement\n0,1,0,inf\n", "does not have one number"),
    ],
)
def test_a_table_that_is_no_such_table(dpadmm: Any, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "nodes.csv").write_text(text)
    result = dpadmm("graph", "disagreement", tmp_path, "--draw", tmp_path / "a.png")
    assert result.exit_code == 2
    assert said in result.stderr
    assert "nodes.csv" in result.stderr
    assert not (tmp_path / "a.png").exists()


def test_a_picture_that_cannot_be_written(dpadmm: Any, run_folder: Path) -> None:
    (run_folder / "a.png").mkdir()
    for given in (("show", "ring:5"), ("disagreement", run_folder)):
        result = dpadmm("graph", *given, "--draw", run_folder / "a.png")
        assert result.exit_code == 2
        assert "a.png' cannot be written" in result.stderr


@pytest.mark.parametrize("given", [("show", "ring:5"), ("disagreement", "somewhere")])
def test_a_missing_extra_is_named(dpadmm: Any, monkeypatch: pytest.MonkeyPatch, given: Any) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    result = dpadmm("graph", *given, "--draw", "a.png")
    assert result.exit_code == 2
    assert "'matplotlib'" in result.stderr
    assert "dpadmm[plot]" in result.stderr
    assert shown(dpadmm, "show", "ring:5")["nodes"] == 5  # without a picture all is well


def test_topologies_are_listed(dpadmm: Any) -> None:
    from dpadmm.admm.topology.graph import TOPOLOGIES, count_nodes

    rows = json.loads(dpadmm("topologies", "--json").stdout)["topologies"]
    assert [row["name"] for row in rows] == list(TOPOLOGIES)
    for row in rows:
        assert set(row) == {"name", "about", "written", "example"}
        assert count_nodes(row["example"]) >= 2
    written = {row["name"]: row["written"] for row in rows}
    assert written["erdos-renyi"] == "erdos-renyi:nodes:probability[:seed]"
    assert written["grid"] == "grid:rows:columns"
    assert "@FILE" in dpadmm("topologies").stdout
