"""From run folders to one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from dpadmm._version import __version__
from dpadmm.errors import InputError
from dpadmm.report.charts import budget, convergence, model, network
from dpadmm.report.document import Document, RunCard
from dpadmm.report.facts import told
from dpadmm.report.reading import Found, read
from dpadmm.report.wording import UNKNOWN

MOST_RUNS = 20  # side by side


def gather(folders: Sequence[Path]) -> Document:
    """The runs in these folders, side by side."""
    if not 1 <= len(folders) <= MOST_RUNS:
        raise InputError(f"{len(folders)} runs: name one to {MOST_RUNS} folders.")
    return document(_named([read(folder) for folder in folders]))


def document(runs: Sequence[Found]) -> Document:
    """What is to be shown of runs that were read."""
    parts = (convergence, budget, model, network)
    return Document(
        title=", ".join(run.name for run in runs),
        made=_now(),
        version=__version__,
        runs=[told(run) for run in runs],
        charts=[chart for part in parts for chart in part.charts(runs)],
    )


def waiting(folder: Path, why: str) -> Document:
    """What is shown of a run that is yet to begin."""
    name = folder.absolute().name
    run = RunCard(name, "running", 0, 0, UNKNOWN, facts=(), warnings=[f"Waiting: {why}"])
    return Document(title=name, made=_now(), version=__version__, runs=[run], charts=())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _named(runs: Sequence[Found]) -> list[Found]:
    """By their folders' names, with the folder above and then a number where two would be alike."""
    names = [run.name for run in runs]
    above = [f"{run.path.absolute().parent.name}/{run.name}" for run in runs]
    numbered = [f"{run.name} ({place + 1})" for place, run in enumerate(runs)]
    for longer in (above, numbered):
        often = Counter(names)
        names = [name if often[name] == 1 else other for name, other in zip(names, longer, strict=True)]
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]
