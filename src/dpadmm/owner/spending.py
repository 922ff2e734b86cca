"""What a run would cost an owner, and what its ledger has spent: for the owner, in numbers and in a sentence.

Three kinds of epsilon are told apart. A run's own guarantee is that of its events, which are fixed at joining. The cap
is the owner's policy, and guaranteed for all runs together. The amount spent so far is no guarantee by itself, since
runs are chosen by somebody who has seen what earlier ones released.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from dpadmm.admm.algorithm import Plan
from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.privacy.filter import Cap, Charge
from dpadmm.privacy.ledger.protocol import Run
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.units import Unit
from dpadmm.spec import resolve

MEANING = {
    "policy_epsilon": "the cap: guaranteed for everything that is ever released, however runs are chosen",
    "epsilon_spent": "the amount so far: not a guarantee by itself",
    "epsilon_with_held": "the amount once open runs are complete: not a guarantee by itself",
    "epsilon_left": "the largest Gaussian run that the cap still permits",
    "runs.epsilon": "the run's own guarantee: its events are fixed at joining",
}
"""What the numbers of a summary are."""


def projected(run: str, agreement: Agreement, plan: Plan, policy: Policy, ledger: SqliteLedger) -> dict[str, Any]:
    """What a run would release, what that costs, and what is left afterwards; `plan` has this owner's row alone."""
    (tally,) = plan.tallies()
    cap, charges = policy.cap, ledger.charges(held=True)
    unit = agreement.unit
    mine = Charge(tally, unit, cap.bound(tally, unit))
    alone, before, after = cap.alone(mine), cap.amount(charges), cap.amount([*charges, mine])
    left = cap.left_after([*charges, mine])
    terms, setting = agreement.run, plan.setting
    loss = resolve.loss_text(terms)
    releases, others = sum(tally.values()), len(agreement.counts) - 1
    sentence = (
        f"Run {run!r} ({terms.algorithm}, loss {loss}) asks you and {others} other(s) for {releases} noisy "
        f"release(s) of {setting.dimension} numbers each. Alone that costs epsilon {alone:.4g} at delta {cap.delta:g} "
        f"({cap.unit}): the run's own guarantee. {ledger.dataset!r} is committed to {before:.4g} of the "
        f"{cap.epsilon:g} you allow, which is what is guaranteed; with this run {after:.4g}, and then the largest "
        f"Gaussian run you can take part in has epsilon {left:.4g}."
    )
    return {
        "run": run,
        "sentence": sentence,
        "releases": releases,
        "epsilon_alone": alone,
        "epsilon_before": before,
        "epsilon_after": after,
        "epsilon_left": left,
        "epsilon_allowed": cap.epsilon,
        "delta": cap.delta,
        "owners": list(agreement.owners),
        "stragglers": agreement.stragglers,
        "terms": agreement.describe(),
    }


def ledger_summary(ledger: SqliteLedger, delta: float, policy: Policy | None) -> dict[str, Any]:
    """What a ledger has spent, holds for open runs and refused, at a delta; with a policy, what that leaves.

    Totals are for the unit that the policy protects; without one, for a record under the relation the ledger was made
    for.
    """
    if policy is not None and policy.dataset != ledger.dataset:
        raise InputError(f"the policy is for data set {policy.dataset!r}, the ledger for {ledger.dataset!r}.")
    cap = Cap(1.0, delta, Unit(1, ledger.relation)) if policy is None else policy.cap
    shown, spent, runs = replace(cap, delta=delta), ledger.spent(), ledger.runs()
    left = None if policy is None else cap.left_after(ledger.charges(held=True))
    return {
        "ledger": str(ledger.path),
        "dataset": ledger.dataset,
        "relation": str(cap.unit.relation),
        "records_per_person": cap.unit.records,
        "locked": ledger.lock_reason or None,
        "delta": delta,
        "epsilon_spent": _finite(ledger.amount(shown)),
        "epsilon_with_held": _finite(ledger.amount(shown, held=True)),
        "policy_epsilon": None if policy is None else policy.epsilon,
        "policy_delta": None if policy is None else policy.delta,
        "epsilon_left": left,
        "claimed_by": sorted({run.account.claimed for run in runs.values()} - {""}),
        "meaning": MEANING,
        "releases": sum(spent.values()),
        "runs": [_run(run, shown) for run in runs.values()],
        "refusals": [{"reason": reason, "times": times, "last": last} for reason, times, last in ledger.refusals()],
    }


def _run(run: Run, cap: Cap) -> dict[str, Any]:
    lost, account = not run.terms, run.account
    return {
        "run": run.name,
        "algorithm": None if lost else run.terms.get("algorithm"),
        "state": "lost" if lost else "finished" if run.finished else "open",
        "holds": run.holds and not run.finished,
        "releases": sum(run.spent.values()),
        "agreed": sum(run.agreed.values()),
        "epsilon": _finite(cap.alone(Charge(run.agreed, account.unit, claimed=account.claimed))),
        "delta": cap.delta,
        "records_per_person": account.unit.records,
        "relation": str(account.unit.relation),
        "enters": "alone" if account.alone else "as a whole" if account.whole else "release by release",
        "claimed_by": account.claimed or None,
    }


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None
