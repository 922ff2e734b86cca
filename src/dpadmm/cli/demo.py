"""`dpadmm demo`: DP-ADMM on Adult, and what it is to be compared with."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dpadmm.cli.console import AsJson, err, examples, number, out, print_json, table

if TYPE_CHECKING:
    from dpadmm.engine.output.history import History
    from dpadmm.engine.prepare import Prepared

EPSILON, DELTA, ROUNDS, AGENTS, SEED = 1.0, 1e-5, 100, 100, 0
SHOWN_EVERY = 10
SETTING: dict[str, Any] = {"source": "adult", "agents": AGENTS, "rounds": ROUNDS, "seed": SEED}
BUDGET: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}

# The papers run DPSGD at 0.1. Four is 1/L for the logistic loss on rows of length 1, its best safe step: the
# comparison is not fair without it.
COMPARED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("DPSGD (paper: step 0.1)", {"algorithm": "dpsgd", **BUDGET}),
    ("DPSGD (step 4 = 1/L)", {"algorithm": "dpsgd", "schedule": "fixed:4", **BUDGET}),
    ("ADMM, no noise", {"algorithm": "admm"}),
)
MEANING = (
    f"What the budget means: whatever anyone concludes from all {ROUNDS} rounds, they would have concluded almost as "
    f"likely had any one person's record been another: within a factor e^{EPSILON:g} = {math.exp(EPSILON):.2g}, "
    f"give or take a probability of {DELTA:g}."
)


def register(app: typer.Typer) -> None:
    app.command("demo", epilog=examples("dpadmm demo", "dpadmm demo --json"))(demo)


def demo(as_json: AsJson = False) -> None:
    """Train DP-ADMM on Adult at a total budget, and compare it with DPSGD and with no privacy at all."""
    from dpadmm.engine.prepare import prepare
    from dpadmm.engine.run import run_prepared, train
    from dpadmm.spec.declare import Experiment

    began = time.perf_counter()
    console = out()
    if not as_json:
        console.print(
            Text.assemble(
                ("DP-ADMM", "bold"),
                f" on Adult: {AGENTS} agents, {ROUNDS} rounds, total budget epsilon {EPSILON:g}, delta {DELTA:g}\n",
            )
        )
    prepared = prepare(Experiment().changed(algorithm="dp-admm", **SETTING, **BUDGET))
    with _watched(not as_json) as progress:
        private = run_prepared(prepared, progress=progress)
    rows = [_row("DP-ADMM", private.summary())]
    for name, changes in COMPARED:
        if not as_json:
            err().print(f"comparing with {name} ...", style="dim")
        rows.append(_row(name, train(measure_every=SHOWN_EVERY, **SETTING, **changes).summary()))
    rows.append({**_row("the optimum, no noise", {}), **_optimum(prepared)})
    seconds = time.perf_counter() - began
    if as_json:
        print_json(
            {
                "guarantee": str(private.guarantee),
                **BUDGET,
                "rounds": _rounds(private.history),
                "comparison": rows,
                "seconds": round(seconds, 3),
            }
        )
        return
    shown = table(["", "total\nepsilon", "training\nloss", "test error,\nglobal model", "test error,\nlocal models"])
    for row in rows:
        epsilon = "not private" if row["epsilon"] is None else f"{row['epsilon']:.3f}"
        shown.add_row(
            Text(row["name"], style="bold" if row is rows[0] else ""),
            epsilon,
            *(number(row[key]) for key in ("train_loss", "test_error", "test_error_local")),
        )
    console.print()
    console.print(shown)
    console.print(f"{MEANING}\nSpent: {private.guarantee}. The demo took {seconds:.0f} s.")


def _row(name: str, summary: dict[str, Any]) -> dict[str, Any]:
    keys = ("algorithm", "epsilon", "delta", "train_loss", "test_error", "test_error_local")
    return {"name": name, **{key: summary.get(key) for key in keys}}


def _optimum(prepared: Prepared) -> dict[str, float]:
    """The best any algorithm could do on the pooled records."""
    import numpy as np

    from dpadmm.engine import metrics
    from dpadmm.problems.reference import optimum

    setting = prepared.plan.setting
    best = optimum(setting.problem, prepared.shards, setting.dimension)
    everywhere = np.broadcast_to(best, (setting.agents, setting.dimension))
    loss = metrics.empirical_loss(setting.problem, prepared.shards, everywhere)
    assert prepared.test is not None
    return {
        "train_loss": float(loss.mean()),
        "test_error": float(metrics.test_errors(setting.problem.loss, prepared.test, best[None, :])[0]),
    }


def _rounds(history: History) -> list[dict[str, float]]:
    names = ("train_loss", "test_error", "epsilon")
    return [
        {"round": round, **{name: float(history.metrics[name][place][0]) for name in names}}
        for place, round in enumerate(history.rounds)
    ]


@contextmanager
def _watched(shown: bool) -> Iterator[Callable[[int, int, History], None] | None]:
    """Shows rounds as they come: in a terminal a table that moves with every round, elsewhere a line now and then."""
    console = out()
    if not shown:
        yield None
        return
    if not console.is_terminal:

        def line(first: int, round: int, history: History) -> None:
            if round == 1:
                console.print(Text("round  train loss  test error  epsilon spent"))
            if round == 1 or round % SHOWN_EVERY == 0:
                cells = _cells(history, -1)
                console.print(Text(f"{cells[0]:>5}  {cells[1]:>10}  {cells[2]:>10}  {cells[3]}  {cells[4]}"))

        yield line
        return
    with Live(console=console, refresh_per_second=20) as live:
        yield lambda first, round, history: live.update(_live(history))


def _live(history: History) -> Table:
    grown = table(["round", "train loss", "test error", "epsilon spent"], numbers=True)
    grown.add_column("")
    places = [at for at, round in enumerate(history.rounds) if round == 1 or round % SHOWN_EVERY == 0]
    if places[-1] != len(history.rounds) - 1:
        places.append(len(history.rounds) - 1)
    for place in places:
        *figures, spent = _cells(history, place)
        grown.add_row(*figures, Text(spent, style="cyan"))
    return grown


def _cells(history: History, place: int) -> list[str]:
    """Round, loss, error, budget, and the budget as a bar."""
    loss, error, epsilon = (float(history.metrics[name][place][0]) for name in ("train_loss", "test_error", "epsilon"))
    filled = round(20 * epsilon / EPSILON)
    bar = "━" * filled + "─" * (20 - filled)
    return [str(history.rounds[place]), f"{loss:.4f}", f"{error:.4f}", f"{epsilon:.4f} of {EPSILON:g}", bar]
