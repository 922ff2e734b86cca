"""A run as a picture: the network coloured by zone, and the profile of voltages and unmet loads that came out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._plots import check, empty_figure, save
from dpadmm.applications.power_flow.rounds import FlowResult


def draw(result: FlowResult, path: Path) -> None:
    """Writes the picture; its kind follows from the name."""
    check(path, "picture")
    save(_figure(result), path, "picture")


def _figure(result: FlowResult) -> Any:
    figure = empty_figure((13, 7))
    map_axis, voltage_axis, mismatch_axis = figure.subplot_mosaic([["map", "voltage"], ["map", "mismatch"]]).values()
    network, colours = result.decomposition.network, _colours(result)
    _map(map_axis, result, colours)
    buses = np.arange(len(network.buses))
    voltage_axis.scatter(buses, result.point.voltage, c=colours, s=14)
    voltage_axis.fill_between(
        buses, network.buses.lowest_voltage, network.buses.highest_voltage, color="0.9", step="mid", zorder=0
    )
    voltage_axis.set(title="voltage magnitude (band: limits)", ylabel="per unit")
    for values, label, marker in (
        (result.point.active_mismatch, "active", "o"),
        (result.point.reactive_mismatch, "reactive", "^"),
    ):
        mismatch_axis.scatter(buses, values, c=colours, s=14, marker=marker, label=label)
    mismatch_axis.axhline(0.0, color="0.6", linewidth=0.8)
    mismatch_axis.legend(loc="best")
    mismatch_axis.set(title="load not supplied", ylabel="per unit", xlabel="bus, in the order of the file")
    spent = "not private" if result.guarantee is None else f"epsilon {result.guarantee.epsilon:.3g} in total"
    figure.suptitle(f"{network.name}: {result.terms.algorithm}, {result.terms.rounds} rounds, {spent} (simulated)")
    return figure


def _map(axis: Any, result: FlowResult, colours: FloatArray) -> None:
    network, cut = result.decomposition.network, set(result.decomposition.cut.tolist())
    places = _layout(result)
    for line, (start, end) in enumerate(zip(network.lines.start, network.lines.end, strict=True)):
        style: dict[str, Any] = {"color": "crimson", "linestyle": "--"} if line in cut else {"color": "0.7"}
        axis.plot(*places[[start, end]].T, linewidth=0.8, zorder=1, **style)
    # Larger where more of the load is not supplied.
    unmet = np.hypot(result.point.active_mismatch, result.point.reactive_mismatch)
    axis.scatter(*places.T, c=colours, s=25 + 200 * unmet / max(float(unmet.max()), 1e-12), zorder=2, edgecolors="k")
    if len(places) <= 60:
        for bus, place in zip(network.buses.ids, places, strict=True):
            axis.annotate(str(bus), place, xytext=(4, 4), textcoords="offset points", fontsize=7)
    axis.set(title="zones; cut lines dashed; larger where more load is not supplied", xticks=[], yticks=[])


def _layout(result: FlowResult) -> FloatArray:
    network = result.decomposition.network
    graph = networkx.Graph(list(zip(network.lines.start.tolist(), network.lines.end.tolist(), strict=True)))
    large = len(network.buses) > 500  # where the better layout takes minutes
    found = networkx.spectral_layout(graph) if large else networkx.kamada_kawai_layout(graph)
    return np.array([found[bus] for bus in range(len(network.buses))])


def _colours(result: FlowResult) -> FloatArray:
    from matplotlib import colormaps

    wheel = colormaps["tab10" if result.decomposition.partition.zones <= 10 else "hsv"]
    zone_of, zones = result.decomposition.partition.zone_of, result.decomposition.partition.zones
    return wheel(zone_of if zones <= 10 else zone_of / zones)
