"""docs/reproductions.md, made from the results: a row for every figure, verdict first; then each figure by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpadmm.reproducing.checks import Finding, totals
from dpadmm.reproducing.collection import PAPERS
from dpadmm.reproducing.results import Results, load
from dpadmm.reproducing.target import Target

RESULTS = "results"
OLD_NUMBERS = ("0.1.0",)  # versions from which the same seed gives other numbers today
MOST_ROWS = 60  # of a figure's table; the rest is in its file
OPENING = """# Reproductions

Every figure and table of the five papers, run anew. This page is made from the files in `reproductions/results/` by
`dpadmm reproduce --write docs/reproductions.md`, and says of each figure whether the paper's claim holds here.
`dpadmm reproduce 000 figure-1` runs one at a small scale in less than two minutes; `--scale paper` uses the paper's own
sizes, and can be interrupted and resumed; `--scale medium` has the paper's data and fewer rounds, for figures whose own
number of them takes days. Epsilons are those of the papers, mostly of one round; **the true total of every curve stands
beside it**. Papers 000 to 003 print hardly any numbers; where they do, theirs are beside ours.

**Verdicts.** A claim is one check or several; each is a set of comparisons: in every cell of the grid, or a trend
over all points of an axis. Every comparison has a standard error, from differences of single repeats (run r of every
curve has the same records and random bits); one of less than two standard errors cannot be told, nor can one of
private curves that were run once. A check *cannot be told* if less than half of its comparisons can. Of those that
can, none contradicts it if it *holds*, some if it *holds in part*, most if it *does not hold*. A figure *holds* if
all its checks do, and *holds in part* if some do. "Within a tenth" must be so even two errors farther off. What the
paper printed and variants of ours are judged apart.

What the papers do not give was chosen once; figures list it under "chosen by us", and
`src/dpadmm/reproducing/declared/` has every setting. Comparisons at equal true
budgets, which the papers do not make, are in [equal budgets](equal_budgets.md).
"""
HEADER = (
    "| verdict | figure | claim | scale | repeats | time | true total epsilon |",
    "|---|---|---|---|---|---|---|",
)


def page(targets: Sequence[Target], folder: Path, declared: Path | None = None) -> str:
    """The whole page; a figure is shown at the largest scale there are results of.

    `folder` has the results, `declared` the papers' own numbers (below `published`; by default the same folder).
    """
    shown = {target.id: _best(target, folder) for target in targets}
    lines = [OPENING]
    old = sorted({results.version for results in shown.values() if results is not None and _is_old(results)})
    if old:
        lines += [
            f"**Some results were made with {', '.join(old)}** and say so. Seeded numbers have changed since.",
            "",
        ]
    lines += HEADER
    lines += [_row(target, shown[target.id]) for target in targets]
    for paper, title in PAPERS.items():
        mine = [target for target in targets if target.paper == paper]
        lines += ["", f"## {title}"]
        for target in mine:
            lines += _section(target, shown[target.id], declared or folder)
    return "\n".join(lines) + "\n"


def _best(target: Target, folder: Path) -> Results | None:
    found = (load(target, scale, folder / RESULTS / scale) for scale in reversed(tuple(target.scales)))
    return next((each for each in found if each is not None), None)


def _is_old(results: Results) -> bool:
    return results.version in OLD_NUMBERS


def _row(target: Target, results: Results | None) -> str:
    name = f"[{target.paper}, {target.figure}](#{_anchor(target)})"
    if results is None:
        return f"| not run | {name} | {target.claim} | - | - | - | - |"
    spent = list(totals(results.findings).values())
    total = _range(min(low for low, _ in spent), max(high for _, high in spent)) if spent else "not private"
    made = f"{results.scale} | {_repeats(results)} | {_duration(results.seconds)}"
    return f"| **{results.verdict}** | {name} | {target.claim} | {made} | {total} |"


def _repeats(results: Results) -> str:
    """Of curves that another seed would change."""
    found = {outcome.repeats for _, outcome in results.findings if outcome.random}
    return _range(min(found), max(found)) if found else "exact"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"


def _anchor(target: Target) -> str:
    """As Markdown makes one of the heading."""
    return re.sub(r"[^\w\- ]", "", f"{target.paper} {target.figure}").strip().replace(" ", "-").lower()


def _range(low: float, high: float) -> str:
    ends = dict.fromkeys(f"{end:.3g}" if end < 1000.0 else f"{end:,.0f}" for end in (low, high))
    return " to ".join(ends)


def _section(target: Target, results: Results | None, declared: Path) -> list[str]:
    title = f"{target.title[0].upper()}{target.title[1:]}"
    lines = ["", f"### {target.paper} {target.figure}", "", f"{title}. Claim: {target.claim}"]
    if results is None:
        return [*lines, "", "No results are kept."]
    if _is_old(results):
        lines += ["", f"Made with {results.version}; seeded numbers have changed since."]
    lines += ["", results.sentence]
    if target.remark:
        lines += ["", target.remark]
    if target.guessed:
        lines += ["", f"Chosen by us, because the paper does not give it: {'; '.join(target.guessed)}."]
    place = f"../reproductions/{RESULTS}/{results.scale}"
    lines += ["", f"![{target.paper}, {target.figure}: {target.title}]({place}/{target.id}.png)", ""]
    lines += _table(results, results.published(declared))
    made = f"`{results.command}`, {results.date}, {_duration(results.seconds)} of computing"
    return [*lines, "", f"{made}. Numbers: [{target.id}.csv]({place}/{target.id}.csv)."]


def _table(results: Results, published: Mapping[str, float]) -> list[str]:
    """Final values of every run, with what it cost."""
    inside = [(job, outcome) for job, outcome in results.findings if job.fits(results.target.shown)]
    metrics = [name for name in results.target.metrics if any(name in outcome.tracks for _, outcome in inside)]
    axes = list(dict.fromkeys(axis for job, _ in inside for axis in job.place))
    heads = ["curve", *axes, *(name.replace("_", " ") for name in metrics)]
    heads += (["the paper"] if published else []) + ["claimed total", "true total"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for job, outcome in inside[:MOST_ROWS]:
        cell = [job.place[axis].label if axis in job.place else "" for axis in axes]
        values = [_value((job, outcome), metric) for metric in metrics]
        theirs = [_number(published.get(job.name))] if published else []
        total = _number(outcome.epsilon) if outcome.private else "not private"
        lines.append(f"| {' | '.join([job.curve, *cell, *values, *theirs, _number(outcome.claimed), total])} |")
    if len(inside) > MOST_ROWS:
        lines += ["", f"{len(inside) - MOST_ROWS} more rows are in the file."]
    return lines


def _value(finding: Finding, metric: str) -> str:
    _, outcome = finding
    if metric not in outcome.tracks:
        return "-"
    track = outcome.tracks[metric]
    spread = f" ± {track.deviation[-1]:.2g}" if track.deviation[-1] > 0.0 else ""
    return f"{track.end:.4g}{spread}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if value < 10_000.0 else f"{value:,.0f}"
