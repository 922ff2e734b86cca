"""A comparison, shown: as tables, as a picture, as a file of cells. Matplotlib comes with an extra."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from dpadmm import _plots
from dpadmm._files import atomic_write, csv_text
from dpadmm.cli.console import out, table
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.engine.frontier import Cell, Frontier, LeftOut

AUTO = "auto"  # as `spec.AUTO`, whose module would bring the compilers with it
# A family of recipes is one kind of consensus: a colour map for each, and a marker for each member.
COLOURS = {
    "descent": "Greys",
    "star": "Blues",
    "server-first": "Oranges",
    "penalised-star": "Greens",
    "graph": "RdPu",
    "accelerated": "Reds",
}
OTHER = "YlOrBr"
MARKERS = "osD^vP*X<>"
STEPS = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # where a decade of the errors' axis is marked
APART = 0.012  # share of the axis by which neighbouring error bars are moved, so that they do not cover each other
NO_PRIVACY = "the optimum, no privacy"


def show(found: Frontier) -> None:
    """A table for each number of agents, and below them what is missing, and why."""
    console = out()
    runs = f"mean ± standard error of {found.repeats} runs" if found.repeats > 1 else "one run"
    console.print(
        Text.assemble(
            (f"{found.measure} on {found.data}", "bold"),
            f": {found.records:,} records, {found.held_out:,} held out; loss {found.loss}, {runs}; every total budget "
            f"has delta {found.delta:g} ({found.relation} relation)",
        )
    )
    for agents in found.agents:
        console.print(_block(found, agents))
    for line in remarks(found):
        console.print(Text(line), soft_wrap=True)


def _block(found: Frontier, agents: int) -> Any:
    shown = table([f"{agents:,} agents", *(f"epsilon {epsilon:g}" for epsilon in found.epsilons)])
    least = [found.best(agents, epsilon) for epsilon in found.epsilons]
    for name in found.ranked(agents):
        row = found.row(name, agents)
        cells = [row.get(epsilon) for epsilon in found.epsilons]
        words = [
            Text(written(cell), style="bold" if cell is not None and cell is best else "")
            for cell, best in zip(cells, least, strict=True)
        ]
        shown.add_row(Text(f"{name} *" if name == AUTO else name, style="bold cyan" if name == AUTO else ""), *words)
    for cell in (each for each in found.non_private if each.agents == agents):
        shown.add_section()
        shown.add_row(NO_PRIVACY, *[written(cell)] * len(found.epsilons), style="dim")
    return shown


def written(cell: Cell | None) -> str:
    """Mean and standard error; a dash where there is nothing."""
    if cell is None:
        return "-"
    form = ".4f" if cell.mean < 100.0 else ".4g"
    return f"{cell.mean:{form}}" + ("" if cell.standard_error is None else f" ±{cell.standard_error:{form}}")


def remarks(found: Frontier) -> list[str]:
    """What 'auto' took, which networks there were, and what was left out."""
    said = []
    taken: dict[str, list[str]] = {}
    for cell in found.cells:
        if cell.algorithm == AUTO:
            told = f"{cell.recipe}, {cell.rounds} rounds, loss {cell.loss}"
            taken.setdefault(told, []).append(f"{cell.agents} agents, epsilon {cell.epsilon:g}")
    several = len(taken) > 1
    said += [f"* auto took {told}{': ' + '; '.join(where) if several else ''}" for told, where in taken.items()]
    on_graphs = list(dict.fromkeys(cell.algorithm for cell in found.cells if cell.topology))
    if on_graphs:
        networks = dict.fromkeys(cell.topology for cell in found.cells if cell.topology)
        said.append(f"without a server, on {', '.join(str(each) for each in networks)}: {', '.join(on_graphs)}")
    said += [f"left out: {names}{where}: {reason}" for names, where, reason in _reasons(found)]
    if not found.finished:
        said.append("interrupted: there is more to come.")
    return said


def _reasons(found: Frontier) -> list[tuple[str, str, str]]:
    """(recipes, where, reason), put together; recipes that never ran are not told where."""
    alike: dict[tuple[str, str], list[LeftOut]] = {}
    for each in found.left_out:
        alike.setdefault((each.algorithm, each.reason), []).append(each)
    merged: dict[tuple[str, str], list[str]] = {}
    for (name, reason), places in alike.items():
        several = sum(other == name for other, _ in alike) > 1 or any(cell.algorithm == name for cell in found.cells)
        merged.setdefault((_where(found, places) if several else "", reason), []).append(name)
    return [(", ".join(names), where, reason) for (where, reason), names in merged.items()]


def _where(found: Frontier, places: list[LeftOut]) -> str:
    agents = sorted({each.agents for each in places})
    epsilons = sorted({each.epsilon for each in places if each.epsilon is not None})
    said = [f"{', '.join(map(str, agents))} agents"] if len(agents) < len(found.agents) else []
    if len(epsilons) < len(found.epsilons):
        said.append(f"epsilon {', '.join(f'{epsilon:g}' for epsilon in epsilons)}")
    return f" ({'; '.join(said)})" if said else ""


def write(found: Frontier, path: Path) -> None:
    """Every cell as a line of CSV, those without privacy last; numbers read back exactly."""
    from dpadmm.engine.frontier import Cell

    try:
        names = [entry.name for entry in fields(Cell)]
        rows = ([getattr(cell, name) for name in names] for cell in (*found.cells, *found.non_private))
        atomic_write(path, csv_text([names, *rows]))
    except OSError as error:
        raise InputError(f"--csv {str(path)!r} cannot be written: {error.strerror}.") from None


def draw(found: Frontier, path: Path) -> None:
    _plots.save(picture(found), path, "--picture")


def picture(found: Frontier) -> Any:
    """A panel for each number of agents: error against total epsilon, both on logarithmic axes where they can be."""
    panels = len(found.agents)
    figure = _plots.empty_figure((5.4 * panels + 3.0, 5.6))
    axes = figure.subplots(1, panels, squeeze=False, sharey=True)[0]
    looks = _looks(found)
    for axis, agents in zip(axes, found.agents, strict=True):
        _panel(axis, found, agents, looks)
    _heights(axes[0], found)
    # As lines end at the right of the last panel, from the worst down to what no privacy would give.
    order = dict.fromkeys(name for agents in reversed(found.agents) for name in reversed(found.ranked(agents)))
    handles = {text: each for axis in axes for each, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    labels = [*order, *(text for text in handles if text not in order)]
    figure.legend([handles[text] for text in labels], labels, loc="outside right center", frameon=False)
    axes[0].set_ylabel(found.measure)
    runs = f", mean and standard error of {found.repeats} runs" if found.repeats > 1 else ""
    figure.suptitle(f"{found.data}: delta {found.delta:g}, {found.relation} relation{runs}", fontsize="medium")
    return figure


def _looks(found: Frontier) -> dict[str, dict[str, Any]]:
    """Colour and marker of each recipe that has cells."""
    from matplotlib import colormaps

    from dpadmm.papers import ALGORITHMS

    families: dict[str, list[str]] = {}
    for name in found.algorithms:
        if name != AUTO and any(cell.algorithm == name for cell in found.cells):
            family = ALGORITHMS[name].consensus.name if name in ALGORITHMS else "own"
            families.setdefault(family, []).append(name)
    looks: dict[str, dict[str, Any]] = {AUTO: {"color": "black", "marker": "o", "linewidth": 3.2, "zorder": 5}}
    for family, members in families.items():
        shades = colormaps[COLOURS.get(family, OTHER)]
        for place, name in enumerate(members):
            depth = 0.9 - 0.45 * place / (len(members) - 1) if len(members) > 1 else 0.65
            marker = MARKERS[place % len(MARKERS)]
            looks[name] = {"color": shades(depth), "marker": marker, "linewidth": 1.3, "zorder": 3}
    return looks


def _panel(axis: Any, found: Frontier, agents: int, looks: dict[str, dict[str, Any]]) -> None:
    from matplotlib.colors import to_rgba

    span = max(found.epsilons) / min(found.epsilons)
    names = found.ranked(agents)[::-1]
    for place, name in enumerate(names):
        cells = found.row(name, agents).values()
        moved = span ** (APART * (2.0 * place / max(1, len(names) - 1) - 1.0))
        axis.errorbar(
            [(cell.epsilon or 0.0) * moved for cell in cells],
            [cell.mean for cell in cells],
            yerr=[cell.standard_error or 0.0 for cell in cells],
            label=name, markersize=5, elinewidth=0.8, ecolor=to_rgba(looks[name]["color"], 0.5), **looks[name],
        )  # fmt: skip
    for cell in (each for each in found.non_private if each.agents == agents):
        axis.axhline(cell.mean, color="black", linestyle="--", linewidth=1.2, label=NO_PRIVACY)
    axis.set_xscale("log")
    axis.set_xticks(found.epsilons, [f"{epsilon:g}" for epsilon in found.epsilons])
    axis.set_xticks([], minor=True)
    axis.set(title=f"{agents:,} agents", xlabel="total epsilon")
    axis.grid(color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)


def _heights(axis: Any, found: Frontier) -> None:
    """The axis of errors: logarithmic, so that recipes that learn nothing do not squeeze the others together."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    means = [cell.mean for cell in (*found.cells, *found.non_private)]
    least, most = min(means), max(means)
    if least <= 0.0:
        return
    axis.set_yscale("log")
    margin = max(1.02, (most / least) ** 0.05)
    axis.set_ylim(least / margin, most * margin)
    fine = [tenths / 10 for tenths in range(10, 100, 5 if most > 1.5 * least else 1)]
    axis.yaxis.set_major_locator(LogLocator(subs=STEPS if most > 4.0 * least else fine, numticks=40))
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.yaxis.set_minor_locator(NullLocator())
