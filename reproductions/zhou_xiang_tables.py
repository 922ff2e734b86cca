"""Zhou & Xiang's tables 1 to 6 (004): MISE of FDP-ADMM on the paper's simulation, ours beside theirs.

    python reproductions/zhou_xiang_tables.py [--repeats 100] [--jobs 2] [--variants printed,ours,no-root] [--report]

A table has five quantiles, and budgets (epsilon, delta) of every round; there are three numbers of agents and two
penalties. Every cell is appended to results/zhou_xiang.csv as it is finished, so that an interrupted run goes on.

The paper gives neither L nor K, c_1 or c_w, and not how curves become scores. Chosen once, for all cells: L = 100
rounds; the first K = 10 functions of the simulation's own cosine basis, which is public; c_1 = 1, as in 000, whose
algorithm it is, although scores are longer: they are clipped to 3, and the totals are for that; repeats differ in
noise, over one draw of the data. Cells without noise (epsilon infinite) then come near the paper's.

    printed   noise and steps by the paper's formulas, with c_w = 1.186, the length of the true coefficients
    no-root   the same steps, but the square root left out of sigma, and six times the noise for c_1 = 3: no formula of
              the paper's, only what comes nearest to its tables
    ours      the same (epsilon, delta) of every round, honestly for rows clipped to 3: the check loss's sensitivity
              2 max(tau, 1 - tau) 3 / m, and theorem 3's steps for a public radius of 20
"""

from __future__ import annotations

import argparse
import csv
import math
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpadmm
from dpadmm.datasets.functional import TRUTH
from dpadmm.privacy.calibration import classic_multiplier

HERE = Path(__file__).parent
PUBLISHED, RESULTS = HERE / "published" / "zhou_xiang.csv", HERE / "results" / "zhou_xiang.csv"
ROUNDS, SIZE, BOUND, RECORDS, LAMBDA = 100, 10, 3.0, 100_000, 0.05
C_1, LOUDER = 1.0, 18.0
LENGTH = float(np.linalg.norm(TRUTH))
VARIANTS = ("printed", "ours", "no-root")


class Cell(NamedTuple):
    penalty: str
    agents: int
    tau: float
    epsilon: float  # of a round; infinite: no noise
    delta: float

    def multiplier(self, variant: str) -> float:
        """sigma over the check loss's own sensitivity; the paper's sensitivity is 2 c_1 / m at every level."""
        if math.isinf(self.epsilon):
            return 0.0
        if variant == "ours":
            return classic_multiplier(self.epsilon, self.delta)
        sigma = C_1 * classic_multiplier(self.epsilon, self.delta)
        if variant == "no-root":
            sigma *= LOUDER * math.sqrt(2.0 * math.log(1.25 / self.delta))
        return sigma / (BOUND * max(self.tau, 1.0 - self.tau))

    def radius(self, variant: str) -> float:
        """The radius with which theorem 3's steps are the printed ones, whose c_1 is the bound of rows."""
        if variant == "ours":
            return 20.0
        slope, strength = max(self.tau, 1.0 - self.tau), LAMBDA / self.agents
        unit = 2.0 * slope * BOUND * self.agents / RECORDS
        drawn, believed = (SIZE * (self.multiplier(name) * unit) ** 2 for name in (variant, "printed"))
        radius = LENGTH
        for _ in range(20):  # an l2 penalty's own slope depends on the radius, a little
            kinds = {"l1": (math.sqrt(SIZE), math.sqrt(SIZE)), "l2": (LENGTH, radius)}
            theirs, ours = kinds[self.penalty]
            printed = (C_1 + strength * theirs) ** 2 + believed
            radius = LENGTH * math.sqrt(((slope * BOUND + strength * ours) ** 2 + drawn) / printed)
        return radius

    def run(self, variant: str, repeats: int) -> dict[str, Any]:
        private = not math.isinf(self.epsilon)
        result = dpadmm.train(
            source="functional-sim", basis=f"cosine:{SIZE}", norm_bound=BOUND, tau=(self.tau,), agents=self.agents,
            algorithm="fdp-admm" if private else "linearised-admm", loss="quantile", rho=0.1, rounds=ROUNDS,
            penalty=self.penalty, strength=LAMBDA / self.agents, radius=self.radius(variant), schedule="theorem-3",
            noise_multiplier=self.multiplier(variant) if private else None, delta=self.delta if private else None,
            repeats=repeats if private else 1, measure_every=ROUNDS, test=0.0,
        )  # fmt: skip
        mise = result.history.last("mise")
        return {
            **self._asdict(), "variant": variant, "repeats": mise.size, "mise": float(mise.mean()),
            "deviation": float(mise.std(ddof=1)) if mise.size > 1 else 0.0,
            "total_epsilon": result.summary()["epsilon"], "seconds": round(result.seconds, 2),
        }  # fmt: skip


