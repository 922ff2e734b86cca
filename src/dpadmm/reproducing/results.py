"""What a reproduction leaves: numbers, a figure, and a summary that says how they came about.

ID.csv    every kept metric, by curve, cell and round
ID.json   the command, the date, the verdict with its comparisons, the true total of every run, and of every repeat what
          the checks compare
ID.png    the figure
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpadmm import _limits
from dpadmm._files import atomic_write, csv_text, read_json, read_text, write_json
from dpadmm.errors import InputError
from dpadmm.reproducing.checks import CheckResult, Finding, answers, verdict
from dpadmm.reproducing.outcome import Outcome, Track, kept
from dpadmm.reproducing.target import Job, Target

COLUMNS = ("round", "metric", "mean", "deviation", "least", "most", "repeats")


@dataclass(frozen=True)
class Results:
    """A target's runs at one scale."""

    target: Target
    scale: str
    findings: tuple[Finding, ...]
    command: str
    date: str
    version: str
    seconds: float

    @property
    def answers(self) -> list[CheckResult]:
        return answers(self.target, self.findings)

    @property
    def verdict(self) -> str:
        """Of what the paper printed."""
        return verdict([answer for answer in self.answers if not answer.variant])

    @property
    def sentence(self) -> str:
        """Whether the paper's claim holds here; after it the same of our variants, if there are any."""
        printed = [answer for answer in self.answers if not answer.variant]
        variants = [answer for answer in self.answers if answer.variant]
        told = [f"The claim {self.verdict}: {'; '.join(map(str, printed))}."]
        if variants:
            found = "; ".join(map(str, variants))
            told.append(f"Of variants that are not the paper's it {verdict(variants)}: {found}.")
        return " ".join(told)

    def published(self, folder: Path) -> dict[str, float]:
        """The paper's numbers, by the names of our runs."""
        source = self.target.published
        if source is None:
            return {}
        rows = list(csv.DictReader(read_text(folder / "published" / source.file, "table").splitlines()))
        found = {}
        for job, outcome in self.findings:
            places = {**job.settings, **{axis: point.value for axis, point in job.place.items()}, "curve": job.curve}
            if not outcome.private:  # which tables write as an infinite budget
                places["epsilon"] = math.inf
            mine = [row for row in rows if _belongs(row, places, source.column)]
            if len(mine) == 1 and mine[0][source.column]:
                found[job.name] = float(mine[0][source.column])
        return found

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        axes = list(dict.fromkeys(axis for job, _ in self.findings for axis in job.place))
        rows = [["curve", *axes, *COLUMNS]]
        for job, outcome in self.findings:
            cell = [job.place[axis].label if axis in job.place else "" for axis in axes]
            for metric in self.target.metrics:
                if metric in outcome.tracks:
                    rows += [[job.curve, *cell, *row] for row in _rows(outcome, metric)]
        atomic_write(folder / f"{self.target.id}.csv", csv_text(rows, end="\n"))
        write_json(folder / f"{self.target.id}.json", self.summary(), indent=1)

    def summary(self) -> dict[str, Any]:
        return {
            "target": self.target.id,
            "scale": self.scale,
            "command": self.command,
            "date": self.date,
            "version": self.version,
            "seconds": round(self.seconds, 1),
            "verdict": self.verdict,
            "sentence": self.sentence,
            "checks": [_check(answer) for answer in self.answers],
            "runs": [{**_run(job, outcome), "values": self._values(outcome)} for job, outcome in self.findings],
        }

    def _values(self, outcome: Outcome) -> dict[str, dict[str, list[float]]]:
        """Of every repeat, what the checks compare."""
        found: dict[str, dict[str, list[float]]] = {}
        for check in self.target.checks:
            track = outcome.tracks.get(check.metric)
            if track is not None and track.repeats:
                found.setdefault(check.metric, {})[check.when] = [float(f"{v:.7g}") for v in track.repeats[check.when]]
        return found


def _belongs(row: Mapping[str, str], places: Mapping[str, Any], column: str) -> bool:
    """Whether every column of a published row that a run has too says the same."""
    return all(_same(text, places[name]) for name, text in row.items() if name != column and name in places)


def _same(text: str, value: Any) -> bool:
    return float(text) == float(value) if isinstance(value, int | float) else text == str(value)


