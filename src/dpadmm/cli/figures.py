"""Pictures: a network, and how far its nodes are from agreement. Matplotlib comes with an extra, and only if asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.admm.topology.graph import Topology
    from dpadmm.cli.disagreement import Disagreement

FORMATS = (".png", ".svg", ".pdf")
MOST_DRAWN = 2_000  # nodes of a network; more would be a blot
MOST_LINES = 50  # one per node; of more, bands are drawn
BANDS = ((0.0, 1.0), (0.1, 0.9), (0.25, 0.75))


def check(path: Path, flag: str = "--draw") -> None:
    """Before the work, so that a wrong name does not cost it."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise InputError(
            f"{flag} needs the package {error.name!r}, which comes with an extra: pip install 'dpadmm[plot]'."
        ) from None
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{flag} {str(path)!r}: the name must end in {', '.join(FORMATS)}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{flag} {str(path)!r}: there is no folder {str(path.absolute().parent)!r}.")


def check_size(graph: Topology) -> None:
    if graph.nodes > MOST_DRAWN:
        raise InputError(f"--draw: {graph.nodes:,} nodes, and {MOST_DRAWN:,} are the most that can be told apart.")


def draw_network(graph: Topology, title: str, path: Path) -> None:
    """Nodes coloured by how many neighbours they have, and numbered where there is room."""
    from matplotlib.collections import LineCollection

    figure, axis = _empty((8, 8))
    places = _layout(graph)
    axis.add_collection(LineCollection(places[graph.edges], colors="0.7", linewidths=0.8, zorder=1))
    dots = axis.scatter(*places.T, c=graph.degrees, s=60 if graph.nodes <= 100 else 12, zorder=2, edgecolors="k")
    figure.colorbar(dots, ax=axis, label="neighbours", shrink=0.6)
    if graph.nodes <= 60:
        for node, place in enumerate(places):
            axis.annotate(str(node), place, xytext=(5, 5), textcoords="offset points", fontsize=8)
    axis.set(title=title, xticks=[], yticks=[], aspect="equal")
    _save(figure, path)


def draw_disagreement(found: Disagreement, path: Path) -> None:
    """A thin line per node, or bands of quantiles where lines would cover each other; the mean in bold."""
    figure, axis = _empty((9, 5))
    # What is exactly zero has no place on a logarithmic axis; such stretches are gaps.
    values = np.where(found.values > 0.0, found.values, np.nan)
    count = len(found.nodes)
    if count <= MOST_LINES:
        axis.plot(found.rounds, values, linewidth=0.6, alpha=0.7)
    else:
        for low, high in BANDS:
            edges = np.quantile(found.values, [low, high], axis=1)
            axis.fill_between(
                found.rounds, *np.where(edges > 0.0, edges, np.nan), color="tab:blue", alpha=0.2, linewidth=0.0,
                label="all nodes" if low == 0.0 else f"{round(100 * (high - low))} % of the nodes",
            )  # fmt: skip
    mean = found.values.mean(axis=1)
    axis.plot(found.rounds, np.where(mean > 0.0, mean, np.nan), color="k", linewidth=2.2, label=f"mean of {count:,}")
    axis.set_yscale("log")
    axis.legend(loc="best")
    axis.set(title=f"run {found.run}", xlabel="round", ylabel="distance from the network's mean")
    _save(figure, path)


def _empty(size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # no windows, no global state

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InputError(f"--draw {str(path)!r} cannot be written: {error.strerror}.") from None


def _layout(graph: Topology) -> Any:
    from networkx import kamada_kawai_layout, spectral_layout

    network = graph.to_networkx()
    large = graph.nodes > 100  # where the better layout takes seconds to minutes
    found = spectral_layout(network) if large else kamada_kawai_layout(network)
    return np.array([found[node] for node in range(graph.nodes)])
