"""The coefficient functions of a model, drawn. Matplotlib comes with an extra."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from dpadmm.applications.functional.model import CurveModel
from dpadmm.errors import InputError

FORMATS = (".png", ".svg", ".pdf")
POINTS = 401


def draw(model: CurveModel, path: Path, title: str = "") -> None:
    """beta_tau(t) of every level, and the truth where it is known."""
    t = np.linspace(0.0, 1.0, POINTS)
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.subplots()
    for level, values in zip(model.levels, model.slope(t), strict=True):
        axes.plot(t, values, label=f"tau = {level:g}")
    if model.truth is not None:
        axes.plot(t, model.truth(t), color="black", linestyle="--", linewidth=1.0, label="truth")
    axes.axhline(0.0, color="grey", linewidth=0.5)
    axes.set(xlabel="t, over the interval of the curves", ylabel="beta(t)")
    axes.set_title(title or f"{model.basis.text}\n{model.guarantee}", fontsize="medium")
    axes.legend()
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InputError(f"--draw {str(path)!r} cannot be written: {error.strerror}.") from None