def _rows(outcome: Outcome, metric: str) -> list[list[Any]]:
    track = outcome.tracks[metric]
    columns = zip(outcome.rounds, track.mean, track.deviation, track.least, track.most, strict=True)
    return [[k, metric, *(f"{value:.6g}" for value in values), outcome.repeats] for k, *values in columns]


def _check(answer: CheckResult) -> dict[str, Any]:
    """Differences and trends with their standard errors; none where one run cannot tell it."""
    found = [
        {"difference": each.estimate.mean, "error": _finite(each.estimate.error), "told": each.told}
        for each in answer.comparisons
    ]
    counts = {"holds": answer.holds, "fails": answer.fails, "of": answer.of}
    return {"says": answer.says, **counts, "asserted": answer.asserted, "variant": answer.variant, "comparisons": found}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _run(job: Job, outcome: Outcome) -> dict[str, Any]:
    return {
        "curve": job.curve,
        "fingerprint": job.fingerprint,
        "cell": {axis: point.value for axis, point in job.place.items()},
        "epsilon": outcome.epsilon,
        "delta": outcome.delta,
        "relation": outcome.relation,
        "claimed": outcome.claimed,
        "private": outcome.private,
        "repeats": outcome.repeats,
        "random": outcome.random,
        "seconds": round(outcome.seconds, 2),
    }


def load(target: Target, scale: str, folder: Path) -> Results | None:
    """What was written, read back; None where nothing was, or the file declares other runs by now."""
    facts, table = folder / f"{target.id}.json", folder / f"{target.id}.csv"
    if not (facts.exists() and table.exists()):
        return None
    try:
        summary, tracks = read_json(facts, "summary"), _tracks(table)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"results of {target.id} in {str(folder)!r} cannot be read: {error}.") from None
    findings = []
    told = {(run["curve"], tuple(map(str, run["cell"].values()))): run for run in summary["runs"]}
    for job in target.jobs(scale):
        run = told.get((job.curve, tuple(str(point.value) for point in job.place.values())))
        mine = tracks.get((job.curve, tuple(point.label for point in job.place.values())))
        if run is None or mine is None or run["fingerprint"] != job.fingerprint:
            return None
        rounds = max((key for key, _ in mine.values()), key=len)
        singles = {metric: _singles(values) for metric, values in run.get("values", {}).items()}
        told_of = ("repeats", "epsilon", "private", "delta", "relation", "claimed", "seconds")
        outcome = Outcome(
            rounds=rounds,
            tracks={name: replace(track, repeats=singles.get(name, {})) for name, (_, track) in mine.items()},
            random=run.get("random", run["private"]),  # 0.1.0 did not say
            **{key: run[key] for key in told_of},
        )
        findings.append((job, kept(outcome, target.metrics)))
    said = (summary[key] for key in ("command", "date", "version", "seconds"))
    return Results(target, scale, tuple(findings), *said)


def _singles(values: Mapping[str, Sequence[float]]) -> dict[str, tuple[float, ...]]:
    return {when: tuple(map(float, each)) for when, each in values.items()}


Tracks = dict[tuple[str, tuple[str, ...]], dict[str, tuple[tuple[int, ...], Track]]]


def _tracks(path: Path) -> Tracks:
    """By curve and cell, by metric: rounds and their track."""
    gathered: dict[tuple[str, tuple[str, ...]], dict[str, list[Sequence[str]]]] = {}
    header, *rows = list(csv.reader(read_text(path, "table", limit=_limits.TABLE).splitlines()))
    width = len(header) - len(COLUMNS)
    for curve, *rest in rows:
        cell = tuple(text for text in rest[: width - 1] if text)
        round, metric, *values = rest[width - 1 :]
        gathered.setdefault((curve, cell), {}).setdefault(metric, []).append((round, *values))
    found: Tracks = {}
    for key, metrics in gathered.items():
        for metric, lines in metrics.items():
            columns = list(zip(*lines, strict=True))
            mean, deviation, least, most = (tuple(map(float, column)) for column in columns[1:5])
            track = Track(mean, deviation, least, most)
            found.setdefault(key, {})[metric] = (tuple(map(int, columns[0])), track)
    return found
