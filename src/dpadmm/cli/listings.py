"""The verbs that list what exists, straight from the registries: `dpadmm algorithms`, `dpadmm losses`, ..."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import typer
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from dpadmm.cli.console import AsJson, examples, out, print_json, table
from dpadmm.cli.needs import accepts, needs, setting

Row = dict[str, Any]


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


def _said(part: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(part) or "").partition("\n")[0].rstrip(".")


def _algorithms() -> list[Row]:
    from dpadmm.papers import ALGORITHMS

    return [
        {
            "name": name,
            "about": recipe.about,
            "paper": recipe.paper,
            "consensus": recipe.consensus.name,
            "solver": ", ".join(phase.solver.name for phase in recipe.phases),
            "perturbation": ", ".join(phase.perturbation.name for phase in recipe.phases),
            "mechanism": ", ".join(getattr(phase.perturbation, "mechanism", "none") for phase in recipe.phases),
            "schedule": recipe.schedule.name,
            "private": recipe.private,
            "twin": recipe.twin,
            "needs": needs(recipe.check),
        }
        for name, recipe in ALGORITHMS.items()
    ]


def _losses() -> list[Row]:
    from dpadmm.privacy.relations import Relation
    from dpadmm.problems.losses import LOSSES

    return [
        {
            "name": name,
            "about": loss.about,
            "task": loss.task,
            "gradient_bound": loss().gradient_bound(1.0),
            "curvature_bound": loss().curvature_bound(1.0),
            **{f"sensitivity_{relation}": loss().sensitivity(1.0, relation) for relation in Relation},
        }
        for name, loss in LOSSES.items()
    ]


def _penalties() -> list[Row]:
    from dpadmm.problems.penalties import PENALTIES

    return [
        {
            "name": name,
            "about": penalty.about,
            "strong_convexity": penalty().strong_convexity,
            "smooth": penalty().curvature is not None,
        }
        for name, penalty in PENALTIES.items()
    ]


def _sets() -> list[Row]:
    from dpadmm.problems.sets import SETS

    return [{"name": name, "about": member.about} for name, member in SETS.items()]


def _solvers() -> list[Row]:
    from dpadmm.admm.solvers import SOLVERS

    return [
        {"name": name, "about": solver.about, "first_order": solver.first_order, "needs": needs(solver().check)}
        for name, solver in SOLVERS.items()
    ]


def _perturbations() -> list[Row]:
    from dpadmm.admm.perturbations import PERTURBATIONS
    from dpadmm.admm.solvers import SOLVERS
    from dpadmm.privacy.mechanisms import MECHANISMS

    found = []
    for name, kind in PERTURBATIONS.items():
        part: Any = kind()
        solvers = [key for key in SOLVERS if accepts(lambda key=key, part=part: part.check(setting(), SOLVERS[key]()))]  # type: ignore[misc]
        first = SOLVERS[solvers[0]]()
        noises = [
            key
            for key in MECHANISMS
            if hasattr(part, "mechanism")
            and accepts(lambda key=key, part=part, first=first: replace(part, mechanism=key).check(setting(), first))  # type: ignore[misc]
        ]
        found.append(
            {
                "name": name,
                "about": part.about,
                "private": part.private,
                "solvers": ", ".join(solvers),
                "mechanisms": ", ".join(noises) or None,
                "needs": needs(lambda given, part=part, first=first: part.check(given, first)),  # type: ignore[misc]
            }
        )
    return found


def _mechanisms() -> list[Row]:
    from dpadmm.privacy.mechanisms import MECHANISMS

    return [
        {"name": name, "about": _said(kind), "sensitivity": f"L{kind.norm}", "pure": kind.name != "gaussian"}
        for name, kind in MECHANISMS.items()
    ]


def _consensus() -> list[Row]:
    from dpadmm.admm.consensus import CONSENSUS

    return [
        {"name": name, "about": kind.about, "releases": "models" if kind.releases_models else "gradients"}
        for name, kind in CONSENSUS.items()
    ]


def _schedules() -> list[Row]:
    from dpadmm.admm.schedules import SCHEDULES

    return [{"name": name, "about": rule.about, "needs": needs(rule().check)} for name, rule in SCHEDULES.items()]


def _datasets() -> list[Row]:
    from dpadmm.datasets import DATASETS

    return [{"name": name, "about": source.about} for name, source in DATASETS.items()]


def _splits() -> list[Row]:
    from dpadmm.problems.splits import SPLITS

    return [{"name": name, "about": _said(deal) or _said(deal())} for name, deal in SPLITS.items()]


def _accountants() -> list[Row]:
    from dpadmm.privacy.accountants import ACCOUNTANTS

    return [
        {
            "name": name,
            "about": accountant.label,
            "how": _said(type(accountant)),
            "understands": ", ".join(event.__name__.removesuffix("DpEvent") for event in accountant.understands),
        }
        for name, accountant in ACCOUNTANTS.items()
    ]


def _relations() -> list[Row]:
    from dpadmm.privacy.relations import Relation

    return [{"name": str(relation), "about": relation.description} for relation in Relation]


_COLON = "A number goes after a colon, as in {}."

LISTINGS = (
    Listing("algorithms", "The recipes: their papers, their parts, and what they need.", _algorithms),
    Listing("losses", "Losses, with their public constants for rows of length at most 1.", _losses,
            _COLON.format("smoothed-hinge:0.2") + " Sensitivities are those of a sum of gradients."),
    Listing("penalties", "Penalties on the model.", _penalties, _COLON.format("elastic-net:0.3")),
    Listing("sets", "Sets that models can be held in.", _sets, _COLON.format("box:0.1")),
    Listing("solvers", "How an agent solves its part of a round.", _solvers),
    Listing("perturbations", "Where the noise enters.", _perturbations),
    Listing("mechanisms", "What noise is added.", _mechanisms),
    Listing("consensus", "How agents come to agree.", _consensus),
    Listing("schedules", "Step sizes.", _schedules, _COLON.format("fixed:0.5")),
    Listing("datasets", "Data sets known by name.", _datasets,
            "A path to a .csv or .parquet file does as well, with --target and, for real owners, --owner."),
    Listing("splits", "How a simulation deals records out to agents.", _splits, _COLON.format("dirichlet:0.1")),
    Listing("accountants", "Ways to add up what releases cost.", _accountants),
    Listing("relations", "What a guarantee hides.", _relations),
)  # fmt: skip
