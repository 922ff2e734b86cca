"""What an agent looks at before it agrees: the owner's policy, the records, whether the numbers can be met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from dpadmm._arrays import BoolArray, IntArray
from dpadmm._fields import from_table
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations import Output
from dpadmm.errors import NOT_ALLOWED, InputError, Refused
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.privacy.ledger.protocol import Ledger
from dpadmm.privacy.mechanisms import SimulatedMechanism
from dpadmm.problems.shards import Shards
from dpadmm.spec import resolve


@dataclass(frozen=True, eq=False)
class Applicant:
    """What an agent brings to the question whether it may join a run.

    Args:
        members: Positions of the agent's rows among the agents of the agreement.
        shards: The agent's records.
        persons: Whose each record is, where several belong to one person.
        policy: What the owner allows today; None in a simulation.
        ledger: What was spent and released.
        simulated: Whether the noise is seeded.
    """

    members: IntArray
    shards: Shards
    persons: Sequence[Any] | None
    policy: Policy | None
    ledger: Ledger
    simulated: bool


def admit(run: str, agreement: Agreement, owner: Applicant) -> tuple[Plan, Shards, Policy | None]:
    """Holds the budget of a run that may be joined, or holds nothing and says why not.

    Args:
        run: The run's name.
        agreement: Its terms, which were checked.
        owner: Who would join it.

    Returns:
        The plan of the agent's rows, the records as the run may use them, and the policy that the run is under.

    Raises:
        Refused: The policy, the budget or the records do not allow these terms.
        InputError: The terms cannot be met.
    """
    plan, under = _considered(run, agreement, owner)
    if under is not None:
        terms = {**agreement.describe(), "policy": asdict(under)}
        held = plan.tallies(), under.cap, agreement.unit
        owner.ledger.reserve(run, agreement.digest, *held, terms, under.reserve)
    return plan, usable_records(plan, owner.shards, owner.persons, agreement.classes), under


def consider(run: str, agreement: Agreement, owner: Applicant) -> None:
    """Asks all that `admit` asks, and holds nothing: before the owner is asked for its approval.

    Args:
        run: The run's name.
        agreement: Its terms, which were checked.
        owner: Who would join it.

    Raises:
        Refused: As `admit`.
        InputError: As `admit`.
    """
    plan, under = _considered(run, agreement, owner)
    if under is not None:
        owner.ledger.check_room(run, agreement.digest, plan.tallies(), under.cap, agreement.unit, under.reserve)


def _considered(run: str, agreement: Agreement, owner: Applicant) -> tuple[Plan, Policy | None]:
    """What policy, records and numbers say to these terms; the budget is not asked yet."""
    under = _policy_of(run, owner.policy, owner.ledger)
    if under is not None:
        check_policy(under.tightened_by(owner.policy), agreement, owner.shards, owner.persons)
    plan = agreement.plan()
    if owner.members.max() >= plan.setting.agents:
        raise Refused(f"the terms are for {plan.setting.agents} agents, and none is number {owner.members.max()}.")
    plan = plan.take(owner.members)
    check_shards(agreement, plan, owner.shards)
    if not owner.simulated:
        check_real(plan)
    return plan, under


def _policy_of(run: str, policy: Policy | None, ledger: Ledger) -> Policy | None:
    """The policy a run is under: that of its joining, also after a restart."""
    terms = ledger.terms(run)
    if policy is None or terms is None:
        return policy
    if "policy" not in terms:
        raise Refused(f"the name {run!r} is taken in this ledger.")
    return from_table(Policy, terms["policy"], "the policy")


def check_parts(
    shards: Shards,
    policy: Policy | None,
    simulated: bool,
    dry_run: bool,
    members: int,
    persons: Sequence[Any] | None,
) -> None:
    """Raises an `InputError` where these cannot be one agent: a policy is one real owner's, and seeds are not."""
    if policy is None and not simulated:
        raise InputError("an agent without a policy is for simulations; real releases need one.")
    if policy is not None and simulated and not dry_run:
        raise InputError("seeded noise protects nobody: an agent with a policy takes the system's randomness only.")
    if members != shards.agents:
        raise InputError(f"{members} members for {shards.agents} shards: name one position for each.")
    if policy is not None and shards.agents != 1:
        raise InputError(f"an agent with a policy answers for one owner, not for {shards.agents}.")
    if persons is not None and len(persons) != shards.counts.sum():
        raise InputError(f"{len(persons)} persons for {shards.counts.sum()} records: name one for each record.")


