"""The progress bar of all verbs, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dpadmm.cli.console import err

if TYPE_CHECKING:
    from dpadmm.engine.output.history import History
    from dpadmm.spec.declare import Experiment

Callback = Callable[[int, int, "History"], None]


@dataclass(frozen=True)
class Bar:
    """One bar: a name, how much is done of how much, a note and the time."""

    hidden: bool
    _progress: Progress
    _task: TaskID

    def restart(self, name: str, total: int | None = None) -> None:
        """From nothing again, under this name; without a total the last one stays."""
        self._progress.reset(self._task, total=total, description=name)

    def move(self, done: int, total: int | None = None, name: str | None = None, note: str | None = None) -> None:
        """What is not given stays as it was."""
        more: dict[str, Any] = {} if note is None else {"note": note}
        self._progress.update(self._task, completed=done, total=total, description=name, **more)


@contextmanager
def bar(shown: bool, name: str = "", total: int | None = None, elapsed: bool = False) -> Iterator[Bar]:
    """A bar until the end of the block, if it is to be shown and stderr is a terminal; otherwise nothing is seen.

    It shows the time that remains; with `elapsed`, where steps differ too much to say, the time that has passed.
    """
    console = err()
    hidden = not (shown and console.is_terminal)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn() if elapsed else TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        yield Bar(hidden, progress, progress.add_task(name, total=total, note=""))


@contextmanager
def training_bar(experiment: Experiment, shown: bool) -> Iterator[Callback | None]:
    """A callback for the engine that moves a bar; None where nobody would see it."""
    from dpadmm.spec.declare import AUTO, ROUNDS

    run, repeats = experiment.run, experiment.simulation.repeats
    rounds = run.rounds or (None if run.algorithm == AUTO else ROUNDS)  # None: not chosen yet, so the bar has no end
    with bar(shown, "loading") as one:
        # Repeats run side by side in groups, as many as fit in memory; a group is known by its first run.
        group: int | None = None

        def move(first: int, round: int, history: History) -> None:
            nonlocal group
            if first != group:
                group = first
                one.restart("rounds" if repeats == 1 else f"runs {first + 1}..", rounds)
            one.move(round, note=_figures(history))

        yield None if one.hidden else move


def _figures(history: History) -> str:
    """The newest measurements, the mean over runs."""
    names = {"train_loss": "loss", "test_error": "error", "epsilon": "epsilon"}
    return "  ".join(f"{label} {history.last(name).mean():.4f}" for name, label in names.items() if name in history)
