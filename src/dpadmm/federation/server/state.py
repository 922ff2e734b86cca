"""The coordinator's state of a federated run: all of it is a function of releases.

It is written down after every round, so that a run whose coordinator or owners were lost goes on as a new job. A round
that was last_answered but not written down yet costs nothing: owners answer what they last_answered before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._files import atomic_write
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.consensus import Server
from dpadmm.admm.rounds import begin, combine, opening
from dpadmm.engine.output.history import History
from dpadmm.errors import InputError
from dpadmm.federation.messages import seal_to_list
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.serialization import pack, unpack
from dpadmm.spec.declare import SKIP


@dataclass(frozen=True, eq=False)
class CoordinatorState:
    """After `round` rounds; rows are owners, in the order of the terms."""

    round: int
    server: Server
    model: FloatArray  # (1, D)
    mean_model: FloatArray  # over the rounds
    released: FloatArray  # the last release of each
    last_answered: IntArray  # the round of that release
    broadcasts: Mapping[int, FloatArray] = field(
        default_factory=dict
    )  # that some owner has not been told yet, by round
    seals: tuple[Seal | None, ...] = ()
    absent: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # owners that did not answer, by round
    estimates: FloatArray | None = None  # of each owner's error, where the terms have that and it was released

    @classmethod
    def start(cls, plan: Plan) -> CoordinatorState:
        first, server = begin(plan).released, opening(plan, 1)
        model = plan.algorithm.consensus.model(server, first[None])
        last_answered = np.zeros(plan.setting.agents, dtype=np.int64)
        seals: tuple[Seal | None, ...] = (None,) * plan.setting.agents
        return cls(0, server, model, np.zeros_like(model), first, last_answered, {0: server.common}, seals)

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

    def after_round(
        self, plan: Plan, stragglers: str, found: Mapping[int, tuple[FloatArray, Seal | None]]
    ) -> CoordinatorState:
        """After one more round, from the releases of the owners that answered it.

        `stragglers` is the policy of the terms: an owner that did not answer is left out of the mean (skip), or its
        last release is used again (reuse).
        """
        round, consensus = self.round + 1, plan.algorithm.consensus
        released, last_answered, seals = self.released.copy(), self.last_answered.copy(), list(self.seals)
        for agent, (value, seal) in found.items():
            released[agent], last_answered[agent], seals[agent] = value[0], round, seal
        used = released[sorted(found)] if stragglers == SKIP else released
        server = combine(plan, self.server, used[None], round)
        model = consensus.model(server, used[None])
        broadcasts = {k: v for k, v in {**self.broadcasts, round: server.common}.items() if k >= last_answered.min()}
        away = tuple(sorted(set(range(plan.setting.agents)) - set(found)))
        answered = self.model if consensus.server_first else model
        return replace(
            self,
            round=round,
            server=server,
            model=model,
            mean_model=self.mean_model + (answered - self.mean_model) / round,
            released=released,
            last_answered=last_answered,
            broadcasts=broadcasts,
            seals=tuple(seals),
            absent={**self.absent, round: away} if away else self.absent,
        )


def save(path: Path, digest: str, state: CoordinatorState, history: History, durable: bool = True) -> None:
    """Writes a checkpoint; a crash leaves the last good one.

    `durable` waits for the disk. Where owners would answer all rounds again as they did, a lost checkpoint costs
    nothing, and nobody has to wait.
    """
    notes = {
        "digest": digest,
        "seals": [seal_to_list(seal) for seal in state.seals],
        "absent": {str(round): list(agents) for round, agents in state.absent.items()},
    }
    arrays: dict[str, Any] = {"notes": np.array(json.dumps(notes)), "round": np.array(state.round)}
    arrays |= {name: getattr(state, name) for name in ("model", "mean_model", "released", "last_answered")}
    if state.estimates is not None:
        arrays["estimates"] = state.estimates
    arrays |= {f"server.{name}": values for name, values in state.server.to_arrays().items()}
    arrays |= {f"broadcasts.{round}": values for round, values in state.broadcasts.items()}
    arrays |= {f"history.{name}": values for name, values in history.to_arrays().items()}
    atomic_write(path, pack(arrays), durable=durable)


def load(path: Path, digest: str) -> tuple[CoordinatorState, History]:
    """What was saved of a run on the same terms."""
    try:
        arrays = unpack(path.read_bytes())
        notes = json.loads(str(arrays["notes"]))
        state = CoordinatorState(
            round=int(arrays["round"]),
            server=Server(**_below("server.", arrays)),
            broadcasts={int(round): values for round, values in _below("broadcasts.", arrays).items()},
            seals=tuple(None if entry is None else Seal(*entry) for entry in notes["seals"]),
            absent={int(round): tuple(agents) for round, agents in notes["absent"].items()},
            estimates=arrays.get("estimates"),
            **{name: arrays[name] for name in ("model", "mean_model", "released", "last_answered")},
        )
        terms, history = notes["digest"], History.from_arrays(_below("history.", arrays))
    except (OSError, ValueError, EOFError, KeyError, TypeError) as error:
        raise InputError(f"checkpoint {str(path)!r} cannot be read ({error}).") from None
    if terms != digest:
        raise InputError(f"checkpoint {str(path)!r} is of a run on other terms.")
    return state, history


def _below(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
