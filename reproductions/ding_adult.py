"""Ding et al.'s experiment (002, section 5) on Adult, at equal total budgets.

    python reproductions/ding_adult.py [--repeats 20] [--rounds 50] [--updates 20] [--json]

The paper trains on 70 % of Adult with five providers, R = 1e-4 (R |z|², which is strength 2 R / n = 4e-5 here), delta =
1e-3 and epsilon 0.1, 0.5 and 1, and shows figures without numbers. K, S, eta and rho it does not give. The first table
is its own algorithm with its own noise (theorem 2 with c = 1), beside what that really costs. The others give every
algorithm the same total budget under one relation, zero-out. rho is 0.01, and 0.1 for dvp: the better one of these two,
by looking. Repeats differ in noise and in mini-batches.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import dpadmm

SETTING: dict[str, Any] = {
    "source": "adult", "agents": 5, "test": 0.3, "strength": 4e-5, "rho": 0.01, "measure_every": 100_000,
}  # fmt: skip
EPSILONS = (0.1, 0.5, 1.0)
DELTA = 1e-3


def inner(given: argparse.Namespace) -> dict[str, Any]:
    return {"rounds": given.rounds, "updates": given.updates}


def algorithms(given: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    steps = given.rounds * given.updates
    return [
        ("ps-admm (SVRG, B = 64)", {"algorithm": "ps-admm", "batch": 64, **inner(given)}),
        ("ps-admm, B = 1", {"algorithm": "ps-admm", "batch": 1, **inner(given)}),
        ("ps-admm-anchor, B = 64", {"algorithm": "ps-admm-anchor", "batch": 64, **inner(given)}),
        ("ps-admm-sgd, B = 64", {"algorithm": "ps-admm-sgd", "batch": 64, **inner(given)}),
        ("ps-admm-full", {"algorithm": "ps-admm-full", **inner(given)}),
        (f"dp-admm, {steps} rounds", {"algorithm": "dp-admm", "rounds": steps}),
        ("dp-admm, 100 rounds", {"algorithm": "dp-admm", "rounds": 100}),
        ("dvp, 20 rounds", {"algorithm": "dvp", "rounds": 20, "rho": 0.1}),
        ("dvp, 5 rounds", {"algorithm": "dvp", "rounds": 5, "rho": 0.1}),
    ]


def row(name: str, **changes: Any) -> dict[str, Any]:
    """One line of a table: mean and standard deviation over repeats."""
    result = dpadmm.train(**{**SETTING, **changes})
    loss, summary = result.history.last("train_loss"), result.summary()
    return {
        "name": name,
        "loss": float(loss.mean()),
        "loss_spread": float(loss.std(ddof=1)) if loss.size > 1 else 0.0,
        "test_error": summary["test_error"],
        "spread": summary["test_error_std"] or 0.0,
        "claimed": summary["claimed_epsilon"],
        "epsilon": summary["epsilon"],
        "seconds": summary["seconds"],
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}\n{'':28}{'training loss':>18}{'test error':>18}{'claimed':>9}{'true epsilon':>14}{'seconds':>9}")
    for found in rows:
        loss = f"{found['loss']:.4f} ± {found['loss_spread']:.4f}"
        error = f"{found['test_error']:.4f} ± {found['spread']:.4f}"
        claimed, true = ("-" if found[key] is None else f"{found[key]:.4g}" for key in ("claimed", "epsilon"))
        print(f"{found['name']:28}{loss:>18}{error:>18}{claimed:>9}{true:>14}{found['seconds']:>9.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true")
    for name, default in (("repeats", 20), ("rounds", 50), ("updates", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    tables: dict[str, list[dict[str, Any]]] = {}

    def table(title: str, entries: list[tuple[str, dict[str, Any]]]) -> None:
        tables[title] = [row(name, **changes) for name, changes in entries]
        if not given.json:
            show(title, tables[title])

    table(
        "The printed noise, c = 1",
        [
            (f"{label}, epsilon {epsilon:g}", {
                **inner(given), **sampled, "epsilon": epsilon, "delta": DELTA, "paper_noise": True,
                "repeats": given.repeats,
            })
            for epsilon in EPSILONS
            for label, sampled in (
                ("as printed", {"algorithm": "ps-admm-paper", "relation": "replace"}),
                ("Poisson, B = 1", {"algorithm": "ps-admm", "batch": 1, "relation": "zero-out"}),
            )
        ],
    )  # fmt: skip
    table(
        "Without noise",
        [
            ("scas-admm, B = 64", {"algorithm": "scas-admm", "batch": 64, **inner(given)}),
            ("scas-admm-paper", {"algorithm": "scas-admm-paper", **inner(given)}),
            ("gradient-admm", {"algorithm": "gradient-admm", **inner(given)}),
            ("admm, 200 rounds", {"algorithm": "admm", "rounds": 200}),
        ],
    )
    for epsilon in EPSILONS:
        total = {"epsilon": epsilon, "delta": DELTA, "relation": "zero-out", "repeats": given.repeats}
        table(f"Total ({epsilon:g}, {DELTA:g})", [(name, {**what, **total}) for name, what in algorithms(given)])
    if given.json:
        print(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()
