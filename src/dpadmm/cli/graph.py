"""`dpadmm graph`: what a network is like before a run, and how its nodes came to agree after one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, examples, number, out, print_json, table

if TYPE_CHECKING:
    from dpadmm.admm.topology.graph import Topology

MEASURED = 2_000  # nodes, up to which all distances and dense eigenvalues are worth their time
SHOWN = 10  # nodes in the table of a run

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
    from dpadmm.cli import figures

    if draw is not None:
        figures.check(draw)
    text = read_topology(Path(topology[1:])) if topology.startswith("@") else topology
    graph = parse_topology(text)
    if draw is not None:
        figures.check_size(graph)
    title = topology if len(topology) <= 60 else f"a graph of {graph.nodes:,} nodes"
    summary = {
        "topology": title,
        **_measured(graph),
        "theorem": _theorem(graph, theta, gamma, smoothness),
        "picture": None if draw is None else str(draw),
    }
    if draw is not None:
        figures.draw_network(graph, title, draw)
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
    from dpadmm.cli import figures
    from dpadmm.cli.disagreement import load

    if draw is not None:
        figures.check(draw)
    found = load(folder, run)
    if draw is not None:
        figures.draw_disagreement(found, draw)
    last, largest = found.values[-1], found.values.max(axis=0)
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
