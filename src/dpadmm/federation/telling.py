"""A run in an owner's own words: what would be released, what it costs, and what is left afterwards."""

from __future__ import annotations

from typing import Any

from dpadmm.admm.algorithm import Plan
from dpadmm.agreement import Agreement
from dpadmm.policy import Policy
from dpadmm.privacy.accounting import best
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.spec import resolve


def told(run: str, agreement: Agreement, plan: Plan, policy: Policy, ledger: SqliteLedger) -> dict[str, Any]:
    """`plan` has this owner's row alone."""
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
        "missing": agreement.missing,
        "terms": agreement.describe(),
    }
