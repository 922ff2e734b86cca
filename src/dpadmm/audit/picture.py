"""What a reconstruction attack has found, drawn. Matplotlib comes with an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpadmm.audit.reconstruction import Finding, Reconstruction
from dpadmm.errors import InputError

MOST_SHOWN = 60  # features of a table whose names can be read
INK = "Greys"


def draw(reconstruction: Reconstruction, path: Path) -> None:
    """A row for each record. Pictures: the original and what each attack made of it. Tables: a panel for each attack,
    with the true values and those recovered."""
    from matplotlib.figure import Figure  # no windows, no global state

    figure = Figure(layout="constrained")
    if reconstruction.side is None:
        _values(figure, reconstruction)
    else:
        _images(figure, reconstruction, reconstruction.side)
    figure.suptitle(
        f"{reconstruction.data}: records recovered from the messages of {reconstruction.rounds} rounds",
        fontsize="medium",
    )
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InputError(f"--picture {str(path)!r} cannot be written: {error.strerror}.") from None


def _images(figure: Any, found: Reconstruction, side: int) -> None:
    count = len(found.rows)
    figure.set_size_inches(2.2 * (len(found.attacks) + 1), 2.3 * count + 0.8)
    axes = figure.subplots(count, len(found.attacks) + 1, squeeze=False)
    for place, row in enumerate(found.rows):
        # One scale for the whole row: what is recovered must not look better than it is.
        shown: dict[str, Any] = {"cmap": INK, "vmin": 0.0, "vmax": max(float(row.max()), 1e-9)}
        axes[place, 0].imshow(row.reshape(side, side), **shown)
        axes[place, 0].set_title(f"original: {found.labels[place]}", fontsize="small")
        for axis, attack in zip(axes[place, 1:], found.attacks, strict=True):
            axis.imshow(attack.found.rows[place].reshape(side, side), **shown)
            axis.set_title(_title(found, attack, place), fontsize="small")
    for axis in axes.ravel():
        axis.set(xticks=[], yticks=[])


def _values(figure: Any, found: Reconstruction) -> None:
    count, width = len(found.rows), len(found.features)
    figure.set_size_inches(3.4 * len(found.attacks) + 1.5, max(3.0, 0.17 * min(width, MOST_SHOWN)) * count + 0.8)
    axes = figure.subplots(count, len(found.attacks), squeeze=False, sharex="row", sharey=True)
    places = np.arange(width)
    for record, true in enumerate(found.rows):
        for axis, attack in zip(axes[record], found.attacks, strict=True):
            axis.plot(true, places, "o", color="black", markersize=5, fillstyle="none", label="true")
            axis.plot(attack.found.rows[record], places, ".", color="tab:red", markersize=5, label="recovered")
            axis.axvline(0.0, color="grey", linewidth=0.5)
            axis.set_title(_title(found, attack, record), fontsize="small")
        if width <= MOST_SHOWN:
            axes[record, 0].set_yticks(places, found.features, fontsize="xx-small")
    axes[0, 0].invert_yaxis()
    axes[0, 0].legend(fontsize="x-small")


def _title(found: Reconstruction, attack: Finding, record: int) -> str:
    run = (
        f"{found.twin},\nno privacy"
        if attack.budget is None
        else f"{found.algorithm},\nepsilon {attack.budget.epsilon:g}"
    )
    return f"{run}: error {attack.found.relative_error[record]:.2g}"
