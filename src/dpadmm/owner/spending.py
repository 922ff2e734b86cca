"""What a run would cost an owner, and what its ledger has spent: for the owner, in numbers and in a sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dpadmm.admm.algorithm import Plan
from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.privacy.accounting import best
from dpadmm.privacy.ledger.protocol import Run
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.spec import resolve


def projected(run: str, agreement: Agreement, plan: Plan, policy: Policy, ledger: SqliteLedger) -> dict[str, Any]:
    """What a run would release, what that costs, and what is left afterwards; `plan` has this owner's row alone."""
    (tally,) = plan.tallies()
    committed, delta = ledger.committed(), policy.delta
    both = {event: committed.get(event, 0) + tally.get(event, 0) for event in committed.keys() | tally.keys()}
    alone, before, after = (best(each, delta, ledger.relation).epsilon for each in (tally, committed, both))
    terms, setting = agreement.run, plan.setting
    loss = resolve.loss_text(terms)
    releases, others = sum(tally.values()), len(agreement.counts) - 1
    sentence = (
        f"Run {run!r} ({terms.algorithm}, loss {loss}) asks you and {others} other(s) for {releases} noisy "
        f"release(s) of {setting.dimension} numbers each. Alone that costs epsilon {alone:.4g} at delta {delta:g} "
        f"({ledger.relation} relation). {ledger.dataset!r} is committed to {before:.4g} of the {policy.epsilon:g} you "
        f"allow; with this run {after:.4g}, which leaves {max(0.0, policy.epsilon - after):.4g}."
    )
    return {
        "run": run,
        "sentence": sentence,
        "releases": releases,
        "epsilon_alone": alone,
        "epsilon_before": before,
        "epsilon_after": after,
        "epsilon_allowed": policy.epsilon,
        "delta": delta,
        "owners": list(agreement.owners),
        "stragglers": agreement.stragglers,
        "terms": agreement.describe(),
    }


def ledger_summary(ledger: SqliteLedger, delta: float, policy: Policy | None) -> dict[str, Any]:
    """What a ledger has spent, holds for open runs and refused, at a delta; with a policy, what that leaves."""
    """What a ledger has spent, holds and refused, at a delta; with a policy, what that leaves."""

    def epsilon(tally: Mapping[Any, int]) -> float | None:
        total = best(tally, delta, ledger.relation).epsilon
        return total if math.isfinite(total) else None

    spent, committed = epsilon(ledger.spent()), epsilon(ledger.committed())
    allowed = left = None
    if policy is not None:
        if policy.dataset != ledger.dataset:
            raise InputError(f"the policy is for data set {policy.dataset!r}, the ledger for {ledger.dataset!r}.")
        total = best(ledger.committed(), policy.delta, ledger.relation).epsilon
        allowed, left = policy.epsilon, max(0.0, policy.epsilon - total)
    return {
        "ledger": str(ledger.path),
        "dataset": ledger.dataset,
        "relation": str(ledger.relation),
        "locked": ledger.lock_reason or None,
        "delta": delta,
        "epsilon_spent": spent,
        "epsilon_with_held": committed,
        "accountant": best(ledger.spent(), delta, ledger.relation).accountant,
        "policy_epsilon": allowed,
        "policy_delta": None if policy is None else policy.delta,
        "epsilon_left": left,
        "releases": sum(ledger.spent().values()),
        "runs": [_run(run, delta, epsilon(run.spent)) for run in ledger.runs().values()],
        "refusals": [{"reason": reason, "times": times, "last": last} for reason, times, last in ledger.refusals()],
    }


def _run(run: Run, delta: float, epsilon: float | None) -> dict[str, Any]:
    lost = not run.terms
    return {
        "run": run.name,
        "algorithm": None if lost else run.terms.get("algorithm"),
        "state": "lost" if lost else "finished" if run.finished else "open",
        "holds": run.holds and not run.finished,
        "releases": sum(run.spent.values()),
        "agreed": sum(run.agreed.values()),
        "epsilon": epsilon,
        "delta": delta,
    }
