"""Runs jobs, and remembers what is finished, so that an interrupted reproduction goes on where it was."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm._files import read_json, write_json
from dpadmm._version import __version__
from dpadmm.engine.output.status import alive
from dpadmm.engine.result import Result
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.reproducing.figure import draw
from dpadmm.reproducing.formulas import applied, of_power_flow, of_training, variance
from dpadmm.reproducing.outcome import Outcome, Track, kept
from dpadmm.reproducing.results import Results, load
from dpadmm.reproducing.target import Job, Target

if TYPE_CHECKING:
    from dpadmm.applications.power_flow import Decomposition
    from dpadmm.applications.power_flow.rounds import FlowResult

CHECKPOINT_EVERY = 50


def digest(job: Job) -> str:
    """Names what is remembered of a run; another version of the library runs it anew."""
    return f"{job.fingerprint}-{__version__}"


def run_all(jobs: list[Job], work: Path | None, workers: int = 1) -> Iterator[tuple[Job, Outcome]]:
    """Every job with what it comes to, as they finish; finished ones are read from the work folder, if there is one."""
    waiting = []
    for job in jobs:
        known = _remembered(job, work)
        if known is not None:
            yield job, known
        else:
            waiting.append(job)
    if workers == 1:
        for job in waiting:
            yield job, run(job, work)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(run, job, work): job for job in waiting}
        try:
            for done in as_completed(futures):
                yield futures[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run(job: Job, work: Path | None = None) -> Outcome:
    """Runs one, or goes on with it."""
    outcome = _train(job, work) if job.kind == "train" else _power_flow(job)
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        write_json(work / f"{digest(job)}.json", outcome.to_dict())
        shutil.rmtree(_folder(job, work), ignore_errors=True)
    return outcome


def _remembered(job: Job, work: Path | None) -> Outcome | None:
    if work is None:
        return None
    with suppress(ValueError, KeyError, TypeError):
        return Outcome.from_dict(read_json(work / f"{digest(job)}.json", "outcome"))
    return None


def _folder(job: Job, work: Path) -> Path:
    return work / f"{digest(job)}.run"


def _train(job: Job, work: Path | None) -> Outcome:
    settings = applied(job.settings)
    if "tau" in settings:
        settings["tau"] = tuple(np.atleast_1d(settings["tau"]).tolist())
    timings = settings.pop("timings", 1)  # how often a run is timed
    if timings > 1:
        found = [train(**settings) for _ in range(timings)]
        return _timed(_of_training(found[0]), [each.seconds for each in found])
    if work is None:
        return _of_training(train(**settings))
    folder = _folder(job, work)
    start = partial(train, out=folder, checkpoint_every=CHECKPOINT_EVERY, **settings)
    if (folder / "spec.toml").exists():
        _check_left(folder)
        with suppress(InputError):  # left by other versions or settings: it is begun anew
            return _of_training(start(resume=True))
        shutil.rmtree(folder)
    return _of_training(start())


def _timed(outcome: Outcome, seconds: Sequence[float]) -> Outcome:
    track = Track.of(np.tile(np.array(seconds), (len(outcome.rounds), 1)))
    return replace(outcome, tracks={**outcome.tracks, "seconds": track}, seconds=math.fsum(seconds))


def _check_left(folder: Path) -> None:
    """Whether nobody is at work there any more: two in one folder would spoil it for each other."""
    try:
        told = read_json(folder / "status.json", "status")
    except InputError:
        return
    if told["state"] == "running" and told["pid"] != os.getpid() and alive(told):
        raise InputError(
            f"process {told['pid']} is running the same in {str(folder)!r}; wait for it, or use another --out."
        )


def _of_training(result: Result) -> Outcome:
    history, guarantee = result.history, result.guarantee
    tracks = {name: Track.of(history[name]) for name in history.metrics}
    for name in ("train_loss", "test_error"):  # where agents send gradients, the server's model is that of each
        if name in tracks:
            tracks.setdefault(f"{name}_local", tracks[name])
    magnitude = of_training(result.plan, history.rounds)
    if magnitude is not None:
        tracks["noise_magnitude"] = Track.of(magnitude[:, None])
    tracks["seconds"] = _constant(result.seconds, len(history.rounds))
    return Outcome(
        rounds=tuple(history.rounds),
        tracks=tracks,
        repeats=result.experiment.simulation.repeats,
        epsilon=_finite(guarantee.epsilon if guarantee else None),
        private=guarantee is not None,
        delta=guarantee.delta if guarantee else None,
        relation=str(result.plan.setting.relation),
        claimed=result.claimed,
        seconds=result.seconds,
        random=guarantee is not None or any(phase.solver.sampled for phase in result.plan.algorithm.phases),
    )


@cache
def _zones(case: str, zones: int) -> Decomposition:
    from dpadmm.applications.power_flow import choose, decompose, load

    network = load(case)
    return decompose(network, choose(network, zones))


def _power_flow(job: Job) -> Outcome:
    from dpadmm.applications.power_flow.rounds import run as run_flow  # an extra
    from dpadmm.applications.power_flow.terms import Terms

    settings: dict[str, Any] = dict(job.settings)
    decomposition = _zones(settings.pop("case"), settings.pop("zones", 3))
    repeats, every = settings.pop("repeats", 1), settings.pop("measure_every", 1)
    seed = settings.pop("seed", 0)
    terms = Terms(**settings)
    found = [run_flow(decomposition, terms, seed + again) for again in range(repeats)]
    first = found[0]
    rounds = [k for k in range(1, terms.rounds + 1) if k % every == 0 or k == terms.rounds]
    tracks = {
        "objective": _by_round(found, "objectives", rounds),
        "residual": _by_round(found, "residuals", rounds),
        "seconds": _constant(float(np.mean([each.seconds for each in found])), len(rounds)),
    }
    if terms.paper_noise:
        tracks["noise_magnitude"] = _constant(of_power_flow(decomposition, terms), len(rounds))
        tracks["noise_variance"] = _constant(variance(terms), len(rounds))
    guarantee = first.guarantee
    return Outcome(
        rounds=tuple(rounds),
        tracks=tracks,
        repeats=repeats,
        epsilon=_finite(guarantee.epsilon if guarantee else None),
        private=guarantee is not None,
        delta=guarantee.delta if guarantee else None,
        relation=str(guarantee.relation) if guarantee else "replace",
        claimed=first.claimed,
        seconds=sum(each.seconds for each in found),
        random=guarantee is not None,
    )


def _by_round(found: list[FlowResult], name: str, rounds: list[int]) -> Track:
    values = np.array([getattr(each, name) for each in found]).T
    return Track.of(values[[k - 1 for k in rounds]])


def _constant(value: float, rounds: int) -> Track:
    return Track.of(np.full((rounds, 1), value))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


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
