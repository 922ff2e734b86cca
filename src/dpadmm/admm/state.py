"""Where runs stand between two rounds, for whoever combines releases: all of it is a function of releases.

A simulation and a coordinator keep the same `State`, and `rounds.advance` takes both from one round to the next. What
only one of them needs is held beside it (`engine.cohort.SimulationState`, `federation.server.state.CoordinatorState`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.consensus import Server

_SERVER = "server."


@dataclass(frozen=True, eq=False)
class State:
    """After `round` rounds of some independent runs; a coordinator has one run."""

    round: int
    server: Server
    model: FloatArray  # what each run has come to, (runs, D): the last broadcast, or on a graph the nodes' mean
    mean_model: FloatArray  # over rounds 1..k; with the server first, of the broadcasts that were answered
    released: FloatArray  # the last release of each agent, (runs, agents, D)

    def to_arrays(self) -> dict[str, Any]:
        """As named arrays, for a checkpoint."""
        own = {"model": self.model, "mean_model": self.mean_model, "released": self.released}
        server = {f"{_SERVER}{name}": values for name, values in self.server.to_arrays().items()}
        return {"round": np.array(self.round), **own, **server}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> State:
        """The state written by `to_arrays`; a `KeyError` names what is missing."""
        released, model, mean_model = (arrays[name] for name in ("released", "model", "mean_model"))
        server = {name.removeprefix(_SERVER): values for name, values in arrays.items() if name.startswith(_SERVER)}
        return cls(int(arrays["round"]), Server(**server), model, mean_model, released)
