"""A zone's cone programme of case118, against a parametrised CVXPY problem with Clarabel, in one run.

    python benchmarks/power_flow.py --json          (needs: pip install 'dpadmm[power]' cvxpy)

Both solve the same sequence: what zone 1 of 3 was asked in 50 consecutive exact rounds (theory 4.3), and, apart from
that, in 50 linearised steps, whose quadratic term differs from step to step. CVXPY's problem is written once with
parameters for what changes, as its manual advises. `error` is the largest distance of our answer to a tight solution,
CVXPY's beside it. Then whole runs: 100 rounds of case118 in three zones, and of case1354 in ten where DPADMM_DATA
names a folder with PGLib's file.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import cvxpy
import numpy as np
import scs
from scipy.sparse import csc_array, csc_matrix, triu

from dpadmm.applications.power_flow import Zone, choose, decompose, load
from dpadmm.applications.power_flow.programme import Programme, condense
from dpadmm.applications.power_flow.rounds import run
from dpadmm.applications.power_flow.terms import Terms
from timing import arguments, show


class Asked(Programme):
    """Writes down what it is asked."""

    log: list[tuple[csc_array, np.ndarray]] = []  # noqa: RUF012 - one run at a time

    def minimise(self, quadratic: csc_array, linear: np.ndarray, *more: Any) -> np.ndarray:
        if self.name.endswith("zone 1"):
            Asked.log.append((quadratic, linear))
        return super().minimise(quadratic, linear, *more)


def asked(zones: Any, terms: Terms) -> list[tuple[csc_array, np.ndarray]]:
    from dpadmm.applications.power_flow import rounds

    Asked.log.clear()
    plain, rounds.Programme = rounds.Programme, Asked  # type: ignore[misc]
    try:
        run(zones, terms)
    finally:
        rounds.Programme = plain  # type: ignore[misc]
    return Asked.log[-50:]


def in_cvxpy(zone: Zone, quadratic: csc_array, diagonal: bool) -> tuple[Any, Any, Any, Any]:
    """The zone's set in CVXPY's words; the quadratic is fixed, or a diagonal one that is a parameter too."""
    cone, x = zone.relaxation.cone, cvxpy.Variable(zone.members.size)
    linear, roots = cvxpy.Parameter(zone.members.size), cvxpy.Parameter(zone.members.size, nonneg=True)
    slack = cone.limits - cone.rows @ x
    edge, at = cone.zero, cone.zero + cone.nonnegative
    conditions = [slack[:edge] == 0, slack[edge:at] >= 0]
    for size in sorted(set(cone.second_order)):
        count = cone.second_order.count(size)
        block = cvxpy.reshape(slack[at : at + size * count], (size, count), order="F")
        conditions.append(cvxpy.SOC(block[0], block[1:]))
        at += size * count
    bowl = cvxpy.sum_squares(cvxpy.multiply(roots, x)) if diagonal else cvxpy.quad_form(x, cvxpy.psd_wrap(quadratic))
    return cvxpy.Problem(cvxpy.Minimize(0.5 * bowl + linear @ x), conditions), x, linear, roots


def tight(zone: Zone, quadratic: csc_array, linear: np.ndarray) -> np.ndarray:
    """The minimiser to 1e-11, however long it takes."""
    condensed = condense(zone.relaxation)
    cone, lift = condensed.cone, condensed.lift
    data = {
        "P": csc_matrix(triu(lift.T @ quadratic @ lift)),
        "A": csc_matrix(cone.rows),
        "b": cone.limits,
        "c": lift.T @ linear,
    }
    kept = {"z": cone.zero, "l": cone.nonnegative, "q": list(cone.second_order)}
    found = scs.SCS(data, kept, eps_abs=1e-11, eps_rel=1e-11, max_iters=1_000_000, verbose=False).solve()
    assert found["info"]["status"] == "solved"
    return lift @ found["x"]


def compare(zone: Zone, sequence: list[tuple[csc_array, np.ndarray]], diagonal: bool) -> dict[str, float]:
    """Milliseconds of each, the median over the sequence, and how far the answers are off."""
    ours = Programme(zone.relaxation, "benchmark")
    problem, x, linear, roots = in_cvxpy(zone, sequence[-1][0], diagonal)
    times: dict[str, list[float]] = {"ours": [], "cvxpy": []}
    off: dict[str, float] = {"ours": 0.0, "cvxpy": 0.0}
    for place, (quadratic, vector) in enumerate(sequence):
        began = time.perf_counter()
        mine = ours.minimise(quadratic, vector)
        between = time.perf_counter()
        linear.value, roots.value = vector, np.sqrt(quadratic.diagonal())
        problem.solve(solver=cvxpy.CLARABEL, warm_start=True)
        ended = time.perf_counter()
        if place < 5:  # building and the first starts
            continue
        times["ours"].append(between - began)
        times["cvxpy"].append(ended - between)
        if place % 10 == 0:
            exact = tight(zone, quadratic, vector)
            for name, found in (("ours", mine), ("cvxpy", x.value)):
                off[name] = max(off[name], float(np.abs(found - exact).max()))
    return {
        "cvxpy_ratio": float(np.median(times["cvxpy"]) / np.median(times["ours"])),
        **{f"{name}_milliseconds": 1e3 * float(np.median(values)) for name, values in times.items()},
        **{f"{name}_error": value for name, value in off.items()},
    }


def main() -> None:
    given = arguments(__doc__ or "", rounds=100)
    network = load("case118")
    zones = decompose(network, choose(network, 3))
    zone = zones.zones[0]
    found: dict[str, Any] = {}
    exact = compare(zone, asked(zones, Terms("none", rounds=60)), diagonal=False)
    steps = compare(
        zone, asked(zones, Terms("obj-g", rounds=60, epsilon=1.0, delta=1e-2, formulation="eliminated")), diagonal=True
    )
    found |= {"cvxpy_ratio": exact["cvxpy_ratio"], "steps_cvxpy_ratio": steps["cvxpy_ratio"]}
    for terms in (Terms("input", rounds=given.rounds, epsilon=1.0, delta=1e-2),
                  Terms("obj-g", rounds=given.rounds, epsilon=1.0, delta=1e-2)):  # fmt: skip
        found[f"case118_{terms.algorithm}_seconds"] = run(zones, terms).seconds
    large = Path(os.environ.get("DPADMM_DATA", "")) / "pglib-opf" / "pglib_opf_case1354_pegase.m"
    if large.is_file():
        network = load(str(large))
        result = run(decompose(network, choose(network, 10)), Terms("input", rounds=10, epsilon=1.0, delta=1e-2))
        found["case1354_ten_zones_seconds_a_round"] = result.seconds / 10
        found["case1354_residual_after_10"] = result.residual
    show({**found, "cases": [{"solve": "exact round", **exact}, {"solve": "linearised step", **steps}]}, given.json)


if __name__ == "__main__":
    main()
