"""What was learnt: the largest coefficients, or the coefficient functions of curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpadmm.applications.curves.model import CurveModel
from dpadmm.report.charts.thinning import numbers
from dpadmm.report.document import Axis, Chart, Series
from dpadmm.report.reading import Found, blame

MOST = 20  # coefficients
TIMES = 201  # at which a coefficient function is shown
COLUMNS = 12  # classes or levels that bars can tell apart


def charts(runs: Sequence[Found]) -> list[Chart]:
    curves, bars, found = [], {}, []
    for index, run in enumerate(runs):
        if run.model is None:
            continue
        with blame(run.path / "model.json"):
            if run.model.get("basis"):
                curves.append((index, run))
            else:
                bars[index] = _coefficients(run)
    if curves:
        found.append(_functions(curves, len(runs) > 1))
    alike = len(bars) > 1 and len({tuple(names) for names, _, _ in bars.values()}) == 1
    if alike and all(len(labels) == 1 for _, labels, _ in bars.values()):
        names = next(iter(bars.values()))[0]
        together = np.concatenate([table for _, _, table in bars.values()], axis=1)
        found.append(_bars("coefficients", names, [runs[index].name for index in bars], together, list(bars), ""))
    else:
        for index, (names, labels, table) in bars.items():
            where = f" of {runs[index].name}" if len(runs) > 1 else ""
            one = f"coefficients-{index}"
            found.append(_bars(one, names, labels, table, [index] * len(labels), where))
    return found


def _coefficients(run: Found) -> tuple[list[str], list[str], np.ndarray]:
    """Names, what each column speaks for, and the table (names, columns)."""
    model: Any = run.model
    values, names = np.asarray(model["coefficients"], dtype=np.float64), [str(name) for name in model["features"]]
    columns = values.size // len(names) if names and values.size % len(names) == 0 else 0
    if not 1 <= columns <= COLUMNS:  # a statistic, or too many classes to be told apart
        return [f"number {place + 1}" for place in range(values.size)], ["value"], values.reshape(-1, 1)
    classes = model["classes"] or []
    levels = model["tau"]  # as they were written down: a report imports no loss of somebody's own
    if columns == len(levels):
        labels = [f"tau {level:g}" for level in levels]
    elif columns == len(classes):
        labels = [str(each) for each in classes]
    else:
        labels = [f"towards {classes[-1]}" if len(classes) == 2 else "value"]
    if len(labels) != columns:
        labels = [f"output {place + 1}" for place in range(columns)]
    return names, labels, values.reshape(-1, columns)


def _bars(
    id: str, names: Sequence[str], labels: Sequence[str], table: np.ndarray, of: Sequence[int], where: str
) -> Chart:
    largest = np.argsort(-np.abs(table).max(axis=1), kind="stable")[:MOST]
    about = f"The {len(largest)} largest of {len(names):,} by their absolute values; with repeats, of the first one."
    return Chart(
        id=id,
        section="model",
        title=f"Largest coefficients{where}",
        about=about,
        kind="bars",
        y=Axis("coefficient"),
        names=[names[place] for place in largest],
        series=[
            Series(label, numbers(column[largest]), run=run)
            for label, column, run in zip(labels, table.T, of, strict=True)
        ],
    )


def _functions(runs: Sequence[tuple[int, Found]], several: bool) -> Chart:
    t = np.linspace(0.0, 1.0, TIMES)
    series = []
    for index, run in runs:
        with blame(run.path / "model.json"):
            model = CurveModel.load(run.path)
            for level, values in zip(model.levels, model.slope(t), strict=True):
                name = f"{run.name}: tau {level:g}" if several else f"tau {level:g}"
                series.append(Series(name, numbers(values), run=index))
    return Chart(
        id="slope",
        section="model",
        title="Coefficient function",
        about="beta(t): how much a curve's value at time t moves the predicted quantile, over the interval of the "
        "curves from 0 to 1; with repeats, of the first one.",
        kind="lines",
        x=Axis("t"),
        y=Axis("beta(t)"),
        at=t.tolist(),
        series=series,
    )
