"""A run's state on disk, so that an interrupted simulation goes on exactly where it was.

Noise is keyed by round, not by how many numbers were drawn before, so a resumed run equals the uninterrupted one bit
for bit. The file holds solver memory and is for simulations.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from dpadmm._files import atomic_open
from dpadmm.admm.consensus import Server
from dpadmm.admm.rounds import AgentState
from dpadmm.engine.loop import State
from dpadmm.engine.output.history import History
from dpadmm.errors import InputError


def save(path: Path, digest: str, state: State, history: History) -> None:
    """Writes a checkpoint; a crash leaves the last good one."""
    arrays = {
        "digest": np.array(digest),
        "round": np.array(state.round),
        "model": state.common,
        "mean_common": state.mean_common,
        "mean_local": state.mean_local,
        "mean_local_before": state.mean_local_before,
    }
    arrays |= {f"server.{name}": values for name, values in state.server.to_arrays().items()}
    arrays |= {f"agents.{name}": values for name, values in state.agents.to_arrays().items()}
    arrays |= {f"history.{name}": values for name, values in history.to_arrays().items()}
    with atomic_open(path, durable=True) as file:
        np.savez(file, allow_pickle=False, **arrays)


def load(path: Path, digest: str) -> tuple[State, History]:
    """The state and history of a checkpoint that was made by the same spec."""
    try:
        # Opened here, because NumPy leaves a file open that it cannot make sense of.
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = dict(file)
        made_by = str(arrays["digest"])
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        raise InputError(f"checkpoint {str(path)!r} cannot be read ({error}); start the run again.") from None
    if made_by != digest:
        raise InputError(f"checkpoint {str(path)!r} belongs to another spec; resume with the spec it was made by.")
    try:
        agents = AgentState.from_arrays(_below("agents.", arrays))
        means = (arrays["mean_common"], arrays["mean_local"], arrays["mean_local_before"])
        state = State(int(arrays["round"]), Server(**_below("server.", arrays)), arrays["model"], agents, *means)
    except (KeyError, TypeError) as error:
        raise InputError(f"checkpoint {str(path)!r} lacks {error}; start the run again.") from None
    return state, History.from_arrays(_below("history.", arrays))


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}
