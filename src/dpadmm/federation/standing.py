"""Where a federated run stands: what the coordinator keeps, all of it made of releases.

It is written down after every round, so that a run whose coordinator or owners were lost goes on as a new job. A round
that was answered but not written down yet costs nothing: owners answer what they answered before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.consensus import Server
from dpadmm.admm.rounds import begin, combine, opening
from dpadmm.engine.output.history import History
from dpadmm.errors import InputError
from dpadmm.federation.messages import seal_to_list
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.serialization import pack, unpack
from dpadmm.spec.declare import DROP


@dataclass(frozen=True, eq=False)
class Standing:
    """After `round` rounds; rows are owners, in the order of the terms."""

    round: int
    server: Server
    model: FloatArray  # (1, D)
    mean_model: FloatArray  # over the rounds
    released: FloatArray  # the last release of each
    answered: IntArray  # and the round it is of
    heard: Mapping[int, FloatArray] = field(default_factory=dict)  # broadcasts that somebody has yet to be told
    seals: tuple[Seal | None, ...] = ()
    missed: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # owners that did not answer, by round
    estimates: FloatArray | None = None  # of each owner's error, where the terms have that and it was released

    @classmethod
    def start(cls, plan: Plan) -> Standing:
        first, server = begin(plan).released, opening(plan, 1)
        model = plan.algorithm.consensus.model(server, first[None])
        answered = np.zeros(plan.setting.agents, dtype=np.int64)
        seals: tuple[Seal | None, ...] = (None,) * plan.setting.agents
        return cls(0, server, model, np.zeros_like(model), first, answered, {0: server.common}, seals)

    def missed_by(self, agent: int, reached: int = 0) -> dict[int, FloatArray]:
        """What an owner would have been asked with in the rounds that it was not there for; it is at round `reached`.

        If the release of that round never came here, what it was asked with is told again.
        """
        first = int(self.answered[agent]) + 1 if self.counted(agent, reached) is None else reached
        return {round: self.heard[round - 1] for round in range(first, self.round + 1)}

    def counted(self, agent: int, reached: int) -> int | None:
        """The round of an owner's last release that was used, if it has made another one since that never came."""
        last = int(self.answered[agent])
        return last if last < reached <= self.round else None

    def following(self, plan: Plan, missing: str, found: Mapping[int, tuple[FloatArray, Seal | None]]) -> Standing:
        """After one more round, from the releases of those who answered."""
        round, consensus = self.round + 1, plan.algorithm.consensus
        released, answered, seals = self.released.copy(), self.answered.copy(), list(self.seals)
        for agent, (value, seal) in found.items():
            released[agent], answered[agent], seals[agent] = value[0], round, seal
        # A mean of some stands for that of all; whoever is stale is among them with its last release.
        together = released[sorted(found)] if missing == DROP else released
        server = combine(plan, self.server, together[None], round)
        model = consensus.model(server, together[None])
        heard = {k: v for k, v in {**self.heard, round: server.common}.items() if k >= answered.min()}
        absent = tuple(sorted(set(range(plan.setting.agents)) - set(found)))
        counted = self.model if consensus.server_first else model
        return replace(
            self,
            round=round,
            server=server,
            model=model,
            mean_model=self.mean_model + (counted - self.mean_model) / round,
            released=released,
            answered=answered,
            heard=heard,
            seals=tuple(seals),
            missed={**self.missed, round: absent} if absent else self.missed,
        )


def save(path: Path, digest: str, standing: Standing, history: History, durable: bool = True) -> None:
    """Writes beside and renames, so that a crash leaves the last good one.

    Where owners would answer all rounds again as they did, even a power cut that takes it costs nothing, and nobody has
    to wait for the disk.
    """
    notes = {
        "digest": digest,
        "seals": [seal_to_list(seal) for seal in standing.seals],
        "missed": {str(round): list(agents) for round, agents in standing.missed.items()},
    }
    arrays: dict[str, Any] = {"notes": np.array(json.dumps(notes)), "round": np.array(standing.round)}
    arrays |= {name: getattr(standing, name) for name in ("model", "mean_model", "released", "answered")}
    if standing.estimates is not None:
        arrays["estimates"] = standing.estimates
    arrays |= {f"server.{name}": values for name, values in standing.server.to_arrays().items()}
    arrays |= {f"heard.{round}": values for round, values in standing.heard.items()}
    arrays |= {f"history.{name}": values for name, values in history.to_arrays().items()}
    beside = path.with_suffix(".partial")
    with beside.open("wb") as file:
        file.write(pack(arrays))
        if durable:
            file.flush()
            os.fsync(file.fileno())
    beside.replace(path)


def load(path: Path, digest: str) -> tuple[Standing, History]:
    """What was saved of a run on the same terms."""
    try:
        arrays = unpack(path.read_bytes())
        notes = json.loads(str(arrays["notes"]))
        standing = Standing(
            round=int(arrays["round"]),
            server=Server(**_below("server.", arrays)),
            heard={int(round): values for round, values in _below("heard.", arrays).items()},
            seals=tuple(None if entry is None else Seal(*entry) for entry in notes["seals"]),
            missed={int(round): tuple(agents) for round, agents in notes["missed"].items()},
            estimates=arrays.get("estimates"),
            **{name: arrays[name] for name in ("model", "mean_model", "released", "answered")},
        )
        terms, history = notes["digest"], History.from_arrays(_below("history.", arrays))
    except (OSError, ValueError, EOFError, KeyError, TypeError) as error:
        raise InputError(f"checkpoint {str(path)!r} cannot be read ({error}).") from None
    if terms != digest:
        raise InputError(f"checkpoint {str(path)!r} is of a run on other terms.")
    return standing, history


def _below(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
