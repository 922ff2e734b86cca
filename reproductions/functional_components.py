"""Median regression on curves: private principal components or a public basis, end to end at the same total budget.

    python reproductions/functional_components.py [--repeats 20] [--data-dir DIR]

Paper 004 takes eigenfunctions from the curves without counting what that gives away. Here they cost a share of the
budget (AUDIT B8): every agent's second moments in a public B-spline basis of 16 functions, released once with noise.
The other way is to stay in a public basis. 100 rounds; the simulation with 20 agents at delta 1e-5, Tecator (if its
file is there) with 4 agents of 43 spectra, intercept, radius 100, at delta 1e-3. Repeats differ in all noise.
"""

from __future__ import annotations

import argparse
from typing import Any

import dpadmm

WAYS: dict[str, dict[str, Any]] = {
    "cosine, 10": {"basis": "cosine:10"},
    "cosine, 5": {"basis": "cosine:5"},
    "B-splines, 16": {"basis": "bspline:16"},
    "components, 5, a tenth": {"basis": "bspline:16", "components": "5"},
    "components, as many as stand out, a tenth": {"basis": "bspline:16", "components": "noise"},
    "components, as many as stand out, three tenths": {
        "basis": "bspline:16", "components": "noise", "components_share": 0.3,
    },
}  # fmt: skip


def table(title: str, epsilons: tuple[float, ...], metric: str, **terms: Any) -> None:
    print(f"\n{title}: {metric}")
    print(f"{'':48}" + "".join(f"{'not private' if e is None else f'epsilon {e:g}':>24}" for e in (*epsilons, None)))
    for name, way in WAYS.items():
        cells = []
        for epsilon in (*epsilons, None):
            silent = {"algorithm": "linearised-admm", "delta": None, "repeats": 1}
            budget = silent if epsilon is None else {"algorithm": "fdp-admm", "epsilon": epsilon}
            result = dpadmm.train(loss="quantile", tau=(0.5,), rounds=100, measure_every=100, **(terms | way | budget))
            found, kept = result.history.last(metric), result.components
            count = "" if kept is None else f" K={kept.rotation.shape[1]}"
            spread = f" ± {found.std(ddof=1):.4f}" if found.size > 1 else ""
            cells.append(f"{found.mean():.4f}{spread}{count}")
        print(f"{name:48}" + "".join(f"{cell:>24}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--data-dir", default=None, help="where Tecator's file is; else DPADMM_DATA")
    asked = parser.parse_args()
    simulated = {"source": "functional-sim", "agents": 20, "delta": 1e-5, "radius": 20.0, "repeats": asked.repeats}
    table("simulation", (0.3, 1.0, 4.0), "mise", **simulated)
    spectra = {
        "source": "tecator", "data_dir": asked.data_dir, "agents": 4, "delta": 1e-3, "intercept": True, "radius": 100.0,
        "repeats": asked.repeats,
    }  # fmt: skip
    try:
        table("Tecator", (1.0, 8.0, 64.0), "test_error", **spectra)
    except dpadmm.InputError as error:
        print(f"\nTecator: skipped. {error}")


if __name__ == "__main__":
    main()
