"""Audits, drawn: how rare both kinds of mistakes were together, beside how rare the claim allows. Matplotlib comes with
an extra."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from dpadmm._arrays import FloatArray
from dpadmm.audit.auditing import Audit
from dpadmm.audit.bounds import GAUSSIAN, ONE_RUN
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian

COLUMNS = 4
MOST = 48  # panels


def allowed(audit: Audit, false_positives: FloatArray) -> FloatArray:
    """The fewest false negatives that the claim allows, at these rates of false positives."""
    if not np.isfinite(audit.claimed):
        return np.zeros_like(false_positives)
    if audit.method == GAUSSIAN:
        return ndtr(-ndtri(false_positives) - gaussian.mu(audit.claimed, audit.delta))
    steep = 1.0 - audit.delta - np.exp(audit.claimed) * false_positives
    flat = np.exp(-audit.claimed) * (1.0 - audit.delta - false_positives)
    return np.maximum(0.0, np.maximum(steep, flat))


def check(audits: int, method: str | None) -> None:
    """Before the work, so that what cannot be drawn does not cost it."""
    if method == ONE_RUN:
        raise InputError("--picture: one run has guesses and no two kinds of transcripts; there is nothing to draw.")
    if audits > MOST:
        raise InputError(f"--picture: {audits} audits, and {MOST} panels are the most that can be looked at.")


def draw(audits: Sequence[Audit], path: Path) -> None:
    """A panel for each audit."""
    from matplotlib.figure import Figure  # no windows, no global state

    check(len(audits), audits[0].method)
    columns = min(COLUMNS, len(audits))
    rows = -(-len(audits) // columns)
    figure = Figure(figsize=(3.2 * columns + 0.6, 3.2 * rows + 0.4), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axis, audit in zip(axes, audits, strict=False):
        _panel(axis, audit)
    for axis in axes[len(audits) :]:
        axis.set_axis_off()
    axes[0].legend(fontsize="x-small", loc="upper right")
    figure.supxlabel("false positives", fontsize="small")
    figure.supylabel("false negatives", fontsize="small")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InputError(f"--picture {str(path)!r} cannot be written: {error.strerror}.") from None


def _panel(axis: Any, audit: Audit) -> None:
    grid = np.linspace(0.0, 1.0, 401)
    axis.fill_between(
        grid, allowed(audit, grid), color="tab:red", alpha=0.15, linewidth=0, label="excluded by the claim"
    )
    axis.plot([0.0, 1.0], [1.0, 0.0], color="grey", linewidth=0.5, linestyle=":")
    axis.plot(*zip(*audit.measured.curve, strict=True), color="black", linewidth=1.0, label="attack")
    axis.plot(audit.measured.false_positives, audit.measured.false_negatives, "o", color="black", markersize=4)
    verdict = "refuted" if audit.violated else f"at least {audit.lower_bound:.2g}"
    axis.set_title(f"{audit.algorithm}, epsilon {audit.claimed:.3g}: {verdict}", fontsize="small")
    axis.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
