"""All private recipes, attacked one after another, as a table; and how it gets into a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpadmm.audit.auditing import Audit, audit
from dpadmm.errors import InputError, Unpublished
from dpadmm.papers import ALGORITHMS

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
    return "\n".join((made, "", *HEADER, *lines))


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
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}.") from None
    if not 0 <= text.find(BEGIN) < text.find(END):
        raise InputError(f"{str(path)!r} has no place for the table: it needs the lines {BEGIN} and {END}.")
    return text
