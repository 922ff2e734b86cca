"""What a person reads after a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table
from rich.text import Text

from dpadmm.cli.console import out, table

if TYPE_CHECKING:
    from dpadmm.engine.result import Result


def show(result: Result, hints: bool) -> None:
    """The guarantee first, then how good the model is, then how it came about."""
    console = out()
    summary = result.summary()
    console.print(
        Text.assemble(
            (summary["algorithm"], "bold"),
            f" on {summary['data']}: {summary['records']:,} records of {summary['agents']:,} agents, "
            f"{summary['dimension']:,} coefficients, {summary['rounds']:,} rounds",
        )
    )
    console.print()
    console.print(guarantee(result))
    if result.choices:
        console.print(_choices(result))
    console.print(_figures(result))
    console.print(_details(result))
    if hints and result.out is None:
        console.print(Text("\nAdd --out FOLDER to keep the model.", style="dim"))


def guarantee(result: Result) -> Text:
    """One plain statement on privacy."""
    from dpadmm.privacy.accounting import ACCOUNTANTS

    found = result.guarantee
    if found is None:
        return Text.assemble(("Not private: ", "bold red"), "this algorithm releases its answers without noise.")
    if math.isinf(found.epsilon):
        return Text.assemble(("Not private: ", "bold red"), "without noise, epsilon is infinite.")
    label = ACCOUNTANTS[found.accountant].label
    spent = f"epsilon {found.epsilon:#.4g}, delta {found.delta:g} in total"
    means = f"for every record of every agent ({found.relation} relation, {label})."
    if not result.fully_accounted:
        return Text.assemble(
            ("Not private: ", "bold red"),
            "the features were scaled by statistics of the data. ",
            f"The rounds alone cost {spent} {means}",
            *_claimed(result),
        )
    if result.private:
        return Text.assemble(("Private: ", "bold green"), (spent, "bold"), f" {means}", *_claimed(result))
    seeded = " The noise is seeded, so that the run repeats, and protects nobody; real releases are an owner's agent's."
    return Text.assemble(
        ("Simulated: ", "bold yellow"), (spent, "bold"), f" {means}", *_claimed(result), (seeded, "dim")
    )


def _claimed(result: Result) -> list[str]:
    if result.claimed is None or result.guarantee is None:
        return []
    true = result.guarantee.epsilon
    verdict = "which is safe but wasteful" if true <= result.claimed else "which is false"
    return [f" By its paper's formula the total would be epsilon {result.claimed:#.4g}, {verdict}."]


def _choices(result: Result) -> Table:
    """What --tune-batches looked at."""
    shown = table(["batch", "updates", "noise / G", "error by noise", "by few steps", "records a round", ""])
    for choice in result.choices:
        shown.add_row(
            f"{choice.batch:g}",
            f"{choice.updates}",
            f"{choice.sigma:.4f}",
            f"{choice.noise:.3f}",
            f"{choice.way:.3f}",
            f"{choice.records:,}",
            "chosen" if choice.chosen else "",
            style="bold" if choice.chosen else "",
        )
    return shown


def _figures(result: Result) -> Table:
    graph = result.plan.algorithm.consensus.decentralised
    shown = table(
        ["", "mean of the nodes" if graph else "global model", "nodes' own models" if graph else "agents' models"]
    )
    error = "test error" if result.dataset.classes else "test error (rms)"
    error = "test check loss" if result.coverage else error
    for label, name in (("training loss", "train_loss"), (error, "test_error"), ("objective", "objective")):
        if name in result.history:
            shown.add_row(label, _spread(result, name), _spread(result, f"{name}_local"))
    if "mise" in result.history:
        shown.add_row("error of beta(t), integrated squared", _spread(result, "mise"), "-")
    return shown


def _spread(result: Result, name: str) -> str:
    """Mean ± standard deviation over the repeats."""
    if name not in result.history:
        return "-"
    values = result.history.last(name)
    mean = f"{values.mean():.4f}"
    return mean if values.size < 2 else f"{mean} ± {np.std(values, ddof=1):.4f}"


def _details(result: Result) -> Table:
    summary = result.summary()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column()
    if summary["noise_multiplier"] is not None:
        grid.add_row("noise multiplier", f"{summary['noise_multiplier']:.4g}, every step")
    if result.coverage:
        pairs = zip(summary["tau"], result.coverage, strict=True)
        grid.add_row("below the quantile", ", ".join(f"{share:.1%} at {level:g}" for level, share in pairs))
    for number, reason in enumerate(result.reasons):
        grid.add_row("" if number else "auto chose", reason)
    if result.components is not None:
        kept, found = result.components, result.components.rotation.shape[1]
        share = kept.spectrum[:found].sum() / max(kept.spectrum.clip(min=0.0).sum(), 1e-300)
        grid.add_row("components", f"{found} of {kept.spectrum.size}, with {share:.0%} of the (noisy) spectrum")
    graph = result.plan.setting.graph
    if graph is not None:
        grid.add_row("graph", f"{graph.nodes:,} nodes, {len(graph.edges):,} edges, no server")
    if result.convergence is not None:
        grid.add_row("theorem IV.1", result.convergence.reason)
    if result.by_agent:
        grid.add_row("epsilon by agent", ", ".join(f"{each.epsilon:#.4g}" for each in result.by_agent[:20]))
    if result.clipped is not None:
        share = f"{result.clipped:,} ({result.clipped / summary['records']:.0%})"
        grid.add_row("rows clipped", f"{share} to norm {result.experiment.run.clip:g}")
    if summary["repeats"] > 1:
        grid.add_row("repeats", f"{summary['repeats']}, mean ± standard deviation")
    grid.add_row("seed", f"{summary['seed']}")
    grid.add_row("time", f"{summary['seconds']:.2f} s")
    if result.out is not None:
        grid.add_row("saved in", Text(result.out))
    return grid
