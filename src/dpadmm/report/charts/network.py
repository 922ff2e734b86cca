"""Networks: who talks to whom on a graph and how far nodes are from agreement, and the buses of a power grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import networkx
import numpy as np

from dpadmm.admm.topology.graph import parse_topology
from dpadmm.report.charts.convergence import ROUND
from dpadmm.report.charts.thinning import kept, numbers
from dpadmm.report.document import Axis, Chart, DrawnNode, Edge, Series
from dpadmm.report.reading import Found, blame
from dpadmm.report.tables import Nodes

MOST_NODES, MOST_EDGES = 1_000, 5_000  # that are drawn; more would be a blot
MOST_LINES, POINTS_IN_ALL = 100, 12_000  # of disagreement
SLOW, SLOWER = 60, 500  # nodes from which on a better layout takes seconds


def charts(runs: Sequence[Found]) -> list[Chart]:
    found = []
    for index, run in enumerate(runs):
        where = f" of {run.name}" if len(runs) > 1 else ""
        if run.network is not None:
            with blame(run.path / "network.json"):
                found += [_grid(run, index, where), *_loads(run, index, where)]
        if run.experiment is not None and run.experiment.run.topology is not None:
            found += _graph(run, index, where)
        if run.nodes is not None:
            found.append(_disagreement(run.nodes, run, index, where))
    return found


@lru_cache(maxsize=16)
def _layout(nodes: int, edges: tuple[tuple[int, int], ...]) -> tuple[tuple[float, float], ...]:
    """Places between -1 and 1, the same every time."""
    network = networkx.empty_graph(nodes)
    network.add_edges_from(edges)
    if nodes <= SLOW:
        found = networkx.kamada_kawai_layout(network)
    elif nodes <= SLOWER:
        found = networkx.spring_layout(network, seed=0, iterations=100)
    else:
        found = networkx.spectral_layout(network)
    return tuple((float(x), float(y)) for x, y in (found[node] for node in range(nodes)))


def _graph(run: Found, index: int, where: str) -> list[Chart]:
    assert run.experiment is not None
    assert run.experiment.run.topology is not None
    graph = parse_topology(run.experiment.run.topology)
    if graph.nodes > MOST_NODES or len(graph.edges) > MOST_EDGES:
        return []
    pairs = [(int(a), int(b)) for a, b in graph.edges]
    names = run.facts.get("agents") or [f"node {node}" for node in range(graph.nodes)]
    apart = None if run.nodes is None else run.nodes.disagreement[-1]
    known = apart is not None and apart.size == graph.nodes and len(names) == graph.nodes
    nodes = []
    for node, (x, y) in enumerate(_layout(graph.nodes, tuple(pairs))):
        value = float(apart[node]) if known and apart is not None else None
        about = f"{graph.degrees[node]} neighbours" + ("" if value is None else f"; {value:.4g} from the mean")
        nodes.append(
            DrawnNode(str(names[node]) if len(names) > node else f"node {node}", x, y, value=value, about=about)
        )
    about = "Who talks to whom; there is no server." + (
        " The value of a node is how far it is from the mean of all." if known else ""
    )
    edges = [Edge(a, b) for a, b in pairs]
    return [Chart(f"graph-{index}", "network", f"Network{where}", about, "network", nodes=nodes, edges=edges)]


def _disagreement(found: Nodes, run: Found, index: int, where: str) -> Chart:
    values, names = found.disagreement, run.facts.get("agents") or ()
    x = found.rounds
    mean = np.nanmean(values, axis=1)
    series = []
    if values.shape[1] <= MOST_LINES:
        most = max(40, POINTS_IN_ALL // values.shape[1])
        for node, line in enumerate(values.T):
            at = kept([line], most)
            name = str(names[node]) if node < len(names) else f"node {node}"
            series.append(Series(name, numbers(line[at]), x[at].tolist(), style="thin", run=index))
        at = kept([mean])
        series.append(Series("mean", numbers(mean[at]), x[at].tolist(), run=index))
    else:
        low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
        at = kept([mean, low, high])
        name = f"mean of {values.shape[1]:,} nodes"
        series.append(Series(name, numbers(mean[at]), x[at].tolist(), numbers(low[at]), numbers(high[at]), run=index))
    return Chart(
        id=f"disagreement-{index}",
        section="network",
        title=f"Disagreement{where}",
        about="How far every node's model is from the mean of all nodes; with repeats, of the first one."
        + (" The band reaches from the least to the most." if values.shape[1] > MOST_LINES else ""),
        kind="lines",
        x=ROUND,
        y=Axis("distance from the mean", log=True),
        series=series,
    )


def _grid(run: Found, index: int, where: str) -> Chart:
    assert run.network is not None
    buses, lines = run.network["buses"], run.network["lines"]
    pairs = tuple((int(line["start"]), int(line["end"])) for line in lines)
    nodes = [
        DrawnNode(
            f"bus {bus['id']}",
            x,
            y,
            group=f"zone {bus['zone'] + 1}",
            value=float(np.hypot(bus["active_mismatch"], bus["reactive_mismatch"])),
            about=f"zone {bus['zone'] + 1}; voltage {bus['voltage']:.3f}; load that is not covered: "
            f"{bus['active_mismatch']:.3g} active, {bus['reactive_mismatch']:.3g} reactive, per unit",
        )
        for bus, (x, y) in zip(buses, _layout(len(buses), pairs), strict=True)
    ]
    edges = [
        Edge(a, b, about="between zones" if line["cut"] else "", strong=bool(line["cut"]))
        for line, (a, b) in zip(lines, pairs, strict=True)
    ]
    about = (
        "Buses by zone, and the lines between them; lines between zones are strong. The value of a bus is how much of "
        "its load is not supplied, per unit."
    )
    return Chart(
        f"grid-{index}", "network", f"Power network{where}", about, "network", nodes=nodes, edges=edges, simulated=True
    )


def _loads(run: Found, index: int, where: str) -> list[Chart]:
    """Noise that was added to the loads once, beside the loads."""
    assert run.network is not None
    noise = run.network["noise"]
    if noise is None:
        return []
    return [
        Chart(
            id=f"loads-{index}",
            section="noise",
            title=f"Noise against signal{where}",
            about="Lengths of the noise that each zone adds to its loads, once, as its mechanism has it, and of the "
            "loads themselves, per unit.",
            kind="bars",
            y=Axis("length, per unit"),
            names=[f"zone {zone + 1}" for zone in range(len(noise["noise"]))],
            series=[Series("loads", noise["signal"], run=index), Series("noise", noise["noise"], run=index)],
            simulated=True,
        )
    ]
