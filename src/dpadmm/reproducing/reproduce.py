"""Runs a target at a scale, writes what it comes to, and says whether the paper's claim holds here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from dpadmm import __version__
from dpadmm.reproducing.drawing import draw
from dpadmm.reproducing.outcome import Outcome, kept
from dpadmm.reproducing.results import Results, load
from dpadmm.reproducing.running import digest, run_all
from dpadmm.reproducing.target import Job, Target

Progress = Callable[[int, int, str], None]
"""Told how many runs of how many are finished, and the name of the last one."""


def reproduce(
    target: Target,
    scale: str,
    out: Path,
    published: Path,
    work: Path | None = None,
    workers: int = 1,
    progress: Progress = lambda *_: None,
) -> Results:
    """All runs of a target. With a work folder, what is finished is kept there (see `forget`), and not run again.

    `out` gets the numbers, the summary and the figure; `published` is the folder with the papers' own numbers.
    """
    jobs = target.jobs(scale)
    found: dict[str, Outcome] = {}
    progress(0, len(jobs), "")
    for done, (job, outcome) in enumerate(run_all(jobs, work, workers), 1):
        found[_key(job)] = kept(outcome, target.metrics)
        progress(done, len(jobs), job.name)
    findings = tuple((job, found[_key(job)]) for job in jobs)
    results = Results(
        target=target,
        scale=scale,
        findings=findings,
        command=f"dpadmm reproduce {target.paper} {target.id[4:]} --scale {scale}",
        date=datetime.now(UTC).date().isoformat(),
        version=__version__,
        seconds=sum(outcome.seconds for _, outcome in findings),
    )
    results.write(out)
    draw(results, results.published(published), out / f"{target.id}.png")
    return results


def redraw(targets: Iterable[Target], scale: str, out: Path, published: Path) -> list[str]:
    """Draws the figures of what is kept in a folder anew; the names of those there are."""
    found = [results for target in targets if (results := load(target, scale, out)) is not None]
    for results in found:
        draw(results, results.published(published), out / f"{results.target.id}.png")
    return [results.target.id for results in found]


def _key(job: Job) -> str:
    return f"{job.name} {digest(job)}"


def forget(jobs: Iterable[Job], work: Path) -> None:
    """What was kept for going on, and for figures that share runs, is not needed once all of them are written."""
    for job in jobs:
        (work / f"{digest(job)}.json").unlink(missing_ok=True)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()
