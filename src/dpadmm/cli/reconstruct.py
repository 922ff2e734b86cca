"""`dpadmm reconstruct`: an agent's records from the messages it sent, without privacy and with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm import _plots
from dpadmm.cli.console import AsJson, examples, number, numbers, out, print_json, table
from dpadmm.cli.declared import declared

if TYPE_CHECKING:
    from dpadmm.audit.reconstruction import Reconstruction, RecordFinding

SHOWN = 8  # features of each record of a table
ANSWERS = {True: "right", False: "wrong", None: "-"}


def register(app: typer.Typer) -> None:
    app.command(
        "reconstruct",
        epilog=examples(
            "dpadmm reconstruct",
            "dpadmm reconstruct --records 3 --epsilon 8,1 --picture digits.png",
            "dpadmm reconstruct --data breast-cancer --algorithm pvp --json",
        ),
    )(reconstruct)


def reconstruct(
    data: Annotated[
        str, typer.Option("--data", help="Name from 'dpadmm datasets', or a file; with classes.")
    ] = "digits",
    target: Annotated[str | None, declared("target", rich_help_panel=None)] = None,
    data_dir: Annotated[str | None, declared("data_dir", rich_help_panel=None)] = None,
    records: Annotated[int, typer.Option("--records", help="Records of the agent that is attacked.")] = 1,
    agents: Annotated[int, typer.Option("--agents", help="Agents, each with as many records.")] = 2,
    algorithm: Annotated[
        str, typer.Option("--algorithm", help="A private one; its twin without noise is attacked first.")
    ] = "dp-admm",
    epsilon: Annotated[str, typer.Option("--epsilon", help="Total budgets of the private runs.")] = "8,1",
    delta: Annotated[float, typer.Option("--delta", help="The delta of those budgets.")] = 1e-5,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds that are listened to.")] = 10,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the choice of records, and of the noise.")] = 0,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Draw the result to this .png, .svg or .pdf.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recover an agent's records from its messages: first without privacy, then from private runs.

    The attacker knows the terms of the run, what was broadcast and what the
    agent released, how many records it has, and of several records of more
    than two classes also the labels. Rows are in the units of the model:
    encoded, and clipped to the public norm bound.
    """
    from dpadmm.audit import reconstruction
    from dpadmm.privacy.calibration import Budget

    if picture is not None:
        _plots.check(picture, "--picture")
    budgets = tuple(Budget(value, delta) for value in numbers("--epsilon", epsilon))
    found = reconstruction.reconstruct(
        data, records=records, algorithm=algorithm, budgets=budgets, rounds=rounds, agents=agents, seed=seed,
        target=target, data_dir=data_dir,
    )  # fmt: skip
    if picture is not None:
        from dpadmm.audit.reconstruction import draw

        draw(found, picture)
    if as_json:
        print_json(_summary(found, delta, picture))
        return
    _show(found)
    if picture is not None:
        out().print(f"picture in {picture}", soft_wrap=True)


def _summary(found: Reconstruction, delta: float, picture: Path | None) -> dict[str, Any]:
    return {
        "data": found.data,
        "algorithm": found.algorithm,
        "twin": found.twin,
        "records": len(found.rows),
        "rounds": found.rounds,
        "seed": found.seed,
        "delta": delta,
        "attacks": [
            {
                "epsilon": None if attack.budget is None else attack.budget.epsilon,
                "guarantee": None if attack.guarantee is None else str(attack.guarantee),
                "relative_error": attack.found.relative_error.tolist(),
                "cosine": attack.found.cosine.tolist(),
                "label_right": list(attack.found.label_right),
            }
            for attack in found.attacks
        ],
        "picture": None if picture is None else str(picture),
    }


def _show(found: Reconstruction) -> None:
    console = out()
    shown = table(["run", "record", "error", "cosine", "label"])
    for attack in found.attacks:
        each = zip(attack.found.relative_error, attack.found.cosine, attack.found.label_right, strict=True)
        for record, (error, cosine, right) in enumerate(each):
            shown.add_row(_name(found, attack), str(record + 1), number(error, ".2g"), number(cosine), ANSWERS[right])
    console.print(shown)
    if found.side is None:
        _show_values(found)
    for attack in found.attacks:
        if attack.guarantee is not None:
            console.print(f"{_name(found, attack)}: {attack.guarantee}", soft_wrap=True)
    if not found.signs_found:
        console.print(
            "Rows were recovered times their labels, +1 or -1: the logistic loss sees nothing else.", soft_wrap=True
        )
    console.print(
        "Error is the distance to the record over its length; a guess of the right length comes to 1.4.", soft_wrap=True
    )


def _show_values(found: Reconstruction) -> None:
    values = table(["record", "feature", "true", *(_name(found, attack) for attack in found.attacks)])
    for record, row in enumerate(found.rows):
        for place, name in enumerate(found.features[:SHOWN]):
            guesses = (number(attack.found.rows[record, place]) for attack in found.attacks)
            values.add_row(str(record + 1), name, number(row[place]), *guesses)
    out().print(values)


def _name(found: Reconstruction, attack: RecordFinding) -> str:
    return (
        f"{found.twin}, no privacy"
        if attack.budget is None
        else f"{found.algorithm}, epsilon {attack.budget.epsilon:g}"
    )
