"""A run that an agent has joined: its terms, the policy it is under, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm.admm.algorithm import Plan
from dpadmm.admm.rounds import AgentState
from dpadmm.agreement import Agreement
from dpadmm.policy import Policy
from dpadmm.privacy.book import Book


@dataclass(eq=False)
class Joined:
    """A run in progress: its terms, the plan of this agent's rows, the policy at joining, and where it stands."""

    digest: str
    plan: Plan
    agreement: Agreement | None  # None in a simulation, as is the policy
    policy: Policy | None
    state: AgentState
    round: int
    position: int = 0  # the ledger's entry that the state is of

    def recall(self, ledger: Book, run: str) -> None:
        """Takes up the run where the ledger left it."""
        self.position = ledger.position(run)
        arrays = ledger.state(run)
        if arrays is not None:
            self.state, self.round = AgentState.from_arrays(arrays), int(arrays["round"])


def in_force(policy: Policy, today: Policy | None) -> Policy:
    """A run's policy, and today's where that is stricter."""
    return policy if today is None or today == policy else policy.stricter(today)
