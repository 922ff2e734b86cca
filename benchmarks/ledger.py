"""What a release waits for its ledger, and what an owner loses across runs.

The wait: a debit on disk, with the line of the log outside the file, against the way it was done before there was such
a log (a rollback journal, and no line). Both in one run, in turns; lower is better.

The loss: what the filter costs across runs, against the composition of events as if they had been fixed beforehand.

The latter is not a guarantee where runs are chosen by somebody who has seen earlier ones. Ten runs, each with a
guarantee of its own of epsilon 1 at delta 1e-5; lower totals are better.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.calibration import smallest
from dpadmm.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    GaussianObjectiveDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    PureDpEvent,
    Relation,
    Tally,
)
from dpadmm.privacy.filter import Cap, Charge
from dpadmm.privacy.ledger.protocol import Step
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.units import Unit

EPSILON, DELTA, UNIT = 1.0, 1e-5, Unit(1, Relation.ZERO_OUT)
Run = dict[DpEvent, int]


def runs() -> dict[str, Run]:
    """One run of each kind, with noise for epsilon 1 at delta 1e-5."""

    def poisson(noise: float, chance: float, steps: int) -> Run:
        return {PoissonSampledDpEvent(chance, GaussianDpEvent(noise)): steps}

    return {
        "Gaussian": {GaussianDpEvent(1.0 / gaussian.mu(EPSILON, DELTA)): 1},
        "Poisson, q = 0.05, 200 steps": _for_budget(lambda noise: poisson(noise, 0.05, 200), 0.5, 8.0),
        "Poisson, q = 0.01, 2000 steps": _for_budget(lambda noise: poisson(noise, 0.01, 2000), 0.5, 8.0),
        "Laplace, 20 steps": _for_budget(lambda noise: {LaplaceDpEvent(noise): 20}, 1.0, 100.0),
        "exact minimisers, 20 steps": _for_budget(
            lambda noise: {GaussianObjectiveDpEvent(noise, 0.05, True): 20}, 1.0, 100.0
        ),
        "pure, 1 release": {PureDpEvent(EPSILON): 1},
    }  # fmt: skip


def _for_budget(make: Callable[[float], Run], low: float, high: float) -> Run:
    level = smallest(lambda noise: best(make(noise), DELTA, UNIT.relation).epsilon, EPSILON, low, high, 1e-3)
    return make(level)


def total(tallies: list[Tally]) -> Run:
    """All events together."""
    found: Counter[DpEvent] = Counter()
    for tally in tallies:
        found.update(tally)
    return dict(found)


def needed(tallies: list[Tally]) -> float:
    """The epsilon of the smallest cap that permits these runs, one after the other."""

    def permitted(epsilon: float) -> bool:
        cap = Cap(epsilon, DELTA, UNIT)
        charges = [Charge(tally, UNIT, cap.bound(tally, UNIT)) for tally in tallies]
        return cap.within(cap.total(charges))

    low, high = 0.1, 30.0
    while high - low > 2e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if permitted(middle) else (middle, high)
    return high


def wait(folder: Path, turns: int = 20, debits: int = 25) -> tuple[float, float, float]:
    """Milliseconds that a debit waits, before and now, and the median of the ratios of neighbouring turns."""
    event, cap = GaussianDpEvent(100.0), Cap(3.0, 1e-6)
    ledgers = []
    for name in ("before", "now"):
        ledger = SqliteLedger.create(folder / name, name, "d" * 64, Relation.REPLACE, folder / "state")
        if name == "before":
            ledger._connection.execute("PRAGMA journal_mode = DELETE")
            ledger.recorded = False  # type: ignore[misc]
        ledger.reserve("run", "terms", [{event: turns * debits}], cap, Unit(1, Relation.REPLACE), {})
        ledgers.append(ledger)
    value = np.zeros((1, 100))
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns):
        for ledger, found in zip(ledgers, times, strict=True):
            began = time.perf_counter()
            for number in range(turn * debits, (turn + 1) * debits):
                place = ledger.position("run")
                ledger.commit(Step("run", str(number), "inputs", (event,), value, {"dual": value}, place), cap)
            found.append((time.perf_counter() - began) / debits * 1e3)
    ratio = statistics.median(now / before for before, now in zip(*times, strict=True))
    return statistics.median(times[0]), statistics.median(times[1]), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="on the disk that is measured; by default the one we are on")
    parser.add_argument("--wait-only", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder or Path.cwd()) as folder:
        before, now, ratio = wait(Path(folder))
    Console().print(f"a debit on disk: {before:.2f} ms before, {now:.2f} ms now with its log; ratio {ratio:.2f}")
    if given.wait_only:
        return
    made = runs()
    plain = made["Gaussian"]
    table = Table("ten runs", "as if fixed beforehand (not valid)", "smallest cap")
    for name, run in made.items():
        for label, tallies in ((f"ten: {name}", [run] * 10), (f"five Gaussian, five: {name}", [plain] * 5 + [run] * 5)):
            if run is plain and label.startswith("five"):
                continue
            fixed = best(total(tallies), DELTA, UNIT.relation).epsilon
            table.add_row(label, f"{fixed:.3f}", f"{needed(tallies):.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
