"""What an agent looks at before it agrees (the owner's policy, the records, whether the numbers can be met), and a run
that it has joined: its terms, the policy it is under, and where it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpadmm._arrays import BoolArray, FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations import Output
from dpadmm.admm.rounds import AgentState, absorb, begin, undo_dual_step
from dpadmm.errors import InputError, Refused
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.protocol import Ledger
from dpadmm.privacy.mechanisms import SimulatedMechanism
from dpadmm.problems.shards import Shards
from dpadmm.spec import resolve
from dpadmm.spec.declare import SKIP, WAIT


@dataclass(eq=False)
class RunState:
    """A run in progress: its terms, the plan of this agent's rows, the records as the run may use them, the policy at
    joining, and where it stands."""

    digest: str
    plan: Plan
    shards: Shards
    agreement: Agreement | None  # None in a simulation, as is the policy
    policy: Policy | None
    state: AgentState
    round: int
    position: int = 0  # the ledger's entry that the state is of

    def recall(self, ledger: Ledger, run: str) -> None:
        """Takes up the run where the ledger left it."""
        self.position = ledger.position(run)
        arrays = ledger.state(run)
        if arrays is not None:
            self.state, self.round = AgentState.from_arrays(arrays), int(arrays["round"])

    @property
    def stragglers(self) -> str:
        """The straggler policy of the terms: what happens in a round that this agent does not answer."""
        return WAIT if self.agreement is None else self.agreement.stragglers

    def release_in_use(self, ledger: Ledger, run: str, last_used: int) -> tuple[int, FloatArray]:
        """The round and value of this agent's release that others go on with, where its last one never reached them.

        `last_used` is the coordinator's word, so it is believed only if the ledger has such a release, and only where
        the terms let a run go on without an owner. Round 0 is the public start.
        """
        kept = ledger.find(run, str(last_used)) if last_used else None
        if self.stragglers == WAIT or last_used >= self.round or (last_used and kept is None):
            raise Refused(f"round {last_used} cannot be the last whose release was used.")
        return last_used, begin(self.plan).released if kept is None else kept.value

    def caught_up(self, round: int, inputs: Sequence[FloatArray], in_use: tuple[int, FloatArray] | None) -> AgentState:
        """The state after every broadcast since its last answer, ready for `round`; inputs have one row per agent.

        An absent agent's dual must move as the coordinator took it to move, by the release that was used in its place.
        `in_use` is that release and its round, where the agent's last answer was lost or came too late: the dual step
        that came with that answer is undone first. The inputs then begin with those of the lost answer.
        """
        plan, state, last_used = self.plan, self.state, self.round
        if in_use is not None:
            lost, *inputs = inputs
            last_used, released = in_use
            state = replace(undo_dual_step(plan, state, lost, self.round), released=released)
            if plan.algorithm.consensus.server_first:
                state = absorb(plan, state, lost, self.round - 1, absent=True)
        for earlier, common in zip(range(self.round, round), inputs, strict=True):
            if self.stragglers == SKIP and earlier > last_used:
                continue  # that mean was made without this agent, and leaves its dual alone
            state = absorb(plan, state, common, earlier, absent=earlier + 1 < round)
        return replace(state, released=self.state.released)


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
    zero. So does a record of a person who has more of them than the terms protect together; the first ones count.
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
    """Which records are among the first of their person; records of nobody known are one person's."""
    seen: Counter[Any] = Counter()
    found = np.empty(len(persons), dtype=np.bool_)
    for place, person in enumerate(persons):
        key = None if person != person else person  # NaN is nobody known, too
        seen[key] += 1
        found[place] = seen[key] <= most
    return found


def check_policy(
    policy: Policy, agreement: Agreement, shards: Shards, persons: Sequence[Any] | None, booked: Relation
) -> None:
    """Raises `Refused` where an owner's policy does not allow these terms over these records.

    `booked` is the relation the owner's ledger accounts by.
    """
    terms = agreement.run
    if str(terms.algorithm) not in policy.algorithms:
        raise Refused(f"algorithm {terms.algorithm!r} is not allowed here; {', '.join(policy.algorithms)} are.")
    if resolve.loss_text(terms).split(":")[0] not in policy.losses:
        raise Refused(f"loss {resolve.loss_text(terms)!r} is not allowed here; {', '.join(policy.losses)} are.")
    if terms.relation != policy.relation or booked != policy.relation:
        raise Refused(f"relation {terms.relation!r} is not the {policy.relation!r} that this owner accounts by.")
    if terms.clip > policy.norm_bound:
        raise Refused(f"norm bound {terms.clip:g} is above the {policy.norm_bound:g} that is allowed here.")
    if shards.counts.min() < policy.smallest_count:
        raise Refused(f"there are fewer than the {policy.smallest_count} records that this owner takes part with.")
    if agreement.records_per_person < policy.records_per_person:
        raise Refused(
            f"the terms protect {agreement.records_per_person} record(s) of a person, this owner's policy "
            f"{policy.records_per_person}."
        )
    if persons is None and policy.records_per_person > 1:
        raise Refused("a person may have several records here, and they are not grouped by person.")


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
    always succeed, and one of noisy values may fail in front of everybody.
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
