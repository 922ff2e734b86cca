"""`dpadmm graph`: what a network is like before a run, and how its nodes came to agree after one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpadmm import _plots
from dpadmm.cli.console import AsJson, examples, number, out, print_json, table
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.admm.topology.graph import Topology
    from dpadmm.report.tables import Nodes

MEASURED = 2_000  # nodes, up to which all distances and dense eigenvalues are worth their time
SHOWN = 10  # nodes in the table of a run
MOST_DRAWN = 2_000  # nodes of a network; more would be a blot
MOST_LINES = 50  # one per node; of more, bands are drawn
BANDS = ((0.0, 1.0), (0.1, 0.9), (0.25, 0.75))

Draw = Annotated[Path | None, typer.Option("--draw", help="Write a picture: .png, .svg or .pdf.", show_default=False)]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Networks of decentralised runs: what they are like, and how their nodes agree.",
        epilog=examples("dpadmm graph show ring:20 --json"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    group.command(
        "show",
        epilog=examples(
            "dpadmm graph show erdos-renyi:20:0.3 --draw network.png",
            "dpadmm graph show complete:5 --theta 1 --gamma 0.5 --smoothness 0.25",
            "dpadmm graph show @clinics.edges --json",
        ),
    )(show)
    group.command(
        "disagreement",
        epilog=examples("dpadmm graph disagreement runs/ring --draw disagreement.png --run 0"),
    )(disagreement)
    group.command(
        "samples",
        epilog=examples("dpadmm graph samples runs/ring --tau 0.1 --failure 0.05 --json"),
    )(samples)
    app.add_typer(group, name="graph")


def show(
    topology: Annotated[str, typer.Argument(help="As in 'dpadmm topologies'; JSON; or @FILE, a file of edges.")],
    draw: Draw = None,
    theta: Annotated[float, typer.Option("--theta", help="Penalty of every node, for theorem IV.1.")] = 1.0,
    gamma: Annotated[float, typer.Option("--gamma", help="Gamma of recycled ADMM, for theorem IV.1.")] = 0.5,
    smoothness: Annotated[
        float, typer.Option("--smoothness", help="Lipschitz constant of every node's gradient, for theorem IV.1.")
    ] = 0.25,
    as_json: AsJson = False,
) -> None:
    """What a network is like, and whether recycled ADMM is proven to converge on it.

    The proof is theorem IV.1 of Zhang, Khalili & Liu: a condition that
    suffices and is not necessary.
    """
    from dpadmm.admm.topology.graph import parse_topology, read_topology

    if draw is not None:
        _plots.check(draw, "--draw")
    text = read_topology(Path(topology[1:])) if topology.startswith("@") else topology
    graph = parse_topology(text)
    if draw is not None:
        _check_size(graph)
    title = topology if len(topology) <= 60 else f"a graph of {graph.nodes:,} nodes"
    summary = {
        "topology": title,
        **_measured(graph),
        "theorem": _theorem(graph, theta, gamma, smoothness),
        "picture": None if draw is None else str(draw),
    }
    if draw is not None:
        draw_network(graph, title, draw)
    if as_json:
        print_json(summary)
    else:
        _show(summary)


def _measured(graph: Topology) -> dict[str, Any]:
    import numpy as np
    from scipy.linalg import eigh
    from scipy.sparse.csgraph import shortest_path

    from dpadmm._threads import one_thread_pool

    small = graph.nodes <= MEASURED
    diameter = connectivity = None
    if small:
        diameter = int(shortest_path(graph.adjacency, directed=False, unweighted=True).max())
        laplacian = np.diag(graph.degrees) - graph.adjacency.toarray()
        with one_thread_pool():
            connectivity = float(eigh(laplacian, eigvals_only=True, subset_by_index=[1, 1])[0])
    return {
        "nodes": graph.nodes,
        "edges": len(graph.edges),
        "least_degree": int(graph.degrees.min()),
        "mean_degree": float(graph.degrees.mean()),
        "largest_degree": int(graph.degrees.max()),
        "diameter": diameter,
        "bipartite": graph.bipartite,
        "algebraic_connectivity": connectivity,
    }


def _theorem(graph: Topology, theta: float, gamma: float, smoothness: float) -> dict[str, Any] | None:
    from dpadmm.admm.recycling_condition import MOST_NODES, condition

    if graph.nodes > MOST_NODES:
        return None
    numbers = {"theta": theta, "gamma": gamma, "smoothness": smoothness}
    return {**numbers, **asdict(condition(graph, theta, gamma, smoothness))}


def _show(summary: dict[str, Any]) -> None:
    console = out()
    rows = table([summary["topology"], ""])
    least, most = summary["least_degree"], summary["largest_degree"]
    rows.add_row("nodes", f"{summary['nodes']:,}")
    rows.add_row("edges", f"{summary['edges']:,}")
    rows.add_row("neighbours of a node", f"{least:,} to {most:,}, mean {summary['mean_degree']:.4g}")
    rows.add_row("diameter", number(summary["diameter"], ","))
    rows.add_row("bipartite", "yes" if summary["bipartite"] else "no")
    rows.add_row("algebraic connectivity", number(summary["algebraic_connectivity"], ".4g"))
    console.print(rows)
    found = summary["theorem"]
    if found is None:
        console.print("Theorem IV.1 is not evaluated for so many nodes.", style="dim")
    else:
        given = f" for theta {found['theta']:g}, gamma {found['gamma']:g}, smoothness {found['smoothness']:g}: "
        style, word = ("bold green", "applies") if found["holds"] else ("bold yellow", "does not apply")
        console.print(Text.assemble((f"Theorem IV.1 {word}", style), given, found["reason"]), soft_wrap=True)
    if summary["picture"]:
        console.print(f"picture in {summary['picture']}", soft_wrap=True)


def disagreement(
    folder: Annotated[Path, typer.Argument(help="Folder of a run on a graph, with its nodes.csv.")],
    draw: Draw = None,
    run: Annotated[int, typer.Option("--run", help="Which of the runs.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Every node's distance from the network's mean, over the rounds of a run.

    The picture has a line per node, or bands where there are more than 50,
    and the mean in bold, on a logarithmic axis.
    """
    from dpadmm.report import tables

    if draw is not None:
        _plots.check(draw, "--draw")
    found = tables.disagreement(folder, run)
    if draw is not None:
        draw_disagreement(found, draw)
    last, largest = found.disagreement[-1], found.disagreement.max(axis=0)
    if as_json:
        columns = zip(found.nodes, last.tolist(), largest.tolist(), strict=True)
        print_json(
            {
                "folder": str(folder),
                "run": run,
                "rounds": len(found.rounds),
                "last_round": int(found.rounds[-1]),
                "mean": float(last.mean()),
                "nodes": [{"node": node, "last": end, "largest": most} for node, end, most in columns],
                "picture": None if draw is None else str(draw),
            }
        )
        return
    console = out()
    rows = table(["node", f"in round {found.rounds[-1]:,}", "largest"])
    for place in last.argsort(kind="stable")[::-1][:SHOWN]:
        rows.add_row(str(found.nodes[place]), f"{last[place]:.4g}", f"{largest[place]:.4g}")
    rows.add_row(f"mean of {len(found.nodes):,}", f"{last.mean():.4g}", f"{largest.mean():.4g}", style="bold")
    console.print("Distance from the network's mean, the farthest nodes first:")
    console.print(rows)
    if draw is not None:
        console.print(f"picture in {draw}", soft_wrap=True)


