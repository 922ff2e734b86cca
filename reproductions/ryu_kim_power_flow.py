"""Ryu & Kim's distributed control of power flow (001, section 6.1): their comparison, and an honest one.

    python reproductions/ryu_kim_power_flow.py [--case case14 --case case118] [--seeds 3] [--json]

Table 1 runs the paper's settings: rho 100, eta 1/sqrt(t), T = 100, E = 1, delta 1e-2 of every step, beta 0.01, noise by
its sensitivities (2 beta for Obj, beta for Out), neighbours that differ in one load. The paper shows figures without
numbers; it says that ObjL and ObjG come out below OutL and OutG, far below at small epsilon. Beside each stands what
the paper would claim in all and what is true. Table 2 gives every algorithm the same total budget and true
sensitivities (both loads of a bus may change), and adds noise on the loads once. The objective is the squared load that
is not supplied, summed over zones at their own points; 0 is reached without privacy.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from dpadmm.applications.power_flow import Decomposition, choose, decompose, load
from dpadmm.applications.power_flow.rounds import run
from dpadmm.applications.power_flow.terms import Terms

COMPARED = ("obj-g", "obj-l", "out-g", "out-l")
TOTAL = {"epsilon": 1.0, "delta": 1e-2}


def row(zones: Decomposition, case: str, name: str, seeds: int, **terms: Any) -> dict[str, Any]:
    found = [run(zones, Terms(**terms), seed) for seed in range(seeds)]
    first = found[0]
    return {
        "case": case,
        "name": name,
        "objective": float(np.mean([result.objective for result in found])),
        "spread": float(np.std([result.objective for result in found], ddof=1)) if seeds > 1 else None,
        "residual": float(np.mean([result.residual for result in found])),
        "claimed": first.claimed,
        "epsilon": None if first.guarantee is None else first.guarantee.epsilon,
        "seconds": float(np.mean([result.seconds for result in found])),
    }


def shown(rows: list[dict[str, Any]], title: str) -> None:
    print(f"\n{title}\n{'':30}{'objective':>22}{'residual':>11}{'claimed':>10}{'true epsilon':>14}{'seconds':>9}")
    for entry in rows:
        spread = "" if entry["spread"] is None else f" ± {entry['spread']:.2g}"
        claimed, true = ("-" if entry[key] is None else f"{entry[key]:.4g}" for key in ("claimed", "epsilon"))
        objective = f"{entry['objective']:.4g}{spread}"
        print(
            f"{entry['case']:9}{entry['name']:21}{objective:>22}{entry['residual']:>11.3g}{claimed:>10}{true:>14}"
            f"{entry['seconds']:>9.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    paper, honest = [], []
    for case in given.case or ("case14", "case118"):
        network = load(case)
        zones = decompose(network, choose(network, 3))
        setting = {"paper_noise": True, "steps": "paper", "both_loads": False, "delta": 1e-2}
        for epsilon in (0.05, 0.1, 0.5, 1.0):
            for name in COMPARED:
                terms = {"algorithm": name, "epsilon": epsilon, **setting}
                paper.append(row(zones, case, f"{name}, {epsilon:g} a step", given.seeds, **terms))
        for name in ("input", *COMPARED):
            honest.append(row(zones, case, name, given.seeds, algorithm=name, **TOTAL))
        honest.append(row(zones, case, "none, exact rounds", 1, algorithm="none"))
        honest.append(row(zones, case, "none, gradient steps", 1, algorithm="linearised"))
    if given.json:
        print(json.dumps({"paper": paper, "equal_budget": honest}))
        return
    shown(paper, "Table 1: the paper's noise and settings, 100 rounds")
    shown(honest, "Table 2: the same total (1, 1e-2) for all, true sensitivities, 100 rounds")


if __name__ == "__main__":
    main()
