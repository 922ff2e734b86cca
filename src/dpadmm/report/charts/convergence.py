"""How runs went on: their metrics over rounds, on charts that all runs share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpadmm.report.charts.thinning import kept, numbers
from dpadmm.report.document import Axis, Chart, Series
from dpadmm.report.reading import Found
from dpadmm.report.tables import Table

ROUND = Axis("round")


@dataclass(frozen=True)
class Metric:
    """One chart: columns of history.csv with their names in the legend."""

    id: str
    title: str
    about: str
    label: str
    columns: tuple[tuple[str, str], ...]
    log: bool = False
    of_records: bool = True  # measured on the owners' records, which only a simulation may look at
    of_power_flow: bool = False


METRICS = (
    Metric(
        "objective",
        "Objective",
        "What is minimised, at the model that the run has come to: the loss of all records and the penalty; lower is "
        "better.",
        "objective",
        (("objective", "objective"),),
    ),
    Metric(
        "augmented-objective",
        "Augmented objective",
        "The agents' objectives at the means of their own models so far, plus rho times their distance from the mean "
        "common model: what the papers' theorems bound.",
        "augmented objective",
        (("augmented_objective", "augmented objective"),),
    ),
    Metric(
        "loss",
        "Training loss",
        "The mean loss of the records that were trained on, without the penalty.",
        "loss",
        (("train_loss", "common model"), ("train_loss_local", "agents' own models")),
    ),
    Metric(
        "error",
        "Error on held-out records",
        "Of classes the share that is wrong, of numbers the root mean square, of quantiles the check loss, on records "
        "that were not trained on.",
        "error",
        (("test_error", "common model"), ("test_error_local", "agents' own models")),
    ),
    Metric(
        "residual",
        "Consensus residual",
        "How far the agents' models are from the common one, all together; it falls as they agree, and noise keeps it "
        "up.",
        "residual",
        (("residual", "residual"),),
        log=True,
        of_records=False,
    ),
    Metric(
        "mise",
        "Error of the coefficient function",
        "The integrated squared distance of the coefficient function from the one that the curves were simulated by.",
        "integrated squared error",
        (("mise", "integrated squared error"),),
        log=True,
    ),
    Metric(
        "unmet-load",
        "Load not supplied",
        "The squares of what is not supplied at every bus, in per unit, added up over the zones' own solutions at the "
        "true loads.",
        "squared load not supplied",
        (("objective", "zones"),),
        log=True,
        of_power_flow=True,
    ),
    Metric(
        "copies",
        "Disagreement of the copies",
        "How far the zones' copies of what lies on lines between them are from what was broadcast.",
        "residual",
        (("residual", "residual"),),
        log=True,
        of_records=False,
        of_power_flow=True,
    ),
    Metric(
        "absent",
        "Owners who did not answer",
        "How many owners were away in a round.",
        "owners",
        (("absent", "away"),),
        of_records=False,
    ),
)


def charts(runs: Sequence[Found]) -> list[Chart]:
    """A chart for every metric that any of the runs has."""
    found = []
    for metric in METRICS:
        series = [line for index, run in enumerate(runs) for line in _lines(metric, run, index, len(runs) > 1)]
        if metric.id == "absent" and not any(value for line in series for value in line.y):
            continue
        if series:
            found.append(
                Chart(
                    id=metric.id,
                    section="convergence",
                    title=metric.title,
                    about=metric.about + _repeats(runs),
                    kind="lines",
                    x=ROUND,
                    y=Axis(metric.label, metric.log),
                    series=series,
                    simulated=metric.of_records and any(run.kind != "federation" for run in runs),
                )
            )
    return found


def _lines(metric: Metric, run: Found, index: int, several: bool) -> list[Series]:
    if run.history is None or (run.kind == "power-flow") != metric.of_power_flow:
        return []
    there = [(column, label) for column, label in metric.columns if column in run.history.columns]
    lines = []
    for column, label in there:
        name = label if not several else run.name if len(metric.columns) == 1 else f"{run.name}: {label}"
        lines += line(run.history, column, name, index)
    return lines


def line(table: Table, column: str, name: str, index: int) -> list[Series]:
    """A metric's mean over repeats with a band from the least to the most; none where it was never measured."""
    values = table.columns[column]
    measured = ~np.isnan(values).all(axis=1)
    if not measured.any():
        return []
    rounds, values = table.rounds[measured], values[measured]
    mean, low, high = _mean(values), np.nanmin(values, axis=1), np.nanmax(values, axis=1)
    chosen = kept([mean, low, high] if table.runs > 1 else [mean])
    x = [int(round) for round in rounds[chosen]]
    if table.runs == 1:
        return [Series(name, numbers(mean[chosen]), x, run=index)]
    return [Series(name, numbers(mean[chosen]), x, numbers(low[chosen]), numbers(high[chosen]), run=index)]


def _mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # infinities of both signs have no mean, which is a gap
        return np.nanmean(values, axis=1)


def _repeats(runs: Sequence[Found]) -> str:
    if all(run.history is None or run.history.runs == 1 for run in runs):
        return ""
    return " Lines are means over repeats, bands reach from the least to the most."
