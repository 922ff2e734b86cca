"""`dpadmm audit`: attack a recipe, and set what leaks beside what it claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm import _plots
from dpadmm.cli.console import AsJson, examples, number, numbers, out, print_json, print_warning, table
from dpadmm.cli.declared import declared
from dpadmm.cli.progress import bar
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.audit.run import Audit


def register(app: typer.Typer) -> None:
    app.command(
        "audit",
        epilog=examples(
            "dpadmm audit --algorithm dp-admm --epsilon 2 --delta 1e-5",
            "dpadmm audit --algorithm obj-g --epsilon 1 --delta 1e-2 --rounds 100 --paper-noise",
            "dpadmm audit --algorithm dp-admm --loss softmax --epsilon 4 --delta 1e-5 --method one-run",
            "dpadmm audit --algorithm all --epsilon 1,4 --delta 1e-5 --json",
        ),
    )(audit)


def audit(
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            help="A private one from 'dpadmm algorithms', all, or an import path (mypackage.recipes:MINE).",
        ),
    ],
    epsilon: Annotated[str, typer.Option("--epsilon", help="Total budget to attack; several as 1,2,4.")],
    delta: Annotated[float, declared("delta", rich_help_panel=None, show_default=True)] = 0.0,
    paper_noise: Annotated[
        bool,
        typer.Option("--paper-noise", help="The budget is that of each step; attack the total that the paper claims."),
    ] = False,
    transcripts: Annotated[
        int, typer.Option("--transcripts", help="Simulated runs over each of the two data sets.")
    ] = 20_000,
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            help="gdp, clopper-pearson or one-run; default: the strongest that is sound.",
            show_default=False,
        ),
    ] = None,
    canaries: Annotated[int, typer.Option("--canaries", help="Records put in by coins, for one-run.")] = 1_000,
    confidence: Annotated[float, typer.Option("--confidence", help="Of the lower bound.")] = 0.95,
    loss: Annotated[
        str | None, typer.Option("--loss", help="Default: the worst for the algorithm.", show_default=False)
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option("--relation", help="Default: replace, where the algorithm knows it.", show_default=False),
    ] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", help="Default: 4.", show_default=False)] = None,
    updates: Annotated[int | None, declared("updates", rich_help_panel=None)] = None,
    mechanism: Annotated[str | None, declared("mechanism", rich_help_panel=None)] = None,
    evaluation_epsilon: Annotated[float | None, declared("evaluation_epsilon", rich_help_panel=None)] = None,
    records: Annotated[int, typer.Option("--records", help="Of each agent.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Seed of all that is drawn.")] = 0,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Put the table into this Markdown file, between its marks.", show_default=False),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="Draw claims and mistakes to this .png, .svg or .pdf.", show_default=False),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Leave with exit code 1 if a claim is refuted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Try to refute an algorithm's epsilon by attacking simulated runs of it.

    An attacker who sees all messages tells two neighbouring data sets apart,
    as well as can be; how often it is right bounds epsilon from below. A bound
    above the claim refutes it; a bound below proves nothing.
    """
    from dpadmm.audit import summary
    from dpadmm.audit import summary as all_of_them
    from dpadmm.audit.run import audit as attack
    from dpadmm.audit.scene import Scenario
    from dpadmm.spec import resolve
    from dpadmm.spec.declare import RunSpec
    from dpadmm.spec.parts import imported

    budgets = numbers("--epsilon", epsilon)
    if write is not None:
        all_of_them.read(write)
    if picture is not None:
        _plots.check(picture, "--picture")
        summary.check(len(budgets) * (all_of_them.COUNT if algorithm == "all" else 1), method)
    more: dict[str, Any] = {
        "stage": Scenario(
            loss=loss,
            relation=relation,
            rounds=rounds,
            records=records,
            evaluation_epsilon=evaluation_epsilon,
        ),
        "paper_noise": paper_noise,
        "method": method,
        "transcripts": transcripts,
        "canaries": canaries,
        "confidence": confidence,
        "seed": seed,
    }
    if algorithm == "all":
        if updates is not None or mechanism is not None:
            raise InputError("--updates and --mechanism change one algorithm; they do not go with 'all'.")
        with bar(shown=not as_json) as progress:
            told: dict[str, Any] = {"announce": progress.restart, "skipped": print_warning, "progress": progress.move}
            found = list(all_of_them.audits(budgets, delta, **told, **more))
    else:
        recipe = resolve.recipe(imported(RunSpec(algorithm=algorithm, updates=updates, mechanism=mechanism)))
        with bar(shown=not as_json) as progress:
            progress.restart(algorithm)
            found = [attack(recipe, budget, delta, progress=progress.move, **more) for budget in budgets]
    if write is not None:
        all_of_them.write(write, found)
    if picture is not None:
        summary.draw(found, picture)
    if as_json:
        many = algorithm == "all" or len(budgets) > 1
        print_json({"audits": [each.summary() for each in found]} if many else found[0].summary())
    else:
        _show(found)
    if strict and any(each.violated for each in found):
        raise typer.Exit(1)


def _show(found: list[Audit]) -> None:
    from dpadmm.audit.summary import how

    shown = table(["algorithm", "loss", "relation", "claimed", "at least", "ratio", "method"])
    for each in found:
        ratio = f"{each.ratio:.2f}" + (" refuted" if each.violated else "")
        shown.add_row(
            each.algorithm, each.loss, each.relation, number(each.claimed, ".4g"), number(each.lower_bound, ".3g"),
            ratio, each.method,
        )  # fmt: skip
    out().print(shown)
    first = found[0]
    said = f"delta {first.delta:g}, confidence {first.confidence:.0%}; {how(first)}; by {first.measured.statistic}"
    if first.claim == "paper":
        said += f"; the claim is the paper's, the account says {first.accounted:.4g}"
    out().print(said, soft_wrap=True)
