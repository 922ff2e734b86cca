"""A run that an agent has joined: its terms, the policy it is under, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.rounds import AgentState, absorb, begin, undo_dual_step
from dpadmm.errors import Refused
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.privacy.ledger.protocol import Ledger
from dpadmm.spec.declare import SKIP, WAIT


@dataclass(eq=False)
class RunState:
    """A run in progress: its terms, the plan of this agent's rows, the policy at joining, and where it stands."""

    digest: str
    plan: Plan
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