def usable_records(
    plan: Plan, shards: Shards, persons: Sequence[Any] | None = None, classes: int | None = None
) -> Shards:
    """The records as a run may use them, by the loss that its terms name, whatever they were made with.

    A record whose row is no row of integers within the bound, or whose target is not valid for the loss, contributes
    zero. So does a record of a person who has more of them than the terms protect together (the first ones count), and
    one of nobody known.
    Nothing here is an error: an owner takes part whatever its records are.

    Args:
        plan: Of this agent's rows.
        shards: Its records.
        persons: Whose each record is, where several belong to one person.
        classes: How many the terms have; None: as many as a model has columns.

    Returns:
        Shards whose every record obeys the bounds that the lemmas use.
    """
    setting = plan.setting
    known = max(2, setting.dimension // setting.columns) if classes is None else classes
    admit = partial(setting.problem.loss.admit, classes=known)
    return shards.enforced(admit, None if persons is None else _first_of_each(persons, setting.unit_size))


def _first_of_each(persons: Sequence[Any], most: int) -> BoolArray:
    """Which records are among the first of their person; a record of nobody known is none.

    So a person's records decide which of them count, and no one else's. An identifier is a text, bytes or a whole
    number; whatever else stands in its place names nobody.
    """
    seen: Counter[str | bytes | int] = Counter()
    found = np.zeros(len(persons), dtype=np.bool_)
    for place, person in enumerate(persons):
        key = person.item() if isinstance(person, np.generic) else person
        if type(key) in (str, bytes, int) and key not in ("", b""):
            seen[key] += 1
            found[place] = seen[key] <= most
    return found


def check_policy(policy: Policy, agreement: Agreement, shards: Shards, persons: Sequence[Any] | None) -> None:
    """Raises `Refused` where an owner's policy does not allow these terms over these records."""
    reason = _against_policy(policy, agreement, shards, persons)
    if reason is not None:
        raise Refused(reason, told=NOT_ALLOWED)


def _against_policy(policy: Policy, agreement: Agreement, shards: Shards, persons: Sequence[Any] | None) -> str | None:
    """What a policy does not allow of these terms; None if nothing."""
    terms = agreement.run
    if str(terms.algorithm) not in policy.algorithms:
        return f"algorithm {terms.algorithm!r} is not allowed here; {', '.join(policy.algorithms)} are."
    if resolve.loss_text(terms).split(":")[0] not in policy.losses:
        return f"loss {resolve.loss_text(terms)!r} is not allowed here; {', '.join(policy.losses)} are."
    if terms.relation != policy.relation:
        return f"relation {terms.relation!r} is not the {policy.relation!r} that this owner accounts by."
    if terms.clip > policy.norm_bound:
        return f"norm bound {terms.clip:g} is above the {policy.norm_bound:g} that is allowed here."
    if shards.counts.min() < policy.smallest_count:
        return f"there are fewer than the {policy.smallest_count} records that this owner takes part with."
    if agreement.records_per_person < policy.records_per_person:
        return (
            f"the terms protect {agreement.records_per_person} record(s) of a person, this owner's policy "
            f"{policy.records_per_person}."
        )
    if persons is None and policy.records_per_person > 1:
        return "a person may have several records here, and they are not grouped by person."
    return None


def check_shards(agreement: Agreement, plan: Plan, shards: Shards) -> None:
    """Raises `Refused` where the records are not those that the terms speak of."""
    if plan.setting.problem.loss.dimension(shards.width, agreement.classes) != plan.setting.dimension:
        raise Refused(f"the terms are for {agreement.width} columns; the records have {shards.width}.")
    if not np.array_equal(plan.setting.counts, shards.counts):
        raise Refused("the record counts in the terms are not those of the records.")
    if shards.row_bound != plan.setting.norm_bound:
        raise Refused("the records were encoded for another norm bound than the terms have.")


def check_real(plan: Plan) -> None:
    """Raises an `InputError` where a simulation may go on and real releases may not."""
    check_noise(plan)
    check_projection(plan)
    check_kinks(plan)


def check_noise(plan: Plan) -> None:
    """Raises an `InputError` where noise is asked for that has no exact discrete form."""
    for noise in (each for phase in plan.noise for each in (phase.course or (phase,))):
        for mechanism in (noise.mechanism, noise.output, noise.anchor, plan.evaluation):
            if isinstance(mechanism, SimulatedMechanism) and mechanism.noise_multiplier.any():
                raise InputError(
                    f"{mechanism.name!r} noise has no exact discrete form, so it is for simulations only; use the "
                    f"mechanism 'gaussian' or 'laplace'."
                )


def check_projection(plan: Plan) -> None:
    """Raises an `InputError` where a solver projects private values and noise comes after.

    Whether such a projection succeeds can depend on the records, and a refusal costs nothing. Projections by formula
    always succeed; of noisy values, some point of the set is taken where the projection fails (`project_always`).
    """
    after = any(isinstance(phase.perturbation, Output) for phase in plan.algorithm.phases)
    if after and plan.setting.problem.domain.tolerance > 0.0:
        raise InputError(
            f"noise on the output needs a set whose projection is a formula, and {plan.setting.problem.domain.name!r} "
            f"is not one; use a recipe that perturbs the gradient, such as 'obj-g'."
        )


def check_kinks(plan: Plan) -> None:
    """Raises an `InputError` where a loss with a kink would have to be minimised exactly.

    How far the kink must be sharpened until a minimiser is proved depends on the records, and so may whether it
    succeeds; see above. Simulations may.
    """
    exact = any(phase.solver.reads_records and not phase.solver.first_order for phase in plan.algorithm.phases)
    if exact and plan.setting.problem.loss.curvature_bound(plan.setting.norm_bound) is None:
        raise InputError(
            f"exact solves of loss {plan.setting.problem.loss.name!r}, which has a kink, are for simulations; use "
            f"'fdp-admm', or a loss without one such as 'smoothed-quantile'."
        )