def published() -> dict[Cell, tuple[int, float]]:
    """The table and the value of every cell."""
    with PUBLISHED.open() as file:
        return {
            Cell(row["penalty"], int(row["agents"]), float(row["tau"]), float(row["epsilon"]), float(row["delta"])): (
                int(row["table"]), float(row["mise"]),
            )
            for row in csv.DictReader(file)
        }  # fmt: skip


def finished() -> dict[tuple[Cell, str], dict[str, Any]]:
    if not RESULTS.exists():
        return {}
    with RESULTS.open() as file:
        return {
            (
                Cell(row["penalty"], int(row["agents"]), float(row["tau"]), float(row["epsilon"]), float(row["delta"])),
                row["variant"],
            ): row
            for row in csv.DictReader(file)
        }


def run(variants: list[str], repeats: int, jobs: int) -> None:
    known = finished()
    left = [(cell, variant) for variant in variants for cell in published() if (cell, variant) not in known]
    RESULTS.parent.mkdir(exist_ok=True)
    with ProcessPoolExecutor(jobs) as pool, RESULTS.open("a", newline="") as file:
        waiting = [pool.submit(cell.run, variant, repeats) for cell, variant in left]
        for number, done in enumerate(as_completed(waiting), 1):
            row = done.result()
            table = csv.DictWriter(file, list(row), lineterminator="\n")
            if file.tell() == 0:
                table.writeheader()
            table.writerow(row)
            file.flush()
            print(f"{number}/{len(left)} {row['variant']}: MISE {row['mise']:.4f}, {row['seconds']} s", flush=True)


def report() -> None:
    """Ours beside theirs, and what they come to in all."""
    theirs, ours = published(), finished()
    for variant in VARIANTS:
        pairs = [
            (value, float(ours[cell, variant]["mise"]))
            for cell, (_, value) in theirs.items()
            if (cell, variant) in ours
        ]
        if pairs:
            logs = np.log([found / value for value, found in pairs])
            lower = sum(found < value for value, found in pairs)
            print(
                f"{variant:8} {len(pairs)} cells: rms log ratio to the paper {np.sqrt((logs**2).mean()):.2f}, mean "
                f"{logs.mean():+.2f}; lower than the paper's in {lower}"
            )
    for table in range(1, 7):
        cells = [cell for cell, (number, _) in theirs.items() if number == table]
        print(f"\nTable {table}: {cells[0].penalty}, M = {cells[0].agents}; each: paper / " + " / ".join(VARIANTS))
        for start in range(0, len(cells), 5):
            row = cells[start : start + 5]
            texts = [
                "/".join(
                    [f"{theirs[cell][1]:.3g}"]
                    + [f"{float(ours[cell, v]['mise']):.3g}" if (cell, v) in ours else "-" for v in VARIANTS]
                )
                for cell in row
            ]
            print(f"{row[0].epsilon:>4g} {row[0].delta:>6g}  " + "  ".join(f"{text:>24}" for text in texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--report", action="store_true", help="print what is there, and run nothing")
    asked = parser.parse_args()
    if not asked.report:
        run(asked.variants.split(","), asked.repeats, asked.jobs)
    report()


if __name__ == "__main__":
    main()
