"""A run that an agent has joined: its terms, the policy it is under, and where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.rounds import AgentState, absorb, begin, unmoved
from dpadmm.errors import Refused
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.privacy.ledger.protocol import Ledger
from dpadmm.spec.declare import DROP, WAIT


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
    def missing(self) -> str:
        """What becomes of a round that this agent does not answer."""
        return WAIT if self.agreement is None else self.agreement.missing

    def stood(self, ledger: Ledger, run: str, counted: int) -> tuple[int, FloatArray]:
        """The release that stood for this agent, where others have not counted its last one."""
        kept = ledger.find(run, str(counted)) if counted else None
        if self.missing == WAIT or counted >= self.round or (counted and kept is None):
            raise Refused(f"round {counted} cannot be the last that was counted.")
        return counted, begin(self.plan).released if kept is None else kept.value

    def taken_in(self, round: int, inputs: Sequence[FloatArray], stood: tuple[int, FloatArray] | None) -> AgentState:
        """The state with all that was broadcast since its last answer; inputs have one row per agent.

        `stood` is a round and the release of it that has stood for this agent since then, where its last answer was
        not counted. What that answer was asked with is then the first of the inputs.
        """
        plan, state, last = self.plan, self.state, self.round
        if stood is not None:
            lost, *inputs = inputs
            last, released = stood
            state = replace(unmoved(plan, state, lost, self.round), released=released)
            if plan.algorithm.consensus.server_first:
                state = absorb(plan, state, lost, self.round - 1, missed=True)
        for earlier, common in zip(range(self.round, round), inputs, strict=True):
            if self.missing == DROP and earlier > last:
                continue  # that mean was made without it, and moves nothing of its own
            state = absorb(plan, state, common, earlier, missed=earlier + 1 < round)
        return replace(state, released=self.state.released)
