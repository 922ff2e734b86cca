"""A run that an agent has joined: its terms, where it stands, and how a step of it is answered.

A step is looked up in the ledger first: one that was answered is answered by the stored bytes. Otherwise the release is
made, and the ledger commits it, with its cost and the state after it, before it is handed on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.perturbations.base import RandomBits, Release
from dpadmm.admm.perturbations.evaluation import release_error
from dpadmm.admm.rounds import AgentState, absorb, begin, solve_and_perturb, undo_dual_step
from dpadmm.errors import InputError, Refused
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import EVALUATION, Request
from dpadmm.privacy.events import digest
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger.protocol import Ledger, Step, Stored
from dpadmm.privacy.mechanisms import Mechanism
from dpadmm.problems.shards import Shards
from dpadmm.spec.declare import SKIP, WAIT


@dataclass(eq=False)
class RunState:
    """A run in progress: its terms, the plan of this agent's rows, the records as the run may use them, the policy at
    joining, and where it stands."""

    name: str
    digest: str
    plan: Plan
    shards: Shards
    repetitions: int  # independent runs in the batch; they share agents and hear different broadcasts
    ledger: Ledger
    random_bits: Callable[[int], RandomBits]  # of a round
    state: AgentState
    round: int = 0
    agreement: Agreement | None = None  # None in a simulation, as is the policy
    policy: Policy | None = None
    position: int = 0  # the ledger's entry that the state is of

    def recall(self) -> None:
        """Takes up the run where the ledger left it."""
        self.position = self.ledger.position(self.name)
        arrays = self.ledger.state(self.name)
        if arrays is not None:
            self.state, self.round = AgentState.from_arrays(arrays), int(arrays["round"])

    @property
    def stragglers(self) -> str:
        """The straggler policy of the terms: what happens in a round that this agent does not answer."""
        return WAIT if self.agreement is None else self.agreement.stragglers

    def answer(self, request: Request, cap: Callable[[], Cap]) -> Release:
        """The release of a step, in the ledger: made now, or found there.

        `cap` is the one in force; it is asked only before something is spent.
        """
        self._check(request)
        alone = self.plan.algorithm.consensus.decentralised  # then each of the batch hears something else
        inputs = request.arrays((self._rows if alone else self.repetitions, self.plan.setting.dimension))
        step = str(request.step)
        mark = digest(step, inputs[-1].tobytes())  # how it caught up does not matter to an answer that was given
        if request.seen is not None:
            self.ledger.check_seal(request.seen)
        stored = self.ledger.find(self.name, step)
        if stored is None and self.ledger.position(self.name) != self.position:
            self.recall()  # another process went on with the run, perhaps by this very step
            stored = self.ledger.find(self.name, step)
        if stored is not None:
            if stored.inputs != mark:
                raise Refused(f"run {self.name!r}, step {step} was answered for other inputs.")
            return self._handed_on(stored)
        in_force = cap()
        round = self.round if request.step == EVALUATION else int(request.step)
        release, state = self._made_or_nothing(request, inputs)
        kept = {**state.to_arrays(), "round": np.array(round)}
        made = Step(self.name, step, mark, release.events, release.value, kept, self.position)
        stored = self.ledger.commit(made, in_force)
        if stored.value is release.value:
            self.state, self.round = state, round
            self.position = stored.entry
        else:  # another process was faster; its release stands, and so does its state
            self.recall()
        return self._handed_on(stored)

    def _handed_on(self, stored: Stored) -> Release:
        if not stored.value.size:
            raise Refused(f"a step of run {self.name!r} could not be computed. It is paid for, and is not tried again.")
        return as_release(stored)

    def _check(self, request: Request) -> None:
        """Raises `Refused` where the terms do not have what a request asks for."""
        if type(request.digest) is not str or request.digest != self.digest:
            raise Refused(f"run {self.name!r} was joined on other terms.")
        if request.step == EVALUATION:
            if self.plan.evaluation is None:
                raise Refused(f"the terms of run {self.name!r} have no evaluation.")
        elif not 1 <= int(request.step) <= self.plan.setting.rounds:
            raise Refused(f"the terms of run {self.name!r} have no such step.")

    def _made_or_nothing(self, request: Request, inputs: list[FloatArray]) -> tuple[Release, AgentState]:
        """The release of a step and the state after it; an empty release where it cannot be computed.

        What public numbers forbid is refused, and costs nothing. No other failure is known. If there is one, it may
        depend on records and noise, so it is paid for like an answer: who asks again must not be given fresh noise.
        """
        evaluation = self.plan.evaluation if request.step == EVALUATION else None
        try:
            if evaluation is not None:
                return self._evaluate(evaluation, inputs[0]), self.state
            return self._round(int(request.step), request.last_used, inputs)
        except (InputError, Refused):
            raise
        except Exception:
            if self.policy is None:
                raise
            events = self.plan.noise_in(int(request.step)).events if evaluation is None else evaluation.events()
            return Release(np.zeros((self._rows, 0)), events), self.state

    def _round(self, round: int, last_used: int | None, inputs: list[FloatArray]) -> tuple[Release, AgentState]:
        following = self.round + 1
        if round < following:
            raise Refused(f"round {round} is closed; {following} is next.")
        if round > following and self.stragglers == WAIT:
            raise Refused(f"round {following} is next, not {round}: the terms do not allow an owner to miss rounds.")
        in_use = None if last_used is None else self._release_in_use(last_used)
        if round - following != len(inputs) - (1 if in_use is None else 2):
            raise Refused(f"round {following} is next: round {round} needs the inputs of all rounds in between.")
        rows = [self._to_rows(common) for common in inputs]
        state = self._caught_up(round, rows, in_use)
        return solve_and_perturb(self.plan, state, self.shards, rows[-1], round, self.random_bits(round))

    def _evaluate(self, mechanism: Mechanism, model: FloatArray) -> Release:
        rows = self._to_rows(model)
        return release_error(self.plan.setting, mechanism, self.shards, rows, self.random_bits(0))

    @property
    def _rows(self) -> int:
        return self.plan.setting.agents

    def _to_rows(self, common: FloatArray) -> FloatArray:
        return np.repeat(common, self._rows // len(common), axis=0)

    # -- after an absence ------------------------------------------------------------------------------------------

    def _release_in_use(self, last_used: int) -> tuple[int, FloatArray]:
        """The round and value of this agent's release that others go on with, where its last one never reached them.

        `last_used` is the coordinator's word, so it is believed only if the ledger has such a release, and only where
        the terms let a run go on without an owner. Round 0 is the public start.
        """
        kept = self.ledger.find(self.name, str(last_used)) if last_used else None
        if self.stragglers == WAIT or last_used >= self.round or (last_used and kept is None):
            raise Refused(f"round {last_used} cannot be the last whose release was used.")
        return last_used, begin(self.plan).released if kept is None else kept.value

    def _caught_up(self, round: int, inputs: Sequence[FloatArray], in_use: tuple[int, FloatArray] | None) -> AgentState:
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


def as_release(stored: Stored) -> Release:
    """What leaves of a step in the ledger."""
    return Release(stored.value, stored.events, stored.seal)
