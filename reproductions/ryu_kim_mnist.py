"""Ryu & Kim's federated classification (001, section 6.2) on MNIST, and their comparison at equal budgets.

    DPADMM_DATA=folder python reproductions/ryu_kim_mnist.py [--rounds 500] [--updates 1] [--repeats 1] [--json]

The paper shows figures without numbers: test error of ObjG against OutG for a per-step epsilon of 0.05 to 1, T = 5000,
box 0.1, rho of (E.1), 10 equal agents. Table 1 runs these settings with fewer rounds, and prints beside each the total
that the paper's theorem 4.6 would claim and the true one. Rows are clipped to norm 10, which the paper does not do: it
takes sensitivities from the records at hand. Table 2 gives every algorithm the same total budget. `out-g, unit gain` is
output noise as loud as the gradient's, what AUDIT B4 finds in the paper's power flow; `out-g` is scaled to the step.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

import dpadmm

SETTING: dict[str, Any] = {
    "source": "mnist", "agents": 10, "loss": "softmax", "penalty": "none", "strength": 0.0, "set": "box:0.1",
    "precision": "float32", "delta": 1e-6,
}  # fmt: skip
PUBLIC: dict[str, Any] = {"rho_schedule": "balanced", "schedule": "free-5.3"}
EQUAL: tuple[tuple[str, dict[str, Any]], ...] = (
    ("obj-g", {"algorithm": "obj-g"}),
    ("obj-g, whole space", {"algorithm": "obj-g", "set": "whole"}),
    ("out-g", {"algorithm": "out-g"}),
    ("out-g, unit gain", {"algorithm": "out-g", "unit_gain": True}),
    ("obj-l", {"algorithm": "obj-l"}),
    ("out-l", {"algorithm": "out-l"}),
    ("obj-g, balanced rho, free theta", {"algorithm": "obj-g", **PUBLIC}),
    ("out-g, balanced rho, free theta", {"algorithm": "out-g", **PUBLIC}),
    ("obj-g, the same, E = 4, 25 rounds", {"algorithm": "obj-g", "updates": 4, "rounds": 25, **PUBLIC}),
)


def row(name: str, **changes: Any) -> dict[str, Any]:
    """One line of a table; repeats differ in split and noise."""
    repeats = changes.pop("repeats")
    found = [dpadmm.train(**{**SETTING, **changes}, measure_every=10_000, seed=seed) for seed in range(repeats)]
    errors = [result.history.last("test_error")[0] for result in found]
    summary = found[0].summary()
    return {
        "name": name,
        "test_error": float(np.mean(errors)),
        "spread": float(np.std(errors, ddof=1)) if repeats > 1 else None,
        **{key: summary[key] for key in ("train_loss", "claimed_epsilon", "epsilon", "accountant", "seconds")},
    }


def shown(rows: list[dict[str, Any]], title: str, as_json: bool) -> None:
    if as_json:
        return
    print(f"\n{title}\n{'':38}{'test error':>12}{'loss':>9}{'claimed':>9}{'true epsilon':>14}")
    for entry in rows:
        spread = "" if entry["spread"] is None else f" ± {entry['spread']:.3f}"
        claimed, true = (
            "-" if entry[key] is None else f"{entry[key]:.4g}" for key in ("claimed_epsilon", "epsilon")
        )  # fmt: skip
        error = f"{entry['test_error']:.4f}{spread}"
        print(f"{entry['name']:38}{error:>12}{entry['train_loss']:>9.4f}{claimed:>9}{true:>14}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    for name, default in (("rounds", 500), ("updates", 1), ("repeats", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    try:
        paper = [
            row(f"{algorithm}, {epsilon:g} a step", algorithm=algorithm, epsilon=epsilon, paper_noise=True,
                rounds=given.rounds, updates=given.updates, repeats=given.repeats)
            for epsilon in (0.05, 0.1, 0.5, 1.0)
            for algorithm in ("obj-g", "out-g")
        ]  # fmt: skip
        silent = {"algorithm": "local-updates", "rounds": given.rounds, "updates": given.updates}
        paper.append(row("no noise", repeats=1, **silent))
        shown(paper, f"Table 1: the paper's settings, {given.rounds} rounds for its 5,000", given.json)
        equal = [
            row(name, **{"epsilon": 1.0, "rounds": 100, **changes}, repeats=given.repeats) for name, changes in EQUAL
        ]
        shown(equal, "Table 2: the same total budget (1, 1e-6) for all, 100 rounds", given.json)
    except dpadmm.InputError as error:
        sys.exit(str(error))
    if given.json:
        print(json.dumps({"paper": paper, "equal_budget": equal}))


if __name__ == "__main__":
    main()
