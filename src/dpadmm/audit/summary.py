"""All private recipes, attacked one after another, as a table; and how it gets into a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from dpadmm._arrays import FloatArray
from dpadmm._files import read_text
from dpadmm._plots import empty_figure, save
from dpadmm.audit.bounds import GAUSSIAN, ONE_RUN
from dpadmm.audit.run import Audit, audit
from dpadmm.errors import InputError, Unpublished
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import gaussian

BEGIN, END = "<!-- audit: begin -->", "<!-- audit: end -->"
COUNT = sum(recipe.private for recipe in ALGORITHMS.values())
HEADER = (
    "| algorithm | loss | relation | claimed epsilon | audited lower bound | ratio | method |",
    "|---|---|---|---|---|---|---|",
)


def audits(
    epsilons: Sequence[float],
    delta: float,
    *,
    announce: Callable[[str], None] = lambda name: None,
    skipped: Callable[[str], None] = lambda why: None,
    **more: Any,
) -> Iterator[Audit]:
    """Every private recipe at every budget; of papers' noise, every one whose paper has a rule for it."""
    for name, recipe in ALGORITHMS.items():
        for epsilon in epsilons if recipe.private else ():
            announce(f"{name}, epsilon {epsilon:g}")
            try:
                yield audit(name, epsilon, delta, **more)
            except Unpublished as reason:
                skipped(f"{name} is left out: {reason}")


def markdown(found: Sequence[Audit]) -> str:
    """One line per audit, and one that says how they were made."""
    lines = [
        f"| `{a.algorithm}` | {a.loss} | {a.relation} | {a.claimed:.4g} | {a.lower_bound:.3g} | "
        f"{a.ratio:.2f}{' **refuted**' if a.violated else ''} | {a.method} |"
        for a in found
    ]
    first = found[0]
    made = f"Delta {first.delta:g}; {how(first)}, confidence {first.confidence:.0%}, seed {first.seed}."
    return "\n".join((made, "", *HEADER, *lines, "", verdict(found)))


def verdict(found: Sequence[Audit]) -> str:
    """What the attacks came to, in a sentence."""
    refuted, wrong = (
        ", ".join(f"{a.algorithm} at epsilon {a.claimed:.4g}" for a in chosen)
        for chosen in ([a for a in found if a.violated], [a for a in found if a.wrong_noise])
    )
    shares, looked = [a.ratio for a in found], sum(a.noise is not None for a in found)
    said = f"refuted: {refuted}" if refuted else f"not refuted, in any of {len(found)} audits"
    noise = (
        f"is not what it should be: {wrong}" if wrong else f"looks like what it should be, in all {looked} looked at"
    )
    return (
        f"Verdict: {said}. The attacks show at least {min(shares):.2f} to {max(shares):.2f} of the claimed epsilon. "
        f"The noise {noise}."
    )


def how(audit: Audit) -> str:
    """What the attack had to go on."""
    seen = audit.measured
    if seen.canaries > 1:
        return f"one run with {seen.canaries:,} canaries, and one more to fix the number of guesses on"
    return f"{seen.transcripts:,} transcripts of each data set, and {seen.training:,} more to fix the attack on"


def write(path: Path, found: Sequence[Audit]) -> None:
    """Puts the table between the two marks of a document, in place of what was there."""
    text = read(path)
    path.write_text(re.sub(f"(?s){BEGIN}.*{END}", lambda _: f"{BEGIN}\n{markdown(found)}\n{END}", text))


def read(path: Path) -> str:
    """A document with the two marks; an `InputError` for anything else."""
    text = read_text(path, "document")
    if not 0 <= text.find(BEGIN) < text.find(END):
        raise InputError(f"{str(path)!r} has no place for the table: it needs the lines {BEGIN} and {END}.")
    return text


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
    check(len(audits), audits[0].method)
    columns = min(COLUMNS, len(audits))
    rows = -(-len(audits) // columns)
    figure = empty_figure((3.2 * columns + 0.6, 3.2 * rows + 0.4))
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
    for axis, each in zip(axes, audits, strict=False):
        _panel(axis, each)
    for axis in axes[len(audits) :]:
        axis.set_axis_off()
    axes[0].legend(fontsize="x-small", loc="upper right")
    figure.supxlabel("false positives", fontsize="small")
    figure.supylabel("false negatives", fontsize="small")
    save(figure, path, "--picture")


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
