"""The owner's side: the only code that touches private records in a run.

An `Agent` holds records, a policy and a ledger. It joins a run on agreed terms, projects the cost of the whole run and
refuses it at the start if the budget does not suffice. Then it answers requests. A request carries public inputs and
nothing else: schedule, sensitivity and noise the agent computes from the terms it joined on. Whatever is asked, the
answer is a release that is already debited, or `Refused`, and then nothing was spent.

The same class serves one owner (a ledger on disk, noise from the operating system) and a simulation (a batch of n
agents, a ledger in memory, seeded noise): what is simulated is what is deployed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._fields import from_table
from dpadmm._threads import one_thread_pool
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations.base import RandomBits, Release
from dpadmm.admm.perturbations.evaluation import release_error
from dpadmm.admm.rounds import AgentState, begin, solve_and_perturb
from dpadmm.errors import ConvergenceError, InputError, Refused
from dpadmm.owner.admission import (
    RunState,
    check_parts,
    check_policy,
    check_real,
    check_shards,
    usable_records,
)
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import EVALUATION, Request, is_name
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import Relation, digest
from dpadmm.privacy.ledger.protocol import Ledger, Step, Stored
from dpadmm.privacy.ledger.registry import LedgerRegistry, default_folder
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import Randomness, SeededRandomness, SystemRandomness
from dpadmm.spec.declare import WAIT


class Agent:
    """Answers for its records, and for nothing else.

    Args:
        shards: The records of the batch's rows.
        policy: What the owner allows; None in a simulation.
        ledger: What was spent and released.
        randomness: Where the noise comes from.
        members: Positions of the batch's rows among the agents of the agreement.
        runs: Their repetition numbers; 0 for a real owner.
        persons: Whose each record is, where several belong to one person.
        dry_run: Whether noise is seeded under a policy: for made-up records only.
    """

    def __init__(
        self,
        shards: Shards,
        policy: Policy | None,
        ledger: Ledger,
        randomness: Randomness,
        *,
        members: Sequence[int] | IntArray = (0,),
        runs: Sequence[int] | IntArray | None = None,
        persons: Sequence[Any] | None = None,
        dry_run: bool = False,
    ) -> None:
        check_parts(shards, policy, randomness.simulated, dry_run, len(members), persons)
        self.shards = shards
        self.policy = policy
        self.ledger = ledger
        self.randomness = randomness
        self._members: IntArray = np.asarray(members, dtype=np.int64)
        self._runs: IntArray = np.zeros_like(self._members) if runs is None else np.asarray(runs, dtype=np.int64)
        self._groups = int(np.unique(self._runs).size)
        self._persons = persons
        self._joined: dict[str, RunState] = {}

    @classmethod
    def open(
        cls,
        shards: Shards,
        policy: Policy,
        ledger: Path,
        *,
        member: int = 0,
        persons: Sequence[Any] | None = None,
        registry: LedgerRegistry | None = None,
        data_digest: str | None = None,
        dry_run: int | None = None,
    ) -> Agent:
        """A real owner's agent: its ledger on disk, noise from the operating system.

        The ledger belongs to these records: `data_digest` names them, by default a digest of the shard or its
        files. A
        dry run, by its seed, is for made-up records: its noise protects nobody, and its ledger is never a real one.

        Args:
            shards: The owner's records.
            policy: What the owner allows.
            ledger: The ledger's file, which is made if there is none.
            member: The owner's position among the agents.
            persons: Whose each record is, where several belong to one person.
            registry: Where ledgers of this machine are noted; None: the user's own.
            data_digest: Names the records.
            dry_run: The seed of a dry run.

        Returns:
            The agent, which has joined no run yet.

        Raises:
            InputError: Records and policy do not go together.
            Refused: The ledger belongs to other records, or these records to another ledger.
        """
        name, records = policy.dataset, data_digest or shards.digest()
        randomness: Randomness = SystemRandomness()
        if dry_run is not None:
            name, records, randomness = (
                f"dry run of {name}",
                digest("dry run", records),
                SeededRandomness(dry_run),
            )
        opened = (registry or LedgerRegistry(default_folder())).ledger(
            ledger, name, records, Relation.parse(policy.relation)
        )
        given: dict[str, Any] = {"members": (member,), "persons": persons, "dry_run": dry_run is not None}
        return cls(shards, policy, opened, randomness, **given)

    # -- joining ---------------------------------------------------------------------------------------------------

    def join(self, run: str, agreement: Agreement) -> None:
        """Agrees to a run, or refuses it; joining again after a restart goes on where the run was.

        Args:
            run: The run's name.
            agreement: Its terms.

        Raises:
            Refused: The policy, the budget or the records do not allow these terms; nothing was spent.
        """
        try:
            self._join(run, agreement)
        except InputError as error:
            raise self._refusal(f"the terms cannot be met: {error}") from None
        except Refused as refused:
            raise self._refusal(str(refused)) from None

    def _join(self, run: str, agreement: Agreement) -> None:
        if not is_name(run) or not isinstance(agreement, Agreement):
            raise Refused("a run needs a name of at most 100 letters and agreed terms.")
        agreement = agreement.checked()
        policy = self._policy_of(run)
        if policy is not None:
            self._check_policy(policy.tightened_by(self.policy), agreement)
        plan = agreement.plan()
        if self._members.max() >= plan.setting.agents:
            raise Refused(f"the terms are for {plan.setting.agents} agents, and none is number {self._members.max()}.")
        rows = plan.take(self._members)
        check_shards(agreement, rows, self.shards)
        if not self.randomness.simulated:
            check_real(rows)
        if policy is not None:
            terms = {**agreement.describe(), "policy": asdict(policy)}
            self.ledger.reserve(run, agreement.digest, rows.tallies(), policy.budget, terms, policy.reserve)
        usable = usable_records(rows, self.shards, self._persons, agreement.classes)
        joined = RunState(agreement.digest, rows, usable, agreement, policy, begin(rows), 0)
        joined.recall(self.ledger, run)
        self._joined[run] = joined

    def simulate(self, run: str, plan: Plan, state: AgentState, round: int) -> None:
        """Joins a simulated run by its plan, at any round; there is no policy to ask and no budget to hold.

        Args:
            run: The run's name.
            plan: With one row per row of the batch.
            state: Where the agents stand.
            round: How many rounds are done.

        Raises:
            InputError: The agent has a policy.
        """
        if self.policy is not None:
            raise InputError("an agent with a policy joins runs on agreed terms; plans are for simulations.")
        usable = usable_records(plan, self.shards)
        self._joined[run] = RunState(run, plan, usable, None, None, state, round)

    def _policy_of(self, run: str) -> Policy | None:
        """The policy a run is under: that of its joining, also after a restart."""
        terms = self.ledger.terms(run)
        if self.policy is None or terms is None:
            return self.policy
        if "policy" not in terms:
            raise Refused(f"the name {run!r} is taken in this ledger.")
        return from_table(Policy, terms["policy"], "the policy")

    # -- answering -------------------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Release:
        """The release of a step, debited before it leaves.

        Args:
            request: Which run and round, and what was broadcast.

        Returns:
            The release; the same again if the step was answered before.

        Raises:
            Refused: The request does not go with the terms, the budget or what was answered; nothing was spent.
        """
        # A simulation has its one pool around all rounds; an owner's numbers must not depend on its own threads.
        pool = nullcontext() if self.policy is None else one_thread_pool()
        try:
            with pool:
                return self._debited(request)
        except Refused as refused:
            raise self._refusal(str(refused)) from None
        except InputError as error:
            raise self._refusal(f"the step cannot be computed: {error}") from None
        except ConvergenceError:
            if self.policy is None:
                raise
            # What it says of gradients is a fact about the records, and stays here.
            raise self._refusal("the step cannot be computed: the solver did not reach its tolerance.") from None

    def _debited(self, request: Request) -> Release:
        """The release of a step, in the ledger: made now, or found there."""
        joined = self._known(request)
        alone = joined.plan.algorithm.consensus.decentralised  # then each of the batch hears something else
        rows = self._members.size if alone else self._groups
        inputs = request.arrays((rows, joined.plan.setting.dimension))
        step = str(request.step)
        mark = digest(step, inputs[-1].tobytes())  # how it caught up does not matter to an answer that was given
        if request.seen is not None:
            self.ledger.check_seal(request.seen)
        stored = self.ledger.find(request.run, step)
        if stored is None and self.ledger.position(request.run) != joined.position:
            joined.recall(self.ledger, request.run)  # another process went on with the run, perhaps by this very step
            stored = self.ledger.find(request.run, step)
        if stored is not None:
            if stored.inputs != mark:
                raise Refused(f"run {request.run!r}, step {step} was answered for other inputs.")
            return _release(stored)
        budget = self._budget(joined)
        if request.step == EVALUATION:
            release, state, round = self._evaluate(joined, inputs[0]), joined.state, joined.round
        else:
            round = int(request.step)
            release, state = self._round(joined, request, inputs)
        kept = {**state.to_arrays(), "round": np.array(round)}
        made = Step(request.run, step, mark, release.events, release.value, kept, joined.position)
        stored = self.ledger.commit(made, budget)
        if stored.value is release.value:
            joined.state, joined.round = state, round
            joined.position = 0 if stored.seal is None else stored.seal.number
        else:  # another process was faster; its release stands, and so does its state
            joined.recall(self.ledger, request.run)
        return _release(stored)

    def rounds_answered(self, run: str) -> int:
        """How many rounds of a run it has answered: no secret, since the answers are not.

        Args:
            run: The run's name.

        Returns:
            The number of the last round.

        Raises:
            Refused: The run was not joined.
        """
        joined = self._joined.get(run) if is_name(run) else None
        if joined is None:
            raise self._refusal("that run was not joined.")
        joined.recall(self.ledger, run)
        return joined.round

    def repeat(self, run: str, round: int) -> Release:
        """A release that was made before, again: it costs nothing more.

        Args:
            run: The run's name.
            round: The round's number.

        Returns:
            The release as it left.

        Raises:
            Refused: There is none.
        """
        joined = self._joined.get(run) if is_name(run) else None
        known = joined is not None and type(round) is int and 1 <= round <= joined.plan.setting.rounds
        stored = self.ledger.find(run, str(round)) if known else None
        if stored is None:
            raise self._refusal("there is no such release.")
        return _release(stored)

    def _known(self, request: Request) -> RunState:
        """The run of a request that makes sense on its face."""
        if type(request) is not Request:
            raise Refused("that is not a request.")
        request.check()
        joined = self._joined.get(request.run)
        if joined is None:
            raise Refused(f"run {request.run!r} was not joined.")
        if type(request.digest) is not str or request.digest != joined.digest:
            raise Refused(f"run {request.run!r} was joined on other terms.")
        if request.step == EVALUATION:
            if joined.plan.evaluation is None:
                raise Refused(f"the terms of run {request.run!r} have no evaluation.")
        elif not 1 <= int(request.step) <= joined.plan.setting.rounds:
            raise Refused(f"the terms of run {request.run!r} have no such step.")
        return joined

    def _check_policy(self, policy: Policy, agreement: Agreement) -> None:
        check_policy(policy, agreement, self.shards, self._persons, self.ledger.relation)

    def _budget(self, joined: RunState) -> Budget:
        """The budget in force; what else today's policy has made stricter is checked as well."""
        if joined.policy is None or joined.agreement is None:
            return _UNLIMITED
        policy = joined.policy.tightened_by(self.policy)
        if policy != joined.policy:
            self._check_policy(policy, joined.agreement)
        return policy.budget

    def _round(self, joined: RunState, request: Request, inputs: list[FloatArray]) -> tuple[Release, AgentState]:
        round, following = int(request.step), joined.round + 1
        if round < following:
            raise Refused(f"round {round} is closed; {following} is next.")
        if round > following and joined.stragglers == WAIT:
            raise Refused(f"round {following} is next, not {round}: the terms do not allow an owner to miss rounds.")
        in_use = (
            None if request.last_used is None else joined.release_in_use(self.ledger, request.run, request.last_used)
        )
        if round - following != len(inputs) - (1 if in_use is None else 2):
            raise Refused(f"round {following} is next: round {round} needs the inputs of all rounds in between.")
        rows = [self._to_rows(common) for common in inputs]
        state = joined.caught_up(round, rows, in_use)
        return solve_and_perturb(joined.plan, state, joined.shards, rows[-1], round, self._random_bits(round))

    def _evaluate(self, joined: RunState, model: FloatArray) -> Release:
        plan = joined.plan
        assert plan.evaluation is not None
        return release_error(plan.setting, plan.evaluation, joined.shards, self._to_rows(model), self._random_bits(0))

    def _to_rows(self, common: FloatArray) -> FloatArray:
        return np.repeat(common, self._members.size // len(common), axis=0)

    def _random_bits(self, round: int) -> RandomBits:
        return lambda purpose: self.randomness.stream(self._runs, self._members, round, purpose)

    # -- ending ----------------------------------------------------------------------------------------------------

    def finish(self, run: str) -> None:
        """Closes a run; what it did not use is free again.

        Args:
            run: The run's name.

        Raises:
            Refused: There is no such run.
        """
        try:
            if not is_name(run):
                raise Refused("that is not the name of a run.")
            self.ledger.finish(run)
        except Refused as refused:
            raise self._refusal(str(refused)) from None
        self._joined.pop(run, None)

    def state(self, run: str) -> AgentState:
        """Where a run stands: for the simulation that owns this agent, never for a message.

        Args:
            run: The run's name.

        Returns:
            Duals, releases and the solver's memory.
        """
        return self._joined[run].state

    def _refusal(self, reason: str) -> Refused:
        """Notes a refusal; if even that cannot be written, the refusal still stands."""
        with suppress(Refused):
            self.ledger.refuse(reason)
        return Refused(reason)


_UNLIMITED = Budget(1e300, 0.5)


def _release(stored: Stored) -> Release:
    return Release(stored.value, stored.events, stored.seal)
