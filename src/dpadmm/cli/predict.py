"""`dpadmm predict`: what a saved model says of new records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpadmm._files import atomic_write, csv_text
from dpadmm.cli.console import AsJson, err, examples, print_csv, print_json, print_warning
from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.engine.output.model import Model


def register(app: typer.Typer) -> None:
    app.command(
        "predict",
        epilog=examples(
            "dpadmm predict run --data new.csv",
            "dpadmm predict run --data new.parquet --output predictions.csv",
        ),
    )(predict)


def predict(
    run: Annotated[Path, typer.Argument(help="The folder that 'dpadmm train --out' wrote.", show_default=False)],
    data: Annotated[
        Path, typer.Option("--data", help="A .csv or .parquet file with the columns of the training data.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the CSV to this file instead of stdout.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict with the model of a finished run.

    Prints CSV: the prediction, then the score of each class. Records are
    encoded and clipped as in training; columns the model does not know are
    ignored.
    """
    from dpadmm.engine.output.model import Model

    model = Model.load(run)
    labels, scores = model.predict(data)
    crossed = _in_order(labels) if len(model.levels) > 1 else None
    if crossed:
        print_warning(
            f"the quantiles of {crossed:,} of {len(labels):,} records crossed, and were put in order; a model trained "
            f"with --non-crossing has none such."
        )
    header, rows = _rows(model, labels, scores.tolist())
    if output is not None:
        _write(output, csv_text([header, *rows], end="\n"))
        err().print(f"{len(labels):,} predictions written to {output}", soft_wrap=True)
    if as_json:
        about = {
            key: model.description[key] for key in ("algorithm", "loss", "classes", "private", "simulated", "guarantee")
        }
        print_json(
            {
                "predictions": labels,
                "scores": scores.tolist() if about["classes"] else None,
                "count": len(labels),
                "tau": list(model.levels),
                "crossed": crossed,
                "output": None if output is None else str(output),
                "model": {"run": str(run), **about},
            }
        )
    elif output is None:
        print_csv([header, *rows])


def _in_order(quantiles: list[list[float]]) -> int:
    """Sorts every record's quantiles (which never makes them worse: Chernozhukov, Fernández-Val & Galichon 2010), and
    says how many were not in order."""
    crossed = sum(row != sorted(row) for row in quantiles)
    for row in quantiles:
        row.sort()
    return crossed


def _rows(model: Model, labels: list[Any], scores: list[list[float]]) -> tuple[list[str], Iterator[list[Any]]]:
    classes = model.description["classes"]
    if len(model.levels) > 1:
        return [f"quantile {level:g}" for level in model.levels], iter(labels)
    if not classes:  # a regression's score is its prediction
        return ["prediction"], ([label] for label in labels)
    names = ["score"] if len(scores[0]) == 1 else [f"score {label}" for label in classes]
    return ["prediction", *names], ([label, *row] for label, row in zip(labels, scores, strict=True))


def _write(path: Path, text: str) -> None:
    try:
        atomic_write(path, text)
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}.") from None
