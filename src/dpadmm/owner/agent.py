"""The owner's side: the only code that touches private records in a run.

An `Agent` holds records, a policy and a ledger. It joins a run on agreed terms, projects the cost of the whole run and
refuses it at the start if the budget does not suffice. Then it answers requests. A request carries public inputs and
nothing else: schedule, sensitivity and noise the agent computes from the terms it joined on. Whatever is asked, the
answer is a release that is already debited, or `Refused`, and then nothing was spent.

The same class serves one owner (a ledger on disk, noise from the operating system) and a simulation (a batch of n
agents, a ledger in memory, seeded noise): what is simulated is what is deployed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._arrays import IntArray
from dpadmm._plain import plain
from dpadmm._ranges import EPSILONS
from dpadmm._threads import one_thread_pool
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations.base import RandomBits, Release
from dpadmm.admm.rounds import AgentState, begin
from dpadmm.errors import InputError, Refused
from dpadmm.owner.admission import Applicant, admit, check_parts, check_policy, consider, usable_records
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.answering import RunState, as_release
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request, is_name
from dpadmm.privacy.events import Relation, digest
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger.protocol import Ledger
from dpadmm.privacy.ledger.registry import LedgerRegistry, default_folder
from dpadmm.problems.shards import Shards
from dpadmm.release.random_bits import Randomness, SeededRandomness, SystemRandomness


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
        self._repetitions = int(np.unique(self._runs).size)
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

        The ledger belongs to these records: `data_digest` names them, by default a digest of the shard or its files. A
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
            name, records = f"dry run of {name}", digest("dry run", records)
            randomness = SeededRandomness(dry_run)
        machine = registry or LedgerRegistry(default_folder())
        opened = machine.ledger(ledger, name, records, Relation.parse(policy.relation))
        dry = dry_run is not None
        return cls(shards, policy, opened, randomness, members=(member,), persons=persons, dry_run=dry)

    # -- joining ---------------------------------------------------------------------------------------------------

    def join(self, run: str, agreement: Agreement) -> None:
        """Agrees to a run, or refuses it; joining again after a restart goes on where the run was.

        Args:
            run: The run's name.
            agreement: Its terms.

        Raises:
            Refused: The policy, the budget or the records do not allow these terms; nothing was spent.
        """
        with self._noting("the terms cannot be met"):
            agreement = _checked(run, agreement)
            plan, usable, policy = admit(run, agreement, self._applicant)
            state = begin(plan)
            joined = self._begun(run, agreement.digest, plan, usable, state, agreement=agreement, policy=policy)
            joined.recall()
            self._joined[run] = joined

    def consider(self, run: str, agreement: Agreement) -> None:
        """Whether a run could be joined now; nothing is held, and `join` asks again.

        Args:
            run: The run's name.
            agreement: Its terms.

        Raises:
            Refused: The policy, the budget or the records do not allow these terms.
        """
        with self._noting("the terms cannot be met"):
            consider(run, _checked(run, agreement), self._applicant)

    @property
    def _applicant(self) -> Applicant:
        simulated = self.randomness.simulated
        return Applicant(self._members, self.shards, self._persons, self.policy, self.ledger, simulated)

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
        self._joined[run] = self._begun(run, run, plan, usable, state, round=round)

    def _begun(self, run: str, digest: str, plan: Plan, usable: Shards, state: AgentState, **more: Any) -> RunState:
        return RunState(run, digest, plan, usable, self._repetitions, self.ledger, self._random_bits, state, **more)

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
        with self._noting("the step cannot be computed"), pool:
            if type(request) is not Request:
                raise Refused("that is not a request.")
            request.check()
            joined = self._joined.get(request.run)
            if joined is None:
                raise Refused(f"run {request.run!r} was not joined.")
            return joined.answer(request, partial(self._cap, joined))

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
        joined.recall()
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
        return as_release(stored)

    def _cap(self, joined: RunState) -> Cap:
        """The cap in force; what else today's policy has made stricter is checked as well."""
        if joined.policy is None or joined.agreement is None:
            return _UNLIMITED
        policy = joined.policy.tightened_by(self.policy)
        if policy != joined.policy:
            check_policy(policy, joined.agreement, self.shards, self._persons)
        return policy.cap

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
        with self._noting("the run cannot be closed"):
            if not is_name(run):
                raise Refused("that is not the name of a run.")
            self.ledger.finish(run)
        self._joined.pop(run, None)

    def state(self, run: str) -> AgentState:
        """Where a run stands: for the simulation that owns this agent, never for a message.

        Args:
            run: The run's name.

        Returns:
            Duals, releases and the solver's memory.
        """
        return self._joined[run].state

    @contextmanager
    def _noting(self, failed: str) -> Iterator[None]:
        """Makes a note of what is refused inside, and a refusal of what cannot be done."""
        try:
            yield
        except Refused as refused:
            raise self._refusal(str(refused), refused.told) from None
        except InputError as error:
            raise self._refusal(f"{failed}: {error}") from None

    def _refusal(self, reason: str, told: str | None = None) -> Refused:
        """Notes a refusal; if even that cannot be written, the refusal still stands."""
        with suppress(Refused):
            self.ledger.refuse(plain(reason))
        return Refused(reason, told=told)


def _checked(run: str, agreement: Agreement) -> Agreement:
    if not is_name(run) or not isinstance(agreement, Agreement):
        raise Refused("a run needs a name of at most 100 letters and agreed terms.")
    return agreement.checked()


_UNLIMITED = Cap(EPSILONS.high, 0.5)
