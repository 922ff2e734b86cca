"""What is special to 001's figures and table: how loud the noise is that its runs draw."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from dpadmm.reproducing import collection
from dpadmm.reproducing.run import run
from dpadmm.reproducing.target import Job, read

FOLDER = collection.DECLARED
BETA, DELTA = 0.01, 0.01


def flow(**settings: object) -> Job:
    plain = {"case": "case14", "steps": "paper", "both_loads": False, "paper_noise": True, "delta": DELTA, "rounds": 1}
    return Job("power-flow", "", {}, {**plain, **settings})


def test_published_variances_are_the_papers_formulas() -> None:
    gaussian, laplace = 2.0 * math.log(1.25 / DELTA), 2.0
    formulas = {"ObjG": gaussian * 4.0, "OutG": gaussian, "ObjL": laplace * 4.0, "OutL": laplace}
    with (FOLDER / "published" / "ryu_kim_variances.csv").open() as file:
        rows = list(csv.DictReader(file))
    target = read(FOLDER / "001-table-1.toml")
    assert {(job.curve, job.settings["epsilon"]) for job in target.jobs("paper")} == {
        (row["curve"], float(row["epsilon"])) for row in rows
    }
    for row in rows:
        expected = formulas[row["curve"]] * (BETA / float(row["epsilon"])) ** 2
        assert float(row["variance"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("algorithm", ["obj-g", "obj-l", "out-g", "out-l"])
def test_magnitude_and_variance_are_those_of_drawn_noise(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dpadmm.applications.power_flow import releases

    drawn: list[np.ndarray] = []
    add = releases.Protection._noisy

    def remembered(self: releases.Protection, exact: np.ndarray, *given: object) -> np.ndarray:
        noisy = add(self, exact, *given)  # type: ignore[arg-type]
        drawn.append(noisy - exact)
        return noisy

    monkeypatch.setattr(releases.Protection, "_noisy", remembered)
    rounds, updates = 4, 3
    outcome = run(flow(algorithm=algorithm, epsilon=0.5, rounds=rounds, updates=updates))
    entries = np.concatenate(drawn)
    assert len(drawn) == 3 * rounds * updates  # zones
    magnitude = np.abs(entries).sum() / rounds
    # some 2,000 entries: 8 % are more than three standard deviations of either mean
    assert outcome.value("noise_magnitude") == pytest.approx(magnitude, rel=0.08)
    assert outcome.value("noise_variance") == pytest.approx(entries.var(), rel=0.25)


def test_seeds_of_power_flow_follow_one_another() -> None:
    first, second = (run(flow(algorithm="obj-g", epsilon=0.5, seed=seed)).value("objective") for seed in (3, 4))
    both = run(flow(algorithm="obj-g", epsilon=0.5, seed=3, repeats=2))
    assert first != second
    assert both.value("objective") == pytest.approx((first + second) / 2.0)