def samples(
    folder: Annotated[Path, typer.Argument(help="Folder of a simulated run of recycled ADMM, or its spec file.")],
    tau: Annotated[float, typer.Option("--tau", help="How much above the reference's the loss may be.")] = 0.1,
    failure: Annotated[float, typer.Option("--failure", help="The delta of the theorems.")] = 0.05,
    reference: Annotated[
        float | None,
        typer.Option("--reference", help="|f_ref|² of the reference.", show_default="the pooled optimum's"),
    ] = None,
    slack: Annotated[float, typer.Option("--slack", help="The a of theorem VI.2.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """How many records theorems VI.1 and VI.2 of 003 ask for, with the numbers of a run.

    The run is simulated again. Held-out records stand for the distribution,
    so what is printed is for simulations and covered by no epsilon. Numbers
    are in units of the constant w, which the paper does not give.
    """
    from dpadmm.engine.sample_sizes import Question, sample_sizes
    from dpadmm.spec.toml import read

    spec = folder / "spec.toml" if folder.is_dir() else folder
    found = sample_sizes(read(spec), Question(tau, failure, reference, slack)).summary()
    if as_json:
        print_json({"run": str(folder), **found})
        return
    console = out()
    console.print(
        f"Theorem {found['theorem']}: with probability {1 - failure * (2 if found['theorem'] == 'VI.2' else 1):g} the "
        f"expected loss is at most {tau:g} above that of any classifier with |f_ref|² <= {found['reference']:.4g}, if "
        f"nodes have so many records (times w):",
        soft_wrap=True,
    )
    rows = table(["node", "records", "largest excess", "needed in all rounds", "in the last"])
    for node, last in zip(found["nodes"], found["last_round_needed"], strict=True):
        said = ["no number is enough" if each is None else f"{each:,.4g}" for each in (node["needed"], last)]
        rows.add_row(str(node["node"]), f"{node['records']:,}", f"{node['largest_excess']:.4g}", *said)
    console.print(rows)


def _check_size(graph: Topology) -> None:
    if graph.nodes > MOST_DRAWN:
        raise InputError(f"--draw: {graph.nodes:,} nodes, and {MOST_DRAWN:,} are the most that can be told apart.")


def draw_network(graph: Topology, title: str, path: Path) -> None:
    """Nodes coloured by how many neighbours they have, and numbered where there is room."""
    from matplotlib.collections import LineCollection

    figure = _plots.empty_figure((8, 8))
    axis = figure.subplots()
    places = _layout(graph)
    axis.add_collection(LineCollection(places[graph.edges], colors="0.7", linewidths=0.8, zorder=1))
    dots = axis.scatter(*places.T, c=graph.degrees, s=60 if graph.nodes <= 100 else 12, zorder=2, edgecolors="k")
    figure.colorbar(dots, ax=axis, label="neighbours", shrink=0.6)
    if graph.nodes <= 60:
        for node, place in enumerate(places):
            axis.annotate(str(node), place, xytext=(5, 5), textcoords="offset points", fontsize=8)
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")
    _plots.save(figure, path, "--draw")


def draw_disagreement(found: Nodes, path: Path) -> None:
    """A thin line per node, or bands of quantiles where lines would cover each other; the mean in bold."""
    import numpy as np

    figure = _plots.empty_figure((9, 5))
    axis = figure.subplots()
    # What is exactly zero has no place on a logarithmic axis; such stretches are gaps.
    values = np.where(found.disagreement > 0.0, found.disagreement, np.nan)
    count = len(found.nodes)
    if count <= MOST_LINES:
        axis.plot(found.rounds, values, linewidth=0.6, alpha=0.7)
    else:
        for low, high in BANDS:
            edges = np.quantile(found.disagreement, [low, high], axis=1)
            axis.fill_between(
                found.rounds, *np.where(edges > 0.0, edges, np.nan), color="tab:blue", alpha=0.2, linewidth=0.0,
                label="all nodes" if low == 0.0 else f"{round(100 * (high - low))} % of the nodes",
            )  # fmt: skip
    mean = found.disagreement.mean(axis=1)
    axis.plot(found.rounds, np.where(mean > 0.0, mean, np.nan), color="k", linewidth=2.2, label=f"mean of {count:,}")
    axis.set_yscale("log")
    axis.legend(loc="best")
    axis.set(title=f"run {found.run}", xlabel="round", ylabel="distance from the network's mean")
    _plots.save(figure, path, "--draw")


def _layout(graph: Topology) -> Any:
    import numpy as np
    from networkx import kamada_kawai_layout, spectral_layout

    network = graph.to_networkx()
    large = graph.nodes > 100  # where the better layout takes seconds to minutes
    found = spectral_layout(network) if large else kamada_kawai_layout(network)
    return np.array([found[node] for node in range(graph.nodes)])
