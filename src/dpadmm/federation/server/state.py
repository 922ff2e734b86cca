"""The coordinator's state of a federated run: all of it is a function of releases.

It is written down after every round (`engine.output.checkpoint`), so that a run whose coordinator or owners were lost
goes on as a new job. A round that was answered but not written down yet costs nothing: owners answer it again as they
did before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._files import json_value
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.rounds import advance, first_state
from dpadmm.admm.state import State
from dpadmm.federation.messages import seal_to_list
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.spec.declare import SKIP

_BROADCASTS = "broadcasts."

SignedRelease = tuple[FloatArray, Seal | None, bytes]
"""What an owner has released, the seal of its ledger, and its signature."""


@dataclass(frozen=True, eq=False)
class CoordinatorState:
    """The state that a simulation of one run would have, and beside it what is known of the owners.

    Rows are owners, in the order of the terms.
    """

    shared: State
    last_answered: IntArray  # the round of each owner's last release
    broadcasts: Mapping[int, FloatArray] = field(default_factory=dict)  # that some owner was not told yet, by round
    seals: tuple[Seal | None, ...] = ()
    signatures: tuple[bytes | None, ...] = ()  # of each owner's last release
    absent: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # owners that did not answer, by round
    estimates: FloatArray | None = None  # of each owner's error, where the terms have that and it was released

    @classmethod
    def of(cls, plan: Plan) -> CoordinatorState:
        """Before round one."""
        shared, owners = first_state(plan, 1), plan.setting.agents
        return cls(
            shared, np.zeros(owners, dtype=np.int64), {0: shared.server.common}, (None,) * owners, (None,) * owners
        )

    @property
    def round(self) -> int:
        """How many rounds are done."""
        return self.shared.round

    def inputs_missed_by(self, agent: int, rounds_answered: int = 0) -> dict[int, FloatArray]:
        """The inputs of the rounds that an owner was absent from, by round; it has answered `rounds_answered` itself.

        If the release of that last round never came here, they begin with the inputs of that round.
        """
        lost = self.last_used(agent, rounds_answered) is not None
        first = rounds_answered if lost else int(self.last_answered[agent]) + 1
        return {round: self.broadcasts[round - 1] for round in range(first, self.round + 1)}

    def last_used(self, agent: int, rounds_answered: int) -> int | None:
        """The round of an owner's last release that was used, if it has made a later one that never came here."""
        last = int(self.last_answered[agent])
        return last if last < rounds_answered <= self.round else None

    def after_round(self, plan: Plan, stragglers: str, found: Mapping[int, SignedRelease]) -> CoordinatorState:
        """After one more round, from the releases of the owners that answered it.

        `stragglers` is the policy of the terms: an owner that did not answer is left out of the mean (skip), or its
        last release is used again (reuse).
        """
        there = sorted(found)
        releases = np.array([found[agent][0][0] for agent in there]).reshape(1, len(there), plan.setting.dimension)
        shared = advance(plan, self.shared, releases, there, skip_absent=stragglers == SKIP)
        last_answered, seals, signatures = self.last_answered.copy(), list(self.seals), list(self.signatures)
        for agent in there:
            last_answered[agent] = shared.round
            _, seals[agent], signatures[agent] = found[agent]
        broadcasts = {**self.broadcasts, shared.round: shared.server.common}
        away = tuple(sorted(set(range(plan.setting.agents)) - set(found)))
        return replace(
            self,
            shared=shared,
            last_answered=last_answered,
            broadcasts={round: row for round, row in broadcasts.items() if round >= last_answered.min()},
            seals=tuple(seals),
            signatures=tuple(signatures),
            absent={**self.absent, shared.round: away} if away else self.absent,
        )

    def to_arrays(self) -> dict[str, Any]:
        """What is held beside the shared state, as named arrays: for a checkpoint."""
        notes = {
            "seals": [seal_to_list(seal) for seal in self.seals],
            "signatures": [None if signature is None else signature.hex() for signature in self.signatures],
            "absent": {str(round): list(agents) for round, agents in self.absent.items()},
        }
        arrays: dict[str, Any] = {"notes": np.array(json.dumps(notes)), "last_answered": self.last_answered}
        if self.estimates is not None:
            arrays["estimates"] = self.estimates
        return arrays | {f"{_BROADCASTS}{round}": row for round, row in self.broadcasts.items()}

    @classmethod
    def from_arrays(cls, shared: State, arrays: Mapping[str, Any]) -> CoordinatorState:
        """The state written by `to_arrays`; a `KeyError` names what is missing."""
        notes = json_value(str(arrays["notes"]))
        told = {name.removeprefix(_BROADCASTS): row for name, row in arrays.items() if name.startswith(_BROADCASTS)}
        return cls(
            shared=shared,
            last_answered=arrays["last_answered"],
            broadcasts={int(round): row for round, row in told.items()},
            seals=tuple(None if entry is None else Seal(*entry) for entry in notes["seals"]),
            signatures=tuple(None if entry is None else bytes.fromhex(entry) for entry in notes["signatures"]),
            absent={int(round): tuple(agents) for round, agents in notes["absent"].items()},
            estimates=arrays.get("estimates"),
        )
