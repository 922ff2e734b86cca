"""The progress bar of a run, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dpadmm.cli.console import err

if TYPE_CHECKING:
    from dpadmm.engine.output.history import History
    from dpadmm.spec.declare import Experiment

Callback = Callable[[int, int, "History"], None]


@contextmanager
def bar(experiment: Experiment, shown: bool) -> Iterator[Callback | None]:
    """A callback for the engine that moves a bar; None where nobody would see it."""
    console = err()
    if not (shown and console.is_terminal):
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(compact=True),
    )
    from dpadmm.spec.declare import AUTO, ROUNDS

    run, repeats = experiment.run, experiment.simulation.repeats
    rounds = run.rounds or (None if run.algorithm == AUTO else ROUNDS)  # None: not chosen yet, so the bar has no end
    with Progress(*columns, console=console, transient=True) as progress:
        # Repeats run side by side in groups, as many as fit in memory; a group is known by its first run.
        current = progress.add_task("loading", total=None, figures="")
        group: int | None = None

        def move(first: int, round: int, history: History) -> None:
            nonlocal group
            if first != group:
                group = first
                name = "rounds" if repeats == 1 else f"runs {first + 1}.."
                progress.reset(current, total=rounds, description=name)
            progress.update(current, completed=round, figures=figures(history))

        yield move


def figures(history: History) -> str:
    """The newest measurements, the mean over runs."""
    names = {"train_loss": "loss", "test_error": "error", "epsilon": "epsilon"}
    return "  ".join(f"{label} {history.last(name).mean():.4f}" for name, label in names.items() if name in history)
