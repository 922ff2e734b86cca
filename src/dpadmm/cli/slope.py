"""`dpadmm slope`: the coefficient function of a model over curves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpadmm import _plots
from dpadmm.cli.console import AsJson, examples, out, print_json, table


def register(app: typer.Typer) -> None:
    app.command("slope", epilog=examples("dpadmm slope run", "dpadmm slope run --draw beta.png --points 201"))(slope)


def slope(
    run: Annotated[Path, typer.Argument(help="The folder that 'dpadmm train --out' wrote.", show_default=False)],
    points: Annotated[int, typer.Option("--points", help="How many times to show it at.", min=2, max=100_000)] = 11,
    draw: Annotated[
        Path | None, typer.Option("--draw", help="Draw it to this .png, .svg or .pdf.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the coefficient function beta(t) of a quantile regression on curves.

    Time runs from 0 to 1 over the interval of the curves. The predicted
    quantile is the intercept plus the mean over time of beta(t) X(t).
    """
    import numpy as np

    from dpadmm.applications.curves.model import CurveModel
    from dpadmm.applications.curves.model import draw as picture

    if draw is not None:
        _plots.check(draw, "--draw")
    model = CurveModel.load(run)
    t = np.linspace(0.0, 1.0, points)
    values = model.slope(t)
    if draw is not None:
        picture(model, draw)
    if as_json:
        print_json(
            {
                "run": str(run),
                "basis": model.basis.text,
                "tau": list(model.levels),
                "t": t.tolist(),
                "beta": values.tolist(),
                "intercepts": model.intercepts.tolist(),
                "guarantee": model.guarantee,
                "picture": None if draw is None else str(draw),
            }
        )
        return
    shown = table(["t", *(f"beta at tau {level:g}" for level in model.levels)])
    for time, column in zip(t, values.T, strict=True):
        shown.add_row(f"{time:.3f}", *(f"{value:.4f}" for value in column))
    shown.add_row("intercept", *(f"{value:.4f}" for value in model.intercepts))
    out().print(shown)
    if draw is not None:
        out().print(f"picture in {draw}", soft_wrap=True)
