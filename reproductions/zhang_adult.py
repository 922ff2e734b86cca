"""Zhang, Khalili & Liu's comparison (003, section VIII) on Adult, at equal total budgets.

    python reproductions/zhang_adult.py [--repeats 10] [--rounds 50] [--json]

The paper's problem weighs records by C/B_i with C = 1750, rho = 0.22, gamma = 0.5, and its penalties are 1 (R-ADMM) and
1.04^k (M-ADMM, MR-ADMM); here everything is divided by C. It shows figures without numbers, on a random graph it does
not give: N = 5 is the complete graph, N = 20 an Erdos-Renyi one. Losses and errors are means over the nodes' own
models, as in the paper; "range" is over repeats, which differ in their noise. P(T) is the bound that the paper prints.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import dpadmm

C = 1750.0
TOPOLOGIES = {5: "complete:5", 20: "erdos-renyi:20:0.3"}
PURE = (12.0, 23.0)  # the totals of alpha = 1 and 2 in the paper's figures
DELTA = 1e-5
PRIVATE = ("dvp-graph", "m-admm-penalty", "private-r-admm", "private-mr-admm")
TWINS = ("decentralised-admm", "m-admm", "r-admm", "mr-admm")


def row(name: str, nodes: int, **changes: Any) -> dict[str, Any]:
    """One line of a table: mean and range over the repeats."""
    result = dpadmm.train(
        source="adult", topology=TOPOLOGIES[nodes], strength=0.22 / (nodes * C), measure_every=100_000,
        **changes,
    )  # fmt: skip
    loss, error = result.history.last("train_loss_local"), result.history.last("test_error_local")
    plan = result.plan
    noise = [
        plan.noise_in(k).mechanism.noise_multiplier * plan.setting.gradient_sensitivity()
        for k in (1, max(1, plan.setting.rounds - 1))
    ]
    spread = plan.noise[0].mechanism.deviation(plan.setting.dimension) * plan.setting.dimension**0.5
    return {
        "name": name,
        "loss": float(loss.mean()), "loss_range": [float(loss.min()), float(loss.max())],
        "test_error": float(error.mean()), "error_range": [float(error.min()), float(error.max())],
        "epsilon": result.summary()["epsilon"],
        "printed": result.claimed,
        "noise": [float(C * spread * each.max()) for each in noise],  # rms length in the paper's units: first, last
        "seconds": result.seconds,
    }  # fmt: skip


def show(title: str, rows: list[dict[str, Any]]) -> None:
    heads = f"{'training loss (range)':>26}{'test error (range)':>26}{'P(T)':>8}{'epsilon':>9}{'noise':>8}"
    print(f"\n{title}\n{'':30}{heads}")
    for found in rows:
        loss = f"{found['loss']:.4f} ({found['loss_range'][0]:.3f}-{found['loss_range'][1]:.3f})"
        error = f"{found['test_error']:.4f} ({found['error_range'][0]:.3f}-{found['error_range'][1]:.3f})"
        printed, true = ("-" if found[key] is None else f"{found[key]:.4g}" for key in ("printed", "epsilon"))
        print(f"{found['name']:30}{loss:>26}{error:>26}{printed:>8}{true:>9}{found['noise'][0]:>8.3g}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    for name, default in (("repeats", 10), ("rounds", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    tables: dict[str, list[dict[str, Any]]] = {}
    for nodes in TOPOLOGIES:

        def table(title: str, entries: list[tuple[str, dict[str, Any]]], nodes: int = nodes) -> None:
            title = f"N = {nodes} ({TOPOLOGIES[nodes]}), {title}"
            tables[title] = [row(name, nodes, rounds=given.rounds, **what) for name, what in entries]
            if not given.json:
                show(title, tables[title])

        table("without noise", [(name, {"algorithm": name}) for name in TWINS])
        for epsilon in PURE:
            total = {"epsilon": epsilon, "repeats": given.repeats}
            table(f"total {epsilon:g}, pure", [(name, {"algorithm": name, **total}) for name in PRIVATE])
        both = []
        for mechanism in ("gamma-norm", "gaussian"):
            total = {"epsilon": 1.0, "delta": DELTA, "mechanism": mechanism, "repeats": given.repeats}
            both += [(f"{name}, {mechanism}", {"algorithm": name, **total}) for name in (*PRIVATE, "pvp-graph")]
        table(f"total (1, {DELTA:g})", both)
    if given.json:
        print(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()
