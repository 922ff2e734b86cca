"""`dpadmm privacy`: what noise costs, what a budget buys, and what the papers claimed."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from dpadmm.cli.console import AsJson, examples, number, out, print_json, table
from dpadmm.errors import InputError, unknown

if TYPE_CHECKING:
    from dpadmm.privacy.claims import ClaimCheck

Releases = Annotated[int, typer.Option("--releases", help="How many releases (rounds) one agent makes.")]
Delta = Annotated[
    float | None, typer.Option("--delta", help="Needed for gaussian noise; 0 if not given.", show_default=False)
]
MechanismName = Annotated[str, typer.Option("--mechanism", help="gaussian, laplace or gamma-norm.")]
RelationName = Annotated[
    str, typer.Option("--relation", help="Stated with the result; it is already inside the sensitivity.")
]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        help="What noise costs, what a budget buys, and what the papers claimed.",
        epilog=examples("dpadmm privacy claims"),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    group.command("spent", epilog=examples("dpadmm privacy spent --noise-multiplier 37.3 --releases 100 --delta 1e-5"))(
        spent
    )
    group.command("calibrate", epilog=examples("dpadmm privacy calibrate --epsilon 1 --delta 1e-5 --releases 100"))(
        calibrate
    )
    group.command("claims", epilog=examples("dpadmm privacy claims", "dpadmm privacy claims --json"))(claims)
    app.add_typer(group, name="privacy")


def spent(
    noise_multiplier: Annotated[
        float, typer.Option("--noise-multiplier", help="Scale of the noise divided by the sensitivity.")
    ],
    releases: Releases,
    delta: Delta = None,
    mechanism: MechanismName = "gaussian",
    relation: RelationName = "replace",
    as_json: AsJson = False,
) -> None:
    """The total epsilon of equal releases, by every accountant that can tell."""
    from dpadmm.privacy.accountants import ACCOUNTANTS
    from dpadmm.privacy.events import Relation
    from dpadmm.privacy.mechanisms import MECHANISMS

    if mechanism not in MECHANISMS:
        raise unknown("mechanism", mechanism, MECHANISMS)
    if not (math.isfinite(noise_multiplier) and noise_multiplier > 0):
        raise InputError(f"--noise-multiplier {noise_multiplier}: must be a positive number.")
    if releases < 1:
        raise InputError(f"--releases {releases}: there must be at least one.")
    at = _checked(delta, mechanism)
    stated = Relation.parse(relation)
    tally = {MECHANISMS[mechanism].event(noise_multiplier): releases}
    found: dict[str, float | None] = {}
    for name, accountant in ACCOUNTANTS.items():
        epsilon = accountant.epsilon(tally, at, stated) if accountant.supports(tally) else math.inf
        found[name] = epsilon if math.isfinite(epsilon) else None
    known = [(epsilon, name) for name, epsilon in found.items() if epsilon is not None]
    least, best = min(known, key=lambda pair: pair[0])  # the simplest of equals
    if as_json:
        print_json(
            {
                "mechanism": mechanism,
                "noise_multiplier": noise_multiplier,
                "releases": releases,
                "delta": at,
                "relation": str(stated),
                **found,
                "best": best,
                "epsilon": least,
            }
        )
        return
    console = out()
    console.print(
        Text.assemble(
            f"{releases:,} {mechanism} release{'s' * (releases > 1)} at noise multiplier {noise_multiplier:g}: ",
            (f"epsilon {least:#.5g}", "bold"),
            f", delta {at:g} in total ({stated} relation).",
        )
    )
    shown = table(["accountant", "epsilon"])
    for name, value in found.items():
        style = "bold green" if name == best else ("dim" if value is None else "")
        shown.add_row(f"{ACCOUNTANTS[name].label} ({name})", number(value, "#.6g"), style=style)
    console.print(shown)
    console.print("All are true upper bounds; the smallest may be quoted.", style="dim")


def calibrate(
    epsilon: Annotated[float, typer.Option("--epsilon", help="Total epsilon of all releases together.")],
    releases: Releases,
    delta: Delta = None,
    mechanism: MechanismName = "gaussian",
    relation: RelationName = "replace",
    as_json: AsJson = False,
) -> None:
    """The least noise whose releases together stay within a total budget."""
    from dpadmm.privacy.accounting import best
    from dpadmm.privacy.calibration import Budget, noise_multipliers
    from dpadmm.privacy.events import Relation
    from dpadmm.privacy.mechanisms import MECHANISMS

    if mechanism not in MECHANISMS:
        raise unknown("mechanism", mechanism, MECHANISMS)
    budget = Budget(epsilon, _checked(delta, mechanism))
    stated = Relation.parse(relation)
    multiplier = float(noise_multipliers((budget,), releases, mechanism)[0])
    real = best({MECHANISMS[mechanism].event(multiplier): releases}, budget.delta, stated)
    if as_json:
        print_json(
            {
                "mechanism": mechanism,
                "epsilon": epsilon,
                "delta": budget.delta,
                "releases": releases,
                "relation": str(stated),
                "noise_multiplier": multiplier,
                "spent": real.epsilon,
                "accountant": real.accountant,
            }
        )
        return
    console = out()
    scale = f" ({mechanism}: scale of the noise / sensitivity)"
    console.print(Text.assemble("noise multiplier ", (f"{multiplier:#.7g}", "bold"), scale))
    console.print(f"{releases:,} such release{'s' * (releases > 1)} spend {real}.")


def claims(as_json: AsJson = False) -> None:
    """The papers' claimed totals beside the true ones.

    Claimed, Mironov, RDP and exact are total epsilons of all steps at the same
    delta: what the paper's formula says, two bounds that suffice, and the
    smallest that is true. "True delta" is what really holds at the claimed
    epsilon.
    """
    from dpadmm.privacy.claims import comparisons

    found = comparisons()
    if as_json:
        print_json({"claims": [_claim(row) for row in found]})
        return
    console = out()
    for setting, rows in groupby(found, key=lambda row: row.claim.setting):
        console.print(Text(setting, style="bold"))
        shown = table(
            ["per step", "steps", "claimed", "Mironov", "RDP", "exact", "delta", "true delta", "claim"], show_edge=False
        )
        for place, column in enumerate(shown.columns):
            column.min_width = (8, 5, 7, 7, 7, 7, 5, 10, 5)[place]
            column.justify = "right"
        for row in rows:
            shown.add_row(
                f"{row.claim.epsilon_step:g}",
                f"{row.claim.steps}",
                *(f"{value:.4g}" for value in (row.claimed, row.mironov, row.rdp, row.exact)),
                f"{row.claim.delta:.0e}",
                f"{row.true_delta:.2g}",
                Text("holds", style="green") if row.holds else Text("false", style="bold red"),
            )
        console.print(shown, "")
    false = sum(not row.holds for row in found)
    console.print(f"{false} of {len(found)} claims are false: the exact epsilon is above the claimed one.")


def _claim(row: ClaimCheck) -> dict[str, float | str | bool]:
    return {
        "setting": row.claim.setting,
        "epsilon_step": row.claim.epsilon_step,
        "delta": row.claim.delta,
        "steps": row.claim.steps,
        "claimed": row.claimed,
        "mironov": row.mironov,
        "rdp": row.rdp,
        "exact": row.exact,
        "true_delta": row.true_delta,
        "holds": row.holds,
    }


def _checked(delta: float | None, mechanism: str) -> float:
    """Gaussian noise has no finite epsilon at delta 0; the others do."""
    if delta is None and mechanism == "gaussian":
        raise InputError("gaussian noise needs a --delta between 0 and 1, such as 1e-6.")
    given = delta or 0.0
    if not 0.0 <= given < 1.0 or (given == 0.0 and mechanism == "gaussian"):
        raise InputError(f"--delta {given:g}: must lie between 0 and 1, such as 1e-6.")
    return given
