"""What a reproduction leaves: numbers, a figure, and a summary that says how they came about.

ID.csv    every kept metric, by curve, cell and round
ID.json   the command, the date, the verdict, and the true total of every run
ID.png    the figure
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
        return verdict(self.answers)

    @property
    def sentence(self) -> str:
        """Whether the paper's claim holds here."""
        found = "; ".join(str(answer) for answer in self.answers)
        return f"The claim {self.verdict}: {found}."

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
            "checks": [asdict(answer) for answer in self.answers],
            "runs": [_run(job, outcome) for job, outcome in self.findings],
        }


def _belongs(row: Mapping[str, str], places: Mapping[str, Any], column: str) -> bool:
    """Whether every column of a published row that a run has too says the same."""
    return all(_same(text, places[name]) for name, text in row.items() if name != column and name in places)


def _same(text: str, value: Any) -> bool:
    return float(text) == float(value) if isinstance(value, int | float) else text == str(value)


def _rows(outcome: Outcome, metric: str) -> list[list[Any]]:
    track = outcome.tracks[metric]
    columns = zip(outcome.rounds, track.mean, track.deviation, track.least, track.most, strict=True)
    return [[k, metric, *(f"{value:.6g}" for value in values), outcome.repeats] for k, *values in columns]


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
        outcome = Outcome(
            rounds, {metric: track for metric, (_, track) in mine.items()},
            *(run[key] for key in ("repeats", "epsilon", "private", "delta", "relation", "claimed", "seconds")),
        )  # fmt: skip
        findings.append((job, kept(outcome, target.metrics)))
    said = (summary[key] for key in ("command", "date", "version", "seconds"))
    return Results(target, scale, tuple(findings), *said)


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
            track = Track(*(tuple(map(float, column)) for column in columns[1:5]))
            found.setdefault(key, {})[metric] = (tuple(map(int, columns[0])), track)
    return found
