"""`dpadmm power-flow`: zones of a power network agree on an operating point without showing their loads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from dpadmm import _plots
from dpadmm._files import read_json
from dpadmm.cli import browser
from dpadmm.cli.console import AsJson, Open, examples, number, out, print_json, print_warning, table
from dpadmm.cli.declared import declared
from dpadmm.cli.progress import bar
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.applications.power_flow import Decomposition
    from dpadmm.applications.power_flow.rounds import FlowResult
    from dpadmm.applications.power_flow.terms import Terms
    from dpadmm.engine.output.status import StatusWriter


def register(app: typer.Typer) -> None:
    app.command(
        "power-flow",
        epilog=examples(
            "dpadmm power-flow --case case14 --epsilon 1 --delta 1e-3",
            "dpadmm power-flow --case case118 --zones 3 --algorithm obj-g --epsilon 1 --delta 1e-3 --picture flow.png",
            "dpadmm power-flow --case my.m --zones 4 --algorithm none --json",
            "dpadmm power-flow --case case118 --epsilon 1 --delta 1e-3 --out flow --open",
        ),
    )(power_flow)


def power_flow(
    case: Annotated[str, typer.Option("--case", help="case14, case118, case300, or a MATPOWER .m file.")] = "case14",
    zones: Annotated[int, typer.Option("--zones", help="Into how many zones to take the network apart.")] = 3,
    partition: Annotated[
        Path | None, typer.Option("--partition", help="JSON file instead: a list of lists of bus numbers.")
    ] = None,
    algorithm: Annotated[
        str, typer.Option("--algorithm", help="input, obj-g, obj-l, out-g, out-l, linearised or none.")
    ] = "input",
    rounds: Annotated[int, declared("rounds", rich_help_panel=None, show_default=True)] = 100,
    updates: Annotated[int, typer.Option("--updates", help="Local updates in a round (obj and out).")] = 1,
    rho: Annotated[
        float | None, typer.Option("--rho", help="ADMM's penalty: 1 for exact rounds, 100 for gradient steps.")
    ] = None,
    steps: Annotated[str, typer.Option("--steps", help="Of obj and out: smooth, or paper (1/sqrt(round)).")] = "smooth",
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Total budget of every zone.")] = None,
    delta: Annotated[float | None, declared("delta", rich_help_panel=None)] = None,
    beta: Annotated[
        float, typer.Option("--beta", help="How far a load may differ between neighbours, per unit.")
    ] = 0.01,
    one_load: Annotated[
        bool, typer.Option("--one-load", help="Neighbours differ in one load of a bus, not in both.")
    ] = False,
    paper_noise: Annotated[
        bool, typer.Option("--paper-noise", help="Epsilon of every update, and the paper's sensitivities.")
    ] = False,
    noise_multiplier: Annotated[float | None, declared("noise_multiplier", rich_help_panel=None)] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the noise.")] = 0,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Write the network and its profile: .png, .svg or .pdf.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="New folder for what 'dpadmm report' shows.", show_default=False)
    ] = None,
    shown_at_once: Open = False,
    as_json: AsJson = False,
) -> None:
    """Agree on an operating point of a power network, zone by zone, with the loads kept private.

    The default adds noise to the loads once; every round after that is free.
    Objective: squared load that is not supplied, at the true loads, which
    only a simulation may look at.
    """
    try:
        from dpadmm.applications.power_flow.output import finish, summarise
        from dpadmm.applications.power_flow.rounds import run
        from dpadmm.applications.power_flow.terms import Terms
    except ModuleNotFoundError as error:
        raise _extra(error) from None

    terms = Terms(
        algorithm=algorithm, rounds=rounds, updates=updates, rho=rho, steps=steps, epsilon=epsilon, delta=delta,
        beta=beta, both_loads=not one_load, paper_noise=paper_noise, noise_multiplier=noise_multiplier,
    )  # fmt: skip
    if picture is not None:
        _plots.check(picture, "--picture")
    folder = folder or (browser.temporary("power-flow") if shown_at_once else None)
    decomposition = _decomposed(case, zones, partition)
    warnings = _warnings(terms, decomposition)
    with _told(folder, terms, case, seed) as live:
        result = _shown(run, decomposition, terms, seed, live, as_json)
        summary = {
            **summarise(result, case, seed),
            "warnings": warnings,
            "picture": None if picture is None else str(picture),
            "out": None if folder is None else str(folder),
        }
        if folder is not None:
            finish(folder, result, summary)
    if picture is not None:
        from dpadmm.applications.power_flow.picture import draw

        draw(result, picture)
    for warning in warnings:
        print_warning(warning)
    if as_json:
        print_json(summary)
    else:
        _show(result, summary)
    if shown_at_once and folder is not None:
        browser.show_report(folder, as_json)


def _told(folder: Path | None, terms: Terms, case: str, seed: int) -> StatusWriter:
    """The run in its folder, if it has one, while it goes on."""
    if folder is None:
        from dpadmm.engine.output.status import StatusWriter

        return StatusWriter(None, terms.rounds, 1)
    from dpadmm.applications.power_flow.output import begin

    return begin(folder, terms, case, seed)


def _shown(
    run: Callable[..., FlowResult],
    decomposition: Decomposition,
    terms: Terms,
    seed: int,
    live: StatusWriter,
    as_json: bool,
) -> FlowResult:
    """All rounds, with a bar and words in the folder."""
    import numpy as np

    from dpadmm.engine.output.history import History

    history = History()
    live.begin(0, 0, history)
    with bar(not as_json, "rounds", terms.rounds) as progress:

        def reached(k: int, objective: float, residual: float) -> None:
            history.add(k, {"objective": np.array([objective]), "residual": np.array([residual])})
            live.reached(k)
            progress.move(k, note=f"objective {objective:.3g}  residual {residual:.2g}")

        return run(decomposition, terms, seed, reached)


def _decomposed(case: str, zones: int, partition: Path | None) -> Decomposition:
    from dpadmm.applications.power_flow import choose, decompose, given, load

    network = load(case)
    if partition is None:
        return decompose(network, choose(network, zones))
    return decompose(network, given(network, read_json(partition, "--partition")))


def _extra(error: ModuleNotFoundError) -> InputError:
    return InputError(
        f"'power-flow' needs the package {error.name!r}, which comes with an extra: pip install 'dpadmm[power]'."
    )


def _warnings(terms: Terms, decomposition: Decomposition) -> list[str]:
    fewest = min(len(zone.buses) for zone in decomposition.zones)
    if terms.mechanism is None or not terms.delta or terms.delta <= 1.0 / (10 * fewest):
        return []
    return [
        f"delta {terms.delta:g} is above 1/(10 m) = {1 / (10 * fewest):.2g} for the smallest zone ({fewest} buses): "
        f"such a delta permits giving away the loads of whole buses."
    ]


def _show(result: FlowResult, summary: dict[str, Any]) -> None:
    console = out()
    console.print(
        Text.assemble(
            (summary["algorithm"], "bold"),
            f" on {summary['case']}: {summary['buses']:,} buses, {summary['lines']:,} lines, {summary['zones']} zones, "
            f"{summary['cut_lines']} cut lines, {summary['rounds']:,} rounds\n",
        )
    )
    if not summary["fully_accounted"]:
        console.print(Text.assemble(("Not private: ", "bold red"), "zones compute with their true loads."))
    else:
        claimed = summary["claimed_epsilon"]
        also = "" if claimed is None else f" By its paper's formula the total would be epsilon {claimed:#.4g}."
        console.print(
            Text.assemble(
                ("Simulated: ", "bold yellow"),
                (f"epsilon {summary['epsilon']:#.4g}, delta {summary['delta']:g} in total", "bold"),
                f" for {summary['neighbours']}.{also}",
                (" The noise is seeded and protects nobody.", "dim"),
            )
        )
    shown = table(["", "zones", "their merged point", "pooled, no privacy"])
    shown.add_row(
        "load not supplied, squared",
        *(number(summary[key], ".5g") for key in ("objective", "merged_objective", "pooled_objective")),
    )
    shown.add_row("disagreement of the copies", number(summary["residual"], ".3g"), "-", "-")
    console.print(shown)
    worst = max(abs(result.point.active_mismatch).max(), abs(result.point.reactive_mismatch).max())
    low, high = result.point.voltage.min(), result.point.voltage.max()
    console.print(
        f"voltages {low:.3f} to {high:.3f}, largest unmet load {worst:.3g} per unit, {summary['seconds']:.2f} s"
    )
    if summary["picture"]:
        console.print(f"picture in {summary['picture']}")
    if summary["out"]:
        console.print(f"saved in {summary['out']}", soft_wrap=True)
