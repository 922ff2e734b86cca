"""The verbs that list what exists, straight from the registries: `dpadmm algorithms`, `dpadmm losses`, ..."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dpadmm.cli import catalogue
from dpadmm.cli.catalogue import Row
from dpadmm.cli.console import AsJson, examples, out, print_json, table


@dataclass(frozen=True)
class Listing:
    """A verb: its rows are made when it runs, because that needs the library. `hint` closes the list."""

    verb: str
    about: str
    rows: Callable[[], list[Row]]
    hint: str = ""


def register(app: typer.Typer) -> None:
    for listing in LISTINGS:
        app.command(
            listing.verb,
            help=listing.about,
            epilog=examples(f"dpadmm {listing.verb}", f"dpadmm {listing.verb} --json"),
            rich_help_panel="What exists",
        )(_verb(listing))


def _verb(listing: Listing) -> Callable[[bool], None]:
    def run(as_json: AsJson = False) -> None:
        rows = listing.rows()
        if as_json:
            print_json({listing.verb: rows})
            return
        console = out()
        wide = _table(rows)
        natural = Measurement.get(console, console.options.update(width=10_000), wide).maximum
        console.print(wide if natural <= console.width else _blocks(rows))
        if listing.hint:
            console.print(Text(listing.hint, style="dim"))

    return run


def _table(rows: list[Row]) -> Table:
    """One line per member."""
    shown = table([_label(key, "\n") for key in rows[0]], numbers=False)
    shown.columns[1].max_width = 48  # what a part is may take several lines, facts may not
    for row in rows:
        shown.add_row(Text(row["name"], style="bold cyan"), *(Text(_text(row[key])) for key in row if key != "name"))
    return shown


def _blocks(rows: list[Row]) -> Table:
    """The same where a line is too short: the name, what it is, and the facts below."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for row in rows:
        facts = [f"{_label(key)}: {_text(row[key])}" for key in row if key not in ("name", "about")]
        text = Text(row["about"])
        if facts:
            text.append("\n" + "\n".join(_flowed(facts)) + "\n", style="dim")
        grid.add_row(Text(row["name"], style="bold cyan"), text)
    return grid


def _flowed(facts: list[str], width: int = 56) -> list[str]:
    """Short facts side by side, so that a line breaks between them and not within."""
    lines = [facts[0]]
    for fact in facts[1:]:
        joined = f"{lines[-1]} · {fact}"
        lines = [*lines[:-1], joined] if len(joined) <= width else [*lines, fact]
    return lines


def _label(key: str, space: str = " ") -> str:
    return key.replace("_", space)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


_COLON = "A number goes after a colon, as in {}."

LISTINGS = (
    Listing("algorithms", "The recipes: their papers, their parts, and what they need.", catalogue.algorithms),
    Listing("losses", "Losses, with their public constants for rows of length at most 1.", catalogue.losses,
            _COLON.format("smoothed-hinge:0.2") + " Sensitivities are those of a sum of gradients."),
    Listing("penalties", "Penalties on the model.", catalogue.penalties, _COLON.format("elastic-net:0.3")),
    Listing("sets", "Sets that models can be held in.", catalogue.sets,
            "Numbers go after colons (box:0.1), a comma intersects (box:0.1,ball:2). Sets of matrices, and sets that "
            "differ by agent, are written in JSON; see docs/sets.md."),
    Listing("solvers", "How an agent solves its part of a round.", catalogue.solvers),
    Listing("perturbations", "Where the noise enters.", catalogue.perturbations),
    Listing("mechanisms", "What noise is added.", catalogue.mechanisms),
    Listing("consensus", "How agents come to agree.", catalogue.consensus),
    Listing("topologies", "Networks known by name, for decentralised runs.", catalogue.topologies,
            "A graph of your own: JSON with its edges, or @FILE; see 'dpadmm graph show --help'."),
    Listing("schedules", "Step sizes.", catalogue.schedules, _COLON.format("fixed:0.5")),
    Listing("rho-schedules", "ADMM's penalty, round by round.", catalogue.rho_schedules,
            "Numbers go after colons, as in growing:2:5:10000."),
    Listing("noise-schedules", "How noise varies by round and by agent.", catalogue.noise_schedules,
            "Numbers go after colons, as in geometric:0.95."),
    Listing("datasets", "Data sets known by name.", catalogue.datasets,
            "A path to a .csv or .parquet file does as well, with --target and, for real owners, --owner."),
    Listing("bases", "Functions that curves are written in.", catalogue.bases,
            "How many goes after a colon, as in cosine:10."),
    Listing("splits", "How a simulation deals records out to agents.", catalogue.splits,
            _COLON.format("dirichlet:0.1")),
    Listing("accountants", "Ways to add up what releases cost.", catalogue.accountants),
    Listing("relations", "What a guarantee hides.", catalogue.relations),
)  # fmt: skip
